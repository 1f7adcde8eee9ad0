"""Doors for other programs over time: what they write goes again, and what strangers make up is not kept."""

from collections.abc import Callable

import httpx2
import pytest
from sqlalchemy import Connection, select

from agent.storage.tables import inbox, outbox, turn
from gateway.storage.tables import event_delivery
from gateway.webhooks import door
from tests.fakes.waiting import until
from tests.fakes.webhook_server import webhook_server
from tests.gateway.api.conftest import serving
from tests.gateway.conftest import world_of
from tests.gateway.webhooks.conftest import Sender
from tests.gateway.webhooks.senders import github, two_hooks
from tests.gateway.world import World

__all__ = ["world_of"]

DAY_S = 86_400
HOOKS = two_hooks("News of {% for one in branches %}{{ labels[one] }}{% endfor %}: {{ title }}")


def kept(conn: Connection) -> dict[str, int]:
    """How many rows there are of what doors write."""
    tables = (inbox, outbox, turn, event_delivery)
    return {table.name: len(conn.execute(select(table.c.id)).all()) for table in tables}


@pytest.mark.requirement("G-143")
async def test_whatever_doors_have_written_goes_once_it_is_old(world_of: Callable[..., World]) -> None:
    async with webhook_server() as hook:
        events = f"""
[[events]]
name = "crm"
url = "{hook.url}/hook/x"
secret = "a-secret-of-some-length"
allow_private = ["127.0.0.1"]
"""
        world = world_of(config=HOOKS + events, accounts=("telegram", "api"))
        async with world.process(), serving(world) as caller:
            key = await caller.key("crm", "chat", "send", "ask")
            async with httpx2.AsyncClient(base_url=caller.url, timeout=60) as client:
                sender = Sender(world, client)
                assert (await sender.post("builds", {"n": 1}, github, id="b-1")).status_code == 202
                assert (await sender.post("news", {"title": "x"}, github, id="n-1")).status_code == 202
            said = {"model": "tieline", "user": "anna", "messages": [{"role": "user", "content": "hi"}]}
            chat = await caller.post("/v1/chat/completions", key, said, idempotency_key="one")
            send = await caller.post("/api/send", key, {"place": "telegram:77", "text": "x"}, idempotency_key="two")
            ask = await caller.post("/api/ask", key, {"place": "telegram:77", "text": "y"}, idempotency_key="three")
            assert [one.status_code for one in (chat, send, ask)] == [200, 200, 200]
            await world.settled()
            await until(lambda: len(hook.taken) == 3)
            await world.services.upkeep.tidy()
            young = await world.database.read(kept)
            assert all(young.values()), young
            world.clock.ahead_s += 8 * DAY_S
            await world.services.upkeep.tidy()
            assert (await world.database.read(kept)) == young | {"event_delivery": 0}
            world.clock.ahead_s += 23 * DAY_S
            await world.services.upkeep.tidy()
            assert (await world.database.read(kept)) == dict.fromkeys(young, 0)
            again = await caller.post("/api/send", key, {"place": "telegram:77", "text": "x"}, idempotency_key="two")
            assert again.status_code == 200  # by then another request


@pytest.mark.requirement("G-143")
async def test_what_strangers_make_up_fills_no_memory(
    world_of: Callable[..., World], caplog: pytest.LogCaptureFixture
) -> None:
    async with world_of(config=HOOKS).process() as world, serving(world) as there:
        webhooks = world.services.doors.webhooks
        async with httpx2.AsyncClient(base_url=there.url, timeout=60) as client:
            sender = Sender(world, client)
            for number in range(50):
                assert (await sender.send(f"name-{number}", b"{}", github(b"{}"))).status_code == 404
            assert (webhooks.refused[""].count, len(webhooks.refused)) == (50, 1)
            for start in range(0, door.MOST_NOTED + 200, 100):
                names = [f"feature-{start + number}" for number in range(100)]
                payload = {"labels": {}, "branches": names, "title": "x"}
                assert (await sender.post("news", payload, github, id=f"n-{start}")).status_code == 202
        noted = [one for one in caplog.messages if "a payload has no feature-" in one]
        assert len(noted) == door.MOST_NOTED
