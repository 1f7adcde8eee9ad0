"""Holds: sums that processes on one PostgreSQL set aside, so that they keep budgets together (docs/decisions/0009).

A call is committed as a hold before it is made, and the transaction that enters it in the ledger takes the hold away.
Whoever finds a hold of a process that has died enters the call as an estimate. SQLite has one process and needs none.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import (
    BigInteger,
    Connection,
    Text,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    null,
    select,
    union_all,
    update,
)
from sqlalchemy import cast as sql_cast

from agent.core.ids import ConversationId, CostAttribution, PersonId
from agent.ledger import rows
from agent.ledger.rows import Approval
from agent.ledger.spending import Account, Accounts, Entry, Hold, Names, Span, period_of
from agent.storage.database import wait_for_names
from agent.storage.process_tables import budget_warning, usage_hold
from agent.storage.statements import CompiledStatement, or_ignore
from agent.storage.tables import usage
from agent.storage.timestamps import from_timestamp

ALIVE_S = 120  # a process that has not said for so long that it lives is dead, by the database's clock
RENEW_EVERY_S = 30.0
MOST_AT_ONCE = 500
# A transaction that takes longer is given up: a number below one that is as old was never used, or is committed.
GAP_LASTS_S = 90.0
WARNINGS_KEPT_US = 40 * 86_400 * 1_000_000  # longer than a month, the longest period of a budget
LOOKED_BACK = 1000  # numbers before the newest, at the start: one of them may be committed later

ENTRY: TypeAdapter[Entry] = TypeAdapter(Entry)

_NOW = sql_cast(literal_column("extract(epoch from clock_timestamp()) * 1000000"), BigInteger)
_ALIVE_UNTIL = _NOW + ALIVE_S * 1_000_000
_ADD = CompiledStatement(or_ignore(insert(usage_hold).values(alive_until=_ALIVE_UNTIL)))
_RENEW = update(usage_hold).where(usage_hold.c.process == bindparam("own")).values(alive_until=_ALIVE_UNTIL)
_DEAD = (
    select(usage_hold.c.call_id)
    .where(usage_hold.c.alive_until < _NOW)
    .order_by(usage_hold.c.call_id)
    .limit(MOST_AT_ONCE)
    .with_for_update(skip_locked=True)
)
_TAKE_OVER = delete(usage_hold).where(usage_hold.c.call_id.in_(_DEAD)).returning(usage_hold.c.conv, usage_hold.c.entry)
_TOKENS = usage.c.prompt + usage.c.output + usage.c.cache_creation + usage.c.cache_read
# Both in one statement: a call that is entered meanwhile is seen once, as a hold or as an entry.
_NEWS = union_all(
    select(
        usage.c.id,
        usage.c.call_id,
        usage.c.conv,
        usage.c.person,
        usage.c.provider,
        usage.c.job,
        usage.c.goal,
        usage.c.created_at,
        usage.c.cost_usd.label("usd"),
        _TOKENS.label("tokens"),
        sql_cast(null(), Text).label("entry"),
    ).where(usage.c.id > bindparam("after"), usage.c.id.not_in(bindparam("ahead", expanding=True))),
    select(
        sql_cast(null(), BigInteger),
        usage_hold.c.call_id,
        usage_hold.c.conv,
        sql_cast(null(), Text),
        sql_cast(null(), Text),
        sql_cast(null(), Text),
        sql_cast(null(), Text),
        sql_cast(null(), BigInteger),
        usage_hold.c.usd,
        usage_hold.c.tokens,
        usage_hold.c.entry,
    ).where(usage_hold.c.process != bindparam("own")),
)
_NEWEST = select(usage.c.id).where(usage.c.id > select(func.max(usage.c.id)).scalar_subquery() - LOOKED_BACK)
_FORGET_WARNINGS = delete(budget_warning).where(budget_warning.c.created_at < bindparam("before"))
_WARN = or_ignore(insert(budget_warning)).returning(budget_warning.c.number)


def lock(conn: Connection, accounts: Iterable[Account]) -> None:
    """Return when no other process is between its look at one of these accounts and its commit."""
    wait_for_names(conn, ("\0".join(("budget", *account)) for account in accounts))


def add(conn: Connection, process: str, entry: Entry, *, usd: float, tokens: int) -> None:
    """Set aside that much for the call; `entry` is what it comes to if nothing more is heard of it."""
    values = {
        "call_id": entry.call,
        "process": process,
        "conv": entry.attribution.conversation,
        "usd": usd,
        "tokens": tokens,
        "entry": ENTRY.dump_json(entry).decode(),
    }
    _ADD.run(conn, values)


def renew(conn: Connection, process: str) -> None:
    """This process lives, and so do its calls."""
    conn.execute(_RENEW, {"own": process})


def take_over(conn: Connection) -> int:
    """Enter calls whose process has died as estimates; how many there were, at most MOST_AT_ONCE."""
    left = [_entry(row) for row in conn.execute(_TAKE_OVER).all()]
    rows.add(conn, left)
    return len(left)


def warn(conn: Connection, account: Account, approvals: int, *, at: int) -> bool:
    """Whether it is this process that tells that the account comes near its limit, after so many approvals."""
    values: dict[str, object] = {
        "scope": account.scope,
        "name": account.name,
        "period": account.period,
        "number": approvals,
    }
    values |= {"created_at": at}
    conn.execute(_FORGET_WARNINGS, {"before": at - WARNINGS_KEPT_US})
    return conn.execute(_WARN, values).scalar_one_or_none() is not None


@dataclass(slots=True)
class ReadNumbers:
    """The entries of the ledger that were read, by number: all up to `after`, and those of `ahead`.

    Transactions end in another order than they take numbers in: one before the newest may be committed later.
    """

    after: int
    ahead: dict[int, float]  # and when each was read

    def note(self, number: int, now: float) -> None:
        if number == self.after + 1:
            self.after = number
            self._go_on()
        elif number > self.after:
            self.ahead[number] = now

    def settle(self, now: float) -> None:
        """Numbers that are missing for so long are used by nothing."""
        ripe = [number for number, read in self.ahead.items() if now - read >= GAP_LASTS_S]
        if ripe:
            self.after = max(ripe)
            self.ahead = {number: read for number, read in self.ahead.items() if number > self.after}
            self._go_on()

    def _go_on(self) -> None:
        while self.ahead.pop(self.after + 1, None) is not None:
            self.after += 1


class Others:
    """The accounts' knowledge of other processes: `read` brings it up to date, within a transaction.

    `names` gives the payers of a call, `process` names this one.
    """

    def __init__(self, accounts: Accounts, names: Callable[[CostAttribution, str], Names], process: str) -> None:
        self.process = process
        self._accounts = accounts
        self._names = names
        self._numbers = ReadNumbers(0, {})
        self._own: set[str] = set()  # calls of this process that it has not read back from the ledger
        self._holds: dict[str, Hold] = {}
        self._approved: set[tuple[Account, int]] = set()

    def begin(self, conn: Connection, now: float, approvals: Iterable[Approval]) -> None:
        """Take what is in the ledger now as read, and these approvals as known. `now` is the stopwatch's."""
        found = sorted(conn.execute(_NEWEST).scalars())
        self._numbers = ReadNumbers(max(0, (found[-1] if found else 0) - LOOKED_BACK), {})
        for number in found:
            self._numbers.note(number, now)
        self._approved = {(one.account, one.number) for one in approvals}

    def know(self, approval: Approval) -> None:
        """This process made the approval, and counts it itself."""
        self._approved.add((approval.account, approval.number))

    def is_own(self, call: str) -> None:
        """This process makes the call, and counts it itself."""
        self._own.add(call)

    def is_none(self, call: str) -> None:
        """The call took nothing, or was not made."""
        self._own.discard(call)

    def read(self, conn: Connection, now: float, periods: Mapping[Span, str]) -> Sequence[Approval]:
        """Count what others have spent and set aside since; the approvals that are news here."""
        self._numbers.settle(now)
        held: set[str] = set()
        values = {"after": self._numbers.after, "ahead": list(self._numbers.ahead), "own": self.process}
        for row in conn.execute(_NEWS, values).all():
            if row.entry is None:
                self._noted(row, now, periods)
            else:
                held.add(row.call_id)
                if row.call_id not in self._holds and row.call_id not in self._own:
                    self._holds[row.call_id] = self._held(row, periods)
        for call in self._holds.keys() - held:
            self._accounts.release(self._holds.pop(call))
        approvals = rows.approvals(conn, periods.values())
        news = [one for one in approvals if (one.account, one.number) not in self._approved]
        self._approved = {(one.account, one.number) for one in approvals}
        return news

    def _noted(self, row: Any, now: float, periods: Mapping[Span, str]) -> None:
        self._numbers.note(row.id, now)
        if row.call_id in self._own:
            self._own.discard(row.call_id)
            return
        attribution = CostAttribution(
            purpose="",
            conversation=ConversationId(row.conv),
            person=PersonId(row.person) if row.person else None,
            job=row.job,
            goal=row.goal,
        )
        self._accounts.spent(
            self._names(attribution, row.provider),
            _spans(row.created_at, periods),
            usd=row.usd or 0.0,
            tokens=int(row.tokens),
            unpriced=int(row.usd is None),
        )

    def _held(self, row: Any, periods: Mapping[Span, str]) -> Hold:
        entry = _entry(row)
        names = self._names(entry.attribution, entry.provider)
        return self._accounts.take(names, _spans(entry.at, periods), usd=row.usd, tokens=int(row.tokens))


def _spans(at: int, periods: Mapping[Span, str]) -> Mapping[Span, str]:
    """The present day and month, as far as the moment lies in them."""
    moment = from_timestamp(at)
    return {span: period for span, period in periods.items() if period_of(moment, span) == period}


def _entry(row: Any) -> Entry:
    """The call of a hold, whose place may have another name since."""
    entry = ENTRY.validate_json(row.entry)
    return replace(entry, attribution=replace(entry.attribution, conversation=ConversationId(row.conv)))
