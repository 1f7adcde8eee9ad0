"""The conversation itself: /new /clear /retry /undo /sessions /export."""

import json
import re

import pytest
from sqlalchemy import text as sql

from tests.fakes.waiting import until
from tests.gateway.world import ANN, BOB, GROUP, World, file


async def talk(world: World, *texts: str, chat: str = ANN, person: str = ANN) -> None:
    for text in texts:
        await world.say(text, chat=chat, person=person)
        await world.shows(f"echo: {text}", chat)


@pytest.fixture(autouse=True)
def plain_echo(world: World) -> None:
    """The double echoes the whole request's last text, the reminder included: answer with the words alone."""
    words = ("plover", "heron", "egret", "first", "second")
    world.script(*({"match": {"contains": word}, "reply": {"text": f"echo: {word}"}} for word in words))


def last_request(world: World) -> str:
    return str(world.llm.bodies[-1]["messages"])


async def test_new_begins_anew_and_keeps_the_old(world: World) -> None:
    await talk(world, "plover")
    assert "The earlier one is kept" in await world.asks("/new")
    await talk(world, "heron")
    assert "plover" not in last_request(world)
    listed = await world.asks("/sessions")
    assert "plover" in listed
    assert "heron" in listed


async def test_sessions_are_resumed_by_id_by_button_and_by_last(world: World) -> None:
    assert "no earlier conversations" in await world.asks("/sessions")
    await talk(world, "plover")
    await world.asks("/new", "kept")
    await talk(world, "heron")
    listed = await world.asks("/sessions", "Conversations")
    (other,) = world.screen().shown[-1].actions
    assert re.search(rf"▸ \w+ heron .*\n.*{other.split()[1]}", listed)
    assert re.search(r"\(2 messages, [\d-]+ [\d:]+ UTC\)", listed)
    await world.asks("/timezone Asia/Tokyo", "Your time zone")
    assert re.search(r"\(2 messages, [\d-]+ [\d:]+ JST\)", await world.asks("/sessions", "JST"))
    await world.press(other)
    assert "Back in “plover” (2 messages)" in await world.shows("Back in")
    await talk(world, "egret")
    assert "plover" in last_request(world)
    assert "heron" not in last_request(world)
    assert "Back in “heron”" in await world.asks("/sessions last")
    assert "no conversation ffff-none here" in await world.asks("/sessions ffff-none")


async def test_a_session_of_another_chat_is_out_of_reach(world: World) -> None:
    await talk(world, "plover")
    await world.asks("/sessions", "Conversations")
    session = re.search(r"▸ (\w+) plover", world.texts()[-1])
    assert session
    assert "no conversation" in await world.asks(f"/sessions {session[1]}", person=BOB)


async def test_retry_answers_the_same_words_again(world: World) -> None:
    assert "no message of yours" in await world.asks("/retry")
    world.script(
        {"match": {"contains": "plover"}, "reply": {"text": "a wader"}, "times": 1},
        {"match": {"contains": "plover"}, "reply": {"text": "a bird"}},
    )
    await world.say("plover")
    await world.shows("a wader")
    await world.say("/retry")
    await world.shows("a bird")
    assert "a wader" not in last_request(world)
    assert last_request(world).count("plover") == 1


async def test_undo_takes_the_last_exchange_back(world: World) -> None:
    assert "nothing to take back" in await world.asks("/undo")
    await talk(world, "first", "second")
    assert "Taken back: “second”" in await world.asks("/undo")
    await talk(world, "plover")
    assert "first" in last_request(world)
    assert "second" not in last_request(world)


async def test_undo_shows_what_was_typed_and_not_what_it_would_look_like(world: World) -> None:
    await world.say("**first** _of_ all")
    await world.shows("echo: first")
    assert "“**first** _of_ all”" in await world.asks("/undo")


async def test_in_a_group_what_one_has_said_another_takes_back_only_as_an_admin(world: World) -> None:
    await talk(world, "plover", chat=GROUP)
    for command in ("/undo", "/retry"):
        assert await world.asks(command, "somebody else", person=BOB, chat=GROUP)
    await talk(world, "heron", person=BOB, chat=GROUP)
    assert "plover" in last_request(world), "nothing was taken back"
    assert "“heron”" in await world.asks("/undo", "Taken back", person=BOB, chat=GROUP)
    await talk(world, "egret", person=BOB, chat=GROUP)
    assert "“egret”" in await world.asks("/undo", "Taken back", chat=GROUP)


