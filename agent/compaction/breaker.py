"""Stops asking a model for summaries that keep failing, and tries again later (SPEC §8.14). Pure."""

from dataclasses import dataclass, replace

MAX_CONSECUTIVE_AUTOCOMPACT_FAILURES = 3
HALF_OPEN_AFTER_TURNS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """`opened_at` is the turn in which it tripped; None while it is closed."""

    failures: int = 0
    opened_at: int | None = None

    def allows(self, turn: int) -> bool:
        """Whether a model may be asked in this turn: while closed, and for one try once it has rested long enough."""
        return self.opened_at is None or turn - self.opened_at >= HALF_OPEN_AFTER_TURNS

    def failed(self, turn: int) -> "Breaker":
        """One more failure in a row. The third trips it, and so does a failed try of a half-open one (R-43, G-20)."""
        failures = self.failures + 1
        tripped = failures >= MAX_CONSECUTIVE_AUTOCOMPACT_FAILURES
        return replace(self, failures=failures, opened_at=turn if tripped else self.opened_at)

    def half_opened(self, turn: int) -> "Breaker":
        """Somebody asked for a compaction, or the provider changed: the next try is allowed at once."""
        return self if self.opened_at is None else replace(self, opened_at=turn - HALF_OPEN_AFTER_TURNS)
