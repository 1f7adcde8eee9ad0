"""Traces and figures in the database. Plain functions over a `Connection`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sqlalchemy import ColumnElement, Connection, bindparam, delete, func, insert, select, true

from agent.core.ids import ConversationId, PersonId, RunId
from agent.storage.statements import CompiledStatement, first_since, or_add, or_ignore, or_update
from agent.storage.watch_tables import turn_trace
from gateway.storage.tables import figure
from gateway.traces.figures import NAMES, Key, Name, Point, Times, hour_of, quantile
from gateway.traces.trace import TurnTrace, decode, encode

ROW_BYTES = 500  # of a row and its places in indexes, besides its spans
BATCH = 500  # rows that one step of the upkeep removes
STEP_US = 7 * 24 * 3600 * 1_000_000  # figures of so much time that one step removes
LOOKED_AT = 1_000  # of the newest traces, for slow ones
MOST_WORKED = 2_000  # of the longest traces, for those that worked longest
FIGURE_DAYS = 400
WRITER = "writer"  # the name of rows that tell how many batches a process has written; the label is the process

_ADD = CompiledStatement(or_ignore(insert(turn_trace)))
_COUNT = CompiledStatement(or_add(insert(figure), key=("name", "hour", "label"), columns=("value",)))
_WRITTEN = CompiledStatement(or_update(insert(figure), key=("name", "hour", "label"), columns=("value",)))
_NUMBER = CompiledStatement(
    select(figure.c.value).where(
        figure.c.name == bindparam("name"), figure.c.hour == bindparam("hour"), figure.c.label == bindparam("label")
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Traces and figures that are written together: the `number`th of the process `writer`, which began at `since`."""

    writer: str
    since: int
    number: int
    traces: tuple[TurnTrace, ...]
    figures: Mapping[Key, float]


