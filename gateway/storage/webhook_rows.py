"""Deliveries of webhooks for the operator: turns in the inbox, words in the outbox. Moments: UTC microseconds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    case,
    func,
    literal,
    literal_column,
    select,
    union_all,
)

from agent.core.ids import ConversationId
from agent.storage.inbox_rows import WEBHOOKS
from agent.storage.tables import inbox, outbox, turn

Kind = Literal["turn", "words"]

_TABLES: Mapping[Kind, Table] = {"turn": inbox, "words": outbox}


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRow:
    """A delivery that was stored. `delivery` is the sender's id of it; `run` is the turn's, "" before it began.

    `status` is that of its row in the inbox or the outbox; `failed`: its turn has.
    """

    kind: Kind
    id: int
    webhook: str
    delivery: str
    conversation: ConversationId
    status: str
    failed: bool
    note: str
    run: str
    created_at: int


def newest(conn: Connection, *, webhook: str = "", most: int, skip: int = 0) -> Sequence[WebhookRow]:
    """Deliveries of one webhook, or of all, newest first."""
    reach = skip + most
    found = union_all(
        *(
            select(found.c.kind, found.c.id, found.c.created_at)
            for found in (
                _of(table, webhook)
                .with_only_columns(literal(kind).label("kind"), table.c.id, table.c.created_at)
                .order_by(table.c.id.desc())
                .limit(reach)
                .subquery()
                for kind, table in _TABLES.items()
            )
        )
    ).subquery()
    page = select(found).order_by(found.c.created_at.desc(), found.c.id.desc()).limit(most).offset(skip)
    order = [(row.kind, row.id) for row in conn.execute(page)]
    rows = _turns(conn, (id for kind, id in order if kind == "turn"))
    rows |= _words(conn, (id for kind, id in order if kind == "words"))
    return [rows[one] for one in order]


def newest_at(conn: Connection, webhook: str) -> int | None:
    """The moment of its newest delivery; None: none is kept."""
    moments = [
        conn.execute(
            _of(table, webhook).with_only_columns(table.c.created_at).order_by(table.c.id.desc()).limit(1)
        ).scalar_one_or_none()
        for table in _TABLES.values()
    ]
    return max((at for at in moments if at is not None), default=None)


def waiting(conn: Connection, webhooks: Sequence[str]) -> Mapping[str, int]:
    """How many deliveries of each wait, for their turn or to be sent; those of which none does are left out."""
    counts: dict[str, int] = {}
    if not webhooks:
        return counts
    # Written out, as the partial indexes say it: those that wait are few.
    for table, is_open in (
        (inbox, "inbox.status = 'new' and inbox.attempts = 0"),
        (outbox, "outbox.status in ('new', 'sending')"),
    ):
        name = case(*((_begins(table, one), one) for one in webhooks), else_="")
        found = _of(table, "").with_only_columns(name, func.count()).where(literal_column(is_open))
        rows = conn.execute(found.group_by(name))
        for webhook, count in rows:
            if webhook:
                counts[webhook] = counts.get(webhook, 0) + count
    return counts


def _of(table: Table, webhook: str) -> Select[Any]:
    """Rows of one webhook, or of all. The condition is that of the partial index, written out."""
    brought: ColumnElement[bool] = literal_column(f"substr({table.name}.dedup, 1, 5) = '{WEBHOOKS}'")
    found = select(table).where(brought)
    return found.where(_begins(table, webhook)) if webhook else found


def _begins(table: Table, webhook: str) -> ColumnElement[bool]:
    prefix = f"{WEBHOOKS}{webhook}:"
    return func.substr(table.c.dedup, 1, len(prefix)) == prefix


def _turns(conn: Connection, ids: Iterable[int]) -> dict[tuple[Kind, int], WebhookRow]:
    query = (
        select(inbox, turn.c.run_id, turn.c.state)
        .outerjoin(turn, turn.c.inbox_id == inbox.c.id)
        .where(inbox.c.id.in_(list(ids)))
    )
    return {("turn", row.id): _row(row, "turn", row.run_id or "", row.state) for row in conn.execute(query)}


def _words(conn: Connection, ids: Iterable[int]) -> dict[tuple[Kind, int], WebhookRow]:
    query = select(outbox).where(outbox.c.id.in_(list(ids)))
    return {("words", row.id): _row(row, "words", "", None) for row in conn.execute(query)}


def _row(row: Any, kind: Kind, run: str, state: str | None) -> WebhookRow:
    webhook, _, delivery = row.dedup.removeprefix(WEBHOOKS).partition(":")
    return WebhookRow(
        kind=kind,
        id=row.id,
        webhook=webhook,
        delivery=delivery,
        conversation=ConversationId(row.conv),
        status=row.status,
        failed=state == "failed",
        note=row.note or "",
        run=run,
        created_at=row.created_at,
    )
