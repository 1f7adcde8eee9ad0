"""Money and voice in the running program: a kill loses no call, a voice is heard, a budget ends and goes on."""

import csv
from io import StringIO
from typing import Any

import pytest

from tests.program import configs
from tests.program.conftest import Start
from tests.program.doubles import Doubles, until
from tests.program.people import OnTelegram

PRICES = "prices = {input = 1.0, output = 10.0}\n"
VOICE = """
[transcription]
provider = "a"
usd_per_minute = 0.6
[[spending.limits]]
scope = "person"
usd = 0.5
"""
BOB = {"id": 78, "first_name": "Bob"}


async def reported(doubles: Doubles) -> list[dict[str, Any]]:
    """The calls whose usage reached us whole."""
    calls = (await doubles.llm.get("calls"))["calls"]
    return [call for call in calls if call.get("finished")]


@pytest.mark.slow  # two starts
async def test_a_kill_loses_no_call_and_a_voice_message_is_answered(doubles: Doubles, program: Start) -> None:
    slow = {"match": {"contains": "slow"}, "reply": {"text": "the slow answer", "hold": "for ever"}}
    ear = {"match": {"api": "transcriptions"}, "reply": {"text": "what is in the post today"}}
    costly = {"match": {"contains": "costly"}, "reply": {"text": "done", "usage": {"input_tokens": 470_000}}}
    await doubles.llm.post("script", [ear, slow, costly])
    models = configs.models(doubles, "a") + PRICES
    tieline = program(
        configs.ACCESS + VOICE + models + configs.telegram(doubles),
        about={"llm.providers.prices", "spending", "transcription"},
    )
    ann, bob = OnTelegram(doubles), OnTelegram(doubles, BOB)
    async with tieline:
        voice = {"name": "voice.oga", "field": "voice", "mime_type": "audio/ogg", "text": "OggS" * 1000}
        await bob.send({"user": BOB, "file": voice})
        await bob.hears("what is in the post today")  # the echo of the words, so the model had them
        await ann.say("quick one")
        await ann.hears("quick one")
        await tieline.settled()
        await ann.say("slow please")

        async def asked() -> bool:
            return any("slow please" in str(call["body"]) for call in (await doubles.llm.get("calls"))["calls"])

        await until(asked, what="the slow call")
        tieline.kill()
        await doubles.llm.post("script", [ear, costly])
        tieline.start()
        await tieline.ready()
        await ann.hears("slow please")
        # A budget ends, is raised by its button, and the person goes on.
        await bob.say("something costly")
        await bob.hears("done")
        await bob.say("one more")
        await bob.hears("You may spend 0.50 USD")
        await ann.hears("of person telegram:78")
        alert = next(one for one in reversed(await ann.messages()) if "What is left of" in str(one))
        action = alert["reply_markup"]["inline_keyboard"][0][0]["callback_data"]
        await ann.press(alert["message_id"], action)
        await ann.hears("Allowed. Now: person telegram:78")
        await bob.hears("An admin allowed more")
        await bob.say("/retry")
        await bob.hears("one more")
        await ann.say("/cost")
        await ann.hears("Everything together")

        table = await tieline.cli("usage", "export")
        found = list(csv.DictReader(StringIO(table.stdout)))
        exact = [row for row in found if row["estimated"] == "no" and row["purpose"] == "turn"]
        whole = [call for call in await reported(doubles) if call["api"] == "openai"]
        for column, count in (("input_tokens", "input_tokens"), ("output_tokens", "output_tokens")):
            assert sum(int(row[column]) for row in exact) == sum(call["usage"][count] for call in whole)
        assert len(exact) == len(whole)
        (cut,) = [row for row in found if row["estimated"] == "yes"]
        assert (cut["person"], cut["output_tokens"]) == ("telegram:77", "0"), "under way at the kill"
        assert int(cut["input_tokens"]) > 0
        (heard,) = [row for row in found if row["purpose"] == "transcription"]
        assert (heard["audio_seconds"], heard["cost_usd"], heard["person"]) == ("2", "0.02", "telegram:78")
        sums = await tieline.cli("usage", "--by", "person")
        assert "telegram:77" in sums.stdout
        assert "telegram:78" in sums.stdout
