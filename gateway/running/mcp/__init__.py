"""MCP servers: those that chats add, logins of people, and the states that pages show."""
