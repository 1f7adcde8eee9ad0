"""A tool that tells the date and time in any time zone."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from agent.core.clock import Clock
from agent.core.errors import ToolError
from agent.core.tools import ToolContext, ToolSpec


class CurrentTime:
    """`current_time(zone?)`: now, in an IANA zone; without one where the asker lives, as far as is known."""

    spec = ToolSpec(
        name="current_time",
        description="Tells the current date and time, with weekday and offset from UTC.",
        schema={
            "type": "object",
            "properties": {
                "zone": {
                    "type": "string",
                    "description": 'IANA name such as "Europe/Berlin". Left out: that of the person, else UTC.',
                    "maxLength": 64,
                }
            },
            "additionalProperties": False,
        },
        retryable=True,
        core=True,
        category="info",
        risk="safe",
    )

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        name = arguments.get("zone") or context.asker.zone or "UTC"
        now = self._clock.now().astimezone(_zone(name))
        shown = name if now.tzname() == name else f"{name}, {now.tzname()}"
        return f"{now:%A}, {now.isoformat(timespec='seconds')} ({shown})"


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        near = get_close_matches(name, available_timezones(), n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else '; use an IANA name such as "Europe/Berlin"'
        raise ToolError(f"there is no time zone {name!r}{hint}") from error
