"""The names things go by inside an agent. An agent never looks into them."""

from typing import NewType

ConversationId = NewType("ConversationId", str)  # `<channel_type>:<channel_id>`, opaque here (DESIGN §13.1)
SessionId = NewType("SessionId", str)  # UUID
RunId = NewType("RunId", str)  # UUID of one execution for one inbound item (B-04)
CallId = NewType("CallId", str)  # a tool call, as the model named it
PersonId = NewType("PersonId", str)  # `<platform>:<user id>`
