"""The agent as a whole: its states, its order, its events, its reloads."""

import os
import re
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from pathlib import Path
from string import Formatter
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from agent.agent import Agent
from agent.built_ins import CommandResult
from agent.core.errors import ProviderBusy, ProviderRefused
from agent.core.events import (
    Event,
    EventBus,
    LoopEnded,
    LoopFailed,
    LoopStarted,
    PersistStarted,
    Published,
    StreamDelta,
)
from agent.core.ids import ConversationId
from agent.core.outbox import Outbox
from agent.core.phrases import ENGLISH, english
from agent.inbox import Work
from agent.operations import Operations
from agent.providers.provider import Done, TextDelta, Usage
from agent.run.settings import AgentSettings, Settings
from agent.storage.database import Database
from tests.agent.world import World
from tests.fakes.mortal import MortalDatabase
from tests.fakes.outbox import FakeOutbox
from tests.fakes.provider import Script, ScriptedProvider, calls, fails, says
from tests.fakes.tools import FakeTool
from tests.fakes.waiting import until
from tools.requirements import LIST


@pytest.mark.requirement("Z-04")
def test_an_agent_has_only_named_states() -> None:
    sentence = tomllib.loads(LIST.read_text())["Z-04"]["text"]
    listed = re.search(r"\(([a-z, ]+)\)", sentence)
    assert listed is not None
    assert [field.name for field in fields(Agent)] == listed[1].split(", "), "those that the requirement names"
    assert all(str(field.type).removesuffix("'>").endswith("State") for field in fields(Agent))
    assert set(Agent.__slots__) == {field.name for field in fields(Agent)}


@pytest.mark.requirement("Z-01", "R-54")
async def test_conversations_run_at_once_and_share_nothing(sqlite_database: Database, tmp_path: Path) -> None:
    both = anyio.Event()

    class Waiting(ScriptedProvider):
        async def stream(self, request: Any):  # type: ignore[no-untyped-def]
            if self.requests:
                both.set()
            async for chunk in super().stream(request):
                with anyio.fail_after(60):
                    await both.wait()  # the first call ends only when the second is under way
                yield chunk

    provider = Waiting()
    worlds = [World(sqlite_database, tmp_path, provider, key=ConversationId(key)) for key in ("telegram:1", "slack:2")]
    works = [[await world.admit(f"{world.key} {number}") for number in range(3)] for world in worlds]
    async with anyio.create_task_group() as group:
        for world, its in zip(worlds, works, strict=True):
            group.start_soon(world.run, *its)
    assert len(provider.requests) == 6
    for world in worlds:
        said = [content for role, content in await world.texts() if role == "user"]
        assert said == [f"{world.key} {number}" for number in range(3)]


@pytest.mark.requirement("R-54")
async def test_conversations_at_once_use_up_no_steps_of_each_other(sqlite_database: Database, tmp_path: Path) -> None:
    settings = Settings(agent=AgentSettings(step_budget=2))
    worlds = []
    for key in ("telegram:1", "slack:2"):
        provider = ScriptedProvider(scripts=[calls("echo", {"text": "a"}), says("ok")])
        tools = (FakeTool(),)
        worlds.append(
            World(sqlite_database, tmp_path, provider, tools=tools, settings=settings, key=ConversationId(key))
        )
    works = [await world.admit("go") for world in worlds]
    async with anyio.create_task_group() as group:
        for world, work in zip(worlds, works, strict=True):
            group.start_soon(world.run, work)
    for world, work in zip(worlds, works, strict=True):
        assert [say.text for say in await world.says(work)] == ["ok"], "two steps each were enough"


@pytest.mark.requirement("Z-01")
async def test_an_agent_is_compared_by_identity_alone(sqlite_database: Database, tmp_path: Path) -> None:
    world = World(sqlite_database, tmp_path, ScriptedProvider())
    assert world.agent == world.agent
    assert world.agent != replace(world.agent)


