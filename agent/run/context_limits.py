"""Limits of the context: whether a request fits the model's window, and where one may begin (W-24). Pure."""

from agent.core.messages import Message, ToolResult
from agent.run.settings import DEFAULT_WINDOW, ContextSettings


def ceiling(window: int, settings: ContextSettings) -> int:
    """The most tokens a request may hold: window − output_reserve − emergency_buffer; an unknown window is 128,000.

    In a small window the reserves take a quarter and a sixteenth at most, else nothing would be left.
    """
    size = window if window > 0 else DEFAULT_WINDOW
    return size - min(settings.output_reserve, size // 4) - min(settings.emergency_buffer, size // 16)


def begins_exchange(message: Message) -> bool:
    """Whether a request may start with this message: a person's, not the results of calls made before it."""
    return message.role == "user" and not any(isinstance(part, ToolResult) for part in message.parts)
