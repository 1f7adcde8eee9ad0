"""Spending rules, accounts and entries: how much may be spent, and which limits a call comes under. No I/O."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import isfinite
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar

from pydantic import AfterValidator

from agent.core.errors import ProviderBarred, ProviderUnpriced, Refused
from agent.core.ids import CostAttribution
from agent.core.phrases import money
from agent.core.settings_section import SECTION_CONFIG, refuse

Scope = Literal["gateway", "provider", "channel", "person", "job", "goal"]
Span = Literal["day", "month"]
Unit = Literal["usd", "tokens"]
SCOPES: tuple[Scope, ...] = ("gateway", "provider", "channel", "person", "job", "goal")
SPANS: tuple[Span, ...] = ("day", "month")

_Amount = TypeVar("_Amount", float | None, int | None)

# Payers of a call, by scope; several names of one place: its own first, then those of what holds it.
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
        refuse(mistakes)


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
        refuse(mistakes)


class Account(NamedTuple):
    """An account, summed up by itself: one payer in one UTC day ("2026-11-22") or month ("2026-11")."""

    scope: Scope
    name: str  # "" for the gateway
    period: str

    def __str__(self) -> str:
        """The name that the configuration uses: "person telegram:77"."""
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
    """The amount in people's form: "1.20 USD" or "12,000 tokens"."""
    return f"{value:,.0f} tokens" if unit == "tokens" else money(value)


def period_of(at: datetime, per: Span) -> str:
    return f"{at:%Y-%m-%d}" if per == "day" else f"{at:%Y-%m}"


PlaceLimits = Callable[[str, bool], Sequence[Limit]]  # of a payer, and whether it is the conversation itself


AccountsOf = Callable[[str], Sequence[str]]  # all accounts of the person who has this one, it first


def no_limits(payer: str, is_own: bool) -> Sequence[Limit]:
    """No limits of places."""
    return ()


def only(person: str) -> Sequence[str]:
    """The accounts of a person who has no other."""
    return (person,)


@dataclass(frozen=True, slots=True)
class Rules:
    """The limits, found quickly. `of_place` gives those that were set for a place itself.

    `accounts_of` joins the accounts of one person: each is summed up by itself, and a limit holds for their sum.
    """

    spending: Spending
    _by_key: Mapping[tuple[Scope, Span], Mapping[str, Limit]] = field(default_factory=dict)
    of_place: PlaceLimits = no_limits
    accounts_of: AccountsOf = only

    @classmethod
    def of(cls, spending: Spending, of_place: PlaceLimits = no_limits, accounts_of: AccountsOf = only) -> "Rules":
        by_key: dict[tuple[Scope, Span], dict[str, Limit]] = {}
        for limit in spending.limits:
            by_key.setdefault((limit.scope, limit.per), {})[limit.name.casefold()] = limit
        return cls(spending, by_key, of_place, accounts_of)

    def applying(self, names: Names, periods: Mapping[Span, str]) -> Iterator[Applied]:
        """Every limit that such a call comes under. A limit with the payer's name takes the place of the general one.

        A place may come under its own limit and those of what holds it: a topic's and its group's; an account under
        those that name another of the same person.
        """
        for (scope, per), limits in self._by_key.items():
            payers = names.get(scope, ())
            if scope == "person" and payers:
                payers = self.accounts_of(payers[0])
            for index, payer in enumerate(payers):
                limit = limits.get(payer.casefold())
                if limit is None and index == 0:
                    limit = limits.get("")
                if limit is not None:
                    yield Applied(limit=limit, account=Account(scope, payer, periods[per]))
        for index, payer in enumerate(names.get("channel", ())):
            for limit in self.of_place(payer, index == 0):
                yield Applied(limit=limit, account=Account("channel", payer, periods[limit.per]))

    def may_limit(self, account: Account, span: Span) -> bool:
        """Whether a limit may be counted on it: a cheap look before `of_account`."""
        return account.scope == "channel" or (account.scope, span) in self._by_key

    def of_account(self, account: Account, span: Span, *, own: bool) -> Iterator[Applied]:
        """The limits that are counted on this very account. `own`: it pays itself, so that general limits hold too."""
        limits = self._by_key.get((account.scope, span), {})
        if limit := limits.get(account.name.casefold()) or (limits.get("") if own else None):
            yield Applied(limit=limit, account=account)
        if account.scope == "channel":
            for limit in self.of_place(account.name, own):
                if limit.per == span:
                    yield Applied(limit=limit, account=account)

    def together(self, account: Account) -> Sequence[Account]:
        """The accounts that a limit of this one counts, it first."""
        names = self.accounts_of(account.name) if account.scope == "person" else ()
        return [account._replace(name=name) for name in names] if len(names) > 1 else (account,)


