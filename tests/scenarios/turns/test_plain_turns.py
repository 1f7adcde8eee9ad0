"""Whole turns without tools: real database, scripted model, fake channel."""

from pathlib import Path

import pytest

from agent.core.messages import Thinking
from agent.inbox import WorkKind
from agent.sessions import store
from agent.storage.database import Database
from tests.agent.world import World
from tests.fakes.provider import ScriptedProvider, says, thinks


@pytest.mark.requirement("B-01", "W-01", "B-28", "B-29", "B-42", "Z-15", "Z-16")
async def test_a_message_is_answered_stored_and_committed(database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(scripts=[says("Hello Ann.")])
    world = World(database, tmp_path, provider)
    work = await world.admit("Hi!")
    await world.run(work)
    assert [(say.text, say.answers) for say in await world.says(work)] == [("Hello Ann.", work.incoming.message_ref)]
    assert await world.texts() == [("user", "Hi!"), ("assistant", "Hello Ann.")]
    assert await world.inbox_status(work) == "done"
    assert await world.turn_state(work) == "done"
    assert world.outbox.preview_text == "Hello Ann."
    assert (world.outbox.commits, world.outbox.ended, world.outbox.busy) == (1, 1, False)
    assert not world.agent.stop("too late"), "the turn is over"
    assert world.names() == [
        "loop:start",
        "loop:context",
        "loop:execute",
        "llm_decision_complete",
        "estimator_calibrated",
        "step_complete",
        "loop:persist",
        "token_usage",
        "loop:end",
    ]


@pytest.mark.requirement("B-01")
@pytest.mark.parametrize("kind", ["reminder", "system"])
async def test_a_turn_that_nobody_asked_for_knows_what_was_said_before(
    sqlite_database: Database, tmp_path: Path, kind: WorkKind
) -> None:
    provider = ScriptedProvider(scripts=[says("I will remind you."), says("The tea is ready.")])
    world = World(sqlite_database, tmp_path, provider)
    await world.say("remind me of the green tea")
    await world.restart()
    assert await world.say("the tea", kind=kind) == ["The tea is ready."]
    told = [message.content for message in provider.requests[1].messages]
    assert told[:2] == ["remind me of the green tea", "I will remind you."]


@pytest.mark.requirement("R-24")
async def test_words_alone_are_the_answer_though_they_ask_something(sqlite_database: Database, tmp_path: Path) -> None:
    world = World(sqlite_database, tmp_path, ScriptedProvider(scripts=[says("Which one?")]))
    work = await world.admit("book a flight")
    await world.run(work)
    assert [say.text for say in await world.says(work)] == ["Which one?"]
    assert await world.turn_state(work) == "done", "nothing waits: the next message is a turn of its own"


@pytest.mark.requirement("B-07")
async def test_the_first_message_makes_a_session_and_the_agent_finds_it_again_after_a_restart(
    database: Database, tmp_path: Path
) -> None:
    world = World(database, tmp_path, ScriptedProvider(scripts=[says("One."), says("Two.")]))
    assert await database.read(lambda conn: store.current(conn, world.key)) is None
    await world.say("first")
    made = await world.session()
    await world.restart()
    await world.say("second")
    assert await world.session() == made
    sessions = await database.read(lambda conn: store.sessions_of(conn, world.key))
    assert [(session.id, session.title, session.message_count) for session in sessions] == [(made, "first", 4)]


@pytest.mark.requirement("W-15")
async def test_the_next_turn_has_the_history(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(scripts=[thinks("hmm", "sig", says("One.")), says("Two.")])
    world = World(sqlite_database, tmp_path, provider)
    await world.say("first")
    await world.say("second")
    request = provider.requests[1]
    assert [message.content for message in request.messages] == ["first", "One.", "second"]
    assert request.messages[1].parts[0] == Thinking(thinking="hmm", signature="sig", family="scripted")
    await world.restart()
    await world.say("third")
    assert [message.content for message in provider.requests[2].messages] == [
        "first", "One.", "second", "Two.", "third",
    ]  # fmt: skip
