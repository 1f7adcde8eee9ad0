"""How much may be spent: `[spending]`, and which of its limits a call comes under. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import isfinite
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar

from pydantic import AfterValidator

from agent.core.errors import ProviderBarred, ProviderUnpriced, Refused
from agent.core.money import money
from agent.core.section_config import SECTION_CONFIG

Scope = Literal["gateway", "provider", "channel", "person", "job", "goal"]
Span = Literal["day", "month"]
Unit = Literal["usd", "tokens"]
SCOPES: tuple[Scope, ...] = ("gateway", "provider", "channel", "person", "job", "goal")
SPANS: tuple[Span, ...] = ("day", "month")

_Amount = TypeVar("_Amount", float | None, int | None)

# Whom a call is charged to, by scope; several names of one place: its own first, then those of what holds it.
Names = Mapping[Scope, Sequence[str]]


def _amount(given: _Amount) -> _Amount:
    if given is not None and not (isfinite(given) and given >= 0):
        raise ValueError(f"{given} is no amount; it must be a finite number of 0 or more")
    return given


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One `[[spending.limits]]`: USD, tokens or both, per UTC day or month.

    `name` is the provider, chat, person, job or goal it is for; "": each of them on its own.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    scope: Scope
    name: str = ""
    per: Span = "day"
    # Each is also checked by itself: pydantic does not come to `__post_init__` while another key is wrong.
    usd: Annotated[float | None, AfterValidator(_amount)] = None
    tokens: Annotated[int | None, AfterValidator(_amount)] = None

    def __post_init__(self) -> None:
        _amount(self.usd)
        _amount(self.tokens)
        mistakes = []
        if self.usd is None and self.tokens is None:
            mistakes.append("usd and tokens are both missing; give one")
        if self.scope == "gateway" and self.name:
            mistakes.append(f"name is {self.name!r}; the gateway has none")
        if mistakes:
            raise ValueError("; ".join(mistakes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """`[spending]`. At `warn_at` of a limit it is told once; one approval adds `more` of it. Both are shares.

    `unpriced`: what becomes of a call whose price is unknown where a limit in USD holds.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    warn_at: float = 0.8
    more: float = 0.5
    unpriced: Literal["refuse", "allow"] = "refuse"
    limits: tuple[Limit, ...] = ()

    def __post_init__(self) -> None:
        mistakes = []
        if not 0 < self.warn_at <= 1:
            mistakes.append(f"warn_at is {self.warn_at}; it must be above 0 and at most 1")
        if not 0 < self.more <= 10:
            mistakes.append(f"more is {self.more}; it must be above 0 and at most 10")
        seen: set[tuple[str, str, str]] = set()
        for limit in self.limits:
            key = (limit.scope, limit.name.casefold(), limit.per)
            if key in seen:
                named = f" of {limit.name}" if limit.name else ""
                mistakes.append(f"limits: two are for {limit.scope}{named} per {limit.per}; keep one")
            seen.add(key)
        if mistakes:
            raise ValueError("; ".join(mistakes))


class Account(NamedTuple):
    """What is summed up by itself: one payer in one UTC day ("2026-11-22") or month ("2026-11")."""

    scope: Scope
    name: str  # "" for the gateway
    period: str

    def __str__(self) -> str:
        """As the configuration names it: "person telegram:77"."""
        return f"{self.scope} {self.name}".strip()

    @property
    def per(self) -> Span:
        return "day" if len(self.period) == 10 else "month"

    @property
    def ends(self) -> datetime:
        """When the next one begins."""
        if self.per == "day":
            return datetime.strptime(f"{self.period} +0000", "%Y-%m-%d %z") + timedelta(days=1)
        begun = datetime.strptime(f"{self.period} +0000", "%Y-%m %z")
        return (begun + timedelta(days=31)).replace(day=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A limit and the account it holds for."""

    limit: Limit
    account: Account


class OverBudget(Refused):
    """The call was not made: it might take more than is left. `approvals`: how often more was allowed already."""

    def __init__(
        self, applied: Applied, *, limit: float, left: float, needed: float, unit: Unit, approvals: int
    ) -> None:
        account = applied.account
        super().__init__(
            f"the budget of {account} for {account.period} has {left:g} of {limit:g} {unit} left; "
            f"this call may take {needed:g}"
        )
        self.applied = applied
        self.limit = limit
        self.left = left
        self.needed = needed
        self.unit: Unit = unit
        self.approvals = approvals


class ProviderOverBudget(OverBudget, ProviderBarred):
    """The provider's own budget is used up; whoever may stand in for it has one of its own."""


class Unpriced(ProviderUnpriced):
    """The call was not made: a limit in USD holds for it, and the price of its model is unknown."""

    def __init__(self, applied: Applied, *, provider: str, model: str) -> None:
        super().__init__(
            f"a limit in USD holds for {applied.account.scope}, and the price of {model} is unknown; set `prices` of "
            f'{provider} in [[llm.providers]] (0 where it is free), or [spending] unpriced = "allow"'
        )
        self.applied = applied
        self.provider = provider
        self.model = model


def amount(value: float, unit: Unit) -> str:
    """As people read it: "1.20 USD" or "12,000 tokens"."""
    return f"{value:,.0f} tokens" if unit == "tokens" else money(value)


def period_of(at: datetime, per: Span) -> str:
    return f"{at:%Y-%m-%d}" if per == "day" else f"{at:%Y-%m}"


@dataclass(frozen=True, slots=True)
class Rules:
    """The limits, found quickly."""

    spending: Spending
    _by_key: Mapping[tuple[Scope, Span], Mapping[str, Limit]] = field(default_factory=dict)

    @classmethod
    def of(cls, spending: Spending) -> "Rules":
        by_key: dict[tuple[Scope, Span], dict[str, Limit]] = {}
        for limit in spending.limits:
            by_key.setdefault((limit.scope, limit.per), {})[limit.name.casefold()] = limit
        return cls(spending, by_key)

    def applying(self, names: Names, periods: Mapping[Span, str]) -> Iterator[Applied]:
        """Every limit that such a call comes under. A limit with the payer's name takes the place of the general one.

        A place may come under its own limit and those of what holds it: a topic's and its group's.
        """
        for (scope, per), limits in self._by_key.items():
            payers = names.get(scope, ())
            for index, payer in enumerate(payers):
                limit = limits.get(payer.casefold())
                if limit is None and index == 0:
                    limit = limits.get("")
                if limit is not None:
                    yield Applied(limit=limit, account=Account(scope, payer, periods[per]))
