"""Voice and pictures out of the running program: made once, native on each platform, never in place of text."""

import base64
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from agent.core.failpoints import ENVIRONMENT
from agent.core.ogg_opus import read_opus
from gateway.phrases.catalogue import read_catalogue
from tests.adapters.web.visitor import Visitor
from tests.doubles.llm_api import PICTURE, ogg_opus
from tests.fakes.waiting import PATIENCE_S
from tests.program import configs
from tests.program.conftest import Start
from tests.program.doubles import Doubles, until
from tests.program.people import OnDiscord, OnSlack, OnTelegram
from tests.program.running import Program

IS_VOICE_MESSAGE = 1 << 13  # Discord: flags of a message
SPOKEN = """
[transcription]
provider = "a"
usd_per_minute = 0.0
[speech]
provider = "a"
usd_per_million_chars = 15.0
"""
DRAWN = """
[images]
provider = "a"
usd_per_image = 0.04
"""
RETRY = "[retry]\nmax_retries = 1\nbackoff_ms = 20\n"
ABOUT = {"transcription", "speech"}
EAR = {"match": {"api": "transcriptions"}, "reply": {"text": "what is the weather"}}
ANSWER = "It **rains**. Take an [umbrella](https://example.org/u)."
WEATHER = {"match": {"contains": "the weather"}, "reply": {"text": ANSWER}}
RECORDING = ogg_opus(100)
VOICE = {"name": "voice.oga", "field": "voice", "mime_type": "audio/ogg"}
ENCODED = base64.b64encode(RECORDING).decode()
DRAW = {"type": "tool_use", "name": "image", "input": {"prompt": "a red fox", "caption": "Here is your *fox*."}}
DRAWING = [
    {"match": {"tool_result": True, "tool_result_contains": "on its way"}, "reply": {"text": "I drew it."}},
    {"match": {"tool_result": True}, "reply": {"text": "There is no picture, sorry."}},
    {"match": {"contains": "draw"}, "reply": {"blocks": [DRAW]}},
]
PHRASE = read_catalogue()


def saying(sentence: str) -> str:
    """A sentence of ours, as people read it."""
    return PHRASE(sentence, "en")


async def asked(doubles: Doubles, api: str) -> list[dict[str, Any]]:
    """The calls of that kind that the model service had."""
    return [call for call in (await doubles.llm.get("calls"))["calls"] if call["api"] == api]


async def voices(ann: OnTelegram) -> list[dict[str, Any]]:
    return [one for one in await ann.messages() if "voice" in one]


async def until_voices(ann: OnTelegram, count: int) -> list[dict[str, Any]]:
    async def found() -> list[dict[str, Any]] | None:
        here = await voices(ann)
        return here if len(here) == count else None

    many: list[dict[str, Any]] = await until(found, what=f"{count} voice messages")
    return many


async def speak(ann: OnTelegram) -> None:
    await ann.send({"user": ann.user, "file": {**VOICE, "content_base64": ENCODED}})


@asynccontextmanager
async def talking(program: Program, doubles: Doubles, *rules: dict[str, Any]) -> AsyncIterator[OnTelegram]:
    await doubles.llm.post("script", [*rules, EAR, WEATHER])
    async with program:
        yield OnTelegram(doubles)


@pytest.mark.requirement("Z-155")
async def test_a_voice_message_is_answered_by_text_and_voice_on_each_platform(doubles: Doubles, program: Start) -> None:
    config = configs.ACCESS + SPOKEN + configs.models(doubles, "a")
    config += configs.telegram(doubles) + configs.discord(doubles) + configs.slack(doubles)
    tieline, discord, slack = program(config, about=ABOUT), OnDiscord(doubles), OnSlack(doubles)
    async with talking(tieline, doubles) as ann:
        await speak(ann)
        await ann.hears("rains")
        (sent,) = await until_voices(ann, 1)
        assert not sent.get("caption")
        (call,) = await asked(doubles, "speech")
        assert call["body"] == {
            "model": "gpt-4o-mini-tts",
            "voice": "alloy",
            "response_format": "opus",
            "input": "It rains. Take an umbrella.",
        }
        # Text is answered by text.
        await ann.say("tell me the weather")
        await hears_often(ann, "rains", 2)

        await discord.say("", files=[{"name": "v.ogg", "content_type": "audio/ogg", "content_base64": ENCODED}])

        async def on_discord() -> dict[str, Any] | None:
            return next((one for one in await discord.messages() if one["attachments"]), None)

        message = await until(on_discord, what="the voice message on Discord")
        assert message["flags"] & IS_VOICE_MESSAGE
        (file,) = message["attachments"]
        data = await doubles.discord.fetch(file["url"])
        assert read_opus(data).seconds > 1
        assert any("rains" in one["content"] for one in await discord.messages())

        await slack.say("", files=[{"name": "v.ogg", "mimetype": "audio/ogg", "content_base64": ENCODED}])

        async def on_slack() -> dict[str, Any] | None:
            return next((file for one in await slack.messages() for file in one.get("files", ())), None)

        shown = await until(on_slack, what="the audio file on Slack")
        assert shown["title"] == f"{saying('spoken_name')}.ogg"
        await tieline.settled()
        assert len(await asked(doubles, "speech")) == 3
        assert len(await voices(ann)) == 1  # the text was not read out
        await until(lambda: _billed(tieline, "speech", 3), what="the ledger")
        costs = tieline.rows("select cost_usd, audio_s from usage where purpose = 'speech'")
        assert all(cost == pytest.approx(27 * 15 / 1e6) and seconds > 1 for cost, seconds in costs)


