"""Whether the event loop is so busy that what may be left out should be: previews, status, signs of life."""

from collections.abc import Callable
from time import thread_time

from agent.core.clock import Clock

WINDOW_S = 0.2
HIGH = 0.7  # share of a processor; from there on every call that could be spared makes all replies later


class Load:
    """Ask it from the loop's own thread. `cpu_s` gives the processor time that this thread has used."""

    def __init__(self, clock: Clock, cpu_s: Callable[[], float] = thread_time) -> None:
        self._clock = clock
        self._cpu_s = cpu_s
        self._at = clock.monotonic()
        self._used = cpu_s()
        self._high = False

    def is_high(self) -> bool:
        """Over the time since it was last found out, a fifth of a second at least."""
        now = self._clock.monotonic()
        if (passed := now - self._at) >= WINDOW_S:
            used = self._cpu_s()
            self._high = (used - self._used) / passed > HIGH
            self._at, self._used = now, used
        return self._high
