"""What was spent and what is set aside, account by account, in memory. No I/O: the ledger loads it and feeds it.

Everything here happens between two awaits, so two calls at once cannot both take the last of a budget.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from agent.ledger.spending import (
    SPANS,
    Account,
    Applied,
    Limit,
    Names,
    OverBudget,
    ProviderOverBudget,
    Rules,
    Span,
    Unpriced,
    period_of,
)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountBalance:
    """How a limit stands: what it is with all approvals, and what was spent of it. USD and tokens."""

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
    """What was set aside for one call, and where."""

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
        hold = Hold(sums=self._of(names, periods), names=names, periods=periods, usd=usd or 0.0, tokens=tokens)
        for found in hold.sums:
            found.held_usd += hold.usd
            found.held_tokens += tokens
        return hold

    def settle(self, hold: Hold, *, usd: float | None, tokens: int) -> None:
        """Put what the call really took in place of what was set aside."""
        self.release(hold)
        for found in hold.sums:
            found.tokens += tokens
            if usd is None:
                found.unpriced += 1
            else:
                found.usd += usd

    def release(self, hold: Hold) -> None:
        """The call took nothing."""
        for found in hold.sums:
            found.held_tokens -= hold.tokens
            # Sums of fractions do not come back to 0 by themselves.
            found.held_usd = found.held_usd - hold.usd if found.held_tokens else 0.0

    def spent(self, names: Names, periods: Mapping[Span, str], *, usd: float, tokens: int, unpriced: int) -> None:
        """Note what earlier processes spent."""
        for found in self._of(names, periods):
            found.usd += usd
            found.tokens += tokens
            found.unpriced += unpriced

    def approve(self, account: Account, *, usd: float, tokens: int) -> int:
        """Raise what the account may spend in its period; how often that was done by now."""
        found = self._sum(account)
        found.more_usd += usd
        found.more_tokens += tokens
        found.approvals += 1
        found.warned = False
        return found.approvals

    def newly_near(self, rules: Rules, hold: Hold) -> Iterator[AccountBalance]:
        """The limits that came near since this was asked last; each once in its period, and after each approval."""
        for applied in rules.applying(hold.names, hold.periods):
            found = self._sum(applied.account)
            if not found.warned:
                standing = self._standing(applied)
                if standing.share >= rules.spending.warn_at:
                    found.warned = True
                    yield standing

    def take_warnings_as_said(self, rules: Rules, at: datetime) -> None:
        """What is near now was told by an earlier process."""
        for standing in self.everything(rules, at):
            self._sum(standing.account).warned = standing.share >= rules.spending.warn_at

    def find(self, rules: Rules, account: Account, at: datetime) -> AccountBalance | None:
        """How the limit of that account stands; None when none holds for it."""
        found = self._sums.get(account)
        own = found is None or found.pays_itself or not found.holds_others
        names: Names = {account.scope: (account.name,) if own else ("", account.name)}
        for applied in rules.applying(names, self.periods(at)):
            if applied.account == account:
                return self._standing(applied)
        return None

    def standings(self, rules: Rules, names: Names, at: datetime) -> Sequence[AccountBalance]:
        """The limits that a call by these names would come under now."""
        return [self._standing(applied) for applied in rules.applying(names, self.periods(at))]

    def everything(self, rules: Rules, at: datetime) -> Sequence[AccountBalance]:
        """Every account of which a limit holds and something was spent, the fullest first; the gateway's always."""
        gateway = [Account("gateway", "", period) for period in self.periods(at).values()]
        known = dict.fromkeys((*gateway, *self._sums))
        found = [standing for account in known if (standing := self.find(rules, account, at)) is not None]
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
        limit, found = applied.limit, self._sum(applied.account)
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

    def _standing(self, applied: Applied) -> AccountBalance:
        limit, found = applied.limit, self._sums.get(applied.account) or Sum()
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

    def _sum(self, account: Account) -> Sum:
        found = self._sums.get(account)
        if found is None:
            found = self._sums[account] = Sum()
        return found