async def hears_often(ann: OnTelegram, what: str, least: int) -> None:
    """Wait until so many messages of the bot hold these words."""

    async def enough() -> bool:
        return sum(what in one for one in await ann.texts()) >= least

    await until(enough, what=f"{what!r}, {least} times")


async def _billed(tieline: Program, purpose: str, count: int) -> bool:
    return tieline.rows(f"select count(*) from usage where purpose = '{purpose}'") == [(count,)]


@pytest.mark.requirement("Z-155")
async def test_a_place_chooses_and_a_small_text_is_no_reason_to_say_more(doubles: Doubles, program: Start) -> None:
    config = configs.ACCESS + SPOKEN + configs.models(doubles, "a") + configs.telegram(doubles)
    long = "One sentence about it. " * 200 + "```\ncode\n```"
    rule = {"match": {"contains": "at length"}, "reply": {"text": long}}
    async with talking(program(config, about=ABOUT), doubles, rule) as ann:
        await ann.say("/settings voice always")
        await ann.hears("voice is always now")
        await ann.say("tell me the weather at length")
        await until_voices(ann, 1)
        (call,) = await asked(doubles, "speech")
        words = call["body"]["input"]
        assert len(words) <= 1500
        assert words.endswith(f"One sentence about it.\n{saying('spoken_rest')}")
        await ann.say("/settings voice off")
        await ann.hears("voice is off now")
        await speak(ann)
        await ann.hears("rains")
        await ann.say("/settings voice")
        await ann.hears("off")
        assert len(await asked(doubles, "speech")) == 1


@pytest.mark.alone
@pytest.mark.requirement("Z-156")
async def test_killed_between_sound_and_send_it_is_sent_once_and_paid_once(doubles: Doubles, tmp_path: Path) -> None:
    order = tmp_path / "crash"
    home = tmp_path / "h"
    config = configs.ACCESS + SPOKEN + configs.models(doubles, "a") + configs.telegram(doubles)
    tieline = Program(home, config, {ENVIRONMENT: str(order)}, about=ABOUT)
    async with talking(tieline, doubles) as ann:
        await anyio.Path(order).write_text("speech.made")
        await speak(ann)
        await until(lambda: _is_dead(tieline), what="the kill")
        assert await voices(ann) == []
        tieline.start()
        await tieline.ready()
        await until_voices(ann, 1)
        await tieline.settled()
        assert len(await voices(ann)) == 1
        assert len(await asked(doubles, "speech")) == 1
        assert sum("rains" in text for text in await ann.texts()) == 1
        await until(lambda: _billed(tieline, "speech", 1), what="one entry in the ledger")


async def _is_dead(tieline: Program) -> bool:
    return tieline.process is not None and tieline.process.poll() is not None


@pytest.mark.requirement("Z-157")
async def test_without_speech_there_is_the_text_and_a_sentence(doubles: Doubles, program: Start) -> None:
    config = configs.ACCESS + SPOKEN + configs.models(doubles, "a") + configs.telegram(doubles)
    tieline = program(config + RETRY, about=ABOUT | {"retry"})
    async with talking(tieline, doubles) as ann:
        for number, fault in enumerate(("wrong_type", "cut_off", "broken_off"), start=1):
            await doubles.llm.post("faults", {"method": "speech", "kind": fault, "times": 2})
            before = len(await asked(doubles, "speech"))
            await speak(ann)
            await hears_often(ann, saying("spoken_failed"), number)
            await tieline.settled()
            assert len(await asked(doubles, "speech")) == before + 2
            assert await voices(ann) == []
            await hears_often(ann, "rains", number)
        # The endpoint comes back at the second try.
        before = len(await asked(doubles, "speech"))
        await doubles.llm.post("faults", {"method": "speech", "kind": "error", "status": 429, "retry_after": 0})
        await speak(ann)
        await until_voices(ann, 1)
        assert len(await asked(doubles, "speech")) == before + 2
        # A name that it does not know is not asked about again.
        before += 2
        silent = config.replace("[speech]", '[speech]\nvoice = "nobody"')
        tieline.write(silent + RETRY, about=ABOUT | {"retry"})
        await until(lambda: _says(tieline, "new settings count from the next turn on: speech"), what="the new settings")
        await speak(ann)
        await hears_often(ann, saying("spoken_failed"), 4)
        assert len(await asked(doubles, "speech")) == before + 1
        assert len(await voices(ann)) == 1


