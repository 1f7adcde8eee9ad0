"""What a goal may still take by itself: limits over its whole life, whatever day it is. No I/O.

A day's budgets are others' business (`agent.ledger.accounts`); both are asked before a call.
"""

from dataclasses import dataclass

from agent.core.errors import ProviderUnpriced, Refused
from agent.ledger.accounts import Sum
from agent.ledger.spending import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """USD and tokens of a goal's whole life; None: no limit. `priced`: a call of unknown price is refused."""

    usd: float | None = None
    tokens: int | None = None
    priced: bool = False


class CapReached(Refused):
    """The call was not made: it might take more than the goal has left. `needed` None: nobody knows what it costs."""

    def __init__(self, goal: str, *, unit: Unit, limit: float, left: float, needed: float | None) -> None:
        may_take = "its price is unknown" if needed is None else f"this call may take {needed:g}"
        super().__init__(f"goal {goal} has {left:g} of {limit:g} {unit} left; {may_take}")
        self.unit: Unit = unit
        self.limit = limit
        self.left = left
        self.needed = needed


class CapUnpriced(CapReached, ProviderUnpriced):
    """Nobody knows what this provider's model costs; whoever may stand in for it may have a price."""


@dataclass(slots=True)
class SpendingCap:
    """One goal's. What its `sum` holds was spent since the goal began, also on what people asked in between."""

    goal: str
    allowance: Allowance
    sum: Sum

    def check(self, *, usd: float | None, tokens: int) -> None:
        """Raise CapReached where such a call might take more than is left, CapUnpriced where nobody can tell."""
        most = self.allowance
        if most.usd is not None:
            left = most.usd - self.sum.usd - self.sum.held_usd
            if most.priced if usd is None else usd > left:
                empty = CapUnpriced if usd is None else CapReached
                raise empty(self.goal, unit="usd", limit=most.usd, left=max(left, 0.0), needed=usd)
        if most.tokens is not None:
            rest = most.tokens - self.sum.tokens - self.sum.held_tokens
            if tokens > rest:
                raise CapReached(self.goal, unit="tokens", limit=most.tokens, left=max(rest, 0), needed=tokens)


class SpendingCaps:
    """Those of the goals that are worked on by themselves in this process."""

    def __init__(self) -> None:
        self._open: dict[str, SpendingCap] = {}

    def open(self, goal: str, allowance: Allowance, *, usd: float, tokens: int) -> None:
        """Let the goal take that much; `usd` and `tokens` are what the database knows to be spent by now.

        What was spent a moment ago may not be there yet: the larger sum counts.
        """
        known = self._open.get(goal)
        found = known.sum if known is not None else Sum()
        found.usd, found.tokens = max(found.usd, usd), max(found.tokens, tokens)
        self._open[goal] = SpendingCap(goal, allowance, found)

    def close(self, goal: str) -> None:
        """It rests."""
        self._open.pop(goal, None)

    def find(self, goal: str | None) -> SpendingCap | None:
        return self._open.get(goal) if goal is not None else None
