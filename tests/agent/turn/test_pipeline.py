"""Inputs and outputs of each stage."""

from pathlib import Path
from uuid import UUID

import anyio
import pytest

from agent.agent import Agent
from agent.core import errors
from agent.core.errors import AgentError
from agent.core.events import StreamDelta
from agent.inbox import Work
from agent.memory.notes import path_of
from agent.run.run import Run, StagedChanges
from agent.storage.database import Database
from agent.turn.agent_loop import execute
from agent.turn.commit import persist
from agent.turn.context import prepare
from agent.turn.intake import ingest
from agent.turn.pipeline import begin
from tests.agent.world import KEY, World
from tests.fakes.provider import ScriptedProvider, says
from tests.fakes.waiting import until


async def begun(world: World, work: Work) -> tuple[Run, Agent]:
    definition = world.agent.instruction.definition
    assert definition is not None
    return await begin(work, definition, world.agent, StagedChanges()), world.agent


@pytest.mark.requirement("B-03", "B-04", "B-14", "B-15", "B-16", "B-28", "B-51")
async def test_the_four_stages_hand_on_what_they_promise(sqlite_database: Database, tmp_path: Path) -> None:
    world = World(sqlite_database, tmp_path, ScriptedProvider(scripts=[says("one"), says("two")]))
    notes = path_of(tmp_path, KEY)
    notes.parent.mkdir(parents=True)
    notes.write_text("Likes tea.")
    await world.say("first")
    await world.restart()
    run, agent = await begun(world, await world.admit("second"))

    taken = await ingest(run, agent)
    assert taken.refused is None
    assert UUID(run.id)
    assert run.session == await world.session()
    assert run.definition.identity == "You are a test agent."
    assert [message.content for message in run.messages] == ["second"]

    prepared = await prepare(run, agent)
    assert [message.content for message in prepared.history] == ["first", "one"]
    assert prepared.memory == "Likes tea."
    assert prepared.token_estimate > 0
    assert not prepared.degraded

    executed = await execute(prepared, run, agent)
    assert (executed.verdict, executed.text, executed.notice) == ("answered", "two", None)
    assert [call.usage.prompt for call in run.usage] == [10]

    persisted = await persist(executed, run, agent)
    assert (persisted.transcript_updated, persisted.session_updated, persisted.memory_updated) == (True, True, False)
    assert [content for _, content in await world.texts()] == ["first", "one", "second", "two"]


@pytest.mark.requirement("B-15")
async def test_a_long_transcript_is_loaded_whole(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(otherwise=says("ok"))
    world = World(sqlite_database, tmp_path, provider)
    said = [f"message {number}" for number in range(30)]
    for text in said:
        await world.say(text)
    await world.restart()
    await world.say("and now?")
    assert [one.content for one in provider.requests[-1].messages if one.role == "user"] == [*said, "and now?"]


@pytest.mark.requirement("R-13")
async def test_the_reply_is_shown_while_it_streams(sqlite_database: Database, tmp_path: Path) -> None:
    more = anyio.Event()

    class Halting(ScriptedProvider):
        async def stream(self, request):  # type: ignore[no-untyped-def]
            first, *rest = says("Once upon a time").chunks
            yield first
            await more.wait()
            for chunk in rest:
                yield chunk

    world = World(sqlite_database, tmp_path, Halting())
    work = await world.admit("hi")
    async with anyio.create_task_group() as group:
        group.start_soon(world.run, work)
        await until(lambda: world.outbox.preview_text == "Once ")
        assert await world.says() == []
        more.set()
    assert world.outbox.preview_text == "Once upon a time"
    deltas = [event.content for event in world.events if isinstance(event, StreamDelta)]
    assert deltas == ["Once ", "upon ", "a ", "time"], "each piece is told once"


@pytest.mark.requirement("Z-32")
def test_the_errors_are_one_tree_that_says_what_to_do_next() -> None:
    tree = {cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, Exception)}
    assert all(issubclass(cls, AgentError) for cls in tree)
    assert issubclass(errors.ProviderBusy, errors.Transient)
    assert issubclass(errors.NoProviders, errors.Transient)
    assert issubclass(errors.ContextTooLong, errors.Permanent)
    assert not issubclass(errors.Transient, errors.Permanent)
    assert errors.ProviderBusy("x", after_s=3).after_s == 3
    assert errors.ToolError("x", transient=True).transient
