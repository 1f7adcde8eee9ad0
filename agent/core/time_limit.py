"""How long something may work, where the time that people are waited for does not count (B-40)."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

import anyio


class TimeLimit:
    """For one piece of work."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._scope: anyio.CancelScope | None = None
        self._paused = 0
        self._left_s = limit_s
        self._latest = inf  # on the loop's clock, whoever is waited for

    @contextmanager
    def running(self) -> Iterator[anyio.CancelScope]:
        """The scope that the limit cancels."""
        with anyio.move_on_after(self._limit_s) as scope:
            self._scope = scope
            yield scope

    def end_within(self, seconds: float) -> None:
        """It ends so soon at the latest, whoever is waited for meanwhile."""
        self._latest = anyio.current_time() + seconds
        if self._scope is not None:
            self._scope.deadline = min(self._scope.deadline, self._latest)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The clock stands still; may be asked for by several at once."""
        scope = self._scope
        if scope is None:
            yield
            return
        if not self._paused:
            self._left_s = scope.deadline - anyio.current_time()
            scope.deadline = self._latest
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1
            if not self._paused:
                scope.deadline = min(anyio.current_time() + self._left_s, self._latest)
