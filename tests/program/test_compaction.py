"""A conversation outgrows its model's window: seen on Telegram, Discord and Slack, and after a kill (SPEC §8.7)."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.program import configs
from tests.program.doubles import Doubles, until
from tests.program.people import DM, OnDiscord, OnSlack, OnTelegram
from tests.program.running import Program
from tests.program.stage import Stage, on_stage

pytestmark = pytest.mark.asyncio(loop_scope="module")

SUMMARY = "Goal: a trip\nAccomplished: booked HAT-4471\nKey Decisions: window seats\nRelevant Files: none"
FIRST = "My first request: plan my trip, always answer in one line."
FILLER = "tell me about place number {}: " + "some more words about it " * 120
BIG = "and here is a long list of wishes: " + "a wish that takes some room " * 600

# The window of the model is small, so that a short conversation fills it; summaries made ahead would come first.
SMALL = """
[memory]
prune_protect_tokens = 500
soft_compaction_threshold = 0.55
high_compaction_threshold = 0.57
hard_compaction_threshold = 0.60
[memory.compression]
pruning_strategy = "subgoal"
"""


def small_models(doubles: Doubles) -> str:
    """One of each API, with a window of 16,000 tokens."""
    both = configs.models(doubles, "a") + configs.models(doubles, "b", kind="anthropic")
    return both.replace("context_window = 128000", "context_window = 16000")


async def prepare(doubles: Doubles) -> None:
    rules = [
        {"match": {"system_contains": "You write the memory"}, "reply": {"text": f"<summary>{SUMMARY}</summary>"}},
        {
            "match": {"system_contains": "You follow a conversation"},
            "reply": {"text": "CURRENT: plan the trip\nCOMPLETED: NONE"},
        },
        # Ten seconds: a busy process shows its status lines late.
        {"match": {"contains": "long list of wishes"}, "reply": {"text": "wishes noted", "ttft": 10.0}},
    ]
    await doubles.llm.post("script", rules, append="1")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    home = tmp_path_factory.mktemp("h", numbered=True)

    def channels(doubles: Doubles, _: Program) -> str:
        return configs.telegram(doubles) + configs.discord(doubles) + configs.slack(doubles) + SMALL

    async with on_stage(home, channels, models=small_models) as stage:
        await prepare(stage.doubles)
        yield stage


async def fill(person: Any) -> None:
    """Enough to be compacted, and not yet compacted."""
    await person.say(FIRST)
    await person.hears("My first request")
    for number in range(4):
        await person.say(FILLER.format(number))
        await person.hears(f"place number {number}")


async def goes_on(stage: Stage, person: Any) -> None:
    """What the model is sent after the compaction, and that the conversation goes on."""
    await person.hears("wishes noted", seconds=40)
    call = [one for one in await stage.asked("long list of wishes") if one["body"].get("tools")][-1]
    assert call.get("status", 200) == 200, "the request is valid"
    sent = [str(message["content"]) for message in call["body"]["messages"] if message["role"] != "system"]
    assert "conversation summary" in sent[0]
    assert "HAT-4471" in sent[0]
    assert any(FIRST in text for text in sent), "the first request stands word for word"
    assert not any("place number 0" in text for text in sent)
    await person.say("and now?")
    await person.hears("and now?", seconds=20)


@pytest.mark.requirement("Z-29", "Z-75", "B-53", "B-54")
async def test_on_telegram(stage: Stage) -> None:
    ann = OnTelegram(stage.doubles)
    await fill(ann)
    await ann.say(BIG)

    async def shown() -> list[str]:
        return [
            text for call in await ann.calls("") if "Compacting: " in (text := json.dumps(call, ensure_ascii=False))
        ]

    assert "→" in (await until(shown, seconds=20, what="the status"))[0]
    await goes_on(stage, ann)

    async def gone() -> bool:
        return not any("Compacting" in text or "Summarising" in text for text in await ann.texts())

    await until(gone, what="a screen without the status")
    await ann.say("/status")
    status = await ann.hears("Compaction: ")
    assert "k→" in status
    assert "Subgoals (subgoal)" in status
    await ann.say("/context")
    assert "summaries" in await ann.hears("What fills my window")
    await ann.say("/provider b")  # the other shape of request: the double refuses what the API would refuse
    await ann.hears("This chat now uses")
    await ann.say("and in the other shape")
    await ann.hears("in the other shape", seconds=60)


@pytest.mark.requirement("Z-75")
async def test_on_discord(stage: Stage) -> None:
    ann = OnDiscord(stage.doubles)
    await fill(ann)
    await ann.say(BIG)

    async def shown() -> list[str]:
        return [text for call in await ann.calls() if "Compacting: " in (text := json.dumps(call, ensure_ascii=False))]

    assert await until(shown, seconds=20, what="the status")
    await goes_on(stage, ann)

    async def gone() -> bool:
        return not any("Compacting" in one["content"] for one in await ann.messages(DM))

    await until(gone, what="a screen without the status")


@pytest.mark.requirement("Z-75")
async def test_on_slack(stage: Stage) -> None:
    ann = OnSlack(stage.doubles)
    await fill(ann)
    await ann.say(BIG)

    async def shown() -> list[str]:
        return [text for call in await ann.calls() if "Compacting: " in (text := json.dumps(call, ensure_ascii=False))]

    assert await until(shown, seconds=20, what="the status")
    await goes_on(stage, ann)
    assert not any("Compacting" in one["text"] for one in await ann.messages())


@pytest.mark.requirement("Z-29", "W-13")
async def test_a_kill_while_the_model_summarises_loses_nothing(stage: Stage) -> None:
    bob = OnTelegram(stage.doubles, {"id": 301, "first_name": "Bob"})
    await fill(bob)
    slow = {"match": {"system_contains": "You write the memory"}, "times": 1, "reply": {"text": "late", "ttft": 30.0}}
    await stage.doubles.llm.post("script", [slow])
    await prepare(stage.doubles)
    await bob.say(BIG)

    async def summarising() -> bool:
        calls = (await stage.doubles.llm.get("calls"))["calls"]
        return any("ended_at" not in call and "You write the memory" in json.dumps(call["body"]) for call in calls)

    await until(summarising, what="the summariser's call")
    stage.program.kill()
    stage.program.start()
    await stage.program.ready()
    await goes_on(stage, bob)
    assert sum("wishes noted" in text for text in await bob.texts()) == 1
