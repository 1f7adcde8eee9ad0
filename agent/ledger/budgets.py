"""The limits of `[spending]` at work: what a call may take, who is told that a budget ends, and who raises one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.errors import Permanent
from agent.core.events import EventBus
from agent.core.ids import ConversationId
from agent.core.provider_events import BudgetReached
from agent.ledger import rows
from agent.ledger.accounts import AccountBalance, Accounts, Hold
from agent.ledger.attributions import Entry
from agent.ledger.rows import Approval
from agent.ledger.spending import Account, Names, OverBudget, Rules, Scope, Span, Spending
from agent.ledger.spending_caps import SpendingCaps
from agent.providers.metering import CostAttribution
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp

Places = Callable[[ConversationId], Sequence[str]]


class AlreadyDecided(Permanent):
    """Somebody else approved more in the meantime."""


class PeriodOver(Permanent):
    """The day or month that more was asked for has ended: a new budget has begun."""


class NotInMoney(Permanent):
    """The limit counts tokens; an amount of money raises nothing there."""


class NoLimit(Permanent):
    """No limit holds for what more was asked for."""


class Budgets:
    """One for the process. `places` names a conversation and what holds it, its own name first."""

    def __init__(
        self, *, database: Database, clock: Clock, bus: EventBus, spending: Callable[[], Spending], places: Places
    ) -> None:
        self._database = database
        self._clock = clock
        self._bus = bus
        self._spending = spending
        self._places = places
        self._rules_now = Rules.of(spending())
        self._accounts = Accounts()
        self.spending_caps = SpendingCaps()

    async def load(self) -> None:
        """Take up what earlier processes spent and approved. Before any call."""
        now = self._clock.now()
        day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        periods = self._accounts.periods(now)

        def read(conn: Connection) -> tuple[Sequence[rows.SpentBefore], Sequence[Approval]]:
            spent = rows.spent(conn, month=to_timestamp(day.replace(day=1)), day=to_timestamp(day))
            return spent, rows.approvals(conn, periods.values())

        spent, approvals = await self._database.read(read)
        for one in spent:
            spans: Mapping[Span, str] = periods if one.today else {"month": periods["month"]}
            names = self._names(one.attribution, one.provider)
            self._accounts.spent(names, spans, usd=one.usd, tokens=one.tokens, unpriced=one.unpriced)
        for approval in approvals:
            self._accounts.approve(approval.account, usd=approval.usd, tokens=approval.tokens)
        self._accounts.take_warnings_as_said(self._rules(), now)

    def hold(self, attribution: CostAttribution, provider: str, model: str, *, usd: float | None, tokens: int) -> Hold:
        """Set aside what a call may take. Raises OverBudget, which the gateway is told, Unpriced or CapReached."""
        names, now, spending_cap = (
            self._names(attribution, provider),
            self._clock.now(),
            self.spending_caps.find(attribution.goal),
        )
        if spending_cap is not None and attribution.unattended:
            spending_cap.check(usd=usd, tokens=tokens)
        try:
            hold = self._accounts.hold(
                self._rules(), names, now, usd=usd, tokens=tokens, provider=provider, model=model
            )
        except OverBudget as error:
            standing = self._accounts.find(self._rules(), error.applied.account, now)
            if standing is not None:
                self._tell(attribution, standing, hard=True)
            raise
        if spending_cap is None:
            return hold
        spending_cap.sum.held_usd += hold.usd
        spending_cap.sum.held_tokens += tokens
        return replace(hold, sums=(*hold.sums, spending_cap.sum))

    def settle(self, hold: Hold, entry: Entry) -> None:
        """The call came to this; the gateway is told of what comes near."""
        self._accounts.settle(hold, usd=entry.cost_usd, tokens=entry.tokens)
        for standing in self._accounts.newly_near(self._rules(), hold):
            self._tell(entry.attribution, standing, hard=False)

    def release(self, hold: Hold) -> None:
        """The call took nothing."""
        self._accounts.release(hold)

    def standings(self, attribution: CostAttribution, provider: str) -> Sequence[AccountBalance]:
        """The limits that such a call would come under now."""
        return self._accounts.standings(self._rules(), self._names(attribution, provider), self._clock.now())

    def all_standings(self) -> Sequence[AccountBalance]:
        """Every limit under which something was spent in its present day or month, the fullest first."""
        return self._accounts.everything(self._rules(), self._clock.now())

    async def approve(
        self, account: Account, *, by: str, usd: float | None = None, after: int | None = None
    ) -> AccountBalance:
        """Let the account spend more in its period: `usd`, else the share of its limit that `[spending] more` says.

        That much more from where it stands: what was spent beyond the limit (which may have been lowered, or set later)
        is allowed with it, else the approval would change nothing. `after` is how many approvals the approver knew of.
        Raises AlreadyDecided, PeriodOver, NotInMoney or NoLimit.
        """
        now, rules = self._clock.now(), self._rules()
        if account.period not in self._accounts.periods(now).values():
            raise PeriodOver(f"{account.period} is over")
        standing = self._accounts.find(rules, account, now)
        if standing is None:
            raise NoLimit(f"no limit holds for {account.scope} {account.name}")
        if after is not None and after != standing.approvals:
            raise AlreadyDecided(f"{standing.approvals - after} approvals came in between")
        if usd is not None and standing.usd is None:
            raise NotInMoney(f"the limit of {account.scope} {account.name} is in tokens")
        limit, share = standing.limit, rules.spending.more
        over_usd = max(0.0, standing.spent_usd - standing.usd) if standing.usd is not None else 0.0
        over_tokens = max(0, standing.spent_tokens - standing.tokens) if standing.tokens is not None else 0
        approval = Approval(
            account=account,
            number=standing.approvals + 1,
            usd=over_usd + (usd if usd is not None else (limit.usd or 0.0) * share),
            tokens=over_tokens
            + int((limit.tokens or 0) * (share if usd is None or not limit.usd else usd / limit.usd)),
            by=by,
            at=to_timestamp(now),
        )
        if not await self._database.write(lambda conn: rows.approve(conn, approval)):
            raise AlreadyDecided("somebody else was quicker")
        self._accounts.approve(account, usd=approval.usd, tokens=approval.tokens)
        found = self._accounts.find(rules, account, now)
        assert found is not None
        return found

    def _rules(self) -> Rules:
        spending = self._spending()
        if spending is not self._rules_now.spending:
            self._rules_now = Rules.of(spending)
        return self._rules_now

    def _names(self, attribution: CostAttribution, provider: str) -> Names:
        names: dict[Scope, Sequence[str]] = {
            "gateway": ("",),
            "provider": (provider,),
            "channel": self._places(attribution.conversation),
        }
        for scope, name in (("person", attribution.person), ("job", attribution.job), ("goal", attribution.goal)):
            if name:
                names[scope] = (name,)  # type: ignore[index]
        return names

    def _tell(self, attribution: CostAttribution, standing: AccountBalance, *, hard: bool) -> None:
        account = standing.account
        self._bus.publish(
            BudgetReached(
                conversation=attribution.conversation,
                run=attribution.run,
                scope=account.scope,
                payer=account.name,
                period=account.period,
                hard=hard,
                approvals=standing.approvals,
                usd=standing.usd,
                tokens=standing.tokens,
                spent_usd=standing.spent_usd,
                spent_tokens=standing.spent_tokens,
            )
        )
