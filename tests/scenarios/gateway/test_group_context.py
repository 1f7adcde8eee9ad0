"""Talk among people in a group, through the whole gateway: read along, forgotten, never obeyed."""

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import timedelta
from sqlite3 import connect
from typing import Any

import pytest
from sqlalchemy import select

from agent.storage.tables import ambient_turn, group_message, inbox, message, session
from agent.storage.timestamps import to_timestamp
from gateway.channels.inbound import Deleted, Edited, Mention, MessageReceived, Receipt, Sender
from gateway.channels.keys import ConversationKey, UserId
from gateway.storage.grants import Grant
from tests.fakes.waiting import until
from tests.gateway.world import ANN, BOB, GROUP, ZOE, World, calling

WINDOW = """
[[places]]
match = "telegram:-1005"
context = "window"
"""
AMBIENT = """
[[places]]
match = "telegram:-1005"
context = "window"
mention = "ambient"

[ambient]
messages_per_hour = 2
"""
TOLD = "From now on I read along here"
SILENT = {"type": "tool_use", "name": "stay_silent", "input": {"why": "nobody looks for anything"}}


@pytest.fixture
def group(world_of: "Callable[..., World]") -> World:
    """A gateway that reads along in its group."""
    return world_of(config=WINDOW)


@pytest.fixture
def plain(world_of: "Callable[..., World]") -> World:
    """A gateway as it is shipped."""
    return world_of()


async def chat(world: World, *texts: str, person: str = BOB, **fields: Any) -> list[Receipt]:
    """People talk to each other."""
    said = (world.said(text, person=person, chat=GROUP, mention=Mention.NONE, **fields) for text in texts)
    return [await world.hears(one) for one in said]


async def asked(world: World, question: str) -> None:
    """Ann asks the bot; the turn is over."""
    await world.say(question, person=ANN, chat=GROUP)
    await world.settled()


async def kept(world: World) -> list[str]:
    query = select(group_message.c.text).order_by(group_message.c.id)
    return await world.database.read(lambda conn: list(conn.execute(query).scalars()))


def last_words(world: World) -> str:
    """The newest user message of the newest request, with all that stands before the words."""
    content = world.llm.bodies[-1]["messages"][-1]["content"]
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def prefix(body: dict[str, Any]) -> bytes:
    """All of a request that comes before the newest words."""
    return json.dumps([body.get("tools"), body["messages"][:-1]], sort_keys=True).encode()


@pytest.mark.requirement("G-49")
async def test_a_question_reads_what_was_said_around_it(group: World) -> None:
    async with group.process() as world:
        talk = [f"point {number} of the plan" for number in range(19)]
        receipts = await chat(world, *talk, "we take the red one")
        assert {one.outcome for one in receipts} == {"ignored"}
        await world.shows(TOLD, GROUP)
        await world.answered("what did we decide?", person=ANN, chat=GROUP)
        words = last_words(world)
        assert words.count("<untrusted") == 1
        assert '<untrusted source="group">' in words
        lines = [line for line in words.splitlines() if "(telegram:78):" in line]
        assert len(lines) == 20
        assert lines[-1].endswith("Person 78 (telegram:78): we take the red one")
        assert words.index("</untrusted>") < words.index("what did we decide?"), "before the question"
        assert len([text for text in world.texts(GROUP) if TOLD in text]) == 1, "said once"


@pytest.mark.requirement("G-49")
async def test_it_stands_outside_of_the_prefix_and_in_no_history(group: World) -> None:
    group.script({"match": {}, "reply": {"text": "So it is."}})
    async with group.process() as world:
        await world.answered("first question", "So it is.", person=ANN, chat=GROUP)
        await chat(world, "the secret of the cellar")
        await asked(world, "second question")
        with_it = world.llm.bodies[-1]
        assert "the secret of the cellar" in last_words(world)
        await asked(world, "third question")
        assert "the secret of the cellar" not in json.dumps(world.llm.bodies[-1]), "it was read, and is in no history"
        then = prefix(with_it)[:-2]  # without the closing brackets
        assert prefix(world.llm.bodies[-1]).startswith(then), "the same bytes, and then more"
        stored = select(message.c.parts)
        parts = await world.database.read(lambda conn: "".join(conn.execute(stored).scalars()))
        assert "second question" in parts
        assert "cellar" not in parts


