"""Operations of commands on an agent."""

import json
import re
from pathlib import Path

import anyio
import pytest
from sqlalchemy import select

from agent.built_ins import CommandResult
from agent.compaction.stages import Cooldown, exhausted
from agent.core.errors import AgentMissing
from agent.core.events import ProviderSwitched
from agent.core.ids import ConversationId
from agent.core.messages import FilePart
from agent.core.outbox import OutgoingMessage
from agent.inbox import Work
from agent.operations import Operations, SessionAmbiguous, SessionClosed
from agent.providers.provider import Prices, Usage
from agent.providers.registry import UnknownProvider
from agent.sessions import store
from agent.storage.database import Database
from agent.storage.tables import session as session_table
from tests.agent.world import World
from tests.fakes.provider import Script, ScriptedProvider, says, thinks
from tests.fakes.waiting import until


def say(text: str) -> CommandResult:
    return CommandResult(says=(OutgoingMessage(text=text, kind="notice"),))


async def new(work: Work, agent: Operations) -> CommandResult:
    agent.new_session()
    return say("new")


async def clear(work: Work, agent: Operations) -> CommandResult:
    return say(f"cleared {await agent.clear()}")


async def undo(work: Work, agent: Operations) -> CommandResult:
    return say(f"undone {(taken := await agent.take_back()) and taken.text}")


async def retry(work: Work, agent: Operations) -> CommandResult:
    found = await agent.take_back()
    if found is None:
        return say("nothing to retry")
    return CommandResult(go_on_with=found.text, go_on_files=found.files)


async def resume(work: Work, agent: Operations) -> CommandResult:
    prefix = work.incoming.text.partition(" ")[2] or None
    found = await agent.resume(prefix)
    return say(found.title if found else "no such session")


COMMANDS = {"/new": new, "/clear": clear, "/undo": undo, "/retry": retry, "/resume": resume}


def world_of(database: Database, home: Path, *providers: ScriptedProvider) -> World:
    world = World(database, home, *providers)
    world.built_ins.commands.update(COMMANDS)
    return world


def contents(provider: ScriptedProvider) -> list[str]:
    return [message.content for message in provider.requests[-1].messages]


