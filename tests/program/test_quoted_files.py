"""People reply to a picture, a file and a voice in the running program, and the model gets them with the question."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import pytest
import pytest_asyncio

from tests.program import configs
from tests.program.doubles import Doubles, until
from tests.program.people import GROUP, OnDiscord, OnSlack, OnTelegram
from tests.program.running import Program
from tests.program.stage import PICTURE, Stage, on_stage

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.requirement("Z-150")]

VOICE = '[transcription]\nprovider = "a"\nusd_per_minute = 0.6\n'
SPOKEN = "meet me at the old mill"
BOB = {"id": 78, "first_name": "Bob"}
CHAT = {**GROUP, "id": -1301}
BEN = "500000000000000002"
CHANNEL, MEANT = "300000000000000001", "<@100000000000000001>"

Send = Callable[[Stage, Mapping[str, Any]], Awaitable[Any]]
Ask = Callable[[Stage, str, Any], Awaitable[Any]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    home = tmp_path_factory.mktemp("h", numbered=True)

    def channels(doubles: Doubles, _: Program) -> str:
        return VOICE + configs.telegram(doubles) + configs.discord(doubles) + configs.slack(doubles)

    async with on_stage(home, channels, about={"transcription"}) as stage:
        await stage.doubles.slack.post("settings", {"ack_deadline": 60})
        heard = {"match": {"api": "transcriptions"}, "reply": {"text": SPOKEN}}
        await stage.doubles.llm.post("script", [heard], append="1")
        yield stage


async def send_telegram(stage: Stage, file: Mapping[str, Any]) -> int:
    field = {"image/png": "photo", "audio/ogg": "voice"}.get(file["type"], "document")
    given = {**file, "mime_type": file["type"], "field": field}
    return await OnTelegram(stage.doubles, BOB).send({"user": BOB, "chat": CHAT, "file": given})


async def ask_telegram(stage: Stage, text: str, about: int) -> None:
    ann = OnTelegram(stage.doubles)
    await ann.say(f"@double_bot {text}", chat=CHAT, reply_to=about)


async def send_discord(stage: Stage, file: Mapping[str, Any]) -> str:
    return await OnDiscord(stage.doubles).say("", CHANNEL, user=BEN, files=[{**file, "content_type": file["type"]}])


async def ask_discord(stage: Stage, text: str, about: str) -> None:
    await OnDiscord(stage.doubles).say(f"{MEANT} {text}", CHANNEL, reply_to=about)


async def send_slack(stage: Stage, file: Mapping[str, Any]) -> str:
    ann = OnSlack(stage.doubles)
    return await ann.say("", "C0GENERAL", user="U0BEN", files=[{**file, "mimetype": file["type"]}])


async def ask_slack(stage: Stage, text: str, about: str) -> None:
    await OnSlack(stage.doubles).say(f"<@U0DOUBLE> {text}", "C0GENERAL", thread_ts=about)


PLATFORMS = [
    pytest.param(send_telegram, ask_telegram, "Bob (telegram:78)", id="telegram"),
    pytest.param(send_discord, ask_discord, f"(discord:{BEN})", id="discord"),
    pytest.param(send_slack, ask_slack, "(slack:U0BEN)", id="slack"),
]
FILES = [
    pytest.param({"name": "p.png", "type": "image/png", "content_base64": PICTURE}, PICTURE, id="picture"),
    pytest.param(
        {"name": "plan.txt", "type": "text/plain", "text": "the bridge is out"}, "the bridge is out", id="file"
    ),
    pytest.param({"name": "v.ogg", "type": "audio/ogg", "text": "OggS" * 100}, SPOKEN, id="voice"),
]


@pytest.mark.parametrize(("send", "ask", "writer"), PLATFORMS)
@pytest.mark.parametrize(("file", "content"), FILES)
async def test_the_file_of_the_message_replied_to_reaches_the_model(
    stage: Stage, send: Send, ask: Ask, writer: str, file: Mapping[str, Any], content: str, request: Any
) -> None:
    question = f"what is this {request.node.callspec.id}"
    about = await send(stage, file)
    await ask(stage, question, about)
    (message,) = [one for one in (await stage.asking(question))["body"]["messages"] if question in json.dumps(one)]
    told = json.dumps(message, ensure_ascii=False)
    assert content in told
    text = "\n".join(part["text"] for part in _parts(message) if part["type"] == "text")
    (opens,) = [line for line in text.split("\n") if line.startswith("<quoted ")]
    assert writer in opens
    assert 'files="/workspace/received/' in opens
    assert "<files>" not in text, "it is not the asker's"
    if content == SPOKEN:
        assert content in text.partition(opens)[2].partition("</quoted>")[0]


def _parts(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


@pytest.mark.requirement("Z-154")
async def test_a_thread_is_looked_up_when_it_is_first_asked_in(stage: Stage) -> None:
    ann = OnSlack(stage.doubles)
    plan = await ann.say(
        "the plan", "C0GENERAL", user="U0BEN", files=[{"name": "plan.txt", "text": "burn the letters"}]
    )
    for question in ("is this the plan?", "and who wrote it?"):
        await ask_slack(stage, question, plan)
        await ann.hears(question, channel="C0GENERAL")
    asked = [call["params"] for call in await ann.calls("conversations.replies")]
    assert [params.get("oldest") for params in asked if params.get("ts") == plan and params.get("limit") == "1"] == [
        plan
    ]
    first = json.dumps((await stage.asking("is this the plan?"))["body"]["messages"][-1])
    assert "burn the letters" in first
    second = json.dumps((await stage.asking("and who wrote it?"))["body"]["messages"][-1])
    assert "<quoted" not in second


@pytest.mark.requirement("Z-151")
async def test_a_file_that_telegram_does_not_hand_over_leaves_its_line(stage: Stage) -> None:
    film = {"name": "film.mp4", "type": "video/mp4", "text": "x", "size": 21 * 1024 * 1024}
    about = await send_telegram(stage, film)
    await ask_telegram(stage, "what is in the film?", about)
    told = json.dumps((await stage.asking("what is in the film?"))["body"]["messages"][-1])
    assert "[The file film.mp4 of the quoted message could not be read: it is larger than 20 MB]" in told


@pytest.mark.requirement("Z-152", "Z-153")
async def test_a_picture_replied_to_twice_is_fetched_once_and_kept_for_a_retry(stage: Stage) -> None:
    ann = OnTelegram(stage.doubles)
    about = await send_telegram(stage, {"name": "p.png", "type": "image/png", "content_base64": PICTURE})
    before = len(await ann.calls("getFile"))
    for question in ("what stands on the left?", "what stands on the right?"):
        await ask_telegram(stage, question, about)
        await ann.hears(question, chat=-1301)
    assert len(await ann.calls("getFile")) == before + 1
    await ann.say("/retry", chat=CHAT)

    async def again() -> list[str]:
        calls = await stage.asked("what stands on the right?")
        return [json.dumps(call["body"]["messages"][-1]) for call in calls[1:]]

    (told,) = await until(again, what="the question again")
    assert "Bob (telegram:78)" in told
    assert PICTURE in told


async def test_a_file_of_another_chat_comes_with_what_was_picked_out_of_its_words(stage: Stage) -> None:
    """Telegram's reply to a message elsewhere; Discord's and Slack's forwarded ones."""
    elsewhere = {"id": 4_000, "type": "private"}
    notes = {"name": "notes.txt", "mime_type": "text/plain", "text": "the code word is heron", "field": "document"}
    await OnTelegram(stage.doubles, BOB).send({"user": BOB, "chat": elsewhere, "file": notes})
    document = (await OnTelegram(stage.doubles).state())["messages"][-1]["document"]
    origin = {"type": "hidden_user", "sender_user_name": "Zoe", "date": 1}
    await OnTelegram(stage.doubles).say(
        "what is the word?", external_reply={"origin": origin, "document": document}, quote={"text": "the notes"}
    )
    told = json.dumps((await stage.asking("what is the word?"))["body"]["messages"][-1])
    assert '<quoted from=\\"Zoe (account unknown)\\" files=' in told
    assert "the notes" in told
    assert "the code word is heron" in told
    forward = {"content": "see the table", "files": [{"name": "t.txt", "text": "eleven herons"}]}
    await OnDiscord(stage.doubles).say("", forward=forward)
    told = json.dumps((await stage.asking("see the table"))["body"]["messages"][-1])
    assert "[quoted file: t.txt, text/plain]" in told
    assert "eleven herons" in told
    shared = {"text": "see the list", "files": [{"name": "l.txt", "text": "nine egrets"}]}
    await OnSlack(stage.doubles).say("how many?", forward=shared)
    told = json.dumps((await stage.asking("see the list"))["body"]["messages"][-1])
    assert "[quoted file: l.txt, text/plain]" in told
    assert "nine egrets" in told