async def test_clear_hides_the_history(world: World) -> None:
    assert "nothing to hide" in await world.asks("/clear")
    await talk(world, "plover")
    assert "Hidden from the model: 2 messages" in await world.asks("/clear")
    await talk(world, "heron")
    assert "plover" not in last_request(world)


@pytest.mark.requirement("G-35")
async def test_in_a_group_the_requester_confirms_a_clear(world: World) -> None:
    await talk(world, "plover", chat=GROUP)
    await world.say("/clear", chat=GROUP)
    await world.shows("Hide 2 messages of this conversation from the model, for everybody here?", GROUP)
    (yes, no) = world.screen(GROUP).shown[-1].actions
    assert (await world.press(yes, person=BOB, chat=GROUP)).outcome == "accepted"
    assert world.screen(GROUP).notes[-1] == "Only the person who was asked can answer that."
    assert (await world.say("yes", person=BOB, chat=GROUP)).reason != "answered a question"
    await world.press(no, chat=GROUP, id="p2")
    await world.shows("Nothing was hidden", GROUP)
    await talk(world, "heron", chat=GROUP)
    assert "plover" in last_request(world)

    await world.say("/clear", chat=GROUP)
    await until(lambda: any("everybody here?" in shown.text and shown.actions for shown in world.screen(GROUP).shown))
    answer = world.said(" YES ", chat=GROUP)
    assert (await world.hears(answer)).reason == "answered a question"
    await world.shows("Hidden from the model:", GROUP)
    assert (await world.hears(answer)).outcome == "duplicate"
    await talk(world, "egret", chat=GROUP)
    assert "plover" not in last_request(world)


async def test_export_gives_a_file_of_json_lines(world: World) -> None:
    assert "nothing to export" in await world.asks("/export")
    await talk(world, "plover")
    assert "2 messages" in await world.asks("/export", "messages")
    await until(lambda: bool(world.screen().shown[-1].message.files))
    (file,) = world.screen().shown[-1].message.files
    assert file.name == "conversation.jsonl"
    lines = [json.loads(line) for line in file.path.read_text("utf-8").splitlines()]
    assert [(line["role"], line["content"]) for line in lines] == [("user", "plover"), ("assistant", "echo: plover")]
    assert file.path.stat().st_mode & 0o077 == 0
    assert file.path.parent.parent == world.home
    assert "is for admins" in await world.asks("/export", person=BOB, chat=GROUP)


async def test_clear_says_that_what_is_hidden_is_still_stored(world: World) -> None:
    await world.answered("a secret")
    assert "They are still stored; /memory forget all erases them." in await world.asks("/clear")
    stored = await world.database.read(lambda conn: conn.execute(sql("select count(*) from message")).scalar_one())
    assert stored == 2


async def test_undo_of_a_file_names_it(world: World) -> None:
    await world.say("", attachments=(file("cat.txt"),))
    await world.settled()
    assert "Taken back: “cat.txt”" in await world.asks("/undo")


@pytest.mark.requirement("B-13")
async def test_nobody_goes_on_in_a_session_that_was_closed_for_good(world: World) -> None:
    assert "no conversation – here" in await world.asks("/sessions close")
    await talk(world, "plover")
    id = re.search(r"▸ (\w+)", await world.asks("/sessions", "▸"))
    assert id
    await world.say("/sessions close")
    await world.shows("for good? It stays readable")
    await world.say("no")
    await world.shows("It stays open.")
    await talk(world, "heron")
    asked = len(world.llm.calls)
    await world.say("/sessions close")
    await until(lambda: len([text for text in world.texts() if "It stays readable" in text]) == 2)
    await world.say("yes")
    await world.shows("Closed for good: plover")
    assert "Send /new to start another" in await world.asks("egret")
    assert len(world.llm.calls) == asked
    await world.asks("/new", "A new conversation")
    await talk(world, "first")
    assert "was closed for good" in await world.asks(f"/sessions {id[1]}", f"{id[1]} was closed")
    assert "no conversation last here" in await world.asks("/sessions last")
