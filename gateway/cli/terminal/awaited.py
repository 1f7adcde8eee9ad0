"""Lines sent from a terminal that have no answer yet, and the time that is worth waiting for one."""

import time
from dataclasses import dataclass, field
from typing import Protocol

ANSWER_WITHIN_S = 600.0
MORE_WITHIN_S = 3.0  # signs of life come every two seconds while a turn runs
ANOTHER_WITHIN_S = 10.0  # the same for a message that answers something else, on a slow machine


class Shown(Protocol):
    """Counts of everything that a screen has shown so far."""

    @property
    def messages(self) -> int: ...
    @property
    def hints(self) -> int: ...
    @property
    def stops(self) -> int: ...
    @property
    def answered(self) -> set[str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Counts of a screen at one moment."""

    messages: int
    hints: int
    stops: int

    @classmethod
    def of(cls, shown: Shown) -> "Seen":
        return cls(messages=shown.messages, hints=shown.hints, stops=shown.stops)


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """The answer to one line; `id` is "" for a press, which any message may answer.

    A toast or an edit may be all that a press gets, and a reminder comes when it comes: after these it is waited as
    long as there are signs of life. So nobody waits for an answer that went to another message.
    """

    id: str
    before: Seen
    stops: bool  # it is stopped by this, which may have no other answer than that of what it stopped
    until: float = field(default_factory=lambda: time.monotonic() + ANSWER_WITHIN_S)

    def has_come(self, shown: Shown) -> bool:
        if self.stops and shown.stops > self.before.stops:
            return True
        return self.id in shown.answered if self.id else shown.messages > self.before.messages

    def is_too_late(self) -> bool:
        return time.monotonic() >= self.until

    def patience_s(self, shown: Shown) -> float:
        """Seconds of silence after which the wait ends."""
        if shown.hints > self.before.hints:
            return MORE_WITHIN_S
        return ANOTHER_WITHIN_S if shown.messages > self.before.messages else ANSWER_WITHIN_S
