"""Where the newest words of a person stand in a request. Pure."""

from collections.abc import Sequence

from agent.core.messages import FilePart, Message, ToolResult


def reminder_target(messages: Sequence[Message]) -> int:
    """The position of the message that takes the reminder: the newest with a person's own words, else the last.

    It stays the same one through a whole tool loop, so that the prefix a provider has cached stays valid.
    """
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        # Pictures beside results are a tool's, not a person's.
        theirs = (FilePart, ToolResult) if message.tool_results else ToolResult
        if message.role == "user" and any(not isinstance(part, theirs) for part in message.parts):
            return position
    return len(messages) - 1


def loop_start(messages: Sequence[Message]) -> int:
    """The position after which only the current tool loop stands: its calls and their results."""
    position = len(messages)
    while position > 0:
        message = messages[position - 1]
        if message.role == "user" and not message.tool_results:
            break
        position -= 1
    return position