async def test_a_command_is_answered_without_the_model(database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider()
    world = world_of(database, tmp_path, provider)
    work = await world.admit("/clear")
    await world.run(work)
    assert [said.text for said in await world.says(work)] == ["cleared 0"]
    assert await world.inbox_status(work) == "done"
    assert (provider.requests, world.names(), world.outbox.commits) == ([], [], 1)


async def test_new_begins_a_session_and_keeps_the_old_one(database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider()
    world = world_of(database, tmp_path, provider)
    await world.say("one")
    assert await world.say("/new") == ["new"]
    world.clock.advance(1)
    await world.say("two")
    assert contents(provider) == ["two"]
    sessions = await world.agent.operations.sessions()
    assert [(session.title, session.state) for session in sessions] == [("two", "active"), ("one", "ended")]
    await world.restart()
    await world.say("three")
    assert contents(provider) == ["two", "ok", "three"]


@pytest.mark.parametrize("how", ["/clear", "/resume", "/undo"])
async def test_what_compaction_had_come_to_ends_with_what_it_was_about(
    sqlite_database: Database, tmp_path: Path, how: str
) -> None:
    """Exhausted until /clear, /new or another provider."""
    world = world_of(sqlite_database, tmp_path, ScriptedProvider())
    await world.say("one")
    if how == "/resume":
        await world.say("/new")
        await world.say("two")
    state = world.agent.message.compaction
    state.cooldown = exhausted(state.cooldown)
    state.flushed = state.warned = True
    state.focus.start("one thing")
    await world.say(how)
    kept = how == "/undo"  # the same conversation, an exchange shorter
    assert (state.cooldown == Cooldown(), state.flushed, state.focus.is_open) == (not kept, kept, kept)
    await world.say("and on")
    assert state.cooldown.is_ready is not kept


@pytest.mark.requirement("W-64")
async def test_resume_goes_back_by_id_or_to_the_one_before(database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider()
    world = world_of(database, tmp_path, provider)
    await world.say("one")
    first = await world.session()
    world.clock.advance(1)
    await world.say("/new")
    await world.say("two")
    assert await world.say("/resume") == ["one"]
    await world.say("again")
    assert contents(provider) == ["one", "ok", "again"]
    assert await world.say("/resume zzz") == ["no such session"]
    second = next(session.id for session in await world.agent.operations.sessions() if session.title == "two")
    assert await world.say(f"/resume {second}") == ["two"]
    await world.say("here")
    assert contents(provider) == ["two", "ok", "here"]
    with pytest.raises(SessionAmbiguous):
        await world.agent.operations.resume("00000000")
    await database.write(lambda conn: store.set_state(conn, first, "terminated"))
    with pytest.raises(SessionClosed):
        await world.agent.operations.resume(first)
    assert world.agent.operations.take_staged().any is False


@pytest.mark.requirement("W-64")
async def test_resume_goes_back_to_the_session_used_last_not_to_the_one_begun_last(
    database: Database, tmp_path: Path
) -> None:
    world = world_of(database, tmp_path, ScriptedProvider())
    for text in ("oldest", "middle", "newest"):
        await world.say("/new")
        await world.say(text)
        world.clock.advance(1)
    oldest = next(session.id for session in await world.agent.operations.sessions() if session.title == "oldest")
    assert await world.say(f"/resume {oldest}") == ["oldest"]
    await world.say("again in the oldest")
    world.clock.advance(1)
    await world.say("/new")
    await world.say("one more")
    assert await world.say("/resume") == ["oldest"], "the middle and the newest began later, and were used before it"


async def test_clear_hides_everything_from_the_model_and_nothing_from_people(
    database: Database, tmp_path: Path
) -> None:
    provider = ScriptedProvider()
    world = world_of(database, tmp_path, provider)
    await world.say("one")
    await world.say("two")
    assert await world.say("/clear") == ["cleared 4"]
    await world.say("three")
    assert contents(provider) == ["three"]
    exported = await world.agent.operations.export()
    assert [json.loads(line)["content"] for line in exported.splitlines()] == ["one", "ok", "two", "ok", "three", "ok"]


async def test_undo_takes_back_one_exchange_after_the_other(database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider()
    world = world_of(database, tmp_path, provider)
    for text in ("one", "two"):
        await world.say(text)
    assert await world.say("/undo") == ["undone two"]
    await world.say("three")
    assert contents(provider) == ["one", "ok", "three"]
    assert await world.say("/undo") == ["undone three"]
    assert await world.say("/undo") == ["undone one"]
    assert await world.say("/undo") == ["undone None"]
    assert await world.agent.operations.export() == ""
    assert len(await world.transcript()) == 6, "hidden, not deleted"


async def test_retry_asks_again_with_words_and_files(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(scripts=[says("first try"), says("second try")])
    world = world_of(sqlite_database, tmp_path, provider)
    file = FilePart(path="a", mime_type="image/png", name="a.png", size=3)
    assert await world.say("/retry") == ["nothing to retry"]
    await world.say("what is this?", files=(file,), chat_type="group")
    work = await world.admit("/retry", chat_type="group")
    await world.run(work)
    assert [said.text for said in await world.says(work)] == ["second try"]
    first, second = (request.messages for request in provider.requests)
    assert len(second) == 1
    assert re.sub(r"\d+", "", str(second[0].parts)) == re.sub(r"\d+", "", str(first[0].parts)), "but for its number"


async def test_a_command_that_breaks_ends_in_a_sentence(
    sqlite_database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(work: Work, agent: Operations) -> CommandResult:
        agent.new_session()
        raise RuntimeError("boom")

    provider = ScriptedProvider()
    world = world_of(sqlite_database, tmp_path, provider)
    world.built_ins.commands["/broken"] = broken
    await world.say("one")
    (said,) = await world.say("/broken now")
    assert "That command failed" in said
    assert "boom" in caplog.text
    await world.say("two")
    assert contents(provider) == ["one", "ok", "two"], "what it had staged is forgotten"


@pytest.mark.requirement("Z-09")
async def test_exit_ends_the_loop(sqlite_database: Database, tmp_path: Path) -> None:
    world = world_of(sqlite_database, tmp_path, ScriptedProvider())
    world.built_ins.commands["/exit"] = lambda work, agent: CommandResult(
        says=(OutgoingMessage(text="bye", kind="notice"),), end=True
    )
    first, second = await world.admit("/exit"), await world.admit("hi")
    await world.run(first, second)
    assert await world.inbox_status(second) == "new"


async def test_a_command_may_speak_and_go_on(sqlite_database: Database, tmp_path: Path) -> None:
    world = world_of(sqlite_database, tmp_path, ScriptedProvider())
    world.built_ins.commands["/ask"] = lambda work, agent: CommandResult(
        says=(OutgoingMessage(text="asking", kind="notice"),), go_on_with="hello"
    )
    assert await world.say("/ask") == ["asking", "ok"]


@pytest.mark.requirement("Z-02", "Z-73", "Z-72")
class TestProvider:
    async def test_a_switch_counts_from_the_next_call_and_publishes_the_window(
        self, sqlite_database: Database, tmp_path: Path
    ) -> None:
        first, second = ScriptedProvider(), ScriptedProvider(name="b", model="m-b", context_window=9_000)
        world = world_of(sqlite_database, tmp_path, first, second)
        assert world.agent.metrics.context_max_tokens == 128_000
        assert [event.context_max_tokens for event in world.events if isinstance(event, ProviderSwitched)] == [128_000]
        await world.say("one")
        choice = world.agent.operations.switch_provider("b", "admin")
        assert (choice.provider, choice.source) == ("b", "admin")
        assert world.agent.metrics.context_max_tokens == 9_000
        switched = world.events[-1]
        assert switched == ProviderSwitched(conversation=world.key, provider="b", model="m-b", context_max_tokens=9_000)
        assert switched in world.outbox.shown
        await world.say("two")
        assert [message.content for message in second.requests[0].messages] == ["one", "ok", "two"]
        assert "m-b" in second.requests[0].system.volatile
        assert world.agent.operations.take_choice(None).provider == "scripted"

    async def test_an_unknown_name_changes_nothing(self, sqlite_database: Database, tmp_path: Path) -> None:
        world = world_of(sqlite_database, tmp_path, ScriptedProvider())
        with pytest.raises(UnknownProvider, match="known: scripted"):
            world.agent.operations.switch_provider("nope")
        assert world.slot.choice.source == "default"

    async def test_a_switch_during_a_run_counts_at_its_next_call(
        self, sqlite_database: Database, tmp_path: Path
    ) -> None:
        gate = anyio.Event()
        first = ScriptedProvider(scripts=[Script(chunks=says("from a").chunks, gate=gate)])
        second = ScriptedProvider(name="b")
        world = world_of(sqlite_database, tmp_path, first, second)
        work = await world.admit("one")
        async with anyio.create_task_group() as group:
            group.start_soon(world.run, work)
            await until(lambda: bool(first.requests))
            world.agent.operations.switch_provider("b")
            gate.set()
        assert [said.text for said in await world.says(work)] == ["from a"]
        await world.say("two")
        assert len(second.requests) == 1

    async def test_a_persona_may_ask_for_a_provider_and_a_person_overrules_it(
        self, sqlite_database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        first, second = ScriptedProvider(), ScriptedProvider(name="b")
        world = world_of(sqlite_database, tmp_path, first, second)
        world.write_persona("poet", "---\nname: Poet\nprovider: b\n---\nRhyme.")
        world.write_persona("lost", "---\nname: Lost\nprovider: gone\n---\nHm.")
        world.agent.operations.switch_persona("poet")
        await world.say("one")
        assert second.requests[0].system.stable.startswith("Rhyme.")
        assert second.requests[0].system.volatile
        world.agent.operations.switch_provider("scripted", "user")
        world.agent.operations.switch_persona("default")
        world.agent.operations.switch_persona("poet")
        assert world.slot.choice.provider == "scripted"
        assert world.agent.operations.take_choice(None).provider == "b"
        world.agent.operations.switch_persona("lost")
        assert world.slot.choice.provider == "scripted"
        assert "unknown provider 'gone'" in caplog.text
        with pytest.raises(AgentMissing, match="did you mean poet"):
            world.agent.operations.switch_persona("poe")
        assert world.agent.operations.personas() == ("default", "lost", "poet")

    async def test_another_models_count_does_not_spoil_the_estimate(
        self, sqlite_database: Database, tmp_path: Path
    ) -> None:
        first = ScriptedProvider(otherwise=says("ok", usage=Usage(prompt=100_000)))
        second = ScriptedProvider(name="b", otherwise=says("ok", usage=Usage()))
        world = world_of(sqlite_database, tmp_path, first, second)
        await world.say("one")
        assert world.agent.metrics.estimator.scale == 2.0
        world.agent.operations.switch_provider("b")
        await world.say("two")
        assert world.agent.metrics.estimator.scale == 1.0


class TestLooking:
    async def test_status(self, database: Database, tmp_path: Path) -> None:
        world = world_of(database, tmp_path, ScriptedProvider())
        empty = await world.agent.operations.status()
        assert (empty.session, empty.message_count, empty.run, empty.waiting) == (None, 0, None, 0)
        await world.say("one")
        status = await world.agent.operations.status()
        assert (status.provider, status.model, status.context_window) == ("scripted", "scripted-1", 128_000)
        assert (status.session, status.message_count, status.persona) == (await world.session(), 2, "default")
        assert status.context_tokens > 0
        assert status.compaction_last_at_ms == 0

    async def test_all_that_tells_of_the_window_counts_as_the_provider_does(
        self, sqlite_database: Database, tmp_path: Path
    ) -> None:
        measured = await self.after_an_answer(sqlite_database, tmp_path / "measured", Usage())
        reported = measured * 3 // 4
        agreed = await self.after_an_answer(sqlite_database, tmp_path / "agreed", Usage(prompt=reported, output=2))
        assert abs(agreed - reported) <= 2

    async def after_an_answer(self, database: Database, home: Path, usage: Usage) -> int:
        """The sources of /status, and of /context with the answer on top."""
        provider = ScriptedProvider(otherwise=says("ok", usage=usage))
        world = World(database, home, provider, key=ConversationId(f"telegram:{home.name}"))
        await world.say("one and two and three")
        told = (await world.agent.operations.status()).context_tokens
        assert 0 <= (await world.agent.operations.window.context()).used - told < 20
        return told

    async def test_status_during_a_run(self, sqlite_database: Database, tmp_path: Path) -> None:
        gate = anyio.Event()
        provider = ScriptedProvider(scripts=[Script(chunks=says("ok").chunks, gate=gate)])
        world = world_of(sqlite_database, tmp_path, provider)
        work = await world.admit("one")
        async with anyio.create_task_group() as group:
            group.start_soon(world.run, work)
            await until(lambda: bool(provider.requests))
            status = await world.agent.operations.status()
            gate.set()
        assert status.run is not None
        assert status.running_since == world.clock.now()

    async def test_usage_by_session_day_and_all_time(self, database: Database, tmp_path: Path) -> None:
        prices = Prices(input=1_000_000, output=0)
        provider = ScriptedProvider(otherwise=says("ok", usage=Usage(prompt=1)), prices=prices)
        world = world_of(database, tmp_path, provider)
        await world.say("one")
        world.clock.advance(13 * 3600)
        await world.say("two")
        await world.say("/new")
        await world.say("three")
        usage = await world.agent.operations.usage()
        assert (usage.session.cost_usd, usage.today.cost_usd, usage.all.cost_usd) == (1.0, 2.0, 3.0)

    async def test_export_has_people_model_and_no_thoughts(self, sqlite_database: Database, tmp_path: Path) -> None:
        world = world_of(sqlite_database, tmp_path, ScriptedProvider(scripts=[thinks("hm", "s", says("Hello."))]))
        assert await world.agent.operations.export() == ""
        await world.say("hi")
        stamp = "2026-01-01T12:00:00+00:00"
        lines = [json.loads(line) for line in (await world.agent.operations.export()).splitlines()]
        assert lines == [
            {"role": "user", "content": "hi", "timestamp": stamp},
            {"role": "assistant", "content": "Hello.", "timestamp": stamp},
        ]


@pytest.mark.requirement("B-09", "B-10")
async def test_without_a_sound_definition_there_is_no_run(
    sqlite_database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    provider = ScriptedProvider()
    world = World(sqlite_database, tmp_path, provider, agent_md="---\nname: X\nmax_turn: 1\n---\n")
    work = await world.admit("hi")
    await world.run(work)
    (said,) = await world.says(work)
    assert "“default” cannot be loaded" in said.text
    assert "did you mean max_turns" in caplog.text
    assert (provider.requests, world.names()) == ([], [])
    assert await world.inbox_status(work) == "refused"
    assert await sqlite_database.read(lambda conn: conn.execute(select(session_table)).all()) == []
    world.write_persona("default", "---\nname: X\n---\nHi.")
    assert await world.say("again") == ["ok"], "a mended file needs no restart"
