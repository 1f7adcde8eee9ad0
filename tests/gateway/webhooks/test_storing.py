"""Deliveries as rows, on both databases."""

import anyio
import pytest
from pydantic import SecretStr

from agent.core.clock import SystemClock
from agent.storage import inbox_rows
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp
from gateway.webhooks.deliveries import WebhookDeliveries, WebhookDelivery
from gateway.webhooks.settings import WebhookSection
from tests.gateway.webhooks.senders import GENERIC


def hook(mode: str) -> WebhookSection:
    return WebhookSection(name=mode, secret=SecretStr(GENERIC), place="telegram:77", mode=mode, template="x")  # type: ignore[arg-type]


@pytest.mark.requirement("G-133")
@pytest.mark.parametrize("mode", ["say", "ask"])
@pytest.mark.parametrize("id", ["d-1", "", "x" * 5_000])
async def test_of_equal_deliveries_at_one_time_one_is_stored(database: Database, mode: str, id: str) -> None:
    woken: list[object] = []
    clock = SystemClock()
    deliveries = WebhookDeliveries(
        database, clock, deliver=woken.append, work=woken.append, language_of=lambda place: "en"
    )
    outcomes: list[bool] = []

    async def one() -> None:
        stored = await deliveries.store(hook(mode), WebhookDelivery(id=id, body=b"{}", text="it \0 broke"))
        outcomes.append(stored.duplicate)

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(one)
    assert sorted(outcomes) == [False] + 7 * [True]
    assert len(woken) == 8
    (listed,) = await deliveries.listed([hook(mode)])
    assert (listed["waiting"], bool(listed["newest"])) == (1, True)
    if mode == "ask":
        now = to_timestamp(clock.now())
        (row,) = await database.write(lambda conn: inbox_rows.due(conn, "telegram:77", now=now))  # type: ignore[arg-type]
        assert (row.kind, row.incoming.role, row.incoming.granted_tools) == ("system", "guest", ())
