"""Requirements of a whole turn that no test of a part can show."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import Connection, select

from agent.core.events import ContextBuilt, ExecuteStarted
from agent.core.messages import text_message
from agent.group_context.tools import GROUP_TOOLS
from agent.providers.provider import Usage
from agent.skills.catalogue import LOAD
from agent.storage.database import Database
from agent.storage.tables import turn
from agent.tools.deferred_tools import CORE, SEARCH
from agent.tools.session_tools import EXIT, FOCUS_TOOLS
from agent.turn.decision import ASK_USER
from tests.agent.world import World
from tests.fakes.mortal import MortalDatabase
from tests.fakes.outbox import FakeOutbox
from tests.fakes.provider import ScriptedProvider, calls_all, says
from tests.fakes.tools import FakeTool, named
from tests.fakes.waiting import until


class Telling(FakeOutbox):
    """Asks what is on disk at the moment it is told."""

    def __init__(self, database: "Counting") -> None:
        super().__init__()
        self.database = database
        self.told_after: list[int] = []

    @contextmanager
    def committing(self) -> Iterator[Callable[[Any], None]]:
        with super().committing() as take:
            yield take
        self.told_after.append(self.database.writes)


class Counting(MortalDatabase):
    writes = 0

    async def write(self, work: Callable[[Connection], Any]) -> Any:
        result = await super().write(work)
        self.writes += 1
        return result


@pytest.mark.requirement("Z-16", "B-42")
async def test_delivery_is_told_when_everything_is_on_disk_and_not_before(
    sqlite_database: Database, tmp_path: Path
) -> None:
    counting = Counting(sqlite_database)
    world = World(counting, tmp_path, ScriptedProvider(scripts=[says("Hello.")]))
    outbox = world.agent.runtime.outbox = world.outbox = Telling(counting)
    work = await world.admit("Hi!")
    before = counting.writes
    await world.run(work)
    assert outbox.told_after == [counting.writes], "once, after the last write"
    assert counting.writes == before + 2  # the person's words, and everything that came of them
    assert [say.text for say in await world.says(work)] == ["Hello."]


@pytest.mark.requirement("B-18")
async def test_the_estimate_counts_system_history_and_message(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(otherwise=says("ok", usage=Usage()))
    world = World(sqlite_database, tmp_path, provider)

    async def estimated(text: str) -> int:
        await world.say(text)
        return [event.token_estimate for event in world.events if isinstance(event, ContextBuilt)][-1]

    estimator = world.agent.metrics.estimator
    short = await estimated("hi")
    long = await estimated("hi " + "word " * 2000)
    counted = estimator.message(text_message("user", "word " * 2000))
    assert long - short > 0.9 * counted, "the message"
    after = await estimated("hi")
    assert after - short > 0.9 * counted, "the history, though the message is short again"
    world.write_persona("default", "---\nname: T\n---\n" + "word " * 3000)
    assert await estimated("hi") - after > 0.9 * counted, "the system prompt"


@pytest.mark.requirement("B-43")
async def test_a_turn_leaves_its_marks_on_the_session(database: Database, tmp_path: Path) -> None:
    usage = Usage(prompt=100, cache_read=70, cache_creation=5, output=20)
    world = World(database, tmp_path, ScriptedProvider(otherwise=says("ok", usage=usage)))
    await world.say("one")
    (before,) = await world.agent.operations.sessions()
    world.clock.advance(60)
    await world.say("two")
    (session,) = await world.agent.operations.sessions()
    of_both = (session.message_count, session.prompt_tokens, session.output_tokens)
    assert of_both == (4, 350, 40), "read from a cache or not"
    assert (session.updated_at - before.updated_at).total_seconds() == 60


@pytest.mark.requirement("W-15", "W-13")
async def test_what_was_only_stored_when_the_process_died_is_in_the_next_request(
    database: Database, tmp_path: Path
) -> None:
    mortal = MortalDatabase(database)
    provider = ScriptedProvider()
    world = World(mortal, tmp_path, provider)
    await world.say("one")
    work = await world.admit("two")
    with mortal.dying(after=1):  # the message is on disk, nothing of its turn is
        await world.run(work)
    await world.restart()
    await world.run(await world.again(work))
    assert [message.content for message in provider.requests[-1].messages] == ["one", "ok", "two"]


@pytest.mark.requirement("W-15")
async def test_what_one_call_gave_before_the_process_died_stands_beside_the_one_that_was_cut_off(
    database: Database, tmp_path: Path
) -> None:
    quick, hanging = FakeTool(), FakeTool(spec=named("slow"), gate=anyio.Event())
    both = calls_all([("echo", {"text": "pong"}, "call_1"), ("slow", {"text": "never"}, "call_2")])
    provider = ScriptedProvider(scripts=[both, says("Done.")])
    world = World(database, tmp_path, provider, tools=(quick, hanging))
    work = await world.admit("go")
    noted = select(turn.c.checkpoint).where(turn.c.inbox_id == work.inbox_id)

    async def has_noted() -> bool:
        return "pong" in str(await database.read(lambda conn: conn.execute(noted).scalar_one_or_none()))

    async with anyio.create_task_group() as group:
        group.start_soon(world.run, work)
        await until(has_noted)
        group.cancel_scope.cancel()
    await world.restart()
    await world.run(await world.again(work))
    first, second = provider.requests[-1].messages[-1].tool_results
    assert first.content == "pong"
    assert not first.is_error
    assert second.is_error, "nobody knows what it came to"
    assert (len(quick.calls), len(hanging.calls)) == (1, 1)


@pytest.mark.requirement("Z-72")
async def test_the_figures_of_the_context_are_there_and_zero_means_never(
    sqlite_database: Database, tmp_path: Path
) -> None:
    world = World(sqlite_database, tmp_path, ScriptedProvider(context_window=9_000))
    await world.say("hi")
    status = await world.agent.operations.status()
    assert (status.context_window, world.agent.metrics.context_max_tokens) == (9_000, 9_000)
    figures = (status.compaction_last_before, status.compaction_last_after, status.compaction_last_at_ms)
    assert figures == (0, 0, 0)


@pytest.mark.requirement("B-70")
async def test_the_event_tells_how_many_tools_the_model_is_offered(sqlite_database: Database, tmp_path: Path) -> None:
    agent_md = "---\nname: T\ntools: [calculate]\n---\nHi."
    one = World(sqlite_database, tmp_path, ScriptedProvider(), agent_md=agent_md)
    await one.say("hi")
    one.write_persona("default", "---\nname: T\n---\nHi.")
    await one.say("hi")
    counts = [event.tool_count for event in one.events if isinstance(event, ExecuteStarted)]
    core = {tool.spec.name for tool in one.tools if tool.spec.core or tool.spec.name in CORE}
    offered = (core | {SEARCH, ASK_USER}) - FOCUS_TOOLS - GROUP_TOOLS - {EXIT, LOAD}
    assert counts == [1, len(offered)], "what is off is not offered"