# Accounts: what was spent and what is held, in memory. No I/O: the ledger loads and feeds them.


@dataclass(slots=True)
class Sum:
    """One account. `held_*` is set aside for calls that are being made; `more_*` was approved beyond the limit."""

    usd: float = 0.0
    tokens: int = 0
    unpriced: int = 0  # calls whose price is unknown
    held_usd: float = 0.0
    held_tokens: int = 0
    more_usd: float = 0.0
    more_tokens: int = 0
    approvals: int = 0
    warned: bool = False
    pays_itself: bool = False
    holds_others: bool = False  # that pay, as a group holds its topics
    joined: "Sum | None" = None  # the sum that this one was added to, as its place was renamed

    @property
    def counted(self) -> "Sum":
        """The sum that counts: that of the new name after a rename, else this one."""
        return self if self.joined is None else self.joined.counted

    def add(self, other: "Sum") -> None:
        """Count what the other counts, too."""
        self.usd += other.usd
        self.tokens += other.tokens
        self.unpriced += other.unpriced
        self.held_usd += other.held_usd
        self.held_tokens += other.held_tokens
        self.more_usd += other.more_usd
        self.more_tokens += other.more_tokens
        self.approvals += other.approvals
        self.warned = self.warned or other.warned
        self.pays_itself = self.pays_itself or other.pays_itself
        self.holds_others = self.holds_others or other.holds_others


