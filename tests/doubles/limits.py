"""The one way in which a suite that is about something else writes faster than the platforms allow."""

from typing import Any


def raised_limits() -> dict[str, Any]:
    """Settings of a double (`POST /_control/settings`) under which it refuses nobody for writing too much.

    The doubles have the platforms' limits on unless a suite asks for this; its reason stands where it is asked for.
    """
    return {"rate_limits": False}
