"""How late the event loop is: the surplus of a short sleep. Says nothing about why."""

import logging
from collections import deque
from itertools import islice

from agent.core.clock import Clock

EVERY_S = 0.5
WINDOW = 120  # samples: one minute
RECENT = 4  # samples
BUSY_S = 0.25  # an idle loop is late by a millisecond or two, on a machine that others use by tens of them
WARN_S = 1.0

log = logging.getLogger("tieline.telemetry")


class LoopLag:
    """Run it beside everything else; `last_s` and `worst_s` (of the last minute) are in seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._samples: deque[float] = deque(maxlen=WINDOW)

    @property
    def last_s(self) -> float:
        return self._samples[-1] if self._samples else 0.0

    @property
    def worst_s(self) -> float:
        return max(self._samples, default=0.0)

    def is_busy(self) -> bool:
        """It was late in the last two seconds: what may be left out should be, it makes all else later."""
        return any(late > BUSY_S for late in islice(reversed(self._samples), RECENT))

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            before = self._clock.monotonic()
            await self._clock.sleep(EVERY_S)
            late = max(0.0, self._clock.monotonic() - before - EVERY_S)
            self._samples.append(late)
            if late > WARN_S:
                log.warning("the event loop stood still for %.1f s", late)
