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
from tests.gateway.commands.place.test_persona import BROKEN, PIRATE, write
from tests.gateway.world import ANN, GROUP, World


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


RULES = f"""
[[places]]
match = "telegram:{GROUP}"
provider = "b/model-x"
persona = "pirate"
"""


async def uses(world: World, text: str, chat: str = ANN) -> tuple[str, bool]:
    """The model that answers there now, and whether it talks like a pirate."""
    await world.answered(text, chat=chat)
    return world.models_asked[-1], "like a pirate" in str(world.llm.bodies[-1]["messages"][0])


@pytest.mark.requirement("G-43")
async def test_those_who_are_awake_follow_a_changed_file(world: World) -> None:
    write(world, "pirate", PIRATE)
    assert await uses(world, "hello", GROUP) == ("model-a", False)
    assert await uses(world, "hi") == ("model-a", False)
    world.config = RULES
    world.reload()
    assert await uses(world, "and now", GROUP) == ("model-x", True)
    assert await uses(world, "still the same") == ("model-a", False)
    world.config = RULES.replace("b/model-x", "b")
    world.reload()
    assert await uses(world, "another model", GROUP) == ("model-b", True)
    world.config = ""
    world.reload()
    assert await uses(world, "as before", GROUP) == ("model-a", False)


@pytest.mark.requirement("G-42")
async def test_a_choice_of_the_chat_stays_when_the_file_changes(world: World) -> None:
    write(world, "pirate", PIRATE)
    await world.asks("/provider a", "already uses a", chat=GROUP)
    await world.asks("/model other-1", "now asks other-1", chat=GROUP)
    await world.asks("/persona default", "I am default", chat=GROUP)
    world.config = RULES
    world.reload()
    assert await uses(world, "hello", GROUP) == ("other-1", False)
    await world.asks("/provider reset", "Back to", chat=GROUP)
    await world.asks("/settings persona default", "again", chat=GROUP)
    assert await uses(world, "by the file", GROUP) == ("model-x", True)


@pytest.mark.requirement("Z-68")
async def test_a_choice_that_is_kept_nowhere_stays_when_something_else_changes(world_of: Callable[..., World]) -> None:
    world = world_of(config="[session]\nprovider_persistence = false\n")
    async with world.process():
        await world.asks("/provider b", "now uses")
        world.config += '[[places]]\nmatch = "*"\nmerge_ms = 1\n'
        world.reload()
        await world.asks("/settings language en", "is en now")
        assert await uses(world, "hello") == ("model-b", False)


async def test_a_broken_persona_of_a_changed_file_is_logged_and_the_one_before_answers(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    write(world, "broken", BROKEN)
    await world.answered("hello")
    world.config = '[[places]]\nmatch = "*"\npersona = "broken"\n'
    with caplog.at_level(logging.WARNING):
        world.reload()
    assert f"the persona of telegram:{ANN} cannot be loaded" in caplog.text
    assert await uses(world, "hello again") == ("model-a", False)
