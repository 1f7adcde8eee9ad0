"""The only ways in which a suite that is about something else has it easier than with the platforms."""

from typing import Any


def raised_limits() -> dict[str, Any]:
    """Settings of a double (`POST /_control/settings`) under which it refuses nobody for writing too much.

    The doubles have the platforms' limits on unless a suite asks for this; its reason stands where it is asked for.
    """
    return {"rate_limits": False}


def unhindered() -> dict[str, Any]:
    """The same for who measures our own time: bodies come in one flight too."""
    return raised_limits() | {"in_pieces": False}


def few_a_second(messages: int) -> dict[str, Any]:
    """Fewer of one bot over all chats than the 30 that Telegram takes, so that a test need not send more."""
    assert messages < 30
    return {"global_rate": messages}