def added(sums: Sequence[Sum]) -> Sum:
    """All of them in one."""
    whole = Sum()
    for one in sums:
        whole.add(one)
    return whole


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountBalance:
    """The state of a limit: its amount with all approvals, and what was spent of it. USD and tokens."""

    limit: Limit
    account: Account
    usd: float | None
    tokens: int | None
    spent_usd: float
    spent_tokens: int
    unpriced: int
    approvals: int

    @property
    def share(self) -> float:
        """How much of it is used up, 0..1 and above."""
        shares = [0.0]
        for spent, most in ((self.spent_usd, self.usd), (self.spent_tokens, self.tokens)):
            if most is not None:
                shares.append(spent / most if most else float("inf"))
        return max(shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A hold for one call, and its accounts."""

    sums: Sequence[Sum]
    names: Names
    periods: Mapping[Span, str]
    usd: float
    tokens: int


class Accounts:
    """All sums of the present day and month."""

    def __init__(self) -> None:
        self._sums: dict[Account, Sum] = {}
        self._periods: dict[Span, str] = {}
        self._day = 0  # as `datetime.toordinal` has it

    def hold(
        self, rules: Rules, names: Names, at: datetime, *, usd: float | None, tokens: int, provider: str, model: str
    ) -> Hold:
        """Set aside what a call may take. Raises OverBudget or Unpriced, and sets nothing aside then."""
        periods = self.periods(at)
        for applied in rules.applying(names, periods):
            self._check(applied, usd=usd, tokens=tokens, rules=rules, provider=provider, model=model)
        return self.take(names, periods, usd=usd or 0.0, tokens=tokens)

    def take(self, names: Names, periods: Mapping[Span, str], *, usd: float, tokens: int) -> Hold:
        """Set that much aside, whatever is left."""
        hold = Hold(sums=self._of(names, periods), names=names, periods=periods, usd=usd, tokens=tokens)
        for found in hold.sums:
            found.held_usd += usd
            found.held_tokens += tokens
        return hold

    def limited(self, rules: Rules, names: Names, at: datetime) -> Sequence[Account]:
        """The accounts that a limit of such a call counts."""
        applying = rules.applying(names, self.periods(at))
        return [one for applied in applying for one in rules.together(applied.account)]

    def settle(self, hold: Hold, *, usd: float | None, tokens: int) -> None:
        """Put what the call really took in place of what was set aside."""
        self.release(hold)
        for found in (one.counted for one in hold.sums):
            found.tokens += tokens
            if usd is None:
                found.unpriced += 1
            else:
                found.usd += usd

    def release(self, hold: Hold) -> None:
        """The call took nothing."""
        for found in (one.counted for one in hold.sums):
            found.held_tokens -= hold.tokens
            # Sums of fractions do not come back to 0 by themselves.
            found.held_usd = found.held_usd - hold.usd if found.held_tokens else 0.0

    def spent(self, names: Names, periods: Mapping[Span, str], *, usd: float, tokens: int, unpriced: int) -> None:
        """Note what earlier processes spent."""
        for found in self._of(names, periods):
            found.usd += usd
            found.tokens += tokens
            found.unpriced += unpriced

    def approve(self, rules: Rules, account: Account, *, usd: float, tokens: int) -> int:
        """Raise what the account may spend in its period; how often that was done for this very account by now."""
        found = self._sum(account)
        found.more_usd += usd
        found.more_tokens += tokens
        found.approvals += 1
        for one in self._sums_of(rules, account):
            one.warned = False
        return found.approvals

    def rename(self, old: str, new: str) -> None:
        """Let the sums of a place follow to its new name, added to those that are there, and calls under way too."""
        for account in [one for one in self._sums if one.scope == "channel" and one.name == old]:
            former = self._sums.pop(account)
            present = self._sums.setdefault(account._replace(name=new), former)
            if present is not former:
                present.add(former)
                former.joined = present

    def newly_near(self, rules: Rules, hold: Hold) -> Iterator[AccountBalance]:
        """The limits that came near since this was asked last; each once in its period, and after each approval."""
        for applied in rules.applying(hold.names, hold.periods):
            found = self._sums_of(rules, applied.account)
            if not any(one.warned for one in found):
                standing = self._standing(rules, applied)
                if standing.share >= rules.spending.warn_at:
                    found[0].warned = True
                    yield standing

    def near(self, rules: Rules, at: datetime) -> Sequence[AccountBalance]:
        """The limits that came near and that `take_as_said` has not been told of."""
        return [
            standing
            for standing in self.everything(rules, at)
            if standing.share >= rules.spending.warn_at
            and not any(one.warned for one in self._sums_of(rules, standing.account))
        ]

    def take_as_said(self, rules: Rules, account: Account) -> None:
        """Somebody was told that this one comes near."""
        self._sums_of(rules, account)[0].warned = True

    def take_warnings_as_said(self, rules: Rules, at: datetime) -> None:
        """Take present warnings as told: an earlier process has told them."""
        for standing in self.everything(rules, at):
            for found in self._sums_of(rules, standing.account):
                found.warned = found.warned or standing.share >= rules.spending.warn_at

    def find(self, rules: Rules, account: Account, at: datetime) -> AccountBalance | None:
        """The state of that account's limit, of several the one that is used up most; None when none holds for it."""
        found = self._sums.get(account)
        own = found is None or found.pays_itself or not found.holds_others
        span = next((span for span, period in self.periods(at).items() if period == account.period), None)
        if span is None or not rules.may_limit(account, span):
            return None
        standings = (self._standing(rules, one) for one in rules.of_account(account, span, own=own))
        return max(standings, key=lambda standing: standing.share, default=None)

    def standings(self, rules: Rules, names: Names, at: datetime) -> Sequence[AccountBalance]:
        """The limits that a call by these names would come under now."""
        return [self._standing(rules, applied) for applied in rules.applying(names, self.periods(at))]

    def everything(self, rules: Rules, at: datetime) -> Sequence[AccountBalance]:
        """Every account of which a limit holds and something was spent, the fullest first; the gateway's always.

        Of somebody with several accounts one stands for all, but for limits that name another.
        """
        spans = {period: span for span, period in self.periods(at).items()}
        gateway = [Account("gateway", "", period) for period in spans]
        seen: set[Account] = set()
        found: list[AccountBalance] = []
        for account in (*gateway, *self._sums):
            span = spans.get(account.period)
            if account in seen or span is None or not rules.may_limit(account, span):
                continue
            together = rules.together(account)
            seen.update(together)
            standings = [standing for one in together if (standing := self.find(rules, one, at)) is not None]
            # The other way round, so that of several accounts under one limit the first stands for it.
            found += {standing.limit: standing for standing in reversed(standings)}.values()
        return sorted(found, key=lambda standing: -standing.share)

    def periods(self, at: datetime) -> Mapping[Span, str]:
        """The day and the month of that moment. With a new one the accounts of the old one are closed."""
        if at.toordinal() != self._day:
            self._day = at.toordinal()
            self._periods = {span: period_of(at, span) for span in SPANS}
            current = set(self._periods.values())
            self._sums = {account: found for account, found in self._sums.items() if account.period in current}
        return self._periods

    def _check(
        self, applied: Applied, *, usd: float | None, tokens: int, rules: Rules, provider: str, model: str
    ) -> None:
        limit, found = applied.limit, self._together(rules, applied.account)
        over = ProviderOverBudget if applied.account.scope == "provider" else OverBudget
        if limit.usd is not None:
            if usd is None and rules.spending.unpriced == "refuse":
                raise Unpriced(applied, provider=provider, model=model)
            most, needed = limit.usd + found.more_usd, usd or 0.0
            left = most - found.usd - found.held_usd
            if needed > left:
                raise over(
                    applied, limit=most, left=max(left, 0.0), needed=needed, unit="usd", approvals=found.approvals
                )
        if limit.tokens is not None:
            whole = limit.tokens + found.more_tokens
            rest = whole - found.tokens - found.held_tokens
            if tokens > rest:
                raise over(
                    applied, limit=whole, left=max(rest, 0), needed=tokens, unit="tokens", approvals=found.approvals
                )

    def _of(self, names: Names, periods: Mapping[Span, str]) -> list[Sum]:
        """The sums that a call by these names goes into."""
        sums = self._sums
        gathered = []
        for scope, payers in names.items():
            for index, payer in enumerate(payers):
                for period in periods.values():
                    account = Account(scope, payer, period)
                    found = sums.get(account)
                    if found is None:
                        found = sums[account] = Sum()
                    if index:
                        found.holds_others = True
                    else:
                        found.pays_itself = True
                    gathered.append(found)
        return gathered

    def _standing(self, rules: Rules, applied: Applied) -> AccountBalance:
        limit, found = applied.limit, self._together(rules, applied.account)
        return AccountBalance(
            limit=limit,
            account=applied.account,
            usd=None if limit.usd is None else limit.usd + found.more_usd,
            tokens=None if limit.tokens is None else limit.tokens + found.more_tokens,
            spent_usd=found.usd,
            spent_tokens=found.tokens,
            unpriced=found.unpriced,
            approvals=found.approvals,
        )

    def next_approval(self, account: Account) -> int:
        """The number of the next approval for this very account."""
        found = self._sums.get(account)
        return 1 + (found.approvals if found is not None else 0)

    def _together(self, rules: Rules, account: Account) -> Sum:
        """The sum that a limit of the account counts: of all accounts of the person. Not to be changed."""
        found = self._sums_of(rules, account)
        return found[0] if len(found) == 1 else added(found)

    def _sums_of(self, rules: Rules, account: Account) -> Sequence[Sum]:
        """The sums of all accounts of the person, the given one's first."""
        return [self._sum(one) for one in rules.together(account)]

    def _sum(self, account: Account) -> Sum:
        found = self._sums.get(account)
        if found is None:
            found = self._sums[account] = Sum()
        return found


# Entries of the ledger, and their sums. Values only.


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One call that was made, or may have been. `at` is when it began, UTC microseconds; `audio_s` seconds of sound.

    `cost_usd` None: its price is unknown. `estimated`: nobody reported all of its tokens.
    """

    call: str
    at: int
    attribution: CostAttribution
    provider: str
    model: str
    prompt: int = 0
    output: int = 0
    cache_creation: int = 0
    cache_read: int = 0
    audio_s: float = 0.0
    cost_usd: float | None = None
    estimated: bool = False

    @property
    def read(self) -> int:
        """Tokens that went in, from a cache or not."""
        return self.prompt + self.cache_creation + self.cache_read

    @property
    def tokens(self) -> int:
        return self.read + self.output


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageTotals:
    """Sums over calls. `unpriced` counts calls without a price, which `cost_usd` leaves out."""

    calls: int = 0
    prompt: int = 0
    output: int = 0
    cache_creation: int = 0
    cache_read: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    estimated: int = 0

    @property
    def tokens(self) -> int:
        """Tokens in and out, from a cache or not."""
        return self.prompt + self.cache_creation + self.cache_read + self.output


# Spending caps: limits of one goal over its whole life. No I/O.


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


def sentence_of(error: CapReached) -> tuple[str, dict[str, object]]:
    """Why a call for the goal was not made: key and values of the sentence."""
    if error.needed is None:
        return "goal_why_unpriced", {}
    values = {"limit": error.limit, "left": error.left, "needed": error.needed}
    return "goal_why_left", {name: amount(value, error.unit) for name, value in values.items()}


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
    """The caps of the goals that are worked on by themselves in this process."""

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
