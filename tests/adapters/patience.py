"""Patience with a 429: delivery's part of `ChannelBusy`, and the waits that the double recorded."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from agent.core.clock import Clock
from gateway.channels.errors import ChannelBusy

Made = TypeVar("Made")

TRIES = 4  # the wait is told once; a few more for a limit of the adapter's own
CLOCKS_DIFFER_S = 0.01


async def at_last(act: Callable[[], Awaitable[Made]], clock: Clock, *, hasty: bool = True) -> Made:
    """Do it as delivery does, again when the time is over; `hasty`: once at once, which must not reach the platform."""
    told_s = 0.0
    for attempt in range(TRIES):
        try:
            return await act()
        except ChannelBusy as busy:
            told_s += busy.after_s
            if attempt or not hasty:
                await clock.sleep(busy.after_s)
    raise AssertionError(f"still busy after {told_s} s")


def waited_s(calls: Sequence[Mapping[str, Any]]) -> float:
    """Seconds from the call that was refused with 429 to the next one, by the platform's clock."""
    times = [(float(call["at"]), call.get("fault") == "rate_limit") for call in calls]
    refused = [index for index, (_, limited) in enumerate(times) if limited]
    assert refused, "the platform refused nothing"
    assert len(times) > refused[-1] + 1, "it was not asked again"
    return times[refused[-1] + 1][0] - times[refused[-1]][0] + CLOCKS_DIFFER_S
