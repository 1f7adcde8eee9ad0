"""A person talks to the running program over Slack, by Socket Mode and by signed HTTP."""

import json
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from gateway.delivery.rendering.markdown import parse
from tests.doubles.slack_api import sign
from tests.fakes.readable import readable
from tests.program import configs
from tests.program.doubles import SLACK_SECRET, until
from tests.program.people import OnSlack
from tests.program.stage import ODD_PLAIN, PICTURE, POEM, Stage, becomes, on_stage

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUICK = "stream_interval_ms = 500"
ME = "<@U0DOUBLE>"
PATIENT = {"ack_deadline": 60}  # Slack's three seconds are the adapter's own tests' matter


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    home = tmp_path_factory.mktemp("h", numbered=True)
    async with on_stage(home, lambda doubles, _: configs.slack(doubles, more=QUICK)) as stage:
        await stage.doubles.slack.post("settings", PATIENT)
        yield stage


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def over_http(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    home = tmp_path_factory.mktemp("h", numbered=True)
    async with on_stage(home, lambda doubles, _: configs.slack(doubles, socket_mode=False, more=QUICK)) as stage:
        base = f"{stage.program.url}/channels/slack"
        urls = {f"{name}_url": f"{base}/{name}" for name in ("events", "commands", "interactivity")}
        await stage.doubles.slack.post("settings", urls | PATIENT)
        yield stage


def read(message: dict[str, Any]) -> str:
    """The text of a message that a person reads."""
    shown = []
    for block in message.get("blocks", ()):
        if block["type"] == "markdown":
            shown.append(readable(parse(block["text"])))
        elif block["type"] == "rich_text":
            shown += [part["text"] for section in block["elements"] for part in section["elements"]]
    if shown:
        return "\n\n".join(shown)
    return readable(parse(message["text"])) if message.get("streamed") else str(message["text"])


async def thread_of(ann: OnSlack, ts: str, channel: str) -> list[dict[str, Any]]:
    return [message for message in await ann.messages(channel) if message.get("thread_ts") == ts]


async def answered(ann: OnSlack, ts: str, channel: str, what: str) -> dict[str, Any]:
    """Wait for a message in the thread that holds these words."""

    async def found() -> Any:
        messages = await thread_of(ann, ts, channel)
        return next((one for one in messages if what in read(one) and not one.get("streaming")), None)

    message: dict[str, Any] = await until(found, what=f"{what!r} in the thread")
    return message


async def streamed(ann: OnSlack, ts: str, channel: str, what: str) -> str:
    """Wait for these words in what is still being streamed into the thread."""

    async def found() -> str | None:
        texts = [one["text"] for one in await thread_of(ann, ts, channel) if one.get("streaming")]
        return next((text for text in texts if what in text), None)

    text: str = await until(found, what=f"{what!r} in a stream")
    return text


async def sent_ephemeral(ann: OnSlack, what: str) -> str:
    async def found() -> Any:
        return next((one["text"] for one in (await ann.state())["ephemeral"] if what in one["text"]), None)

    text: str = await until(found, what=f"{what!r} for one person")
    return text


def action_ids(message: dict[str, Any]) -> list[str]:
    return [one["action_id"] for block in message["blocks"] for one in block.get("elements", ()) if "action_id" in one]


async def everyday(stage: Stage) -> None:
    """A direct message, a channel with and without mention, a thread, a slash command, a button."""
    ann = OnSlack(stage.doubles)
    await stage.script("good morning", "Good morning, Ann.")
    await ann.say("good morning")
    await ann.hears("Good morning")
    (answer,) = await ann.messages()
    assert read(answer) == "Good morning, Ann."
    assert "thread_ts" not in answer

    await ann.say("nobody is meant", "C0GENERAL")
    asked = await ann.say(f"{ME} what is new", "C0GENERAL")
    await answered(ann, asked, "C0GENERAL", "what is new")
    assert len(await ann.messages("C0GENERAL")) == 1
    assert not await stage.asked("nobody is meant")
    assert len(await stage.asked("what is new")) == 1  # it came as a message and as a mention

    await ann.say("and then?", "C0GENERAL", thread_ts=asked)  # the thread is a conversation: no mention needed
    await answered(ann, asked, "C0GENERAL", "and then?")
    assert "what is new" in str((await stage.asked("and then?"))[0]["body"]["messages"])
    other = await ann.say(f"{ME} another matter", "C0GENERAL")
    await answered(ann, other, "C0GENERAL", "another matter")
    assert "what is new" not in str((await stage.asked("another matter"))[0]["body"]["messages"])

    await ann.slash("/tieline", "status")
    assert "model-a" in await sent_ephemeral(ann, "Status")
    await ann.slash("/whoami", "", "C0GENERAL")
    assert "slack:U0ANN" in await sent_ephemeral(ann, "You are")

    await ann.slash("/provider", "")
    await ann.hears("Providers")
    menu = (await ann.messages())[-1]
    chosen = next(one for one in action_ids(menu) if "provider b" in one)
    await ann.press(menu["ts"], chosen)
    await ann.hears("This chat now uses")
    await ann.say("with the other one")
    await ann.hears("with the other one")
    assert (await stage.asked("with the other one"))[0]["body"]["model"] == "model-b"

    async def all_acknowledged() -> bool:
        return all(delivery.get("acked") for delivery in (await ann.state())["deliveries"])

    await until(all_acknowledged, what="an acknowledgement of everything")
    assert all(len(delivery["attempts"]) == 1 for delivery in (await ann.state())["deliveries"])


async def test_everyday_over_a_socket(stage: Stage) -> None:
    await everyday(stage)
    deliveries = (await OnSlack(stage.doubles).state())["deliveries"]
    assert {attempt["transport"] for one in deliveries for attempt in one["attempts"]} == {"socket"}


async def test_everyday_over_http(over_http: Stage) -> None:
    assert (await over_http.doubles.slack.post("verify_url"))["verified"]
    await everyday(over_http)
    deliveries = (await OnSlack(over_http.doubles).state())["deliveries"]
    assert {attempt["transport"] for one in deliveries for attempt in one["attempts"]} == {"http"}


@pytest.mark.requirement("G-12")
async def test_the_program_stores_only_what_slack_has_signed_just_now(over_http: Stage) -> None:
    def event(text: str) -> str:
        said = {"type": "message", "channel": "D0ANN", "channel_type": "im", "user": "U0ANN", "ts": "1.2", "text": text}
        return json.dumps({"type": "event_callback", "team_id": "T0DOUBLE", "event_id": text, "event": said})

    url = f"{over_http.program.url}/channels/slack/events"
    old = int(time.time()) - 400
    async with aiohttp.ClientSession(headers={"Content-Type": "application/json"}) as client:

        async def status(body: str, headers: dict[str, str]) -> int:
            async with client.post(url, data=body, headers=headers) as answer:
                return answer.status

        assert await status(event("forged"), sign("another secret", event("forged"))) == 401
        assert await status(event("replayed"), sign(SLACK_SECRET, event("replayed"), old)) == 401
        assert await status(event("genuine"), sign(SLACK_SECRET, event("genuine"))) == 200
    with closing(sqlite3.connect(over_http.program.home / "tieline.db", timeout=30)) as database:
        stored = " ".join(row[0] for row in database.execute("SELECT payload FROM inbox"))
    assert [word for word in ("forged", "replayed", "genuine") if word in stored] == ["genuine"]


@pytest.mark.requirement("B-29")
async def test_an_answer_streams_natively_in_a_thread(stage: Stage) -> None:
    ann = OnSlack(stage.doubles)
    await stage.script("a poem", POEM, hold={"poem, begin": 0, "poem, go on": 8, "poem, end": 24})
    asked = await ann.say(f"{ME} a poem please", "C0POEMS")

    async def status() -> Any:
        return (await ann.state())["status"].get(f"C0POEMS:{asked}")

    assert "thinking" in await until(status, what="the status line")
    await stage.release("poem, begin")
    for words, then in (("verse7", "poem, go on"), ("verse23", "poem, end")):
        assert POEM.startswith(await streamed(ann, asked, "C0POEMS", words))
        assert "ended_at" not in await stage.asking("a poem")
        await stage.release(then)
    message = await answered(ann, asked, "C0POEMS", "verse39")
    assert read(message) == POEM
    assert len(await ann.messages("C0POEMS")) == 1
    calls = [call["method"] for call in await ann.calls() if call["params"].get("channel") == "C0POEMS"]
    assert calls.count("chat.startStream") == 1
    assert "chat.appendStream" in calls
    assert calls.count("chat.stopStream") == 1
    assert "chat.postMessage" not in calls

    async def quiet() -> bool:
        state = await ann.state()
        first = next(one for one in state["messages"] if one["ts"] == asked)
        return not await status() and not any(first.get("reactions", {}).values())

    await until(quiet, what="no sign of life")


@pytest.mark.requirement("B-29")
async def test_an_answer_grows_in_place_in_a_direct_message(stage: Stage) -> None:
    ann, channel = OnSlack(stage.doubles), "D0EPIC"
    await stage.script("an epic", POEM, hold={"epic, begin": 0, "epic, go on": 8, "epic, end": 24})
    asked = await ann.say("an epic please", channel)

    async def reactions() -> Any:
        message = next(one for one in (await ann.state())["messages"] if one["ts"] == asked)
        return [name for name, who in message.get("reactions", {}).items() if who]

    assert await until(reactions, what="the reaction") == ["eyes"]
    await stage.release("epic, begin")
    for words, then in (("verse7", "epic, go on"), ("verse23", "epic, end")):
        await ann.hears(words, channel=channel)
        (message,) = await ann.messages(channel)
        assert POEM.startswith(read(message))
        assert "ended_at" not in await stage.asking("an epic")
        await stage.release(then)
    await ann.hears("verse39", channel=channel)
    (message,) = await ann.messages(channel)
    assert read(message) == POEM

    async def quiet() -> bool:
        return not await reactions()

    await until(quiet, what="no reaction")


@pytest.mark.requirement("G-06", "R-54")
async def test_plain_text_arrives_as_it_is_for_many_people_at_once(stage: Stage) -> None:
    """In direct messages and in threads, where it is streamed."""
    ann = OnSlack(stage.doubles)
    for key, text in ODD_PLAIN.items():
        await stage.script(f"odd {key}", text, hold="odd")
    threads = {}
    for number, key in enumerate(ODD_PLAIN):
        await ann.say(f"odd {key}", f"D0ODD{number}")
        threads[key] = await ann.say(f"{ME} odd {key}", f"C0ODD{number}")

    async def all_asked() -> bool:
        return all([len(await stage.asked(f"odd {key}")) == 2 for key in ODD_PLAIN])

    await until(all_asked, what="every question, under way together")
    await stage.release("odd")
    for number, key in enumerate(ODD_PLAIN):

        async def direct(channel: str = f"D0ODD{number}") -> list[str]:
            return [read(message) for message in await ann.messages(channel)]

        await becomes(direct, [ODD_PLAIN[key]])

        async def whole(ts: str = threads[key], channel: str = f"C0ODD{number}") -> list[str]:
            messages = await thread_of(ann, ts, channel)
            return [] if any(one.get("streaming") for one in messages) else [read(one) for one in messages]

        await becomes(whole, [ODD_PLAIN[key]])
    assert await all_asked()


async def test_an_edited_message_is_answered_as_it_now_reads_and_a_deleted_one_not(stage: Stage) -> None:
    ann, channel = OnSlack(stage.doubles), "D0EDIT"
    await stage.script("hold on", "held", hold="edited")
    await stage.script("say alpha", "alpha it is")
    await ann.say("hold on", channel)
    await stage.asking("hold on")
    edited, deleted = await ann.say("say aplha", channel), await ann.say("forget this one", channel)
    edit = {"kind": "edit", "channel": channel, "ts": edited, "text": "say alpha"}
    await stage.doubles.slack.post("events", edit)
    await stage.doubles.slack.post("events", {"kind": "delete", "channel": channel, "ts": deleted})
    await stage.program.waits("say alpha", without="forget this one")
    await stage.release("edited")
    await ann.hears("held", channel=channel)
    await ann.hears("alpha it is", channel=channel)
    await ann.say("and the last one", channel)
    await ann.hears("and the last one", channel=channel)
    assert not await stage.asked("aplha")
    assert not await stage.asked("forget this one")


async def test_files_go_both_ways(stage: Stage) -> None:
    ann, channel = OnSlack(stage.doubles), "D0FILES"
    notes = {"name": "notes.txt", "text": "the code word is heron"}
    picture = {"name": "p.png", "content_base64": PICTURE, "mimetype": "image/png"}
    await ann.say("look at these", channel, files=[notes, picture])
    await ann.hears("look at these", channel=channel)
    body = json.dumps((await stage.asking("look at these"))["body"])
    assert "the code word is heron" in body
    assert PICTURE in body

    await ann.say("/export", channel)

    async def shown() -> Any:
        return [file for one in await ann.messages(channel) for file in one.get("files", ())]

    (file,) = await until(shown, what="the file")
    assert file["title"] == "conversation.jsonl"


@pytest.mark.requirement("G-35")
async def test_only_the_one_who_was_asked_can_confirm(stage: Stage) -> None:
    ann = OnSlack(stage.doubles)
    asked = await ann.say(f"{ME} something to forget", "C0CLEAR")
    await answered(ann, asked, "C0CLEAR", "something to forget")
    await ann.say("/clear", "C0CLEAR", thread_ts=asked)
    question = await answered(ann, asked, "C0CLEAR", "Hide 2 messages")
    yes = action_ids(question)[0]
    await ann.press(question["ts"], yes, "C0CLEAR", user="U0BOB")
    await sent_ephemeral(ann, "Only the person")
    assert not any("Forgotten" in read(one) for one in await thread_of(ann, asked, "C0CLEAR"))
    await ann.press(question["ts"], yes, "C0CLEAR")
    await answered(ann, asked, "C0CLEAR", "Hidden from the model: 2 messages")

    async def closed() -> bool:
        now = next(one for one in await thread_of(ann, asked, "C0CLEAR") if one["ts"] == question["ts"])
        return not action_ids(now) and "Answered: Yes" in read(now)

    await until(closed, what="the closed question")


@pytest.mark.requirement("G-05", "R-53")
async def test_stop_ends_a_running_answer(stage: Stage) -> None:
    ann = OnSlack(stage.doubles)
    await stage.script("never ending", " ".join(f"word{number}" for number in range(300)), hold="never", hold_after=9)
    asked = await ann.say(f"{ME} a never ending story", "C0STOP")
    await streamed(ann, asked, "C0STOP", "word5")
    await ann.say("/stop", "C0STOP", thread_ts=asked)
    await answered(ann, asked, "C0STOP", "Stopped")
    assert (await stage.over("never ending"))["client_closed"]
    kept = await answered(ann, asked, "C0STOP", "word5")
    assert "word299" not in read(kept)
    assert not any(one.get("streaming") for one in await ann.messages("C0STOP"))


@pytest.mark.requirement("G-08", "Z-145")
async def test_a_tool_is_shown_while_it_runs_and_not_afterwards(stage: Stage) -> None:
    """In the status line of a thread; in a direct message by a message that goes."""
    ann = OnSlack(stage.doubles)
    call = {"type": "tool_use", "name": "calculate", "input": {"expression": "6 * 7"}}
    rules = [
        *(
            {
                "match": {"contains": "six times", "tool_result": True},
                "times": 1,
                "reply": {"text": "It is 42.", "hold": hold},
            }
            for hold in ("six, in the thread", "six, directly")
        ),
        {"match": {"contains": "six times"}, "reply": {"blocks": [{"type": "text", "text": "Let me see."}, call]}},
    ]
    await stage.doubles.llm.post("script", rules, append="1")
    asked = await ann.say(f"{ME} what is six times seven", "C0TOOL")

    async def status() -> Any:
        return (await ann.state())["status"].get(f"C0TOOL:{asked}")

    async def told() -> bool:
        return "calculate" in (await status() or "")

    await until(told, what="the status line")
    await stage.release("six, in the thread")
    await answered(ann, asked, "C0TOOL", "It is 42.")

    async def no_status() -> bool:
        return not await status()

    await until(no_status, what="no status line")
    assert len(await ann.messages("C0TOOL")) == 1

    await ann.say("what is six times seven", "D0TOOL")
    await ann.hears("calculate", channel="D0TOOL")
    await stage.release("six, directly")
    await ann.hears("It is 42.", channel="D0TOOL")

    async def only_the_answer() -> bool:
        return len(await ann.messages("D0TOOL")) == 1

    await until(only_the_answer, what="no status message")
    assert not [one for one in (await ann.state())["ephemeral"] if "calculate" in one["text"]]


async def test_an_assistant_thread_is_a_conversation_that_streams(stage: Stage) -> None:
    ann, channel = OnSlack(stage.doubles), "D0ASSIST"
    await stage.doubles.slack.post("events", {"kind": "assistant_thread_started", "channel": channel, "user": "U0ANN"})
    root = next(one["ts"] for one in (await ann.state())["messages"] if one["channel"] == channel)
    await stage.script("assist me", POEM, hold={"assist": 0, "assisted": 8})
    await ann.say("assist me please", channel, thread_ts=root)

    async def status() -> Any:
        return (await ann.state())["status"].get(f"{channel}:{root}")

    assert "thinking" in await until(status, what="the status line")
    await stage.release("assist")
    await streamed(ann, root, channel, "verse7")
    await stage.release("assisted")
    message = await answered(ann, root, channel, "verse39")
    assert read(message) == POEM
    assert len(await thread_of(ann, root, channel)) == 1
    started = [call for call in await ann.calls("chat.startStream") if call["params"]["channel"] == channel]
    assert len(started) == 1

    async def quiet() -> bool:
        return not await status()

    await until(quiet, what="no status line")


async def test_the_umbrella_command_takes_ordinary_words(stage: Stage) -> None:
    ann = OnSlack(stage.doubles)
    await stage.script("the weather", "Fine.")
    await ann.slash("/tieline", "how is the weather", "D0WEATHER")
    await ann.hears("Fine.", channel="D0WEATHER")


async def test_a_slash_command_in_a_channel_counts_for_its_threads(stage: Stage) -> None:
    """Slack takes no slash commands in threads, and there is nothing but threads in a channel."""
    ann = OnSlack(stage.doubles)
    await ann.slash("/provider", "b", "C0CHOICE")
    await ann.hears("This chat now uses", channel="C0CHOICE")
    asked = await ann.say(f"{ME} which model is this", "C0CHOICE")
    await answered(ann, asked, "C0CHOICE", "which model is this")
    assert (await stage.asked("which model is this"))[0]["body"]["model"] == "model-b"
    await ann.say("/provider a", "C0CHOICE", thread_ts=asked)
    await answered(ann, asked, "C0CHOICE", "This chat now uses")
    await ann.say("and which one now", "C0CHOICE", thread_ts=asked)
    await answered(ann, asked, "C0CHOICE", "and which one now")
    assert (await stage.asked("and which one now"))[0]["body"]["model"] == "model-a"
    await ann.say("/provider reset", "C0CHOICE", thread_ts=asked)
    await answered(ann, asked, "C0CHOICE", "Back to")
    await ann.say("and at last", "C0CHOICE", thread_ts=asked)
    await answered(ann, asked, "C0CHOICE", "and at last")
    assert (await stage.asked("and at last"))[0]["body"]["model"] == "model-b", "what the channel uses"

    await stage.script("run away", " ".join(f"word{number}" for number in range(300)), hold="run away", hold_after=9)
    await ann.say(f"{ME} run away", "C0CHOICE")
    await stage.asking("run away")
    await ann.slash("/stop", "", "C0CHOICE")
    await ann.hears("Stopping", channel="C0CHOICE")
    assert (await stage.over("run away"))["client_closed"]
