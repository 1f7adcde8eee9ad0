"""The ledger: holds the cost of every model call before it is made, enters it afterwards, and keeps the budgets.

On SQLite it never waits for the disk on the way of a call: rows are written with the turn's own commit, or a little
later by `run`; until then a journal beside the database keeps them (docs/decisions/0009). On PostgreSQL other processes
spend from the same budgets, and each call is set aside there before it is made (`agent.ledger.holds`).
"""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

import anyio
from pydantic import ValidationError
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from agent.core.clock import Clock
from agent.core.errors import AgentError, Permanent, ProviderBusy
from agent.core.events import BudgetReached, CallBilled, EventBus
from agent.core.ids import ConversationId, CostAttribution, NewId
from agent.ledger import holds, rows, sums
from agent.ledger.holds import ENTRY, Others
from agent.ledger.rows import Approval
from agent.ledger.spending import (
    Account,
    AccountBalance,
    Accounts,
    AccountsOf,
    CapReached,
    Entry,
    Hold,
    Names,
    OverBudget,
    PlaceLimits,
    Rules,
    Scope,
    Span,
    Spending,
    SpendingCaps,
    Unpriced,
    no_limits,
    only,
)
from agent.providers.provider import THOUGHT, Prices, Provider, Request
from agent.providers.usage import Spent
from agent.storage.database import Database
from agent.storage.errors import StorageTrouble
from agent.storage.timestamps import to_timestamp

# Budgets of `[spending]`: what a call may take, whom to tell that one ends, and who may raise it.

MOST_USD = 1_000_000  # that one approval adds

Places = Callable[[ConversationId], Sequence[str]]


class AlreadyDecided(Permanent):
    """Somebody else approved more in the meantime."""


class PeriodOver(Permanent):
    """The day or month that more was asked for has ended: a new budget has begun."""


class NotInMoney(Permanent):
    """The limit counts tokens; an amount of money raises nothing there."""


class NoAmount(Permanent):
    """More than nothing and at most MOST_USD is allowed at once."""


class NoLimit(Permanent):
    """No limit holds for what more was asked for."""


