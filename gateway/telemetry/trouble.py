"""Troubles that the operator should know of: a short list, open and over. Never a log, never about one message.

Readiness, the dashboard and owner alerts read it. Two reports of the same subject are one trouble, counted.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from agent.core.clock import Clock

Kind = Literal["adapter", "storage", "delivery", "provider", "window", "mcp", "web", "config", "loop", "otel"]

KEPT = 100  # troubles that are over; open ones are bounded by the number of their subjects


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """`subject` is what it is about ("telegram", "database"); a `blocking` one makes the process not ready."""

    kind: Kind
    subject: str
    text: str
    fix: str = ""
    blocking: bool = False
    since: datetime
    last_at: datetime
    times: int = 1
    over_at: datetime | None = None


class Troubles:
    """Keeps them; tells listeners when one begins and when it is over. `spell` writes the commands that are told."""

    def __init__(self, clock: Clock, *, redact: Callable[[str], str] = str, spell: Callable[[str], str] = str) -> None:
        self._clock = clock
        self._redact = redact
        self._spell = spell
        self._open: dict[tuple[Kind, str], Trouble] = {}
        self._over: list[Trouble] = []
        self._listeners: list[Callable[[Trouble], None]] = []

    def listen(self, listener: Callable[[Trouble], None]) -> Callable[[], None]:
        """Hear of every trouble that begins or ends; call what is returned to stop."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def report(self, kind: Kind, subject: str, text: str, *, fix: str = "", blocking: bool = False) -> None:
        """Something is wrong, or still is."""
        now, text, fix = self._clock.now(), self._spell(self._redact(text)), self._spell(fix)
        known = self._open.get((kind, subject))
        if known is not None:
            self._open[kind, subject] = replace(
                known, text=text, fix=fix, blocking=blocking, last_at=now, times=known.times + 1
            )
            return
        trouble = Trouble(kind=kind, subject=subject, text=text, fix=fix, blocking=blocking, since=now, last_at=now)
        self._open[kind, subject] = trouble
        self._tell(trouble)

    def over(self, kind: Kind, subject: str) -> None:
        """It is well again; fine when nothing was reported."""
        trouble = self._open.pop((kind, subject), None)
        if trouble is None:
            return
        ended = replace(trouble, over_at=self._clock.now())
        self._over = [*self._over, ended][-KEPT:]
        self._tell(ended)

    def note(self, kind: Kind, subject: str, text: str, *, fix: str = "") -> None:
        """Something went wrong once and does not last (a dead letter): listed, never blocking."""
        now, text, fix = self._clock.now(), self._spell(self._redact(text)), self._spell(fix)
        trouble = Trouble(kind=kind, subject=subject, text=text, fix=fix, since=now, last_at=now, over_at=now)
        self._over = [*self._over, trouble][-KEPT:]
        self._tell(trouble)

    @property
    def open(self) -> tuple[Trouble, ...]:
        """Open troubles, oldest first."""
        return tuple(self._open.values())

    @property
    def blocking(self) -> tuple[Trouble, ...]:
        return tuple(trouble for trouble in self._open.values() if trouble.blocking)

    def recent(self, limit: int = 20) -> tuple[Trouble, ...]:
        """Open ones first, then what is over, newest first."""
        newest = sorted(self._open.values(), key=lambda trouble: trouble.last_at, reverse=True)
        return tuple([*newest, *reversed(self._over)][:limit])

    def _tell(self, trouble: Trouble) -> None:
        for listener in tuple(self._listeners):
            listener(trouble)
