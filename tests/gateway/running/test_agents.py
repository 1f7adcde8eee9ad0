"""Agents are woken with the choice of their chat; what cannot be read never keeps one asleep."""

import logging
import threading
from collections.abc import Callable

import anyio
import pytest
from sqlalchemy import Connection
from sqlalchemy import text as sql

from agent.core.ids import ConversationId
from gateway.running import agents
from tests.gateway.world import ANN, World


@pytest.mark.requirement("Z-71")
async def test_unreadable_preferences_do_not_keep_a_session_from_starting(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.asks("/provider b", "now uses")
    await world.database.write(lambda conn: conn.execute(sql("alter table channel_setting rename to away")))
    await world.services.conversations.forget(ConversationId(f"telegram:{ANN}"))
    with caplog.at_level(logging.WARNING):
        await world.answered("hello")
    assert world.models_asked == ["model-a"]
    assert "defaults are used" in caplog.text
    assert world.texts()[-1].endswith("hello"), "nobody is bothered with it"
    await world.database.write(lambda conn: conn.execute(sql("alter table away rename to channel_setting")))
    await world.answered("hello again")
    assert world.models_asked == ["model-a", "model-b"], "the default only until the choice could be read"


@pytest.mark.requirement("Z-71")
async def test_a_slow_database_does_not_keep_a_session_from_starting(world_of: Callable[..., World]) -> None:
    world = world_of()
    async with world.process():
        await world.asks("/provider b", "now uses")
    async with world.process():

        def busy(conn: Connection) -> None:
            held.release()
            go_on.wait(100)

        held, go_on = threading.Semaphore(0), threading.Event()
        async with anyio.create_task_group() as tasks:
            for _ in range(2):  # as many as there are readers
                tasks.start_soon(world.database.read, busy)
            for _ in range(2):
                await anyio.to_thread.run_sync(held.acquire)
            async with world.services.conversations.use(ConversationId(f"telegram:{ANN}")) as awake:
                assert isinstance(awake, agents.ActiveAgent)
                assert awake.agent.provider.slot.choice.provider == "a"
                go_on.set()  # the readers were busy until now


@pytest.mark.requirement("Z-66")
async def test_an_agent_that_slept_wakes_with_its_chats_choice(world: World) -> None:
    await world.asks("/provider b", "now uses")
    await world.services.conversations.forget(ConversationId(f"telegram:{ANN}"))
    await world.answered("hello")
    assert world.models_asked == ["model-b"]


async def test_what_may_be_done_to_a_sleeping_conversation_wakes_nobody(world: World) -> None:
    await world.answered("hello")
    await world.services.conversations.forget(ConversationId(f"telegram:{ANN}"))
    assert "2 messages" in await world.asks("/status", "Status")
    assert world.services.conversations.awake == ()