@pytest.mark.requirement("G-49")
async def test_nothing_is_kept_where_nobody_wants_it(plain: World) -> None:
    async with plain.process() as world:
        await chat(world, *(f"word {number}" for number in range(20)))
        await world.answered("what did we decide?", person=ANN, chat=GROUP)
        assert await kept(world) == []
        assert "<untrusted" not in last_words(world)
        assert not any(TOLD in text for text in world.texts(GROUP))
        tools = [one["function"]["name"] for one in world.llm.bodies[-1]["tools"]]
        assert "read_chat" not in tools
        assert "stay_silent" not in tools


@pytest.mark.requirement("G-49", "G-50")
async def test_an_admin_switches_it_on_and_off(plain: World) -> None:
    async with plain.process() as world:
        refused = await world.asks("/settings context window", person=BOB, chat=GROUP)
        assert "admin" in refused
        await world.asks("/settings context window", "context is window", chat=GROUP)
        await chat(world, "one", "two")
        assert await kept(world) == ["one", "two"]
        told = await world.asks("/privacy", "I read along here", person=BOB, chat=GROUP)
        assert "2 messages of 1 people" in told
        assert "50 messages of 24 hours" in told
        assert "tokens" in told
    async with plain.process() as world:
        assert await kept(world) == ["one", "two"], "it outlives the process"
        await world.asks("/settings context off", "context is off", chat=GROUP)
        assert await kept(world) == []
        await chat(world, "three")
        assert await kept(world) == []
        assert "I read nothing" in await world.asks("/privacy", "I read nothing", chat=GROUP)


@pytest.mark.requirement("G-49", "G-50")
async def test_a_place_that_remembers_nothing_reads_nothing(group: World) -> None:
    async with group.process() as world:
        await chat(world, "one")
        await world.asks("/memory off", "The memory is off here", chat=GROUP)
        assert await kept(world) == []
        await chat(world, "two")
        assert await kept(world) == []
        assert "nothing is to be remembered" in await world.asks("/privacy", "I read nothing", chat=GROUP)


@pytest.mark.requirement("G-49")
async def test_only_of_people_who_would_be_answered(world_of: "Callable[..., World]") -> None:
    world = world_of(config='[[places]]\nmatch = "telegram:*"\ncontext = "window"\n')
    world.access += '\nblock = ["telegram:66"]'
    async with world.process() as world:
        await chat(world, "of a blocked person", person="66")
        await chat(world, "of a bot", sender=Sender(id=UserId("55"), display="Ad", is_bot=True))
        for person in (ZOE, BOB):
            await world.hears(world.said("where nobody let it in", person=person, chat="-2002", mention=Mention.NONE))
        assert await kept(world) == []
        await chat(world, "of a member")
        assert await kept(world) == ["of a member"]


@pytest.mark.requirement("G-49", "G-50")
async def test_who_is_blocked_later_is_read_no_more(group: World) -> None:
    async with group.process() as world:
        await chat(world, "buy my coins", person="66")
        await chat(world, "no thanks")
        group.access += '\nblock = ["telegram:66"]'
        world.reload()
        await world.answered("what was that?", person=ANN, chat=GROUP)
        assert "no thanks" in last_words(world)
        assert "coins" not in last_words(world)
        await world.services.upkeep.run_once()
        assert await kept(world) == ["no thanks"]


@pytest.mark.requirement("G-49", "G-50")
async def test_the_window_rolls(world_of: "Callable[..., World]") -> None:
    world = world_of(config=WINDOW + "\n[group_context]\nmessages = 3\nhours = 2\nmax_tokens = 150\n")
    async with world.process() as world:
        await chat(world, "one", "two", "three", "four")
        assert await kept(world) == ["two", "three", "four"]
        world.clock.ahead_s = 2.5 * 3600
        await world.answered("what was said?", person=ANN, chat=GROUP)
        assert "four" not in last_words(world), "older than the window, though it is still stored"
        await chat(world, "x" * 900, "y" * 900, "z" * 900)
        assert [text[0] for text in await kept(world)] == ["x", "y", "z"]
        await world.answered("and now?", person=ANN, chat=GROUP)
        assert "zzz" in last_words(world)
        assert "xxx" not in last_words(world)
        assert "[2 earlier messages are left out]" in last_words(world)
        world.clock.ahead_s += 3 * 3600
        await world.services.upkeep.run_once()
        assert await kept(world) == []


