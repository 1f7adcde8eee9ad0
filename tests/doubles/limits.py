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