class Budgets:
    """One for the process. `places` names a conversation and what holds it, its own name first.

    `accounts_of` gives all accounts of a person, the given one first. `process` names this one among those that share
    a PostgreSQL.
    """

    def __init__(
        self,
        *,
        database: Database,
        clock: Clock,
        bus: EventBus,
        process: str,
        spending: Callable[[], Spending],
        places: Places,
        limits_of: PlaceLimits = no_limits,
        accounts_of: AccountsOf = only,
    ) -> None:
        self._database = database
        self._clock = clock
        self._bus = bus
        self._spending = spending
        self._places = places
        self._limits_of = limits_of
        self._accounts_of = accounts_of
        self._rules_now = Rules.of(spending(), limits_of, accounts_of)
        self._accounts = Accounts()
        self._renamed: dict[str, str] = {}
        self._others = Others(self._accounts, self._names, process) if database.dialect == "postgresql" else None
        self._newest: CostAttribution | None = None  # of the call that ended last
        self.spending_caps = SpendingCaps()

    async def load(self) -> None:
        """Take up what earlier processes spent and approved. Before any call."""
        now = self._clock.now()
        day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        periods = self._accounts.periods(now)

        def read(conn: Connection) -> tuple[Sequence[rows.SpentBefore], Sequence[Approval]]:
            spent = rows.spent(conn, month=to_timestamp(day.replace(day=1)), day=to_timestamp(day))
            approvals = rows.approvals(conn, periods.values())
            if self._others is not None:
                self._others.begin(conn, self._clock.monotonic(), approvals)
            return spent, approvals

        spent, approvals = await self._database.read(read)
        for one in spent:
            spans: Mapping[Span, str] = periods if one.today else {"month": periods["month"]}
            names = self._names(one.attribution, one.provider)
            self._accounts.spent(names, spans, usd=one.usd, tokens=one.tokens, unpriced=one.unpriced)
        for approval in approvals:
            self._accounts.approve(self._rules(), approval.account, usd=approval.usd, tokens=approval.tokens)
        if self._others is None:
            self._accounts.take_warnings_as_said(self._rules(), now)
        await self.catch_up()

    async def catch_up(self) -> None:
        """Count what other processes have spent, set aside and approved by now, and tell of what comes near.

        Without others it does nothing. Raises StorageTrouble.
        """
        if self._others is None:
            return
        await self._database.read(self._read_others)
        now = self._clock.now()
        for standing in self._accounts.near(self._rules(), now):
            if self._newest is None:  # nothing was spent here: whoever did tells
                return
            warn = partial(holds.warn, account=standing.account, approvals=standing.approvals, at=to_timestamp(now))
            if await self._database.write(warn):
                self._tell(self._newest, standing, hard=False)
            self._accounts.take_as_said(self._rules(), standing.account)

    def _read_others(self, conn: Connection) -> None:
        assert self._others is not None
        periods = self._accounts.periods(self._clock.now())
        for approval in self._others.read(conn, self._clock.monotonic(), periods):
            self._accounts.approve(self._rules(), approval.account, usd=approval.usd, tokens=approval.tokens)

    async def hold_together(
        self, entry: Entry, *, usd: float | None, tokens: int, ended: Sequence[Entry] = (), void: Sequence[str] = ()
    ) -> Hold:
        """`hold` among processes that share the database, committed before it returns; no two use the same rest.

        `entry` is what the call comes to if nothing more is heard of it. The same transaction enters calls that have
        `ended`, and frees what was set aside for those that took nothing (`void`). Raises what `hold` does, and
        StorageTrouble.
        """
        others, attribution = self._others, entry.attribution
        assert others is not None
        hold: Hold | None = None

        def work(conn: Connection) -> Hold:
            nonlocal hold
            if hold is not None:  # the transaction is tried again
                self.release(hold)
                hold = None
            limited = self._accounts.limited(self._rules(), self._names(attribution, entry.provider), self._clock.now())
            if limited:
                holds.lock(conn, limited)
                self._read_others(conn)
            hold = self.hold(attribution, entry.provider, entry.model, usd=usd, tokens=tokens)
            holds.add(conn, others.process, entry, usd=usd or 0.0, tokens=tokens)
            rows.add(conn, ended)
            if void:
                rows.settle(conn, void)
            return hold

        def forget() -> None:
            others.is_none(entry.call)
            if hold is not None:
                self.release(hold)

        others.is_own(entry.call)
        with ExitStack() as undone:
            undone.callback(forget)
            held = await self._database.write(work)
            undone.pop_all()
        return held

    async def keep(self) -> None:
        """Say that this process lives, and enter calls of those that have died. Raises StorageTrouble."""
        assert self._others is not None
        await self._database.write(partial(holds.renew, process=self._others.process))
        while left := await self._database.write(holds.take_over):
            _log.info("%d calls of a process that has died are in the ledger", left)

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
        if self._others is not None:  # `catch_up` tells, so that of several processes one does
            self._newest = entry.attribution
            return
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

    def together(self, account: Account) -> Sequence[Account]:
        """The accounts that more for this one is more for: all of the person; it first."""
        return self._rules().together(account)

    async def approve(
        self, account: Account, *, by: str, usd: float | None = None, after: int | None = None
    ) -> AccountBalance:
        """Let the account spend more in its period: `usd`, else the share of its limit that `[spending] more` says.

        That much more from where it stands: what was spent beyond the limit (which may have been lowered, or set later)
        is allowed with it, else the approval would change nothing. `after` is how many approvals the approver knew of.
        Raises AlreadyDecided, PeriodOver, NotInMoney, NoAmount or NoLimit.
        """
        if usd is not None and not 0 < usd <= MOST_USD:  # NaN neither
            raise NoAmount(f"{usd:g} USD is no amount; it must be above 0 and at most {MOST_USD:,}")
        await self.catch_up()
        account = self._of_now(account)
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
            number=self._accounts.next_approval(account),
            usd=over_usd + (usd if usd is not None else (limit.usd or 0.0) * share),
            tokens=over_tokens
            + int((limit.tokens or 0) * (share if usd is None or not limit.usd else usd / limit.usd)),
            by=by,
            at=to_timestamp(now),
        )
        if not await self._database.write(lambda conn: rows.approve(conn, approval)):
            raise AlreadyDecided("somebody else was quicker")
        if self._others is not None:
            self._others.know(approval)
        self._accounts.approve(rules, account, usd=approval.usd, tokens=approval.tokens)
        found = self._accounts.find(rules, account, now)
        assert found is not None
        return found

    def rename(self, old: str, new: str) -> None:
        """Take up that a place has a new name; what is still spent or approved under the old one counts there."""
        self._renamed = {former: new if name == old else name for former, name in self._renamed.items()} | {old: new}
        self._renamed.pop(new, None)
        self._accounts.rename(old, new)

    def _of_now(self, account: Account) -> Account:
        """The account under the name that its place has now: a button may be older."""
        return (
            account._replace(name=self._renamed.get(account.name, account.name))
            if account.scope == "channel"
            else account
        )

    def _rules(self) -> Rules:
        spending = self._spending()
        if spending is not self._rules_now.spending:
            self._rules_now = Rules.of(spending, self._limits_of, self._accounts_of)
        return self._rules_now

    def _names(self, attribution: CostAttribution, provider: str) -> Names:
        conversation = attribution.conversation
        names: dict[Scope, Sequence[str]] = {
            "gateway": ("",),
            "provider": (provider,),
            "channel": self._places(ConversationId(self._renamed.get(conversation, conversation))),
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


# Journal: a file that outlives a killed process. Each call is noted there before it is made and when it has ended.

OPENED, ENDED, VOID = b"+", b"=", b"-"
SHRINK_AT = 256 * 1024  # bytes; what is in the database by then is left out of a new file

_log = logging.getLogger("tieline.ledger")


class Journal:
    """One file of one process. Nothing here raises for the disk's sake: a call matters more than its trace."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._size = 0
        self._failed = False

    def recover(self) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
        """Calls that an earlier process left: those that ended, and those it never heard the end of, as estimates.

        Then the ids of those that took nothing.
        """
        try:
            lines = self._path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return (), ()
        except OSError as error:
            _log.warning("the ledger's journal cannot be read, calls cut off by a crash are not counted: %s", error)
            return (), ()
        found: dict[str, Entry] = {}
        void: list[str] = []
        for line in lines:
            kind, body = line[:1], line[1:]
            if kind == VOID:
                void.append(body.decode("utf-8", "replace"))
                found.pop(void[-1], None)
            elif kind in (OPENED, ENDED):
                try:
                    entry = ENTRY.validate_json(body)
                except ValidationError:
                    _log.warning("a broken line in the ledger's journal is left out")  # cut off by the crash itself
                    continue
                found[entry.call] = entry
        return tuple(found.values()), tuple(void)

    def open(self, entry: Entry) -> None:
        """The call is about to be made; `entry` is what it would come to if nothing more were heard of it."""
        self._write(OPENED + ENTRY.dump_json(entry) + b"\n")

    def end(self, entry: Entry) -> None:
        """The call came to this."""
        self._write(ENDED + ENTRY.dump_json(entry) + b"\n")

    def void(self, call: str) -> None:
        """The call took nothing."""
        self._write(VOID + call.encode() + b"\n")

    @property
    def is_long(self) -> bool:
        return self._size > SHRINK_AT

    def shrink(self, opened: Iterable[Entry], ended: Iterable[Entry]) -> None:
        """Begin anew with what is not in the database yet."""
        kept = [(OPENED, entry) for entry in opened] + [(ENDED, entry) for entry in ended]
        body = b"".join(kind + ENTRY.dump_json(entry) + b"\n" for kind, entry in kept)
        fresh = self._path.with_suffix(".new")
        try:
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
            os.write(descriptor, body)
            os.replace(fresh, self._path)
        except OSError as error:
            self._fail(error)
            return
        self.aclose()
        self._file, self._size = descriptor, len(body)

    def aclose(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _write(self, line: bytes) -> None:
        try:
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                self._size = os.fstat(self._file).st_size
            os.write(self._file, line)
        except OSError as error:
            self._fail(error)
            return
        self._size += len(line)
        self._failed = False

    def _fail(self, error: OSError) -> None:
        if not self._failed:
            self._failed = True
            _log.warning("the ledger's journal cannot be written; a kill now may lose a call's cost: %s", error)


OUTPUT_EXPECTED = 4096  # tokens set aside for an answer that nothing bounds
WRITTEN_WITHIN_S = 5.0  # what no turn's commit has taken along by then is written by itself
MOST_AT_ONCE = 500
# A transaction that takes longer is given up: whatever has a lower number than a call that was there by then is there.
SETTLED_AFTER_S = 90.0
SUM_PAUSE_S = 0.1  # between two steps, so that no turn waits


@dataclass(slots=True)
class _Ended:
    """A call that is not known to be in the database, and since when (monotonic seconds)."""

    entry: Entry
    since: float


class Ledger:
    """One for the process; implements `agent.providers.usage.Meter`.

    `places` names a conversation and what holds it, its own name first. `limits_of` gives limits of one of these.
    `accounts_of` gives all accounts of a person, the given one first.
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
        limits_of: PlaceLimits = no_limits,
        accounts_of: AccountsOf = only,
    ) -> None:
        self._database = database
        self._clock = clock
        self._new_id = new_id
        self._bus = bus
        self._is_shared = database.dialect == "postgresql"
        self._journal = Journal(journal)
        self._void: list[str] = []  # calls that took nothing and are still set aside in the database
        self.budgets = Budgets(
            database=database,
            clock=clock,
            bus=bus,
            process=new_id(),
            spending=spending,
            places=places,
            limits_of=limits_of,
            accounts_of=accounts_of,
        )
        self._open: dict[str, Entry] = {}
        self._ended: dict[int | None, dict[str, _Ended]] = {}  # by the work they were made for, then by call
        self._anything = anyio.Event()

    # -- its life

    async def open(self) -> None:
        """Take up what earlier processes spent, and what a killed one left in its journal. Before any call."""
        left, void = self._journal.recover()
        if left:
            await self._add(left)
            _log.info("%d calls that the last process left in its journal are in the ledger", len(left))
        if self._is_shared:
            if void:
                await self._database.write(lambda conn: rows.settle(conn, void))
            await self.budgets.keep()
        if left:
            self._journal.shrink((), ())
        await self.budgets.load()

    async def run(self) -> None:
        """Write what no turn has written, until cancelled."""
        async with anyio.create_task_group() as tasks:
            if self._is_shared:
                tasks.start_soon(self._keep)
            while True:
                await self._anything.wait()
                await self._clock.sleep(WRITTEN_WITHIN_S)
                try:
                    await self.flush(older_than_s=WRITTEN_WITHIN_S)
                except StorageTrouble as error:
                    _log.warning("calls are entered later, the journal keeps them: %s", error)

    async def _keep(self) -> None:
        """Say to other processes that this one lives, and go on for those that do not."""
        while True:
            try:
                await self.budgets.keep()
                await self.budgets.catch_up()
            except StorageTrouble as error:
                _log.warning("other processes cannot be told that this one lives: %s", error)
            await self._clock.sleep(holds.RENEW_EVERY_S)

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

    async def reserve(
        self, attribution: CostAttribution, provider: Provider, request: Request, input_tokens: int
    ) -> "Reserved":
        """Implements `Meter.reserve`. Raises OverBudget or Unpriced."""
        output = request.max_tokens or provider.max_tokens or OUTPUT_EXPECTED
        if request.max_tokens is None and request.reasoning is not None:
            output += THOUGHT[request.reasoning]
        return await self.hold_for(
            attribution, provider.name, provider.model, tokens=input_tokens + output, prompt=input_tokens,
            usd=_most(input_tokens, output, provider.prices), least_usd=_most(input_tokens, 0, provider.prices),
        )  # fmt: skip

    async def hold_for(
        self, attribution: CostAttribution, provider: str, model: str, *, tokens: int, prompt: int, usd: float | None,
        least_usd: float | None,
    ) -> "Reserved":  # fmt: skip
        """Set aside what a call may take: at most `tokens` and `usd` (None: price unknown).

        `prompt` and `least_usd` are what it is entered with if nothing more is ever heard of it. Raises OverBudget,
        Unpriced or StorageTrouble, and then nothing may be called.
        """
        entry = Entry(
            call=self._new_id(), at=to_timestamp(self._clock.now()), attribution=attribution, provider=provider,
            model=model,
            prompt=prompt, cost_usd=least_usd, estimated=True,
        )  # fmt: skip
        if self._is_shared:
            hold = await self._held_together(entry, usd=usd, tokens=tokens)
        else:
            hold = self.budgets.hold(attribution, provider, model, usd=usd, tokens=tokens)
        self._open[entry.call] = entry
        self._journal.open(entry)
        return Reserved(entry, hold, self, self._clock.monotonic())

    async def _held_together(self, entry: Entry, *, usd: float | None, tokens: int) -> Hold:
        """Set it aside; the same transaction enters what ended of the same work: a kill leaves it exact."""
        ended = self.unwritten(entry.attribution.inbox_id)
        void, self._void = self._void, []
        with ExitStack() as unknown:
            unknown.callback(self._void_later, [*void, entry.call])  # it may be set aside: nobody knows of the commit
            try:
                hold = await self.budgets.hold_together(entry, usd=usd, tokens=tokens, ended=ended, void=void)
            except (OverBudget, Unpriced, CapReached):
                unknown.pop_all()
                self._void += void
                raise
            unknown.pop_all()
        self.written(ended)
        return hold

    def _void_later(self, calls: Sequence[str]) -> None:
        self._void += calls
        self._anything.set()

    def enter(self, entry: Entry, hold: Hold, began: float) -> None:
        """The call, which began at that moment of the stopwatch, has ended and came to this."""
        del self._open[entry.call]
        of_work = self._ended.setdefault(entry.attribution.inbox_id, {})
        now = self._clock.monotonic()
        of_work[entry.call] = _Ended(entry, now)
        self._anything.set()
        self._journal.end(entry)
        self.budgets.settle(hold, entry)
        self._bus.publish(
            CallBilled(
                conversation=entry.attribution.conversation,
                run=entry.attribution.run,
                purpose=entry.attribution.purpose,
                provider=entry.provider,
                model=entry.model,
                prompt=entry.prompt,
                output=entry.output,
                cache_creation=entry.cache_creation,
                cache_read=entry.cache_read,
                cost_usd=entry.cost_usd,
                estimated=entry.estimated,
                elapsed_ms=round((now - began) * 1000),
            )
        )

    def drop(self, call: str, hold: Hold) -> None:
        """The call took nothing."""
        del self._open[call]
        self._journal.void(call)
        self.budgets.release(hold)
        if self._is_shared:
            self._void.append(call)
            self._anything.set()

    # -- onto the disk

    def unwritten(self, inbox_id: int | None) -> tuple[Entry, ...]:
        """The calls made for that work (None: for no message) which its commit should take along, by `rows.add`."""
        return tuple(ended.entry for ended in self._ended.get(inbox_id, {}).values())

    def written(self, entries: Iterable[Entry]) -> None:
        """They are in the database."""
        for entry in entries:
            of_work = self._ended.get(entry.attribution.inbox_id, {})
            if of_work.pop(entry.call, None) is not None and not of_work:
                del self._ended[entry.attribution.inbox_id]
        if not self._ended and self._anything.is_set():  # one that is waited for stays
            self._anything = anyio.Event()
        if self._journal.is_long:
            self._journal.shrink(self._open.values(), (ended.entry for ended in self._all_ended()))

    async def flush(self, *, older_than_s: float = 0.0) -> None:
        """Write what ended that long ago, and read what others have spent. Raises StorageTrouble."""
        before = self._clock.monotonic() - older_than_s
        while ripe := [ended.entry for ended in self._all_ended() if ended.since <= before][:MOST_AT_ONCE]:
            await self._add(ripe)
            self.written(ripe)
        if not self._is_shared:
            return
        if void := tuple(self._void):
            await self._database.write(lambda conn: rows.settle(conn, void))
            self._void = [call for call in self._void if call not in void]
        if not self._ended and not self._void and self._anything.is_set():
            self._anything = anyio.Event()
        await self.budgets.catch_up()

    async def sum_up(self, *, settled_after_s: float = SETTLED_AFTER_S) -> None:
        """Add what was noted to the sums by day and month (`agent.ledger.sums`). Now and then; nothing waits for it."""
        up_to = await self._database.read(sums.newest)
        await self._clock.sleep(settled_after_s)
        while await self._database.write(lambda conn: sums.sum_up(conn, up_to=up_to)):
            await self._clock.sleep(SUM_PAUSE_S)

    def _all_ended(self) -> Iterator[_Ended]:
        return chain.from_iterable(of_work.values() for of_work in self._ended.values())

    async def _add(self, entries: Sequence[Entry]) -> None:
        """Write them; one that no database takes is left out, loudly, so that it cannot hold up the others for ever."""
        try:
            await self._database.write(lambda conn: rows.add(conn, entries))
        except (SQLAlchemyError, ArithmeticError, ValueError):
            if len(entries) == 1:
                _log.exception("a call cannot be entered and is left out: %s", entries[0])
                return
            for entry in entries:
                await self._add((entry,))


