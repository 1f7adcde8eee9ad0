"""Texts of people are cleaned where they come in: queued messages, immediate commands, edits."""

from dataclasses import replace

from sqlalchemy import select

from agent.memory import misses
from agent.storage.tables import session, skill_outcomes
from gateway.channels.inbound import Edited, MessageReceived, Quoted, Sender
from gateway.channels.keys import UserId
from gateway.router.messages import made_whole
from tests.gateway.world import World, file

HALF = "\ud83d"
QUOTED = Quoted(text="q\0", attachments=(file("m\0.txt"),), sender=Sender(id=UserId("7"), display=f"Bob{HALF}"))


async def test_commands_that_run_at_once_take_any_text(world: World) -> None:
    assert "I will remind you" in await world.asks(f"/remind in 1 sec check{HALF} the\0 oven")
    await world.shows("⏰ check\ufffd the\ufffd oven")


async def test_a_goal_may_be_of_any_text(world: World) -> None:
    assert "failed" not in await world.asks(f"/goal create find {HALF} the\0 yacht")


async def test_the_first_words_of_a_session_are_its_title(world: World) -> None:
    await world.answered("to the \0 harbour", "to the \ufffd harbour")
    titles = await world.database.read(lambda conn: list(conn.execute(select(session.c.title)).scalars()))
    assert titles == ["to the \ufffd harbour"]


async def test_an_answer_may_hold_any_text(world: World) -> None:
    world.script({"match": {"contains": "please look"}, "reply": {"text": f"The yacht {HALF} is moored"}})
    await world.answered("please look", "The yacht \ufffd is moored")
    assert len(world.llm.calls) == 1


async def test_a_question_to_the_memory_that_holds_half_an_emoji_costs_nothing(world: World) -> None:
    call = {"type": "tool_use", "name": "recall", "input": {"query": f"moored {HALF} yachting harbour"}}
    world.script(
        {"match": {"contains": "please look", "tool_result": False}, "reply": {"blocks": [call]}},
        {"match": {"contains": "please look", "tool_result": True}, "reply": {"text": "I looked."}},
    )
    await world.answered("please look", "I looked.")
    await world.services.memory.misses.flush()
    missed = select(skill_outcomes.c.query).where(skill_outcomes.c.outcome_type == misses.OUTCOME)
    found = await world.database.read(lambda conn: list(conn.execute(missed).scalars()))
    assert "moored \ufffd yachting harbour" in found


def test_everything_that_people_name_is_made_whole(world: World) -> None:
    said = world.said(f"a{HALF}", quoted=QUOTED, chat_title="t\0", attachments=(file("n\0.txt"),))
    said = replace(said, sender=replace(said.sender, display=f"Ann{HALF}"))
    made = made_whole(said)
    assert isinstance(made, MessageReceived)
    assert (made.text, made.chat_title, made.sender.display) == ("a\ufffd", "t\ufffd", "Ann\ufffd")
    assert made.attachments[0].name == "n\ufffd.txt"
    assert made.quoted == Quoted(
        text="q\ufffd", attachments=(file("m\ufffd.txt"),), sender=Sender(id=UserId("7"), display="Bob\ufffd")
    )
    edited = Edited(
        key=said.key, place=said.place, message_id="1", sender=said.sender, received_at=said.received_at,
        text="b\0", version="2",
    )  # fmt: skip
    again = made_whole(edited)
    assert isinstance(again, Edited)
    assert again.text == "b\ufffd"