Rank = Literal["time", "took", "worked", "cost", "tokens"]
RANKS: tuple[Rank, ...] = get_args(Rank)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Traces that are looked for. `since`: which ended from then on (UTC microseconds); 0: whenever they did."""

    conversation: ConversationId | None = None
    person: PersonId | None = None
    provider: str | None = None
    outcomes: tuple[str, ...] = ()
    slower_than_ms: int | None = None
    since: int = 0


def write(conn: Connection, batch: Batch, may_write: Callable[[TurnTrace], bool] = lambda trace: True) -> None:
    """Write the batch; one that was written already adds nothing. `may_write` is asked of each trace."""
    for trace in batch.traces:
        if may_write(trace):
            _ADD.run(conn, values_of(trace))
    own = {"name": WRITER, "hour": hour_of(batch.since), "label": batch.writer}
    if (_NUMBER.scalar(conn, own) or 0) >= batch.number:
        return  # a commit whose answer was lost: figures must not be added twice
    _WRITTEN.run(conn, own | {"value": batch.number})
    counts = sorted(batch.figures.items())  # in any order two processes would deadlock
    _COUNT.run_each(conn, [{"name": name, "hour": hour, "label": of, "value": by} for (name, hour, of), by in counts])


def values_of(trace: TurnTrace) -> dict[str, Any]:
    """The columns of its row."""
    spans = encode(trace.spans)
    return {
        "run_id": trace.run,
        "attempt": trace.attempt,
        "conv": trace.conversation,
        "inbox_id": trace.inbox_id,
        "person": trace.person,
        "started_at": trace.started_at,
        "ended_at": trace.ended_at,
        "outcome": trace.outcome,
        "waited_ms": trace.waited_ms,
        "elapsed_ms": trace.elapsed_ms,
        "first_token_ms": trace.first_token_ms,
        "delivered_ms": trace.delivered_ms,
        "model_calls": trace.model_calls,
        "tool_calls": trace.tool_calls,
        "tokens_in": trace.tokens_in,
        "tokens_cached": trace.tokens_cached,
        "tokens_out": trace.tokens_out,
        "cost_usd": trace.cost_usd,
        "unpriced": trace.unpriced,
        "size": len(spans) + ROW_BYTES,
        "spans": spans,
        "provider": trace.provider,
    }


# Reading of traces.


def trace_of(conn: Connection, run: RunId) -> tuple[TurnTrace, ...]:
    """The traces of that run: one for each attempt, the first one first; nothing where none was kept."""
    found = conn.execute(select(turn_trace).where(turn_trace.c.run_id == run).order_by(turn_trace.c.attempt))
    return tuple(map(_read, found))


def with_traces(conn: Connection, runs: Iterable[RunId]) -> frozenset[str]:
    """Runs among these that have a trace."""
    return frozenset(conn.scalars(select(turn_trace.c.run_id).where(turn_trace.c.run_id.in_(sorted(runs)))))


def traces(
    conn: Connection,
    conversation: ConversationId | None = None,
    person: PersonId | None = None,
    slower_than_ms: int | None = None,
    outcome: str | None = None,
    before: int | None = None,
    most: int = 50,
) -> tuple[TurnTrace, ...]:
    """The newest traces for which all that is given holds; `before` is the id of the last one of the page before."""
    columns = turn_trace.c
    older = true() if before is None else columns.id < before
    wanted: list[ColumnElement[bool]] = []
    for column, value in ((columns.conv, conversation), (columns.person, person), (columns.outcome, outcome)):
        if value is not None:
            wanted.append(column == value)
    if slower_than_ms is not None and not wanted:
        ids = _slow(conn, slower_than_ms, older, most)
    else:
        slow = true() if slower_than_ms is None else columns.elapsed_ms > slower_than_ms
        query = select(columns.id).where(*wanted, slow, older).order_by(columns.id.desc()).limit(most)
        ids = conn.execute(query).scalars().all()
    found = conn.execute(select(turn_trace).where(columns.id.in_(ids)).order_by(columns.id.desc()))
    return tuple(map(_read, found))


def ranked(
    conn: Connection, wanted: Wanted, rank: Rank, *, descending: bool, most: int, skip: int = 0
) -> Sequence[TurnTrace]:
    """The traces for which all that is wanted holds, in the order of that rank; of equals the newest first.

    By work the longest come first, either way: see `_by_work`.

    All of that is in one index, which is gone through whole: rows are large, and a filter may leave most of them.
    """
    if rank == "worked":
        return _by_work(conn, wanted, most=most, skip=skip)
    columns = turn_trace.c
    by: Mapping[Rank, ColumnElement[Any]] = {
        # Each with a sum, so that no other index seems to give the order: its rows would be looked up one by one.
        "time": columns.id + 0,
        "took": columns.elapsed_ms + 0,
        "tokens": columns.tokens_in + columns.tokens_out,
        "cost": func.coalesce(columns.cost_usd, -1.0) + 0.0,  # an unknown cost below all that are known
    }
    order = by[rank].desc() if descending else by[rank].asc()
    query = select(columns.id).order_by(order, (columns.id + 0).desc()).limit(most).offset(skip)
    for column, value in (
        (columns.conv, wanted.conversation),
        (columns.person, wanted.person),
        (columns.provider, wanted.provider),
    ):
        if value is not None:
            query = query.where(column.concat("") == value)
    if wanted.outcomes:
        query = query.where(columns.outcome.in_(wanted.outcomes))
    if wanted.slower_than_ms is not None:
        query = query.where(columns.elapsed_ms + 0 > wanted.slower_than_ms)
    if wanted.since:
        query = query.where(columns.id + 0 >= first_since(conn, columns.id, columns.ended_at, wanted.since))
    ids = conn.execute(query).scalars().all()
    found = {row.id: _read(row) for row in conn.execute(select(turn_trace).where(columns.id.in_(ids)))}
    return [found[id] for id in ids]


def _by_work(conn: Connection, wanted: Wanted, *, most: int, skip: int) -> Sequence[TurnTrace]:
    """The traces that worked longest: none worked longer than it took, so that few of the longest tell."""
    found: list[TurnTrace] = []
    end = skip + most
    while len(found) < MOST_WORKED:
        size = end if not found else BATCH  # most turns wait for nobody: then the first page tells
        page = ranked(conn, wanted, "took", descending=True, most=size, skip=len(found))
        found = sorted((*found, *page), key=lambda trace: (-trace.worked_ms, -trace.id))
        if len(page) < size or (len(found) >= end and found[end - 1].worked_ms >= page[-1].elapsed_ms):
            break
    return found[skip : skip + most]


def providers(conn: Connection) -> frozenset[str]:
    """Providers that answered last in a turn; read from the index of ranks alone."""
    return frozenset(conn.scalars(select(turn_trace.c.provider).where(turn_trace.c.provider.is_not(None)).distinct()))


def _slow(conn: Connection, than_ms: int, older: ColumnElement[bool], most: int) -> Sequence[int]:
    """The newest slow ones of all. Where few of the newest are slow, they are found by the index of times."""
    columns = turn_trace.c
    newest = select(columns.id, columns.elapsed_ms).where(older).order_by(columns.id.desc()).limit(LOOKED_AT).subquery()
    recent = select(newest.c.id).where(newest.c.elapsed_ms > than_ms).order_by(newest.c.id.desc()).limit(most)
    ids = conn.execute(recent).scalars().all()
    if len(ids) == most:
        return ids
    # Not by the ids themselves: both databases would walk these, and read nearly the whole table.
    query = select(columns.id).where(columns.elapsed_ms > than_ms, older).order_by((columns.id + 0).desc()).limit(most)
    return conn.execute(query).scalars().all()


def _read(row: Any) -> TurnTrace:
    return TurnTrace(
        id=row.id,
        run=RunId(row.run_id),
        attempt=row.attempt,
        conversation=ConversationId(row.conv),
        inbox_id=row.inbox_id,
        person=PersonId(row.person) if row.person is not None else None,
        started_at=row.started_at,
        ended_at=row.ended_at,
        outcome=row.outcome,
        waited_ms=row.waited_ms,
        elapsed_ms=row.elapsed_ms,
        first_token_ms=row.first_token_ms,
        delivered_ms=row.delivered_ms,
        model_calls=row.model_calls,
        tool_calls=row.tool_calls,
        tokens_in=row.tokens_in,
        tokens_cached=row.tokens_cached,
        tokens_out=row.tokens_out,
        cost_usd=row.cost_usd,
        unpriced=row.unpriced,
        provider=row.provider,
        spans=decode(row.spans),
    )


# Reading of figures.


def series(conn: Connection, name: Name, since: int, until: int, step: int) -> Sequence[Point]:
    """The figure's sums by label, for each step of the time from `since` up to `until` (exclusive) in which it counted.

    UTC microseconds; steps begin at the hour of `since`, and are whole hours. Raises ValueError for another step.
    """
    begin = hour_of(since)
    if step <= 0 or step != hour_of(step):
        raise ValueError(f"a step of {step} µs is not a number of whole hours")
    number = (figure.c.hour - begin) // step
    query = (
        select(number.label("number"), figure.c.label, func.sum(figure.c.value).label("value"))
        .where(figure.c.name == name, figure.c.hour >= begin, figure.c.hour < until)
        .group_by(number, figure.c.label)
        .order_by(number, figure.c.label)
    )
    found: dict[int, dict[str, float]] = {}
    for row in conn.execute(query):
        found.setdefault(int(row.number), {})[row.label] = float(row.value)
    return tuple(Point(begin + number * step, values) for number, values in found.items())


def quantiles(
    conn: Connection, name: Times, since: int, until: int, step: int, shares: Sequence[float] = (0.5, 0.95)
) -> Sequence[tuple[int, tuple[float | None, ...]]]:
    """The begin of each such step, and the times in milliseconds below which these shares (0..1) lie in it."""
    points = series(conn, name, since, until, step)
    return tuple((point.at, tuple(quantile(point.values, share) for share in shares)) for point in points)


# Removal, some at a time so that no turn waits.


def size(conn: Connection) -> int:
    """Bytes of all traces, about."""
    return int(conn.execute(select(func.coalesce(func.sum(turn_trace.c.size), 0))).scalar_one())


def prune_old(conn: Connection, before: int) -> int:
    """Remove up to 500 traces that ended before that moment (UTC microseconds); how many went."""
    young = first_since(conn, turn_trace.c.id, turn_trace.c.ended_at, before)
    old = select(turn_trace.c.id).where(turn_trace.c.id < young).order_by(turn_trace.c.id).limit(BATCH)
    return conn.execute(delete(turn_trace).where(turn_trace.c.id.in_(old.subquery().select()))).rowcount


def prune_oldest(conn: Connection, excess: int) -> int:
    """Remove up to 500 of the oldest traces, no more than hold so many bytes; how many bytes went."""
    oldest = select(turn_trace.c.id, turn_trace.c.size).order_by(turn_trace.c.id).limit(BATCH)
    gone: list[int] = []
    freed = 0
    for row in conn.execute(oldest):
        if freed >= excess:
            break
        gone.append(row.id)
        freed += row.size
    conn.execute(delete(turn_trace).where(turn_trace.c.id.in_(gone)))
    return freed


def prune_figures(conn: Connection, before: int) -> int:
    """Remove figures of hours before that moment, up to a week's of each; how many went."""
    removed = 0
    for name in (*NAMES, WRITER):
        oldest = conn.execute(select(func.min(figure.c.hour)).where(figure.c.name == name)).scalar_one()
        if oldest is not None and oldest < before:
            these = figure.c.name == name, figure.c.hour < min(before, oldest + STEP_US)
            removed += conn.execute(delete(figure).where(*these)).rowcount
    return removed