@dataclass(frozen=True, slots=True)
class Reserved:
    """A hold for one attempt; settled once, however it ends. `entry` is that of the call if nothing more is heard."""

    entry: Entry
    hold: Hold
    ledger: Ledger
    began: float  # on the stopwatch

    def settle(self, spent: Spent) -> None:
        """Implements `Reservation.settle`."""
        if spent.is_nothing:
            self.release()
            return
        usage = spent.usage
        self.enter(
            replace(
                self.entry,
                model=spent.model,
                prompt=usage.prompt,
                output=usage.output,
                cache_creation=usage.cache_creation,
                cache_read=usage.cache_read,
                cost_usd=spent.cost_usd,
                estimated=spent.estimated,
            )
        )

    @contextmanager
    def at_most(self, most: Entry) -> Iterator[None]:
        """The call is made inside, and entered by the caller where it went well. Else nothing was taken where the
        endpoint refused it or never had it, and `most` where it may have been worked on."""
        with ExitStack() as given_up:
            given_up.callback(self.enter, most)  # paid for perhaps
            try:
                yield
            except AgentError as error:
                if not (isinstance(error, ProviderBusy) and error.sent):
                    given_up.pop_all()
                    self.release()
                raise
            given_up.pop_all()

    def enter(self, entry: Entry) -> None:
        """It came to this."""
        self.ledger.enter(entry, self.hold, self.began)

    def release(self) -> None:
        """It took nothing."""
        self.ledger.drop(self.entry.call, self.hold)


def _most(prompt: int, output: int, prices: Prices | None) -> float | None:
    """USD of a call whose whole prompt is paid at the dearest tier that it may fall into; None: price unknown."""
    if prices is None:
        return None
    dearest = max(prices.input, prices.of_cache_write, prices.of_cache_read)
    return (prompt * dearest + output * prices.output) / 1_000_000
