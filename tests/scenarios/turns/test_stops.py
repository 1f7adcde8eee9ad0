"""A stop ends a run at once, keeps what there is, and never touches the next run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic

import anyio
import pytest

from agent.compaction.settings import MemorySettings, TacoSettings
from agent.core.errors import ContextTooLong, NoProviders, ProviderBusy
from agent.core.ids import CostAttribution
from agent.core.messages import FilePart
from agent.inbox import Work
from agent.memory.settings import RecallSettings
from agent.providers.provider import TextDelta, Usage
from agent.run.run import SHUTDOWN
from agent.run.settings import AgentSettings, Settings, TimeoutSettings, ToolSettings
from agent.storage.database import Database
from agent.voice_messages import VoiceTranscription
from tests.agent.world import World
from tests.fakes.provider import Script, ScriptedProvider, calls, fails, says
from tests.fakes.tools import FakeTool
from tests.fakes.waiting import until

HEEDED_S = 8.0  # who does not heed a stop is cut off after ten seconds; no stop at all would last for ever

STALLED = Script(chunks=(TextDelta("Once upon"),), stalls=True)


async def stopped(world: World, work: Work, when: Callable[[], bool], reason: str = "stop") -> float:
    """Run the work, stop it as soon as `when` holds; returns the seconds it took to end."""
    async with anyio.create_task_group() as group:
        group.start_soon(world.run, work)
        await until(when)
        began = monotonic()
        assert world.agent.stop(reason)
    return monotonic() - began


@pytest.mark.requirement("G-05", "R-44", "R-53", "B-41", "W-20")
async def test_a_stop_during_the_stream_keeps_the_partial_text(database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(scripts=[STALLED, says("ok")])
    world = World(database, tmp_path, provider)
    work = await world.admit("tell me a story")
    took = await stopped(world, work, lambda: bool(world.outbox.preview_text))
    assert took < HEEDED_S
    assert [(say.text, say.kind) for say in await world.says(work)] == [("Once upon", "answer"), ("Stopped.", "notice")]
    assert await world.texts() == [("user", "tell me a story"), ("assistant", "Once upon")]
    assert (await world.inbox_status(work), await world.turn_state(work)) == ("done", "cancelled")
    assert provider.closed_early == 1
    assert world.names()[-1] == "loop:end"
    assert not world.outbox.busy
    assert not world.agent.stop("again"), "nothing runs any more"
    assert await world.say("and?") == ["ok"], "a stop belongs to its run alone"


@pytest.mark.requirement("G-05")
async def test_a_stop_during_back_off_is_immediate(sqlite_database: Database, tmp_path: Path) -> None:
    world = World(sqlite_database, tmp_path, ScriptedProvider(otherwise=fails(ProviderBusy("503", after_s=20))))
    work = await world.admit("hi")
    assert await stopped(world, work, lambda: bool(world.clock.sleepers)) < HEEDED_S
    assert [say.text for say in await world.says(work)] == ["Stopped."]


@pytest.mark.requirement("B-41", "G-05", "R-53")
@pytest.mark.parametrize(
    ("window", "script"),
    [
        pytest.param(16_000, says("ok"), id="before a call"),
        pytest.param(128_000, fails(ContextTooLong("too long")), id="after a request that was too long"),
    ],
)
async def test_a_stop_during_a_compaction_is_heeded(
    sqlite_database: Database, tmp_path: Path, window: int, script: Script
) -> None:
    """The model never ends its summary."""
    unmeasured = says("ok", usage=Usage())  # so that tokens are counted as they are
    provider = ScriptedProvider(context_window=window, otherwise=unmeasured, aside=STALLED)
    settings = Settings(memory=MemorySettings(recall=RecallSettings(enabled=False)))
    world = World(sqlite_database, tmp_path, provider, settings=settings)
    for number in range(8):
        await world.say(f"{number}: " + "word " * 600)
    provider.scripts = [script]
    work = await world.admit("word " * 3_000)
    assert await stopped(world, work, lambda: bool(provider.asides)) < HEEDED_S
    assert [say.text for say in await world.says(work)] == ["Stopped."]
    assert await world.turn_state(work) == "cancelled"


@pytest.mark.requirement("G-05", "R-53")
async def test_a_stop_while_a_result_is_shortened_is_heeded(sqlite_database: Database, tmp_path: Path) -> None:
    """The result is there as it is."""
    provider = ScriptedProvider(scripts=[calls("echo", {"text": "word " * 3_000})], aside=STALLED)
    settings = Settings(tools=ToolSettings(taco=TacoSettings(enabled=True, compressible_tools=("echo",))))
    world = World(sqlite_database, tmp_path, provider, settings=settings, tools=(FakeTool(),))
    work = await world.admit("go")
    assert await stopped(world, work, lambda: bool(provider.asides)) < HEEDED_S
    assert [say.text for say in await world.says(work)] == ["Stopped."]
    assert (await world.texts())[-1][1].count("word ") == 3_000


@pytest.mark.requirement("W-21", "W-20", "B-41", "G-05")
@pytest.mark.parametrize(
    "agent",
    [
        pytest.param(AgentSettings(), id="steps are left"),
        pytest.param(AgentSettings(step_budget=1), id="it was the last step"),
    ],
)
async def test_a_stop_during_a_tool_leaves_a_result_for_it(
    sqlite_database: Database, tmp_path: Path, agent: AgentSettings
) -> None:
    provider = ScriptedProvider(scripts=[calls("echo", {"text": "a"}), says("ok")])
    tool = FakeTool(gate=anyio.Event())
    world = World(sqlite_database, tmp_path, provider, tools=(tool,), settings=Settings(agent=agent))
    work = await world.admit("go")
    assert await stopped(world, work, lambda: bool(tool.running)) < HEEDED_S
    assert tool.calls[0][1].cancel.fired
    assert len(provider.requests) == 1
    assert [(say.text, say.kind) for say in await world.says(work)] == [("Stopped.", "notice")]
    assert await world.turn_state(work) == "cancelled"
    assert (await world.texts())[-1] == ("user", "[tool_result: call_1]\nNot finished: the person stopped this run.")
    await world.say("and?")
    messages = provider.requests[1].messages
    assert [result.is_error for message in messages for result in message.tool_results] == [True]


@dataclass(frozen=True, kw_only=True)
class EndlessHearing(VoiceTranscription):
    """Never done with a voice message."""

    listening: anyio.Event = field(default_factory=anyio.Event)

    def wanted(self, files: Sequence[FilePart], text: str, takes: frozenset[str]) -> tuple[FilePart, ...]:
        return tuple(files)

    def hidden_from_history(self, files: Sequence[FilePart], takes: frozenset[str]) -> bool:
        return False

    async def written(self, file: FilePart, attribution: CostAttribution) -> str:
        self.listening.set()
        await anyio.sleep_forever()
        return ""


async def with_a_voice_message(database: Database, home: Path) -> tuple[World, EndlessHearing, Work]:
    world = World(database, home, ScriptedProvider())
    world.voice_transcription = voice_transcription = EndlessHearing(home=home, clock=world.clock, ledger=world.ledger)
    await world.restart()
    (home / "v.oga").write_bytes(b"OggS")
    voice = FilePart(path="v.oga", mime_type="audio/ogg", name="v.oga", size=4)
    return world, voice_transcription, await world.admit("", files=(voice,))


@pytest.mark.requirement("G-05")
async def test_a_stop_ends_the_listening_to_a_voice_message(sqlite_database: Database, tmp_path: Path) -> None:
    world, voice_transcription, work = await with_a_voice_message(sqlite_database, tmp_path)
    assert await stopped(world, work, voice_transcription.listening.is_set) < HEEDED_S
    assert [say.text for say in await world.says(work)] == ["Stopped."]
    assert (await world.inbox_status(work), await world.turn_state(work)) == ("done", "cancelled")


@pytest.mark.requirement("G-27")
async def test_a_shutdown_stores_no_voice_message_unheard(sqlite_database: Database, tmp_path: Path) -> None:
    world, voice_transcription, work = await with_a_voice_message(sqlite_database, tmp_path)
    async with anyio.create_task_group() as group:
        group.start_soon(world.run, work)
        await until(voice_transcription.listening.is_set)
        world.agent.stop(SHUTDOWN)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert await world.turn_state(work) is None, "the next owner listens to it"


@pytest.mark.requirement("G-05")
async def test_a_run_that_does_not_heed_the_stop_is_cut_off(sqlite_database: Database, tmp_path: Path) -> None:
    class Deaf(ScriptedProvider):
        async def stream(self, request: object):  # type: ignore[no-untyped-def]
            yield TextDelta("Hmm")
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.3)  # deaf for longer than a stop waits
            await anyio.sleep_forever()

    settings = Settings(timeouts=TimeoutSettings(stop_grace=0.05))
    world = World(sqlite_database, tmp_path, Deaf(), settings=settings)
    work = await world.admit("hi")
    assert await stopped(world, work, lambda: bool(world.outbox.preview_text)) < HEEDED_S
    assert [say.text for say in await world.says(work)] == ["Hmm", "Stopped."]
    assert await world.turn_state(work) == "cancelled"


@pytest.mark.requirement("W-21", "G-05")
async def test_a_call_that_a_stop_cuts_off_has_a_result_when_the_person_goes_on(
    sqlite_database: Database, tmp_path: Path
) -> None:
    class Deaf(FakeTool):
        async def run(self, arguments: object, context: object) -> str:
            self.running += 1
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.3)  # deaf for longer than a stop waits
            await anyio.sleep_forever()
            return "never"

    tool = Deaf()
    provider = ScriptedProvider(scripts=[calls("echo", {"text": "a"}), says("ok")])
    settings = Settings(timeouts=TimeoutSettings(stop_grace=0.05))
    world = World(sqlite_database, tmp_path, provider, tools=(tool,), settings=settings)
    work = await world.admit("go")
    assert await stopped(world, work, lambda: bool(tool.running)) < HEEDED_S
    assert await world.say("and?") == ["ok"]
    asked, answered, said = provider.requests[1].messages[-3:]
    assert [use.id for use in asked.tool_uses] == ["call_1"]
    assert [result.tool_use_id for result in answered.tool_results] == ["call_1"]
    assert said.content == "and?"


@pytest.mark.requirement("G-05", "W-62")
async def test_the_hard_cancel_still_persists(sqlite_database: Database, tmp_path: Path) -> None:
    class Slow:
        """A database whose reads hang, so that only the hard cancel ends the context stage."""

        dialect = "sqlite"

        def __init__(self) -> None:
            self.hang = False
            self.hanging = False

        async def read(self, work: object) -> object:
            if self.hang:
                self.hanging = True
                await anyio.sleep_forever()
            return await sqlite_database.read(work)  # type: ignore[arg-type]

        async def write(self, work: object) -> object:
            return await sqlite_database.write(work)  # type: ignore[arg-type]

        async def aclose(self) -> None: ...

    slow = Slow()
    settings = Settings(timeouts=TimeoutSettings(stop_grace=0.05, context_prep=0))
    world = World(slow, tmp_path, ScriptedProvider(), settings=settings)  # type: ignore[arg-type]
    await world.say("first")
    await world.restart()
    await world.agent.operations.status()  # asks which session it is, but does not load it
    work = await world.admit("hi")
    slow.hang = True
    await stopped(world, work, lambda: slow.hanging)
    slow.hang = False
    assert [say.text for say in await world.says(work)] == ["Stopped."]
    assert await world.inbox_status(work) == "done"


@pytest.mark.requirement("B-40", "B-81", "R-44")
async def test_a_run_has_a_time_limit(sqlite_database: Database, tmp_path: Path) -> None:
    world = World(sqlite_database, tmp_path, ScriptedProvider(otherwise=STALLED))
    for limit in (1.5, 6.5, 20.5):  # a busy machine may need longer to come to the model at all
        world.settings = Settings(agent=AgentSettings(execution_timeout_ms=int(limit * 1000)))
        with anyio.fail_after(limit + HEEDED_S):
            said = await world.say("hi")
        if said[0] == "Once upon":
            break
    assert said == ["Once upon", f"This took longer than {limit} seconds, so I stopped."]
    assert world.names()[-1] == "loop:error"


@pytest.mark.requirement("B-42", "B-40")
async def test_a_call_that_the_time_limit_cuts_off_is_stored_with_a_result(
    sqlite_database: Database, tmp_path: Path
) -> None:
    tool = FakeTool(gate=anyio.Event())
    provider = ScriptedProvider(scripts=[calls("echo", {"text": "a"}), says("ok")])
    world = World(sqlite_database, tmp_path, provider, tools=(tool,))
    world.settings = Settings(agent=AgentSettings(execution_timeout_ms=2_000))
    said = await world.say("go")
    assert said == ["This took longer than 2 seconds, so I stopped."]
    assert tool.calls, "the call had begun"
    stored = await world.texts()
    assert [who for who, _ in stored] == ["user", "assistant", "user"]
    assert stored[-1][1].startswith("[tool_result: call_1]")


@pytest.mark.requirement("Z-25", "Z-26", "R-53", "G-05")
async def test_a_turn_within_the_back_off_skips_the_preparation(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(scripts=[fails(NoProviders("none")), says("ok")])
    world = World(sqlite_database, tmp_path, provider)
    work = await world.admit("hi")
    notes = world.agent.instruction.notes.path
    assert await stopped(world, work, lambda: bool(world.clock.sleepers)) < HEEDED_S
    notes.parent.mkdir(parents=True)
    notes.write_text("likes tea")
    await world.say("again")
    assert "likes tea" not in provider.requests[1].system.volatile
    world.clock.advance(2.1)
    await world.say("later")
    assert "likes tea" in provider.requests[2].system.volatile


@pytest.mark.requirement("G-27", "W-15")
async def test_a_shutdown_leaves_the_run_to_the_next_owner(database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(scripts=[calls("echo", {"text": "a"}), STALLED, says("Done.")])
    tool = FakeTool()
    world = World(database, tmp_path, provider, tools=(tool,))
    work, other = await world.admit("go"), await world.admit("never reached")
    async with anyio.create_task_group() as group:
        group.start_soon(world.run, work, other)
        await until(lambda: bool(world.outbox.preview_text))
        world.agent.stop(SHUTDOWN)
    assert await world.says() == []
    assert (await world.inbox_status(work), await world.turn_state(work)) == ("new", "running")
    assert await world.turn_state(other) is None
    assert world.names()[-1] == "loop:error"
    assert not world.outbox.busy
    await world.restart()
    again = await world.again(work)
    await world.run(again)
    assert [say.text for say in await world.says(again)] == ["Done."]
    assert len(tool.calls) == 1, "a finished call is not run again"
    assert [role for role, _ in await world.texts()] == ["user", "assistant", "user", "assistant"]


@pytest.mark.requirement("B-91", "B-92", "G-27")
async def test_a_cancelled_task_leaves_everything_to_the_next_owner(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(scripts=[STALLED, says("Done.")])
    world = World(sqlite_database, tmp_path, provider)
    work = await world.admit("go")
    async with anyio.create_task_group() as group:
        group.start_soon(world.run, work)
        await until(lambda: bool(world.outbox.preview_text))
        group.cancel_scope.cancel()
    assert world.names()[-1] == "loop:error"
    assert (world.outbox.ended, world.outbox.busy) == (1, False)
    assert world.agent.lifecycle.run is None
    again = await world.again(work)
    await world.run(again)
    assert [say.text for say in await world.says(again)] == ["Done."]


async def test_nothing_runs_nothing_stops(sqlite_database: Database, tmp_path: Path) -> None:
    world = World(sqlite_database, tmp_path, ScriptedProvider())
    assert not world.agent.stop("stop")
    work = await world.admit("hi", language="de")
    await world.run(replace(work))
    assert world.outbox.audiences[0].language == "de"
