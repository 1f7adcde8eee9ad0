"""Arrivals: what an ingress heard, on its way to the worker that has the conversation (G-139).

An ingress acknowledges to its platform once the row is committed. The worker takes rows in one after another, in the
order of their ids, and tells the ingress what became of each.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

import anyio
from pydantic import TypeAdapter
from sqlalchemy import Connection, bindparam, delete, insert, select, text, update

from agent.core.clock import Clock
from agent.core.failpoints import failpoint
from agent.core.ids import ConversationId
from agent.inbox import Incoming
from agent.storage import inbox_rows
from agent.storage.database import PROCESS, Database
from agent.storage.payloads import encode_incoming
from agent.storage.process_tables import arrival, conversation_host
from agent.storage.statements import CompiledStatement, or_update
from agent.storage.timestamps import to_timestamp
from gateway.channels.inbound import (
    ButtonClicked,
    Deleted,
    Edited,
    Inbound,
    Membership,
    MessageReceived,
    Moved,
    Outcome,
    Receipt,
)

# Afterwards the ingress goes on: the row is stored, and whatever becomes of it is seen in the chat.
RECEIPT_WITHIN_S = 3.0

_KINDS: Mapping[str, type] = {
    kind.__name__: kind for kind in (MessageReceived, Edited, Deleted, ButtonClicked, Moved, Membership)
}
LOCAL = frozenset({"console"})  # platforms whose screens are in one process: it must have the conversation itself
_HERE = or_update(insert(conversation_host), key=["conv"], columns=["process"])
_ADD = CompiledStatement(insert(arrival).returning(arrival.c.id))
_WAITING = CompiledStatement(
    select(arrival.c.id, arrival.c.payload, arrival.c.ingress, arrival.c.tries)
    .where(arrival.c.conv == bindparam("conversation"))
    .order_by(arrival.c.id)
    .limit(bindparam("most"))
)
_DONE = CompiledStatement(delete(arrival).where(arrival.c.id == bindparam("row")))
_TRIED = update(arrival).where(arrival.c.conv == bindparam("conversation")).values(tries=arrival.c.tries + 1)
_TELL = CompiledStatement(text("select pg_notify(:channel, :told)"))
MOST_TRIES = 5  # workers; a row that each of them died of would go round for ever
LONGEST_REASON = 300  # characters; a notification holds 8000 bytes

_log = logging.getLogger("tieline.cluster")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """One row. `inbound` None: its payload cannot be read by this version.

    `tries` counts the workers that had the conversation while the row waited.
    """

    id: int
    conversation: ConversationId
    inbound: Inbound | None
    payload: str
    ingress: str
    tries: int = 0


class Mailbox:
    """The `admit` of adapters in a process that may not have the conversation: stores, and waits for the receipt."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._awaited: dict[int, _Awaited] = {}

    async def admit(self, inbound: Inbound) -> Receipt:
        """Returns when it is stored and taken in; after three seconds in any case. Raises StorageTrouble."""
        values = {
            "conv": str(inbound.key),
            "payload": encoded(inbound),
            "ingress": PROCESS,
            "created_at": to_timestamp(self._clock.now()),
        }

        awaited, ids = _Awaited(), set[int]()

        def add(conn: Connection) -> None:
            if inbound.key.platform in LOCAL:
                conn.execute(_HERE, {"conv": str(inbound.key), "process": PROCESS})
            id: int = _ADD.scalar(conn, values)
            ids.add(id)  # more than one where a commit is repeated, whose answer was lost
            self._awaited[id] = awaited  # before the commit: a worker may be faster than we are
            failpoint("arrival.commit")

        failpoint("arrival.before")
        try:
            await self._database.write(add)
            failpoint("arrival.after")
            with anyio.move_on_after(RECEIPT_WITHIN_S):
                await awaited.told.wait()
        finally:
            for id in ids:
                del self._awaited[id]
        return awaited.receipt

    def heard(self, told: str) -> None:
        """A worker tells what became of a row: `<id> <outcome> <reason>`."""
        id, _, rest = told.partition(" ")
        outcome, _, reason = rest.partition(" ")
        awaited = self._awaited.get(int(id))
        if awaited is not None:
            awaited.receipt = Receipt(Outcome(outcome), reason)
            awaited.told.set()


class _Awaited:
    def __init__(self) -> None:
        self.told = anyio.Event()
        self.receipt = Receipt(Outcome.ACCEPTED)


def waiting(conn: Connection, conversation: ConversationId, *, most: int = 20) -> Sequence[Arrived]:
    """Arrivals of the conversation that were not taken in, oldest first."""
    rows = _WAITING.rows(conn, {"conversation": conversation, "most": most})
    return [
        Arrived(
            id=row.id,
            conversation=conversation,
            inbound=_read(row.id, row.payload),
            payload=row.payload,
            ingress=row.ingress,
            tries=row.tries,
        )
        for row in rows
    ]


def _read(id: int, payload: str) -> Inbound | None:
    try:
        return decoded(payload)
    except (ValueError, LookupError, TypeError) as error:
        _log.error("arrival %d cannot be read: %s", id, type(error).__name__)
        return None


def taken_in(conn: Connection, row: Arrived, receipt: Receipt) -> None:
    """It is stored where it belongs; tell whoever heard it."""
    _DONE.run(conn, {"row": row.id})
    told = f"receipt {row.id} {receipt.outcome.value} {receipt.reason[:LONGEST_REASON]}"
    _TELL.run(conn, {"channel": f"tieline_{row.ingress}", "told": told})


def tried(conn: Connection, conversation: ConversationId) -> None:
    """Another worker has the conversation from now on: count that for what waits there."""
    conn.execute(_TRIED, {"conversation": conversation})


def put_aside(conn: Connection, row: Arrived, at: datetime) -> None:
    """It cannot be read, or has ended its workers, and must not block what came after it: a dead letter."""
    why = inbox_rows.UNREADABLE if row.inbound is None else f"it was given to {row.tries} workers in vain"
    admitted = inbox_rows.admit(
        conn,
        conversation=row.conversation,
        kind="message",
        dedup=f"arrival:{row.id}",
        payload=encode_incoming(Incoming(text=row.payload, received_at=at)),
        at=to_timestamp(at),
        limit=None,
    )
    if admitted.id is not None:
        inbox_rows.finish(conn, [admitted.id], "dead", note=why)
    taken_in(conn, row, Receipt(Outcome.REFUSED, why))


def encoded(inbound: Inbound) -> str:
    """JSON, the kind beside it."""
    name = type(inbound).__name__
    return json.dumps({"kind": name, "of": _adapter(name).dump_python(inbound, mode="json")})


def decoded(payload: str) -> Inbound:
    """Raises ValueError for what this version does not know."""
    held: Any = json.loads(payload)
    if held["kind"] not in _KINDS:
        raise ValueError(f"an arrival of the unknown kind {held['kind']!r}")
    inbound: Inbound = _adapter(held["kind"]).validate_python(held["of"], strict=False)
    return inbound


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(_KINDS[name])