@pytest.mark.requirement("G-49", "G-50")
async def test_edits_and_deletions_are_followed(group: World) -> None:
    async with group.process() as world:
        one = world.said("we meet at nin", person=BOB, chat=GROUP, mention=Mention.NONE)
        other = world.said("a slip", person=BOB, chat=GROUP, mention=Mention.NONE)
        await world.hears(one)
        await world.hears(other)
        await world.hears(one)  # once more, as platforms do
        edited = Edited(**common(one), text="we meet at nine", version="2")
        await world.hears(edited)
        await world.hears(Deleted(**common(other)))
        assert await kept(world) == ["we meet at nine"]


def common(said: MessageReceived) -> dict[str, Any]:
    names = ("key", "place", "message_id", "sender", "received_at", "chat_type")
    return {name: getattr(said, name) for name in names}


@pytest.mark.requirement("G-49")
async def test_a_thread_is_read_from_the_message_that_begins_it(world_of: "Callable[..., World]") -> None:
    config = '[[places]]\nmatch = "slack:*"\ncontext = "window"\n'
    world = world_of(config=config, accounts=("slack",))
    world.access += '\ngroups = "open"'

    def said(text: str, ts: str, root: str | None = None, mention: Mention = Mention.NONE) -> MessageReceived:
        key = ConversationKey("slack", f"T:-C:{root or ts}")
        fields: dict[str, Any] = {"key": key, "place": "T:-C", "id": ts, "thread_root": root, "mention": mention}
        return world.said(text, person=BOB, chat="-C", on="slack", **fields)

    async with world.process() as world:
        await world.hears(said("another matter", "1.1"))
        await world.hears(said("where do we eat", "2.1"))
        await world.hears(said("at the harbour", "2.2", root="2.1"))
        await world.hears(said("what was decided?", "2.3", root="2.1", mention=Mention.DIRECT))
        await world.shows("what was decided?", "T:-C:2.1", "slack")
        words = last_words(world)
        assert "where do we eat" in words
        assert "at the harbour" in words
        assert "another matter" not in words
        await world.settled()
        await world.hears(said("and in the channel?", "3.1", mention=Mention.DIRECT))
        await world.shows("and in the channel?", "T:-C:3.1", "slack")
        words = last_words(world)
        assert "another matter" in words
        assert "where do we eat" in words
        assert "harbour" not in words