async def _says(tieline: Program, words: str) -> bool:
    return words in await anyio.Path(tieline.log).read_text()


@pytest.mark.requirement("Z-157")
async def test_a_budget_that_is_used_up_costs_the_voice_alone(doubles: Doubles, program: Start) -> None:
    limit = '[[spending.limits]]\nscope = "person"\nusd = 0.0006\n'  # 27 characters cost 0.0004
    config = configs.ACCESS + SPOKEN + limit + configs.telegram(doubles)
    config += configs.models(doubles, "a") + "prices = {input = 0.0, output = 0.0}\n"
    tieline = program(config, about=ABOUT | {"spending", "llm.providers.prices"})
    async with talking(tieline, doubles) as ann:
        await speak(ann)
        await until_voices(ann, 1)
        await speak(ann)
        await hears_often(ann, saying("spoken_over_budget"), 1)
        await tieline.settled()
        await hears_often(ann, "rains", 2)
        assert len(await asked(doubles, "speech")) == len(await voices(ann)) == 1


@pytest.mark.requirement("Z-155")
async def test_who_takes_no_voice_messages_gets_a_file(doubles: Doubles, program: Start) -> None:
    config = configs.ACCESS + SPOKEN + configs.models(doubles, "a")
    tieline = program(config + configs.telegram(doubles) + configs.discord(doubles), about=ABOUT)
    await doubles.telegram.post("settings", {"voices_forbidden": True})
    await doubles.discord.post("settings", {"voice_messages": False})
    async with talking(tieline, doubles) as ann:
        discord = OnDiscord(doubles)
        await speak(ann)
        await until(lambda: _documents(ann), what="a file on Telegram")
        await discord.say("", files=[{"name": "v.ogg", "content_type": "audio/ogg", "content_base64": ENCODED}])

        async def on_discord() -> dict[str, Any] | None:
            return next((one for one in await discord.messages() if one["attachments"]), None)

        message = await until(on_discord, what="a file on Discord")
        assert not message["flags"] & IS_VOICE_MESSAGE
        await tieline.settled()
        assert len(await asked(doubles, "speech")) == 2


@pytest.mark.requirement("Z-155")
async def test_the_web_page_plays_it(doubles: Doubles, program: Start) -> None:
    tieline = program(configs.ACCESS + SPOKEN + configs.models(doubles, "a"), about=ABOUT)
    await doubles.llm.post("script", [EAR, WEATHER])
    async with tieline, httpx2.AsyncClient(base_url=tieline.url, timeout=PATIENCE_S, trust_env=False) as client:
        page = await client.get(tieline.sign_in_link(), follow_redirects=True)
        assert "media-src 'self'" in page.headers["content-security-policy"]
        (token,) = re.findall(r'name="csrf" content="([^"]+)"', page.text)
        ann = Visitor(client, token)
        voice = await ann.upload("v.ogg", RECORDING, "audio/ogg")
        await ann.say("", files=(voice["id"],))

        async def played() -> dict[str, Any] | None:
            shown = (await ann.state())["messages"]
            return next((file for one in shown if one["who"] == "bot" for file in one.get("files", ())), None)

        file = await until(played, what="a sound on the page")
        assert file["is_sound"]
        sound = await client.get(f"/chat/files/{file['id']}")
        assert (sound.headers["content-type"], sound.headers["content-disposition"][:6]) == ("audio/ogg", "inline")
        assert read_opus(sound.content).seconds > 1


async def _documents(ann: OnTelegram) -> bool:
    return any("document" in one for one in await ann.messages())


async def pictures(ann: OnTelegram) -> list[dict[str, Any]]:
    return [one for one in await ann.messages() if "photo" in one]


async def press(ann: OnTelegram, number: int) -> None:
    """Answer the open question by its button of that number."""

    async def question() -> tuple[int, list[dict[str, Any]]] | None:
        for one in reversed(await ann.messages()):
            rows = (one.get("reply_markup") or {}).get("inline_keyboard") or ()
            if buttons := [button for row in rows for button in row]:
                return one["message_id"], buttons
        return None

    message, buttons = await until(question, what="a question with buttons")
    await ann.press(message, buttons[number]["callback_data"])