@pytest.mark.requirement("Z-07", "Z-22", "Z-08")
async def test_work_is_done_in_the_order_of_its_source(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider()
    world = World(sqlite_database, tmp_path, provider)
    works = [
        await world.admit("injected", kind="system", person=None),
        await world.admit("from Ann"),
        await world.admit("due", kind="reminder", person=None),
    ]
    await world.run(*works)
    newest = [request.messages[-1].content.splitlines()[-1] for request in provider.requests]
    assert newest == ["injected", "from Ann", "due"]


@pytest.mark.requirement("Z-06", "Z-35")
async def test_the_outbox_is_the_only_way_out(sqlite_database: Database, tmp_path: Path) -> None:
    world = World(sqlite_database, tmp_path, ScriptedProvider())
    port: Outbox = FakeOutbox()
    assert isinstance(world.agent.runtime.outbox, type(port))
    await world.say("hi")
    assert world.outbox.commits == 1


@pytest.mark.requirement("Z-21", "Z-08")
class TestReloads:
    async def test_new_settings_wait_for_the_end_of_the_turn(self, sqlite_database: Database, tmp_path: Path) -> None:
        gate = anyio.Event()
        rounds = [calls("echo", {"text": str(number)}, id=f"c{number}") for number in range(5)]
        provider = ScriptedProvider(scripts=[*rounds, says("ok"), *rounds])
        tool = FakeTool(gate=gate)
        world = World(sqlite_database, tmp_path, provider, tools=(tool,))
        first, second = await world.admit("one"), await world.admit("two")
        async with anyio.create_task_group() as group:
            group.start_soon(world.run, first, second)
            await until(lambda: bool(tool.running))
            world.settings = Settings(agent=AgentSettings(max_tool_iterations=1))
            gate.set()
        assert [said.text for said in await world.says(first)] == ["ok"], "five rounds: the old limit held"
        assert ["after 1 rounds" in said.text for said in await world.says(second)] == [True]

    async def test_a_changed_definition_waits_for_the_end_of_the_turn(
        self, sqlite_database: Database, tmp_path: Path
    ) -> None:
        gate = anyio.Event()
        provider = ScriptedProvider(scripts=[calls("echo", {"text": "a"}), says("ok")])
        tool = FakeTool(gate=gate)
        world = World(sqlite_database, tmp_path, provider, tools=(tool,))
        first, second = await world.admit("one"), await world.admit("two")
        async with anyio.create_task_group() as group:
            group.start_soon(world.run, first, second)
            await until(lambda: bool(tool.running))
            os.utime(world.write_persona("default", "---\nname: T\n---\nYou are new."), ns=(1, 1))
            gate.set()
        before, during, after = (request.system.stable for request in provider.requests)
        assert before is during
        assert after.startswith("You are new.")

    async def test_a_definition_that_broke_is_not_taken(self, sqlite_database: Database, tmp_path: Path) -> None:
        provider = ScriptedProvider()
        world = World(sqlite_database, tmp_path, provider)
        await world.say("one")
        world.write_persona("default", "---\nname: ''\n---\n")
        assert await world.say("two") == ["ok"]
        assert provider.requests[0].system.stable is provider.requests[1].system.stable


ENDS = ("loop:end", "loop:error")


@asynccontextmanager
async def in_mid_story(database: Database, home: Path) -> AsyncIterator[tuple[World, TaskGroup]]:
    """A turn whose model has begun to speak and does not end; until the turn has ended."""
    endless = Script(chunks=(TextDelta("Once upon"),), stalls=True)
    world = World(database, home, ScriptedProvider(scripts=[endless]))
    work = await world.admit("tell me a story")
    async with anyio.create_task_group() as group:
        group.start_soon(world.run, work)
        await until(lambda: bool(world.outbox.preview_text))
        yield world, group


@pytest.mark.requirement("B-46", "B-68", "B-69", "B-70", "B-73", "B-74", "B-75", "B-76", "B-92", "R-17", "R-45")
class TestEvents:
    async def test_events_carry_what_they_promise(self, sqlite_database: Database, tmp_path: Path) -> None:
        provider = ScriptedProvider(scripts=[calls("echo", {"text": "a"}, text="Hm. "), says("Well done.")])
        world = World(sqlite_database, tmp_path, provider, tools=(FakeTool(),))
        await world.say("hi")
        started = next(event for event in world.events if isinstance(event, LoopStarted))
        assert started.session == await world.session()
        assert started.run
        run_events = [event for event in world.events if event.name != "provider_switched"]
        assert {event.run for event in run_events} == {started.run}
        assert {event.conversation for event in run_events} == {world.key}
        deltas = [event.content for event in world.events if isinstance(event, StreamDelta)]
        assert "".join(deltas) == "Hm. Well done."
        assert world.names() == [
            "loop:start", "loop:context", "loop:execute", "llm_decision_complete", "estimator_calibrated", "tool:start",
            "tool:end", "step_complete", "llm_decision_complete", "step_complete", "loop:persist", "token_usage",
            "loop:end",
        ]  # fmt: skip
        ended = world.events[-1]
        assert isinstance(ended, LoopEnded)
        assert (ended.success, ended.duration_ms) == (True, 0)

    @pytest.mark.parametrize(
        "scripts",
        [
            pytest.param([says("ok")], id="answered"),
            pytest.param([Script()], id="nothing at all"),
            pytest.param([fails(ProviderRefused("no"))], id="refused"),
            pytest.param([calls("fail", {"reason": "no"})], id="gave up"),
        ],
    )
    async def test_every_run_starts_and_ends_once(
        self, sqlite_database: Database, tmp_path: Path, scripts: list[Script]
    ) -> None:
        world = World(sqlite_database, tmp_path, ScriptedProvider(scripts=scripts))
        await world.say("hi")
        assert world.names().count("loop:start") == 1
        assert sum(name in ENDS for name in world.names()) == 1

    async def test_the_end_tells_its_length_in_milliseconds(self, sqlite_database: Database, tmp_path: Path) -> None:
        tool = FakeTool(gate=anyio.Event())
        provider = ScriptedProvider(scripts=[calls("echo", {"text": "a"}), says("ok")])
        world = World(sqlite_database, tmp_path, provider, tools=(tool,))
        work = await world.admit("hi")
        async with anyio.create_task_group() as group:
            group.start_soon(world.run, work)
            await until(lambda: tool.running == 1)
            world.clock.advance(2.5)
            assert tool.gate is not None
            tool.gate.set()
        ended = world.events[-1]
        assert isinstance(ended, LoopEnded)
        assert ended.duration_ms == 2_500

    async def test_also_a_run_that_somebody_stops(self, sqlite_database: Database, tmp_path: Path) -> None:
        async with in_mid_story(sqlite_database, tmp_path) as (world, _):
            assert world.agent.stop("stop")
        assert world.names().count("loop:start") == 1
        assert [name for name in world.names() if name in ENDS] == ["loop:end"]
        ended = world.events[-1]
        assert isinstance(ended, LoopEnded)
        assert not ended.success

    async def test_a_turn_in_a_fresh_session_begins_with_the_name_of_that(
        self, sqlite_database: Database, tmp_path: Path
    ) -> None:
        async def new(work: Work, agent: Operations) -> CommandResult:
            agent.new_session()
            return CommandResult(go_on_with="and now?")

        world = World(sqlite_database, tmp_path, ScriptedProvider())
        world.built_ins.commands["/new"] = new
        await world.say("hi")
        left = await world.session()
        await world.say("/new")
        *_, started = (event for event in world.events if isinstance(event, LoopStarted))
        assert started.session == await world.session() != left

    async def test_also_a_run_that_is_cut_off(self, sqlite_database: Database, tmp_path: Path) -> None:
        async with in_mid_story(sqlite_database, tmp_path) as (world, group):
            group.cancel_scope.cancel()
        assert [name for name in world.names() if name in ENDS] == ["loop:error"]
        failed = world.events[-1]
        assert isinstance(failed, LoopFailed)
        assert failed.error
        assert failed.verdict == "broken", "nothing of its end is stored"

    async def test_also_a_run_whose_storage_fails(self, sqlite_database: Database, tmp_path: Path) -> None:
        mortal = MortalDatabase(sqlite_database)
        world = World(mortal, tmp_path, ScriptedProvider())
        work = await world.admit("hi")
        mortal.trouble = 1
        with pytest.raises(Exception, match="disk is full"):
            await world.run(work)
        assert world.names() == ["loop:start", "loop:error"]
        failed = world.events[-1]
        assert isinstance(failed, LoopFailed)
        assert failed.error == "the disk is full"

    async def test_also_a_run_that_is_taken_up_after_a_crash(self, sqlite_database: Database, tmp_path: Path) -> None:
        mortal = MortalDatabase(sqlite_database)
        world = World(mortal, tmp_path, ScriptedProvider())
        work = await world.admit("hi")
        with mortal.dying(after=1):
            await world.run(work)
        await world.restart()
        world.events.clear()
        await world.run(await world.again(work))
        assert world.names().count("loop:start") == 1, "whoever follows turns sees the second try begin"
        assert sum(name in ENDS for name in world.names()) == 1
        started, ended = world.events[0], world.events[-1]
        assert isinstance(started, LoopStarted)
        assert (started.session, started.attempt) == (await world.session(), 2)
        assert started.run == ended.run

    @pytest.mark.requirement("R-46")
    async def test_a_listener_that_breaks_hurts_nobody(self, sqlite_database: Database, tmp_path: Path) -> None:
        world = World(sqlite_database, tmp_path, ScriptedProvider())
        heard: list[Published] = []

        def broken(published: Published) -> None:
            raise RuntimeError("boom")

        stop = world.bus.listen(broken)
        world.bus.listen(heard.append)
        assert await world.say("hi") == ["ok"]
        assert len(world.broken_listeners) == len(heard)
        sequences = [published.sequence for published in heard]
        assert sequences == list(range(sequences[0], sequences[0] + len(sequences)))
        stop()
        await world.say("again")
        assert len(world.broken_listeners) < len(heard)

    def test_a_listener_may_choose_what_it_hears(self) -> None:
        bus = EventBus(lambda error, event: pytest.fail(str(error)))
        heard: list[int] = []
        stop = bus.listen(lambda published: heard.append(published.sequence), [PersistStarted])
        assert (bus.hears(PersistStarted), bus.hears(Event)) == (True, False)
        for event in (Event, PersistStarted, Event, PersistStarted):
            bus.publish(event(conversation=ConversationId("a")))
        assert heard == [2, 4]
        stop()
        assert not bus.hears(PersistStarted)
        bus.publish(PersistStarted(conversation=ConversationId("a")))
        assert heard == [2, 4]

    def test_sequences_are_counted_for_each_conversation(self) -> None:
        bus = EventBus(lambda error, event: pytest.fail(str(error)))
        heard: list[tuple[str, int]] = []
        bus.listen(lambda published: heard.append((published.event.conversation, published.sequence)))
        for key in ("a", "b", "a"):
            bus.publish(Event(conversation=ConversationId(key)))
        bus.forget(ConversationId("a"))
        bus.publish(Event(conversation=ConversationId("a")))
        assert heard == [("a", 1), ("b", 1), ("a", 2), ("a", 1)]


@pytest.mark.requirement("W-67", "B-01")
async def test_the_steps_of_a_turn_come_in_their_order(sqlite_database: Database, tmp_path: Path) -> None:
    trace: list[str] = []

    class Tracing(MortalDatabase):
        async def write(self, work: Any) -> Any:
            trace.append("write")
            return await super().write(work)

    class Model(ScriptedProvider):
        async def stream(self, request: Any):  # type: ignore[no-untyped-def]
            trace.append("model")
            async for chunk in super().stream(request):
                yield chunk

    class Tool(FakeTool):
        async def run(self, arguments: Any, context: Any) -> str:
            trace.append("tool")
            return await super().run(arguments, context)

    provider = Model(scripts=[calls("echo", {"text": "a"}), says("ok")])
    world = World(Tracing(sqlite_database), tmp_path, provider, tools=(Tool(),))
    world.bus.listen(lambda published: trace.append(published.event.name) if "loop" in published.event.name else None)
    work = await world.admit("hi")
    trace.clear()
    await world.run(work)
    assert trace == [
        "loop:start",
        "write",  # 5: the person's words
        "loop:context",
        "loop:execute",
        "model",  # 17
        "write",  # the call, before it runs
        "tool",  # 18
        "write",  # its result
        "model",
        "loop:persist",
        "write",
        "loop:end",
    ]


@pytest.mark.requirement("W-62")
@pytest.mark.parametrize(
    "script",
    [says("ok"), Script(), fails(ProviderRefused("no")), fails(ProviderBusy("x"), after="y")],
    ids=["answered", "nothing", "refused", "cut"],
)
async def test_every_exit_saves(sqlite_database: Database, tmp_path: Path, script: Script) -> None:
    world = World(sqlite_database, tmp_path, ScriptedProvider(otherwise=script))
    work = await world.admit("hi")
    await world.run_through(work)
    assert await world.inbox_status(work) == "done"
    assert await world.turn_state(work) in ("done", "failed")
    assert await world.says(work), "never silence"
    assert world.outbox.ended == 1


PIECES = {"approval_admin_here", "approval_or"}  # of sentences, which name people


def test_every_phrase_is_english_and_complete() -> None:
    for key, sentence in ENGLISH.items():
        values = dict.fromkeys((name for _, name, _, _ in Formatter().parse(sentence) if name), "X")
        assert english(key, "de", **values)
        assert key in PIECES or not sentence[0].islower()


@pytest.mark.requirement("B-73")
async def test_blanks_and_line_breaks_of_a_stream_are_told_too(sqlite_database: Database, tmp_path: Path) -> None:
    pieces = ("One", " ", "two", "\n\n", "three")
    script = Script(chunks=(*map(TextDelta, pieces), Usage(prompt=10, output=5), Done("end_turn")))
    world = World(sqlite_database, tmp_path, ScriptedProvider(scripts=[script]))
    assert await world.say("count") == ["One two\n\nthree"]
    told = "".join(event.content for event in world.events if isinstance(event, StreamDelta))
    assert told == "One two\n\nthree", "who puts the pieces together has the answer"
