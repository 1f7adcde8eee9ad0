"""A person talks to the running program over Discord: directly, in a server, in a thread, by slash commands."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.program import configs
from tests.program.doubles import until
from tests.program.people import DISCORD_ANN, DISCORD_BOT, GENERAL, OnDiscord
from tests.program.stage import ODD_PLAIN, PICTURE, POEM, Stage, becomes, dialogue, on_stage

pytestmark = pytest.mark.asyncio(loop_scope="module")

GUILD = "200000000000000001"
BOB = "500000000000000002"
ME = f"<@{DISCORD_BOT}>"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    home = tmp_path_factory.mktemp("h", numbered=True)
    async with on_stage(home, lambda doubles, _: configs.discord(doubles, more="stream_interval_ms = 500")) as stage:
        yield stage


async def direct(stage: Stage, number: int) -> str:
    """A direct channel of its own for a test, so that tests do not share a rate limit or a history."""
    channel = {"id": f"40000000000000{number:04}", "type": 1, "guild_id": None}
    channel["recipients"] = [{"id": DISCORD_ANN, "username": "ann", "discriminator": "0", "avatar": None}]
    await stage.doubles.discord.post("channels", {"channels": [channel]})
    return str(channel["id"])


async def room(stage: Stage, number: int) -> str:
    """A text channel of the server."""
    channel = {"id": f"30000000000000{number:04}", "type": 0, "guild_id": GUILD, "name": f"room-{number}"}
    await stage.doubles.discord.post("channels", {"channels": [channel]})
    return str(channel["id"])


async def contents(ann: OnDiscord, channel: str) -> list[str]:
    return [message["content"] for message in await ann.messages(channel)]


async def test_everyday(stage: Stage) -> None:
    ann = OnDiscord(stage.doubles)
    await stage.script("good morning", "Good morning, Ann.")
    await ann.say("good morning")
    assert await ann.hears("Good morning") == "Good morning, Ann."
    (answer,) = await ann.messages()
    assert "message_reference" not in answer

    await ann.say("nobody is meant", GENERAL)
    asked = await ann.say(f"{ME} what is new", GENERAL)
    await ann.hears("what is new", channel=GENERAL)
    (answer,) = await ann.messages(GENERAL)
    assert answer["message_reference"]["message_id"] == asked
    assert not await stage.asked("nobody is meant")
    assert DISCORD_BOT not in str((await stage.asked("what is new"))[0]["body"]["messages"][-1])

    thread: dict[str, Any] = {
        "id": "300000000000000077",
        "type": 11,
        "guild_id": GUILD,
        "parent_id": GENERAL,
        "name": "aside",
    }
    thread |= {"owner_id": DISCORD_ANN, "thread_metadata": {"archived": False, "locked": False}}
    await stage.doubles.discord.post("channels", {"channels": [thread]})
    await ann.say(f"{ME} about the thread", thread["id"])
    await ann.hears("about the thread", channel=thread["id"])
    (call,) = await stage.asked("about the thread")
    assert "what is new" not in dialogue(call["body"])  # a thread is a conversation of its own

    await ann.slash("status")
    assert "model-a" in await ann.hears("Status")
    await ann.slash("whoami", channel=GENERAL)
    assert DISCORD_ANN in await ann.hears("You are", channel=GENERAL)
    told = next(one for one in (await ann.state())["messages"] if "You are" in one["content"])
    assert told["ephemeral"]  # a private answer in a server is for the one who asked

    await ann.slash("provider")
    await ann.hears("Providers")
    menu = (await ann.messages())[-1]
    buttons = [button for row in menu["components"] for button in row["components"]]
    chosen = next(button for button in buttons if "provider b" in button["custom_id"])
    await ann.press(menu["id"], chosen["custom_id"])
    await ann.hears("This chat now uses")
    await ann.say("with the other one")
    await ann.hears("with the other one")
    assert (await stage.asked("with the other one"))[0]["body"]["model"] == "model-b"
    await ann.slash("provider", {"arguments": "reset"})
    await ann.hears("Back to the default")

    async def at_rest() -> bool:
        return not any(one["loading"] for one in (await ann.state())["messages"])

    await until(at_rest, what="no sign of waiting")
    state = await ann.state()
    assert all(one["answered_after"] is not None for one in state["interactions"])
    names = {command["name"] for scope in state["commands"].values() for command in scope}
    assert {"help", "stop", "new", "provider", "tieline"} <= names
    assert 8 <= len(names) <= 13, "few enough to be read; the last takes every other"


@pytest.mark.requirement("B-29")
async def test_an_answer_grows_in_place_with_signs_of_life_that_go(stage: Stage) -> None:
    ann, channel = OnDiscord(stage.doubles), await direct(stage, 1001)
    await stage.script("a poem", POEM, hold={"poem, begin": 0, "poem, go on": 8, "poem, end": 24})
    asked = await ann.say("a poem please", channel)

    async def reactions() -> Any:
        message = next(one for one in (await ann.state())["messages"] if one["id"] == asked)
        return [reaction["emoji"]["name"] for reaction in message.get("reactions", [])]

    assert await until(reactions, what="the reaction") == ["👀"]
    await stage.release("poem, begin")
    for words, then in (("verse7", "poem, go on"), ("verse23", "poem, end")):
        assert POEM.startswith(await ann.hears(words, channel=channel))
        assert "ended_at" not in await stage.asking("a poem")
        await stage.release(then)
    assert await ann.hears("verse39", channel=channel) == POEM
    assert len(await ann.messages(channel)) == 1
    assert any(one["channel_id"] == channel for one in (await ann.state())["typing"])

    async def quiet() -> bool:
        return not await reactions()

    await until(quiet, what="no reaction")


@pytest.mark.requirement("G-06", "R-54")
async def test_plain_text_arrives_as_it_is_for_many_people_at_once(stage: Stage) -> None:
    ann = OnDiscord(stage.doubles)
    places = {key: await direct(stage, 1100 + number) for number, key in enumerate(ODD_PLAIN)}
    for key, text in ODD_PLAIN.items():
        await stage.script(f"odd {key}", text, hold="odd")
    for key, channel in places.items():
        await ann.say(f"odd {key}", channel)
    for key in places:
        await stage.asking(f"odd {key}")  # all are under way together
    await stage.release("odd")
    for key, channel in places.items():

        async def heard(channel: str = channel) -> list[str]:
            return await contents(ann, channel)

        await becomes(heard, [ODD_PLAIN[key]])


async def test_an_edited_message_is_answered_as_it_now_reads_and_a_deleted_one_not(stage: Stage) -> None:
    ann, channel = OnDiscord(stage.doubles), await direct(stage, 1002)
    await stage.script("hold on", "held", hold="edited")
    await stage.script("say alpha", "alpha it is")
    await ann.say("hold on", channel)
    await stage.asking("hold on")
    edited, deleted = await ann.say("say aplha", channel), await ann.say("forget this one", channel)
    message = next(one for one in (await ann.state())["messages"] if one["id"] == edited)
    message |= {"content": "say alpha", "edited_timestamp": "2026-01-01T00:00:00+00:00"}
    await stage.doubles.discord.post("events", {"t": "MESSAGE_UPDATE", "d": message})
    await stage.doubles.discord.post("events", {"t": "MESSAGE_DELETE", "d": {"id": deleted, "channel_id": channel}})
    await stage.program.waits("say alpha", without="forget this one")
    await stage.release("edited")
    await ann.hears("held", channel=channel)
    await ann.hears("alpha it is", channel=channel)
    await ann.say("and the last one", channel)
    await ann.hears("and the last one", channel=channel)
    assert not await stage.asked("aplha")
    assert not await stage.asked("forget this one")


async def test_files_go_both_ways(stage: Stage) -> None:
    ann, channel = OnDiscord(stage.doubles), await direct(stage, 1003)
    notes = {"name": "notes.txt", "text": "the code word is heron", "content_type": "text/plain"}
    picture = {"name": "p.png", "content_base64": PICTURE, "content_type": "image/png"}
    await ann.say("look at these", channel, files=[notes, picture])
    await ann.hears("look at these", channel=channel)
    body = json.dumps((await stage.asking("look at these"))["body"])
    assert "the code word is heron" in body
    assert PICTURE in body

    await ann.slash("export", channel=channel)

    async def sent() -> Any:
        return [file for one in await ann.messages(channel) for file in one["attachments"]]

    (file,) = await until(sent, what="the file")
    assert file["filename"] == "conversation.jsonl"
    lines = (await stage.doubles.discord.fetch(file["url"])).decode().splitlines()
    assert [json.loads(line)["role"] for line in lines] == ["user", "assistant"]


@pytest.mark.requirement("G-35")
async def test_only_the_one_who_was_asked_can_confirm(stage: Stage) -> None:
    ann, channel = OnDiscord(stage.doubles), await room(stage, 1004)
    await ann.say(f"{ME} something to forget", channel)
    await ann.hears("something to forget", channel=channel)
    await ann.slash("clear", channel=channel)
    await ann.hears("Hide 2 messages", channel=channel)
    question = (await ann.messages(channel))[-1]
    yes = question["components"][0]["components"][0]["custom_id"]
    await ann.press(question["id"], yes, channel, user=BOB)
    refusal = await ann.hears("Only the person", channel=channel)
    assert next(one for one in (await ann.state())["messages"] if one["content"] == refusal)["ephemeral"]
    assert not any("Forgotten" in text for text in await contents(ann, channel))
    await ann.press(question["id"], yes, channel)
    await ann.hears("Hidden from the model: 2 messages", channel=channel)

    async def closed() -> bool:
        asked = next(one for one in await ann.messages(channel) if one["id"] == question["id"])
        return not asked["components"] and "Answered: Yes" in asked["content"]

    await until(closed, what="the closed question")


@pytest.mark.requirement("G-05", "R-53")
async def test_stop_ends_a_running_answer(stage: Stage) -> None:
    ann, channel = OnDiscord(stage.doubles), await direct(stage, 1005)
    await stage.script("never ending", " ".join(f"word{number}" for number in range(300)), hold="never", hold_after=9)
    await ann.say("a never ending story", channel)
    await ann.hears("word5", channel=channel)
    await ann.slash("stop", channel=channel)
    await ann.hears("Stopping", channel=channel)
    assert (await stage.over("never ending"))["client_closed"]
    await ann.hears("Stopped", channel=channel)
    assert not any("word299" in text for text in await contents(ann, channel))


@pytest.mark.requirement("G-08", "Z-145")
async def test_a_tool_is_shown_while_it_runs_and_not_afterwards(stage: Stage) -> None:
    ann, channel = OnDiscord(stage.doubles), await direct(stage, 1006)
    call = {"type": "tool_use", "name": "calculate", "input": {"expression": "6 * 7"}}
    rules = [
        {"match": {"contains": "six times", "tool_result": True}, "reply": {"text": "It is 42.", "hold": "six"}},
        {"match": {"contains": "six times"}, "reply": {"blocks": [{"type": "text", "text": "Let me see."}, call]}},
    ]
    await stage.doubles.llm.post("script", rules, append="1")
    await ann.say("what is six times seven", channel)

    async def shown() -> Any:
        return [text for text in await contents(ann, channel) if "calculate" in text]

    await until(shown, what="the status line")
    await stage.release("six")
    await ann.hears("It is 42.", channel=channel)

    async def gone() -> bool:
        return not await shown()

    await until(gone, what="no status line")
    assert len(await ann.messages(channel)) == 1


async def test_text_commands_work_as_well(stage: Stage) -> None:
    ann, channel = OnDiscord(stage.doubles), await direct(stage, 1007)
    await ann.say("first thing", channel)
    await ann.hears("first thing", channel=channel)
    await ann.say("/undo", channel)
    await ann.hears("Taken back", channel=channel)
    await ann.say("/retry", channel)
    await ann.hears("no message of yours", channel=channel)
    await ann.slash("sessions", channel=channel)
    await ann.hears("Conversations here", channel=channel)


async def test_a_slash_command_waits_its_turn_and_discord_is_not_kept_waiting(stage: Stage) -> None:
    ann, channel = OnDiscord(stage.doubles), await direct(stage, 1008)
    await stage.script("sweep the yard", "It is swept.", hold="time")
    await ann.say("sweep the yard", channel)
    await stage.asking("sweep the yard")
    await ann.slash("undo", channel=channel)

    async def thinks() -> Any:
        return [one for one in await ann.messages(channel) if one["ephemeral"]]

    await until(thinks, what="a sign of waiting for the one who asked")
    await stage.release("time")
    await ann.hears("It is swept.", channel=channel)
    await ann.hears("Taken back", channel=channel)

    async def over() -> bool:
        return not await thinks()

    await until(over, what="no sign of waiting")
    assert len(await ann.messages(channel)) == 2