@pytest.mark.alone
@pytest.mark.requirement("Z-158")
async def test_a_picture_comes_as_a_photo_with_its_caption_on_each_platform(doubles: Doubles, program: Start) -> None:
    config = configs.ACCESS + DRAWN + configs.models(doubles, "a")
    config += configs.telegram(doubles) + configs.discord(doubles) + configs.slack(doubles)
    tieline, discord, slack = program(config, about={"images"}), OnDiscord(doubles), OnSlack(doubles)
    async with talking(tieline, doubles, *DRAWING) as ann:
        await ann.say("draw a fox")
        await ann.hears("Make a picture (about 0.0400 USD)")
        assert await asked(doubles, "images") == []  # nothing is spent before somebody allows it
        await press(ann, 0)
        await ann.hears("I drew it.")
        await tieline.settled()
        (photo,) = await pictures(ann)
        assert photo["caption"] == "Here is your fox."
        (call,) = await asked(doubles, "images")
        assert call["body"] == {"model": "gpt-image-1", "prompt": "a red fox", "n": 1}
        kept = list((tieline.home / "workspaces").glob("*/pictures/*/*.png"))
        assert [one.read_bytes() for one in kept] == [PICTURE]
        await until(lambda: _billed(tieline, "images", 1), what="the ledger")
        assert tieline.rows("select cost_usd, estimated from usage where purpose = 'images'") == [(0.04, 0)]

        for there in (discord, slack):
            await there.say("draw a fox")
            await there.hears("Make a picture")
            await there.say("yes")
            await there.hears("I drew it.")
        await tieline.settled()
        (made,) = [one for one in await discord.messages() if one["attachments"]]
        assert made["content"] == "Here is your _fox_."
        assert made["attachments"][0]["content_type"] == "image/png"
        (shown,) = [file for one in await slack.messages() for file in one.get("files", ())]
        assert shown["title"].endswith(".png")
        assert any("Here is your" in one["text"] for one in await slack.messages())


@pytest.mark.requirement("Z-159")
async def test_without_a_picture_there_is_a_sentence(doubles: Doubles, program: Start) -> None:
    limit = '[[spending.limits]]\nscope = "person"\nusd = 0.05\n'
    config = configs.ACCESS + DRAWN + limit + "[retry]\nmax_retries = 0\n" + configs.telegram(doubles)
    config += configs.models(doubles, "a") + "prices = {input = 0.0, output = 0.0}\n"
    tieline = program(config, about={"images", "spending", "retry", "llm.providers.prices"})
    async with talking(tieline, doubles, *DRAWING) as ann:
        await ann.say("draw a fox")
        await press(ann, 1)
        await ann.hears("There is no picture, sorry.")
        assert await asked(doubles, "images") == []
        ways: list[tuple[dict[str, Any], str]] = [
            ({"kind": "error", "status": 503}, "no picture was made"),
            ({"kind": "no_picture"}, "no picture of a known type"),
            ({}, "0.05 usd left; this call may take 0.04"),
        ]
        for number, (fault, why) in enumerate(ways, start=2):
            if fault:
                await doubles.llm.post("faults", {"method": "images", **fault})
            await ann.say("draw a fox")
            await hears_often(ann, "Make a picture", number)
            await press(ann, 0)
            await hears_often(ann, "There is no picture, sorry.", number)
            told = [
                one["content"]
                for one in (await asked(doubles, "openai"))[-1]["body"]["messages"]
                if one["role"] == "tool"
            ]
            assert why in told[-1]
        assert await pictures(ann) == []
        assert len(await asked(doubles, "images")) == 2  # the budget let no third one through


@pytest.mark.requirement("Z-159")
async def test_a_picture_at_an_address_within_a_private_network_is_not_fetched(
    doubles: Doubles, program: Start
) -> None:
    config = configs.ACCESS + DRAWN + configs.models(doubles, "a") + configs.telegram(doubles)
    await doubles.llm.post("settings", {"picture_urls": True})
    tieline = program(config, about={"images"})
    async with talking(tieline, doubles, *DRAWING) as ann:
        await ann.say("draw a fox")
        await press(ann, 0)
        await ann.hears("There is no picture, sorry.")
        assert await asked(doubles, "picture") == []
        assert await pictures(ann) == []
    opened = f'[tools.web]\ninternal = ["127.0.0.1:{doubles.llm.port}"]\n'
    tieline = program(config + opened, about={"images", "tools.web"})
    async with talking(tieline, doubles, *DRAWING) as ann:
        await ann.say("draw a fox")
        await hears_often(ann, "Make a picture", 1)
        await press(ann, 0)
        await ann.hears("I drew it.")
        await tieline.settled()
        assert len(await pictures(ann)) == 1