@pytest.mark.requirement("G-50")
async def test_what_is_forgotten_leaves_the_file(group: World) -> None:
    async with group.process() as world:
        await chat(world, "zyzzyva of mine", "another zyzzyva")
        await chat(world, "not mine, a quagga", person="79")
        await world.hears(world.said("/memory forget all", chat=GROUP, person=BOB))
        await until(lambda: any(shown.actions for shown in world.screen(GROUP).shown))
        shown = next(shown for shown in world.screen(GROUP).shown if shown.actions)
        await world.press(shown.actions[0], person=BOB, chat=GROUP)
        await world.settled()
        assert await kept(world) == ["not mine, a quagga"]
        world.clock.ahead_s = 25 * 3600
        await world.services.upkeep.run_once()
    with closing(connect(group.home / "tieline.db")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = b"".join(path.read_bytes() for path in group.home.glob("tieline.db*"))
    assert b"zyzzyva" not in content
    assert b"quagga" not in content


@pytest.mark.requirement("G-51")
async def test_a_model_reads_on_with_a_tool(group: World) -> None:
    async with group.process() as world:
        await chat(world, "the boat leaves at six")
        await world.answered("hello", person=ANN, chat=GROUP)  # it was read, and is not sent again
        world.script(*calling("what did I miss", "read_chat", hours=12))
        await world.answered("what did I miss?", "Done", person=ANN, chat=GROUP)
        result = next(one for one in world.llm.bodies[-1]["messages"] if one["role"] == "tool")["content"]
        assert "the boat leaves at six" in result
        assert "<untrusted" in result


@pytest.fixture
def ambient(world_of: "Callable[..., World]") -> World:
    """A gateway whose model may join in, and does where somebody is lost."""
    world = world_of(config=AMBIENT)
    world.script(
        {"match": {"contains": "hello bot"}, "reply": {"text": "At your service."}},
        {"match": {"contains": "lost"}, "reply": {"text": "The harbour is to the left."}},
        {"match": {}, "reply": {"blocks": [SILENT]}},
    )
    return world


async def unasked(world: World) -> Sequence[Any]:
    query = select(ambient_turn).order_by(ambient_turn.c.id)
    return await world.database.read(lambda conn: conn.execute(query).all())


@pytest.mark.requirement("G-52")
async def test_it_speaks_unasked_where_it_helps_and_else_nobody_notices(ambient: World) -> None:
    async with ambient.process() as world:
        await chat(world, "nice weather")
        await world.settled()
        asked = world.llm.bodies[-1]
        assert "Nobody has asked you" in json.dumps(asked)
        assert "stay_silent" in json.dumps(asked["tools"])
        assert [text for text in world.texts(GROUP) if TOLD not in text] == []
        said_of_it = select(message.c.parts).union(select(inbox.c.payload), select(session.c.title))
        texts = await world.database.read(lambda conn: list(conn.execute(said_of_it).scalars()))
        assert "nice weather" not in "".join(texts), "in no history"
        await chat(world, "I am lost, where is the harbour")
        await world.shows("The harbour is to the left.", GROUP)
        await world.settled()
        said, lost = await unasked(world)
        assert (said.spoke, lost.spoke) == (False, True)
        assert said.tokens > 0
        assert await kept(world) == ["nice weather"], "what was answered stands in the dialogue"


@pytest.mark.requirement("G-52")
async def test_nobody_is_answered_who_talks_to_somebody_else(ambient: World) -> None:
    async with ambient.process() as world:
        await chat(world, "@ann I am lost", to_others=True)
        await chat(world, "I am lost", from_history=True)
        await world.settled()
        assert world.llm.bodies == []
        assert len(await kept(world)) == 2


@pytest.mark.requirement("G-52")
async def test_its_cap_holds_and_a_question_is_answered_all_the_same(ambient: World) -> None:
    async with ambient.process() as world:
        for number in range(5):
            await chat(world, f"I am lost {number}")
            await world.settled()
        assert world.texts(GROUP).count("The harbour is to the left.") == 2
        await world.answered("hello bot", "At your service.", person=BOB, chat=GROUP)
        world.clock.ahead_s = 3700
        await chat(world, "I am lost again")
        await world.settled()
        assert world.texts(GROUP).count("The harbour is to the left.") == 3


@pytest.mark.requirement("G-52")
async def test_an_unasked_turn_changes_nothing_and_asks_nobody(ambient: World) -> None:
    block = {"type": "tool_use", "name": "write", "input": {"path": "a.txt", "content": "x"}}
    ambient.script(
        {"match": {"tool_result": True}, "reply": {"blocks": [SILENT]}},
        {"match": {"contains": "lost"}, "reply": {"blocks": [block]}},
    )
    async with ambient.process() as world:
        await chat(world, "I am lost")
        await world.settled()
        result = next(one for one in world.llm.bodies[-1]["messages"] if one["role"] == "tool")["content"]
        assert "nobody has asked you" in result
        assert [text for text in world.texts(GROUP) if TOLD not in text] == []


@pytest.mark.requirement("G-52")
async def test_it_costs_at_most_what_is_set(world_of: "Callable[..., World]") -> None:
    world = world_of(config=AMBIENT + "daily_tokens = 1\n")
    world.script({"match": {}, "reply": {"blocks": [SILENT]}})
    async with world.process() as world:
        await chat(world, "one")
        await world.settled()
        await chat(world, "two")
        await world.settled()
        assert len(world.llm.bodies) == 1, "the first used up the day"


@pytest.mark.requirement("G-52")
async def test_without_reading_along_it_only_answers(plain: World) -> None:
    async with plain.process() as world:
        told = await world.asks("/settings mention ambient", "mention is ambient", chat=GROUP)
        assert "/settings context window" in told
        await chat(world, "I am lost")
        await world.settled()
        assert world.llm.bodies == []


@pytest.mark.requirement("G-49")
async def test_who_is_let_in_later_did_not_mean_what_catch_up_finds(world_of: "Callable[..., World]") -> None:
    world = world_of(config=WINDOW.replace("-1005", "*"))
    now = world.clock.now()
    world.grants = (
        Grant(subject="telegram:-2002", kind="place", role="member", granted_by="test", at=to_timestamp(now)),
    )

    def found(text: str, minutes: int) -> MessageReceived:
        sent_at = now + timedelta(minutes=minutes)
        fields: dict[str, Any] = {"mention": Mention.NONE, "from_history": True, "sent_at": sent_at}
        return world.said(text, person=ZOE, chat="-2002", **fields)

    async with world.process() as world:
        await world.hears(found("before the group was let in", -60))
        await world.hears(found("afterwards", 1))
        assert await kept(world) == ["afterwards"]
