"""The ledger: every attempt at a call of a model is set aside for before it is made and entered after, whoever asks.

It never waits for the disk on the way of a call: rows are written with the turn's own commit, or a little later by
`run`; until then a journal beside the database keeps them (docs/decisions/0009).
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.errors import Permanent
from agent.core.events import BudgetReached, CallBilled, EventBus
from agent.core.ids import ConversationId
from agent.core.ids_source import NewId
from agent.ledger import rows
from agent.ledger.accounts import Accounts, Hold, Standing
from agent.ledger.bills import Entry
from agent.ledger.journal import Journal
from agent.ledger.rows import Approval
from agent.ledger.spending import Account, Applied, Names, OverBudget, Rules, Scope, Span, Spending, Unpriced
from agent.providers.metering import Bill, Spent
from agent.providers.provider import Prices, Provider, Request
from agent.storage.database import Database
from agent.storage.errors import StorageTrouble
from agent.storage.moments import to_us

OUTPUT_EXPECTED = 4096  # tokens set aside for an answer that nothing bounds
WRITTEN_WITHIN_S = 5.0  # what no turn's commit has taken along by then is written by itself
MOST_AT_ONCE = 500

Places = Callable[[ConversationId], Sequence[str]]

_log = logging.getLogger("tieline.ledger")


class AlreadyDecided(Permanent):
    """Somebody else approved more in the meantime."""


class PeriodOver(Permanent):
    """The day or month that more was asked for has ended: a new budget has begun."""


class NoLimit(Permanent):
    """No limit holds for what more was asked for."""


@dataclass(slots=True)
class _Ended:
    """A call that is not known to be in the database, and since when (monotonic seconds)."""

    entry: Entry
    since: float


class Ledger:
    """One for the process; implements `agent.providers.metering.Meter`.

    `places` names a conversation and what holds it, its own name first.
    """

    def __init__(
        self,
        *,
        database: Database,
        clock: Clock,
        new_id: NewId,
        bus: EventBus,
        journal: Path,
        spending: Callable[[], Spending] = Spending,
        places: Places = lambda conversation: (conversation,),
    ) -> None:
        self._database = database
        self._clock = clock
        self._new_id = new_id
        self._bus = bus
        self._journal = Journal(journal)
        self._spending = spending
        self._places = places
        self._rules_now = Rules.of(spending())
        self._accounts = Accounts()
        self._open: dict[str, Entry] = {}
        self._ended: dict[str, _Ended] = {}
        self._anything = anyio.Event()

    # -- its life

    async def open(self) -> None:
        """Take up what earlier processes spent, and what a killed one left in its journal. Before any call."""
        left, now = self._journal.recover(), self._clock.now()
        day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        periods = self._accounts.periods(now)

        def work(conn: Connection) -> tuple[Sequence[rows.SpentBefore], Sequence[Approval]]:
            rows.add(conn, left)
            spent = rows.spent(conn, month=to_us(day.replace(day=1)), day=to_us(day))
            return spent, rows.approvals(conn, periods.values())

        spent, approvals = await (self._database.write if left else self._database.read)(work)
        if left:
            _log.info("%d calls of a process that was cut off are in the ledger now", len(left))
            self._journal.shrink((), ())
        for one in spent:
            spans: Mapping[Span, str] = periods if one.today else {"month": periods["month"]}
            names = self._names(one.bill, one.provider)
            self._accounts.spent(names, spans, usd=one.usd, tokens=one.tokens, unpriced=one.unpriced)
        for approval in approvals:
            self._accounts.approve(approval.account, usd=approval.usd, tokens=approval.tokens)
        self._accounts.take_warnings_as_said(self._rules(), now)

    async def run(self) -> None:
        """Write what no turn has written, until cancelled."""
        while True:
            await self._anything.wait()
            await self._clock.sleep(WRITTEN_WITHIN_S)
            try:
                await self.flush(older_than_s=WRITTEN_WITHIN_S)
            except StorageTrouble as error:
                _log.warning("calls are entered later, the journal keeps them: %s", error)

    async def aclose(self) -> None:
        """Write all that has ended. May be called twice."""
        try:
            await self.flush()
        except StorageTrouble as error:
            _log.warning("calls are entered at the next start, the journal keeps them: %s", error)
        if not self._open and not self._ended:
            self._journal.shrink((), ())
        self._journal.aclose()

    # -- the way of a call

    async def reserve(self, bill: Bill, provider: Provider, request: Request, input_tokens: int) -> "Reserved":
        """As the meter promises. Raises OverBudget or Unpriced."""
        output = request.max_tokens or provider.max_tokens or OUTPUT_EXPECTED
        return self.set_aside(
            bill, provider.name, provider.model, tokens=input_tokens + output, prompt=input_tokens,
            usd=_most(input_tokens, output, provider.prices), least_usd=_most(input_tokens, 0, provider.prices),
        )  # fmt: skip

    def set_aside(
        self, bill: Bill, provider: str, model: str, *, tokens: int, prompt: int, usd: float | None,
        least_usd: float | None,
    ) -> "Reserved":  # fmt: skip
        """Set aside what a call may take: at most `tokens` and `usd` (None: price unknown).

        `prompt` and `least_usd` are what it is entered with if nothing more is ever heard of it. Raises OverBudget or
        Unpriced, and then nothing may be called.
        """
        now, rules = self._clock.now(), self._rules()
        names = self._names(bill, provider)
        try:
            hold = self._accounts.hold(rules, names, now, usd=usd, tokens=tokens, provider=provider, model=model)
        except (OverBudget, Unpriced) as error:
            self._tell(bill, error.applied, hard=True)
            raise
        entry = Entry(
            call=self._new_id(), at=to_us(now), bill=bill, provider=provider, model=model, prompt=prompt,
            cost_usd=least_usd, estimated=True,
        )  # fmt: skip
        self._open[entry.call] = entry
        self._journal.open(entry)
        return Reserved(entry, hold, self)

    def enter(self, entry: Entry, hold: Hold) -> None:
        """The call has ended and came to this."""
        del self._open[entry.call]
        self._ended[entry.call] = _Ended(entry, self._clock.monotonic())
        self._anything.set()
        self._journal.end(entry)
        self._accounts.settle(hold, usd=entry.cost_usd, tokens=entry.tokens)
        self._bus.publish(
            CallBilled(
                conversation=entry.bill.conversation,
                run=entry.bill.run,
                purpose=entry.bill.purpose,
                provider=entry.provider,
                model=entry.model,
                prompt=entry.prompt,
                output=entry.output,
                cache_creation=entry.cache_creation,
                cache_read=entry.cache_read,
                cost_usd=entry.cost_usd,
                estimated=entry.estimated,
            )
        )
        for standing in self._accounts.newly_near(self._rules(), hold):
            self._tell(entry.bill, Applied(limit=standing.limit, account=standing.account), hard=False)

    def drop(self, call: str, hold: Hold) -> None:
        """The call took nothing."""
        del self._open[call]
        self._journal.void(call)
        self._accounts.release(hold)

    # -- onto the disk

    def unwritten(self, inbox_id: int | None) -> tuple[Entry, ...]:
        """The calls made for that work (None: for no message) which its commit should take along, by `rows.add`."""
        return tuple(ended.entry for ended in self._ended.values() if ended.entry.bill.inbox_id == inbox_id)

    def written(self, entries: Iterable[Entry]) -> None:
        """They are in the database."""
        for entry in entries:
            self._ended.pop(entry.call, None)
        if not self._ended and self._anything.is_set():  # one that is waited for stays
            self._anything = anyio.Event()
        if self._journal.is_long:
            self._journal.shrink(self._open.values(), (ended.entry for ended in self._ended.values()))

    async def flush(self, *, older_than_s: float = 0.0) -> None:
        """Write what ended that long ago. Raises StorageTrouble."""
        before = self._clock.monotonic() - older_than_s
        while ripe := [ended.entry for ended in self._ended.values() if ended.since <= before][:MOST_AT_ONCE]:
            await self._database.write(lambda conn, ripe=ripe: rows.add(conn, ripe))  # type: ignore[misc]
            self.written(ripe)

    # -- budgets

    def standings(self, bill: Bill, provider: str) -> Sequence[Standing]:
        """The limits that such a call would come under now."""
        return self._accounts.standings(self._rules(), self._names(bill, provider), self._clock.now())

    def all_standings(self) -> Sequence[Standing]:
        """Every limit under which something was spent in its present day or month, the fullest first."""
        return self._accounts.everything(self._rules(), self._clock.now())

    async def approve(
        self, account: Account, *, by: str, usd: float | None = None, after: int | None = None
    ) -> Standing:
        """Let the account spend more in its period: `usd`, else the share of its limit that `[spending] more` says.

        `after` is how many approvals the approver knew of. Raises AlreadyDecided, PeriodOver or NoLimit.
        """
        now, rules = self._clock.now(), self._rules()
        if account.period not in self._accounts.periods(now).values():
            raise PeriodOver(f"{account.period} is over")
        standing = self._accounts.find(rules, account, now)
        if standing is None:
            raise NoLimit(f"no limit holds for {account.scope} {account.name}")
        if after is not None and after != standing.approvals:
            raise AlreadyDecided(f"{standing.approvals - after} approvals came in between")
        limit, share = standing.limit, rules.spending.more
        approval = Approval(
            account=account,
            number=standing.approvals + 1,
            usd=usd if usd is not None else (limit.usd or 0.0) * share,
            tokens=int((limit.tokens or 0) * (share if usd is None or not limit.usd else usd / limit.usd)),
            by=by,
            at=to_us(now),
        )
        if not await self._database.write(lambda conn: rows.approve(conn, approval)):
            raise AlreadyDecided("somebody else was quicker")
        self._accounts.approve(account, usd=approval.usd, tokens=approval.tokens)
        found = self._accounts.find(rules, account, now)
        assert found is not None
        return found

    # -- inside

    def _rules(self) -> Rules:
        spending = self._spending()
        if spending is not self._rules_now.spending:
            self._rules_now = Rules.of(spending)
        return self._rules_now

    def _names(self, bill: Bill, provider: str) -> Names:
        names: dict[Scope, Sequence[str]] = {
            "gateway": ("",),
            "provider": (provider,),
            "channel": self._places(bill.conversation),
        }
        for scope, name in (("person", bill.person), ("job", bill.job), ("goal", bill.goal)):
            if name:
                names[scope] = (name,)  # type: ignore[index]
        return names

    def _tell(self, bill: Bill, applied: Applied, *, hard: bool) -> None:
        standing = self._accounts.find(self._rules(), applied.account, self._clock.now())
        if standing is None:
            return
        self._bus.publish(
            BudgetReached(
                conversation=bill.conversation,
                run=bill.run,
                scope=applied.account.scope,
                payer=applied.account.name,
                period=applied.account.period,
                hard=hard,
                approvals=standing.approvals,
                usd=standing.usd,
                tokens=standing.tokens,
                spent_usd=standing.spent_usd,
                spent_tokens=standing.spent_tokens,
            )
        )


class Reserved:
    """What was set aside for one attempt; settled once, however it ends."""

    def __init__(self, entry: Entry, hold: Hold, ledger: Ledger) -> None:
        self._entry = entry
        self._hold = hold
        self._ledger = ledger

    async def settle(self, spent: Spent) -> None:
        """As the meter promises."""
        if spent.is_nothing:
            self.release()
            return
        usage = spent.usage
        self.enter(
            replace(
                self._entry,
                model=spent.model,
                prompt=usage.prompt,
                output=usage.output,
                cache_creation=usage.cache_creation,
                cache_read=usage.cache_read,
                cost_usd=spent.cost_usd,
                estimated=spent.estimated,
            )
        )

    @property
    def entry(self) -> Entry:
        """What the call is entered with if nothing more is heard of it."""
        return self._entry

    def enter(self, entry: Entry) -> None:
        """It came to this."""
        self._ledger.enter(entry, self._hold)

    def release(self) -> None:
        """It took nothing."""
        self._ledger.drop(self._entry.call, self._hold)


def _most(prompt: int, output: int, prices: Prices | None) -> float | None:
    """USD of a call whose whole prompt is paid at the dearest tier that it may fall into; None: price unknown."""
    if prices is None:
        return None
    return (prompt * max(prices.input, prices.cache_write) + output * prices.output) / 1_000_000
