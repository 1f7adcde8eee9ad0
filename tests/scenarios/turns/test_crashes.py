"""Work that a crash interrupted is recovered: nothing is lost, nothing is done twice."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from agent.built_ins import CommandResult
from agent.core.errors import Fenced
from agent.core.ids import ConversationId
from agent.core.outbox import OutgoingMessage
from agent.inbox import Work
from agent.operations import Operations
from agent.sessions import store
from agent.storage.database import Database
from agent.storage.errors import StorageTrouble
from tests.agent.world import World, offering
from tests.fakes.mortal import Crash, MortalDatabase
from tests.fakes.provider import Script, ScriptedProvider, calls, calls_all, says
from tests.fakes.tools import FakeTool, named
from tests.fakes.waiting import until


def replies() -> list[Script]:
    """Enough for a run that is begun several times; which one is played follows from what the request holds."""
    return [calls("echo", {"text": "a"}), says("Done.")]


class Following(ScriptedProvider):
    """Plays the reply that follows from the conversation, however often it is asked."""

    async def stream(self, request: Any):  # type: ignore[no-untyped-def]
        self.scripts = [replies()[1 if request.messages[-1].tool_results else 0]]
        async for chunk in super().stream(request):
            yield chunk


@pytest.mark.requirement("W-13", "B-52", "W-12")
@pytest.mark.parametrize("retryable", [False, True])
@pytest.mark.parametrize("writes", range(1, 6))
async def test_whenever_it_dies_the_message_is_answered_once(
    sqlite_database: Database, tmp_path: Path, writes: int, retryable: bool
) -> None:
    mortal = MortalDatabase(sqlite_database)
    tool = FakeTool(spec=named("echo", retryable=retryable))
    world = World(mortal, tmp_path, Following(), tools=(tool,))
    work = await world.admit("go")
    mortal.writes_left = writes
    with suppress(Crash):
        await world.run(work)
    mortal.writes_left = None
    answered = bool(await world.says())
    if not answered:
        await world.restart()
        await world.run(await world.again(work))
    assert [say.text for say in await world.says()] == ["Done."]
    assert await world.inbox_status(work) == "done"
    texts = await world.texts()
    assert [role for role, _ in texts] == ["user", "assistant", "user", "assistant"]
    assert texts[0] == ("user", "go")
    assert len(tool.calls) <= (2 if retryable else 1)


@pytest.mark.requirement("Z-16")
@pytest.mark.parametrize("writes", [1, 2])
@pytest.mark.parametrize(
    ("script", "ends"),
    [
        pytest.param(says("42"), "done", id="an answer"),
        pytest.param(calls("ask_user", {"question": "Which one?"}), "waiting", id="a question"),
        pytest.param(calls("fail", {"reason": "No way."}), "failed", id="a failure"),
    ],
)
async def test_whenever_it_dies_nothing_is_said_of_a_turn_that_is_not_stored(
    sqlite_database: Database, tmp_path: Path, script: Script, ends: str, writes: int
) -> None:
    mortal = MortalDatabase(sqlite_database)
    world = World(mortal, tmp_path, ScriptedProvider(scripts=[script]), agent_md=offering("ask_user", "fail"))
    work = await world.admit("go")
    with mortal.dying(after=writes):
        await world.run(work)
    said, texts = [say.text for say in await world.says()], await world.texts()
    assert (await world.turn_state(work), bool(said)) in [("running", False), (ends, True)]
    assert not said or texts[-1] == ("assistant", said[0])


@pytest.mark.requirement("W-13", "B-90")
async def test_an_unfinished_call_is_reported_and_a_finished_one_reused(database: Database, tmp_path: Path) -> None:
    wanted = [("echo", {"text": "a"}, "a"), ("slow", {"text": "b"}, "b"), ("after", {"text": "c"}, "c")]
    provider = ScriptedProvider(scripts=[calls_all(wanted), says("ok")])
    unsafe = FakeTool(spec=named("echo", concurrency_safe=False))
    slow = FakeTool(spec=named("slow", concurrency_safe=False), gate=anyio.Event())
    after = FakeTool(spec=named("after", concurrency_safe=False))
    world = World(database, tmp_path, provider, tools=(unsafe, slow, after))
    work = await world.admit("go")
    async with anyio.create_task_group() as group:
        group.start_soon(world.run, work)
        await until(lambda: bool(slow.running))
        group.cancel_scope.cancel()
    await world.restart()
    await world.run(await world.again(work))
    results = provider.requests[1].messages[-1].tool_results
    assert [(result.content.split(";")[0], result.is_error) for result in results] == [
        ("a", False),
        ("Interrupted by a restart", True),
        ("c", False),
    ]
    assert (len(unsafe.calls), len(slow.calls), len(after.calls)) == (1, 1, 1)


async def test_a_retryable_call_is_run_again_with_the_same_key(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(scripts=[calls("echo", {"text": "a"}), says("ok")])
    tool = FakeTool(spec=named("echo", retryable=True), gate=anyio.Event())
    world = World(sqlite_database, tmp_path, provider, tools=(tool,))
    work = await world.admit("go")
    async with anyio.create_task_group() as group:
        group.start_soon(world.run, work)
        await until(lambda: bool(tool.running))
        group.cancel_scope.cancel()
    assert tool.gate is not None
    tool.gate.set()
    await world.restart()
    await world.run(await world.again(work))
    assert len({context.idempotency_key for _, context in tool.calls}) == 1
    assert len(tool.calls) == 2


@pytest.mark.requirement("W-12")
async def test_the_message_is_on_disk_before_the_model_is_asked(sqlite_database: Database, tmp_path: Path) -> None:
    seen: list[list[tuple[str, str]]] = []
    world: World

    class Looking(ScriptedProvider):
        async def stream(self, request: Any):  # type: ignore[no-untyped-def]
            seen.append(await world.texts())
            async for chunk in super().stream(request):
                yield chunk

    world = World(sqlite_database, tmp_path, Looking())
    await world.say("hi")
    assert seen == [[("user", "hi")]]


@pytest.mark.requirement("W-14")
async def test_the_first_message_and_its_session_are_written_together(
    sqlite_database: Database, tmp_path: Path
) -> None:
    mortal = MortalDatabase(sqlite_database)
    world = World(mortal, tmp_path, ScriptedProvider())
    work = await world.admit("hi")
    with mortal.dying(after=1):
        await world.run(work)
    assert await world.texts() == [("user", "hi")]
    (session,) = await world.agent.operations.sessions()
    assert session.message_count == 1


@pytest.mark.requirement("B-48")
@pytest.mark.parametrize("good_writes", [0, 1])
async def test_what_cannot_be_saved_stays_in_the_inbox_and_the_person_sees_it(
    sqlite_database: Database, tmp_path: Path, good_writes: int
) -> None:
    mortal = MortalDatabase(sqlite_database)
    provider = ScriptedProvider()
    world = World(mortal, tmp_path, provider)
    work = await world.admit("hi")
    if good_writes:
        gate = anyio.Event()
        provider.scripts = [Script(chunks=says("first").chunks, gate=gate)]
        async with anyio.create_task_group() as group:

            async def run() -> None:
                with pytest.raises(StorageTrouble):
                    await world.run(work)

            group.start_soon(run)
            await until(lambda: bool(provider.requests))
            mortal.trouble = 1
            gate.set()
    else:
        mortal.trouble = 1
        with pytest.raises(StorageTrouble):
            await world.run(work)
    assert "I could not save" in world.outbox.status_line
    assert await world.inbox_status(work) == "new"
    assert await world.says() == []
    assert world.names()[0] == "loop:start"
    assert world.names()[-1] == "loop:error"
    await world.run(await world.again(work))
    assert [say.text for say in await world.says()] == ["ok"]
    assert await world.texts() == [("user", "hi"), ("assistant", "ok")]


@pytest.mark.requirement("B-88")
async def test_a_former_owner_writes_nothing(database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider()
    world = World(database, tmp_path, provider)
    gate = anyio.Event()
    provider.scripts = [Script(chunks=says("late").chunks, gate=gate)]
    work = await world.admit("hi")
    async with anyio.create_task_group() as group:

        async def run() -> None:
            with pytest.raises(Fenced):
                await world.run(work)

        group.start_soon(run)
        await until(lambda: bool(provider.requests))
        await world.own()
        gate.set()
    assert await world.says() == []
    assert await world.texts() == [("user", "hi")]
    assert world.names()[-1] == "loop:error"
    with pytest.raises(Fenced):
        await world.run(work)


async def test_a_message_that_was_answered_is_not_answered_again(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider()
    world = World(sqlite_database, tmp_path, provider)
    work = await world.admit("hi")
    await world.run(work)
    await world.run(await world.again(work))
    assert len(provider.requests) == 1
    assert len(await world.says()) == 1


class TestCommands:
    async def test_a_command_that_a_crash_cut_off_changes_the_session_once(
        self, sqlite_database: Database, tmp_path: Path
    ) -> None:
        mortal = MortalDatabase(sqlite_database)
        world = World(mortal, tmp_path, ScriptedProvider(scripts=[says("1"), says("2")]))

        async def undo(work: Work, agent: Operations) -> CommandResult:
            taken = await agent.take_back()
            assert taken is not None
            return CommandResult(says=(OutgoingMessage(text=f"undone {taken.text}", kind="notice"),))

        world.built_ins.commands["/undo"] = undo
        await world.say("one")
        await world.say("two")
        work = await world.admit("/undo")
        with mortal.dying(after=0):
            await world.run(work)
        await world.restart()
        await world.run(await world.again(work))
        assert [say.text for say in await world.says(work)] == ["undone two"]
        session = await world.session()
        history = await sqlite_database.read(lambda conn: store.history(conn, session))
        assert [message.content for message in history.messages] == ["one", "1"]

    @pytest.mark.parametrize("writes", [0, 1, 2])
    async def test_a_retry_that_a_crash_cut_off_happens_once(
        self, sqlite_database: Database, tmp_path: Path, writes: int
    ) -> None:
        mortal = MortalDatabase(sqlite_database)
        provider = ScriptedProvider(scripts=[says("1"), says("2")], otherwise=says("2 again"))
        world = World(mortal, tmp_path, provider)

        async def retry(work: Work, agent: Operations) -> CommandResult:
            found = await agent.take_back()
            assert found is not None
            return CommandResult(go_on_with=found.text, go_on_files=found.files)

        world.built_ins.commands["/retry"] = retry
        await world.say("one")
        await world.say("two")
        work = await world.admit("/retry")
        with mortal.dying(after=writes):
            await world.run(work)
        await world.restart()
        if not await world.says(work):
            await world.run(await world.again(work))
        assert [say.text for say in await world.says(work)] == ["2 again"]
        session = await world.session()
        history = await sqlite_database.read(lambda conn: store.history(conn, session))
        assert [message.content for message in history.messages] == ["one", "1", "two", "2 again"]

    async def test_a_command_whose_turn_was_begun_is_not_run_again(
        self, sqlite_database: Database, tmp_path: Path
    ) -> None:
        mortal = MortalDatabase(sqlite_database)
        world = World(mortal, tmp_path, ScriptedProvider())
        asked: list[int] = []

        async def ask(work: Work, agent: Operations) -> CommandResult:
            asked.append(work.attempt)
            return CommandResult(go_on_with="hello")

        world.built_ins.commands["/ask"] = ask
        work = await world.admit("/ask")
        with mortal.dying(after=1):
            await world.run(work)
        await world.restart()
        await world.run(await world.again(work))
        assert [say.text for say in await world.says(work)] == ["ok"]
        assert asked == [1]
        assert await world.texts() == [("user", "hello"), ("assistant", "ok")]


async def test_a_write_whose_answer_is_lost_is_counted_once(sqlite_database: Database, tmp_path: Path) -> None:
    counted = []
    for folder, is_deaf in (("once", False), ("again", True)):
        mortal = MortalDatabase(sqlite_database)
        key = ConversationId(f"telegram:{folder}")
        provider = ScriptedProvider(scripts=[calls("echo", {"text": "a"}), says("Done.")])
        world = World(mortal, tmp_path / folder, provider, tools=(FakeTool(),), key=key)
        work = await world.admit("hi")
        mortal.is_deaf = is_deaf
        await world.run(work)
        mortal.is_deaf = False
        (session,) = await world.agent.operations.sessions()
        counted.append((session.message_count, session.prompt_tokens, session.output_tokens))
        assert [role for role, _ in await world.texts()] == ["user", "assistant", "user", "assistant"]
    assert counted[0] == counted[1]
    assert min(counted[0]) > 0
