"""Whether a request fits the model's window, and which old exchanges it must do without (SPEC §2.7, W-24). Pure."""

from collections.abc import Sequence

from agent.core.messages import Message, ToolResult
from agent.turn.settings import DEFAULT_WINDOW, ContextSettings

ROOM_AFTER_TRIM = 0.75  # of the ceiling: trimming more at once keeps the prefix still (and cached) for many turns


def ceiling(window: int, settings: ContextSettings) -> int:
    """The most tokens a request may hold: window − output_reserve − emergency_buffer; an unknown window is 128,000.

    In a small window the reserves take a quarter and a sixteenth at most, else nothing would be left.
    """
    size = window if window > 0 else DEFAULT_WINDOW
    return size - min(settings.output_reserve, size // 4) - min(settings.emergency_buffer, size // 16)


def begins_exchange(message: Message) -> bool:
    """Whether a request may start with this message: a person's, not the results of calls made before it."""
    return message.role == "user" and not any(isinstance(part, ToolResult) for part in message.parts)


def start_that_fits(messages: Sequence[Message], counts: Sequence[int], start: int, budget: int) -> int:
    """The earliest exchange at or after `start` from which `counts` add up to at most `budget`.

    `len(messages)` when not even the last exchange does: then none of these messages is sent.
    """
    room = budget
    best = len(messages)
    for index in range(len(messages) - 1, start - 1, -1):
        room -= counts[index]
        if room < 0:
            break
        if begins_exchange(messages[index]):
            best = index
    return best
