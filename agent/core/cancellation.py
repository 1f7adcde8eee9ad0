"""Cooperative cancellation: one token a run, fired by /stop, a button or a shutdown."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

import anyio


class CancelToken:
    """Says that a run should end. Firing twice is firing once; a token is never un-fired."""

    def __init__(self) -> None:
        self.fired = False
        self.reason = ""
        self._event = anyio.Event()
        self._told: list[Callable[[], object]] = []

    def fire(self, reason: str) -> None:
        if not self.fired:
            self.fired, self.reason = True, reason
            self._event.set()
            for told in tuple(self._told):
                told()

    def tells(self, told: Callable[[], object]) -> None:
        """Call it as soon as the token is fired: no task has to wait for that."""
        self._told.append(told)

    @contextmanager
    def telling(self, told: Callable[[], object]) -> Iterator[None]:
        """Call `told` when the token is fired within the block, and at once if it was fired before."""
        self.tells(told)
        try:
            if self.fired:
                told()
            yield
        finally:
            self._told.remove(told)

    async def wait(self) -> None:
        """Return once the token was fired."""
        await self._event.wait()


# Task groups that raise the error itself instead of a group around it.


@contextmanager
def first_error() -> Iterator[None]:
    """Raise the first error out of an exception group instead of the group; others of the group go with it."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None


# Time limit of a run. Time spent waiting for people does not count (B-40).


class TimeLimit:
    """The time limit of one piece of work."""

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
