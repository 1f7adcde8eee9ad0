"""The ledger in the database: one row a call, each written once whatever is repeated; sums are asked of it.

Plain functions over a `Connection`.
"""

import csv
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any, Literal, cast

from sqlalchemy import ColumnElement, Connection, Select, bindparam, case, func, insert, select, text, update

from agent.core.ids import ConversationId, CostAttribution, PersonId, SessionId
from agent.ledger.spending import Account, Entry, Scope, UsageTotals
from agent.storage.statements import CompiledStatement, or_ignore
from agent.storage.tables import budget_grant, usage
from agent.storage.timestamps import from_timestamp

Grouping = Literal["provider", "model", "purpose", "person", "channel", "job", "goal"]

PAGE = 1000

_ADD = CompiledStatement(or_ignore(insert(usage)))
_SETTLE = CompiledStatement(text("DELETE FROM usage_hold WHERE call_id = ANY(CAST(:calls AS text[]))"))
SUMS: tuple[ColumnElement[Any], ...] = (
    func.count(),
    func.coalesce(func.sum(usage.c.prompt), 0),
    func.coalesce(func.sum(usage.c.output), 0),
    func.coalesce(func.sum(usage.c.cache_creation), 0),
    func.coalesce(func.sum(usage.c.cache_read), 0),
    func.coalesce(func.sum(usage.c.cost_usd), 0.0),
    func.coalesce(func.sum(case((usage.c.cost_usd.is_(None), 1), else_=0)), 0),
    func.coalesce(func.sum(case((usage.c.estimated, 1), else_=0)), 0),
)
GROUPS: dict[Grouping, ColumnElement[Any]] = {
    "provider": usage.c.provider,
    "model": usage.c.model,
    "purpose": usage.c.purpose,
    "person": usage.c.person,
    "channel": usage.c.conv,
    "job": usage.c.job,
    "goal": usage.c.goal,
}
_SINCE = usage.c.created_at >= bindparam("since")
_TOTALS = select(*SUMS)
_PAYERS = (usage.c.conv, usage.c.person, usage.c.provider, usage.c.job, usage.c.goal)
_SPENT = (
    select(
        *_PAYERS,
        (usage.c.created_at >= bindparam("day")).label("today"),
        func.coalesce(func.sum(usage.c.cost_usd), 0.0).label("usd"),
        func.sum(usage.c.prompt + usage.c.output + usage.c.cache_creation + usage.c.cache_read).label("tokens"),
        func.sum(case((usage.c.cost_usd.is_(None), 1), else_=0)).label("unpriced"),
    )
    .where(usage.c.created_at >= bindparam("month"))
    .group_by(*_PAYERS, usage.c.created_at >= bindparam("day"))
)
_GRANT = or_ignore(insert(budget_grant)).returning(budget_grant.c.number)
_GRANTS = select(budget_grant).where(budget_grant.c.period.in_(bindparam("periods", expanding=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SpentBefore:
    """Money that one set of payers spent, today (UTC) or earlier this month."""

    attribution: CostAttribution
    provider: str
    today: bool
    usd: float
    tokens: int
    unpriced: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """More was approved for an account: the `number`th time. `at` UTC microseconds."""

    account: Account
    number: int
    usd: float
    tokens: int
    by: str
    at: int


def add(conn: Connection, entries: Iterable[Entry]) -> None:
    """Note calls; one that is there already stays as it is. What was set aside for them in the database is free."""
    entries = tuple(entries)
    for entry in entries:
        attribution = entry.attribution
        values = {
            "call_id": entry.call,
            "conv": attribution.conversation,
            "session_id": attribution.session,
            "inbox_id": attribution.inbox_id,
            "person": attribution.person,
            "job": attribution.job,
            "goal": attribution.goal,
            "purpose": attribution.purpose,
            "provider": entry.provider,
            "model": entry.model,
            "prompt": entry.prompt,
            "output": entry.output,
            "cache_creation": entry.cache_creation,
            "cache_read": entry.cache_read,
            "audio_s": entry.audio_s,
            "cost_usd": entry.cost_usd,
            "estimated": entry.estimated,
            "created_at": entry.at,
        }
        _ADD.run(conn, values)
    if entries and conn.dialect.name != "sqlite":  # which has no holds
        settle(conn, [entry.call for entry in entries])


def settle(conn: Connection, calls: Sequence[str]) -> None:
    """Take the holds of these calls away: they are entered, or they took nothing."""
    _SETTLE.run(conn, {"calls": list(calls)})


def totals(
    conn: Connection,
    *,
    since: int = 0,
    conversation: ConversationId | None = None,
    session: SessionId | None = None,
    goal: str | None = None,
) -> UsageTotals:
    """Of the calls from `since` (UTC microseconds) on, of one conversation, session or goal, or of all."""
    query, values = _narrowed(_TOTALS, since=since, conversation=conversation, session=session, goal=goal)
    return totals_of(conn.execute(query, values).one())


def by(
    conn: Connection,
    group: Grouping,
    *,
    since: int = 0,
    conversation: ConversationId | None = None,
    most: int | None = 20,
) -> Sequence[tuple[str, UsageTotals]]:
    """The totals of each provider, purpose, person …, the dearest first; "" where a call has none.

    `most` None: of all of them.
    """
    column = GROUPS[group]
    query = select(column, *SUMS).group_by(column).order_by(SUMS[5].desc(), SUMS[0].desc()).limit(most)
    query, values = _narrowed(query, since=since, conversation=conversation)
    return [(row[0] or "", totals_of(row[1:])) for row in conn.execute(query, values)]


def spent(conn: Connection, *, month: int, day: int) -> Sequence[SpentBefore]:
    """Money spent since those moments, by payer."""
    return [
        SpentBefore(
            attribution=CostAttribution(
                purpose="", conversation=ConversationId(row.conv), person=row.person, job=row.job, goal=row.goal
            ),
            provider=row.provider,
            today=bool(row.today),
            usd=float(row.usd),
            tokens=int(row.tokens),
            unpriced=int(row.unpriced),
        )
        for row in conn.execute(_SPENT, {"month": month, "day": day})
    ]


def page(
    conn: Connection,
    *,
    after: int = 0,
    since: int = 0,
    until: int | None = None,
    conversation: ConversationId | None = None,
    most: int = PAGE,
) -> tuple[Sequence[Entry], int | None]:
    """Calls in the order in which they were noted, and after what the next page begins; None: there is none."""
    query = select(usage).where(usage.c.id > after).order_by(usage.c.id).limit(most)
    query, values = _narrowed(query, since=since, conversation=conversation)
    if until is not None:
        query = query.where(usage.c.created_at < until)
    found = conn.execute(query, values).all()
    return [_entry(row) for row in found], found[-1].id if len(found) == most else None


def of_run(conn: Connection, conversation: ConversationId, inbox_id: int, *, since: int) -> Sequence[Entry]:
    """The calls that were made for that piece of work, which began at `since` (UTC microseconds), oldest first."""
    query, values = _narrowed(select(usage), since=since, conversation=conversation)
    return [_entry(row) for row in conn.execute(query.where(usage.c.inbox_id == inbox_id).order_by(usage.c.id), values)]


def by_run(
    conn: Connection, conversation: ConversationId, inbox_ids: Iterable[int], *, since: int, until: int | None = None
) -> Mapping[int, UsageTotals]:
    """The totals of each of these pieces of work of the conversation, the first of which began at `since`.

    Calls from `until` on are not read.
    """
    ids = list(inbox_ids)
    query = select(usage.c.inbox_id, *SUMS).where(usage.c.inbox_id.in_(ids)).group_by(usage.c.inbox_id)
    query, values = _narrowed(query, since=since, conversation=conversation)
    if until is not None:
        query = query.where(usage.c.created_at < until)
    return {row[0]: totals_of(row[1:]) for row in conn.execute(query, values)} if ids else {}


def approve(conn: Connection, approval: Approval) -> bool:
    """Note the approval; False when that number of its account is taken: somebody else was quicker."""
    account = approval.account
    values = {
        "scope": account.scope,
        "name": account.name,
        "period": account.period,
        "number": approval.number,
        "usd": approval.usd,
        "tokens": approval.tokens,
        "by": approval.by,
        "created_at": approval.at,
    }
    return conn.execute(_GRANT, values).scalar_one_or_none() is not None


def approvals(conn: Connection, periods: Iterable[str]) -> Sequence[Approval]:
    """All of those days and months."""
    return [
        Approval(
            account=Account(cast(Scope, row.scope), row.name, row.period),
            number=row.number,
            usd=row.usd,
            tokens=row.tokens,
            by=row.by,
            at=row.created_at,
        )
        for row in conn.execute(_GRANTS, {"periods": list(periods)})
    ]


def follow(conn: Connection, old: str, new: str) -> None:
    """Let what was approved for a place follow to its new name, numbered after what was approved there."""
    numbers = Counter(conn.execute(select(budget_grant.c.period).where(*_approved_for(new))).scalars())
    moved = select(budget_grant.c.period, budget_grant.c.number).where(*_approved_for(old))
    for period, number in conn.execute(moved.order_by(budget_grant.c.number)).all():
        numbers[period] += 1
        row = (*_approved_for(old), budget_grant.c.period == period, budget_grant.c.number == number)
        conn.execute(update(budget_grant).where(*row).values(name=new, number=numbers[period]))


def _approved_for(place: str) -> tuple[ColumnElement[bool], ...]:
    return budget_grant.c.scope == "channel", budget_grant.c.name == place


def _narrowed(
    query: Select[Any],
    *,
    since: int,
    conversation: ConversationId | None = None,
    session: SessionId | None = None,
    goal: str | None = None,
) -> tuple[Select[Any], dict[str, Any]]:
    values: dict[str, Any] = {}
    if since:
        query, values["since"] = query.where(_SINCE), since
    for column, name, value in (
        (usage.c.conv, "conversation", conversation),
        (usage.c.session_id, "session", session),
        (usage.c.goal, "goal", goal),
    ):
        if value is not None:
            query, values[name] = query.where(column == bindparam(name)), value
    return query, values


def totals_of(row: Any) -> UsageTotals:
    """The sums of a row that SUMS were asked of."""
    calls, prompt, output, creation, read, cost, unpriced, estimated = row
    return UsageTotals(
        calls=calls,
        prompt=int(prompt),
        output=int(output),
        cache_creation=int(creation),
        cache_read=int(read),
        cost_usd=float(cost),
        unpriced=int(unpriced),
        estimated=int(estimated),
    )


def _entry(row: Any) -> Entry:
    return Entry(
        call=row.call_id,
        at=row.created_at,
        attribution=CostAttribution(
            purpose=row.purpose,
            conversation=ConversationId(row.conv),
            session=SessionId(row.session_id) if row.session_id else None,
            inbox_id=row.inbox_id,
            person=PersonId(row.person) if row.person else None,
            job=row.job,
            goal=row.goal,
        ),
        provider=row.provider,
        model=row.model,
        prompt=row.prompt,
        output=row.output,
        cache_creation=row.cache_creation,
        cache_read=row.cache_read,
        audio_s=row.audio_s,
        cost_usd=row.cost_usd,
        estimated=bool(row.estimated),
    )


# The ledger as comma-separated values, for a spreadsheet. Pure.

COLUMNS = (
    "time", "channel", "person", "purpose", "job", "goal", "provider", "model", "input_tokens", "output_tokens",
    "cache_write_tokens", "cache_read_tokens", "audio_seconds", "cost_usd", "estimated", "call",
)  # fmt: skip
HEADING = ",".join(COLUMNS) + "\r\n"

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def lines(entries: Iterable[Entry]) -> str:
    """One line a call. An unknown price is empty, never 0."""
    out = StringIO()
    writer = csv.writer(out)
    for entry in entries:
        attribution = entry.attribution
        named = (
            attribution.conversation,
            attribution.person,
            attribution.purpose,
            attribution.job,
            attribution.goal,
            entry.provider,
            entry.model,
        )
        writer.writerow(
            (
                from_timestamp(entry.at).isoformat(timespec="milliseconds"),
                *(_text(value) for value in named),
                entry.prompt,
                entry.output,
                entry.cache_creation,
                entry.cache_read,
                f"{entry.audio_s:g}" if entry.audio_s else "",
                "" if entry.cost_usd is None else f"{entry.cost_usd:.9f}".rstrip("0").rstrip("."),
                "yes" if entry.estimated else "no",
                entry.call,
            )
        )
    return out.getvalue()


def _text(value: str | None) -> str:
    """A cell of text; names that people give themselves must not become a formula."""
    text = value or ""
    return f"'{text}" if text.startswith(_FORMULA) else text
