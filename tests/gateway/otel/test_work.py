"""The context of a turn as any process finds it by the work in the inbox, on either database."""

from datetime import UTC, datetime
from functools import partial

import pytest
from sqlalchemy import Connection, insert

from agent.core.ids import RunId
from agent.inbox import Incoming
from agent.storage.database import Database
from agent.storage.payloads import encode_incoming
from agent.storage.tables import inbox, turn
from agent.storage.watch_tables import turn_trace
from gateway.otel.context import TurnContext
from gateway.otel.work import context_of_work, kept_context
from gateway.traces import rows
from tests.gateway.traces.examples import HERE, trace

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
RUN = RunId("run")


def store(conn: Connection, payload: str) -> int:
    """A turn that is over, of the second attempt at it; the number of its work."""
    message = {"conv": HERE, "kind": "message", "dedup": "d", "payload": payload, "attempts": 2, "created_at": 1}
    work = conn.execute(insert(inbox).values(message).returning(inbox.c.id)).scalar_one()
    begun = {"inbox_id": work, "conv": HERE, "session_id": "s", "run_id": RUN, "epoch": 1, "state": "done"}
    conn.execute(insert(turn).values(**begun, created_at=1))
    return int(work)


@pytest.mark.requirement("G-126")
async def test_it_is_found_with_its_caller(database: Database) -> None:
    said = Incoming(text="hello", traceparent=CALLER, received_at=datetime(2026, 1, 1, tzinfo=UTC))
    work = await database.write(partial(store, payload=encode_incoming(said)))
    assert await database.read(partial(context_of_work, inbox_id=work)) == TurnContext(RUN, 2, CALLER)
    assert await database.read(partial(context_of_work, inbox_id=work + 1)) is None


@pytest.mark.requirement("G-126")
async def test_a_message_that_cannot_be_read_any_more_has_a_context(database: Database) -> None:
    work = await database.write(partial(store, payload=""))
    assert await database.read(partial(context_of_work, inbox_id=work)) == TurnContext(RUN, 2)


@pytest.mark.requirement("G-124")
async def test_a_turn_that_left_no_trace_has_none_for_deliveries(database: Database) -> None:
    work = await database.write(partial(store, payload=""))
    assert await database.read(partial(kept_context, inbox_id=work, sample=1.0)) == TurnContext(RUN, 2)
    assert await database.read(partial(kept_context, inbox_id=work, sample=0.0)) is None
    kept = rows.values_of(trace(str(RUN), attempt=2, inbox_id=work))
    await database.write(lambda conn: conn.execute(insert(turn_trace), [kept]))
    assert await database.read(partial(kept_context, inbox_id=work, sample=0.0)) == TurnContext(RUN, 2)
