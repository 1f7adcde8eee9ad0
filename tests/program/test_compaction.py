"""A conversation outgrows its model's window: seen on Telegram, Discord and Slack, and after a kill."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.fakes.plain_agent import write_plain_agent
from tests.program import configs
from tests.program.doubles import Doubles, until
from tests.program.people import DM, OnDiscord, OnSlack, OnTelegram
from tests.program.running import Program
from tests.program.stage import Stage, on_stage

pytestmark = pytest.mark.asyncio(loop_scope="module")

SUMMARY = "Goal: a trip\nAccomplished: booked HAT-4471\nKey Decisions: window seats\nRelevant Files: none"
FIRST = "My first request: plan my trip, always answer in one line."
BIG = "and here is a long list of wishes, {}: " + "a wish that takes some room " * 600
FILLER = "tell me about place number {}: " + "some more words about it " * 120

# The window of the model is small, so that a short conversation fills it; summaries made ahead would come first.
SMALL = """
[memory]
prune_protect_tokens = 500
soft_compaction_threshold = 0.55
high_compaction_threshold = 0.57
hard_compaction_threshold = 0.60
[memory.compression]
pruning_strategy = "subgoal"
[skills]
enabled = false
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
    ]
    await doubles.llm.post("script", rules, append="1")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    home = tmp_path_factory.mktemp("h", numbered=True)
    write_plain_agent(home)

    def channels(doubles: Doubles, _: Program) -> str:
        return configs.telegram(doubles) + configs.discord(doubles) + configs.slack(doubles) + SMALL

    async with on_stage(home, channels, models=small_models, about={"memory", "skills"}) as stage:
        await prepare(stage.doubles)
        yield stage


async def fill(person: Any) -> None:
    """Enough to be compacted, and not yet compacted."""
    await person.say(FIRST)
    await person.hears("My first request")
    for number in range(4):
        await person.say(FILLER.format(number))
        await person.hears(f"place number {number}")


async def overflow(stage: Stage, person: Any, name: str) -> None:
    """Say what is too much; the answer to it is held by this name."""
    await stage.script(f"long list of wishes, {name}", "wishes noted", hold=name)
    await person.say(BIG.format(name))


async def goes_on(stage: Stage, person: Any, name: str) -> None:
    """Check the request after the compaction, and that the conversation goes on."""
    await stage.release(name)
    await person.hears("wishes noted")
    call = [one for one in await stage.asked(f"long list of wishes, {name}") if one["body"].get("tools")][-1]
    assert call.get("status", 200) == 200, "the request is valid"
    sent = [str(message["content"]) for message in call["body"]["messages"] if message["role"] != "system"]
    assert "conversation summary" in sent[0]
    assert "HAT-4471" in sent[0]
    assert any(FIRST in text for text in sent), "the first request stands word for word"
    assert not any("place number 0" in text for text in sent)
    await person.say("and now?")
    await person.hears("and now?")


@pytest.mark.slow
@pytest.mark.requirement("Z-29", "Z-75", "B-53", "B-54")
async def test_on_telegram(stage: Stage) -> None:
    ann = OnTelegram(stage.doubles)
    await fill(ann)
    await overflow(stage, ann, "on telegram")

    async def shown() -> list[str]:
        return [
            text for call in await ann.calls("") if "Compacting: " in (text := json.dumps(call, ensure_ascii=False))
        ]

    assert "→" in (await until(shown, what="the status"))[0]
    await goes_on(stage, ann, "on telegram")

    async def gone() -> bool:
        return not any("Compacting" in text or "Summarising" in text for text in await ann.texts())

    await until(gone, what="a screen without the status")
    await ann.say("/status")
    status = await ann.hears("Compaction: ")
    assert "k→" in status
    assert "Working on: plan the trip (steps so far: " in status
    assert "strategy: subgoal)" in status
    await ann.say("/context")
    assert "summaries" in await ann.hears("What fills my window")
    await ann.say("/provider b")  # the other shape of request: the double refuses what the API would refuse
    await ann.hears("This chat now uses")
    await ann.say("and in the other shape")
    await ann.hears("in the other shape")


@pytest.mark.slow
@pytest.mark.requirement("Z-75")
async def test_on_discord(stage: Stage) -> None:
    ann = OnDiscord(stage.doubles)
    await fill(ann)
    await overflow(stage, ann, "on discord")

    async def shown() -> list[str]:
        return [text for call in await ann.calls() if "Compacting: " in (text := json.dumps(call, ensure_ascii=False))]

    assert await until(shown, what="the status")
    await goes_on(stage, ann, "on discord")

    async def gone() -> bool:
        return not any("Compacting" in one["content"] for one in await ann.messages(DM))

    await until(gone, what="a screen without the status")


@pytest.mark.alone
@pytest.mark.requirement("Z-75")
async def test_on_slack(stage: Stage) -> None:
    ann = OnSlack(stage.doubles)
    await fill(ann)
    await overflow(stage, ann, "on slack")

    async def shown() -> list[str]:
        return [text for call in await ann.calls() if "Compacting: " in (text := json.dumps(call, ensure_ascii=False))]

    assert await until(shown, what="the status")
    await goes_on(stage, ann, "on slack")

    async def gone() -> bool:
        return not any("Compacting" in one["text"] for one in await ann.messages())

    await until(gone, what="a conversation without the status")


@pytest.mark.slow  # tests/faults/test_stages.py kills it there as well
@pytest.mark.requirement("Z-29", "W-13")
async def test_a_kill_while_the_model_summarises_loses_nothing(stage: Stage) -> None:
    bob = OnTelegram(stage.doubles, {"id": 301, "first_name": "Bob"})
    await fill(bob)
    slow = {
        "match": {"system_contains": "You write the memory"},
        "times": 1,
        "reply": {"text": "late", "hold": "for ever"},
    }
    await stage.doubles.llm.post("script", [slow])
    await prepare(stage.doubles)
    await overflow(stage, bob, "after a kill")

    async def summarising() -> bool:
        calls = (await stage.doubles.llm.get("calls"))["calls"]
        return any("ended_at" not in call and "You write the memory" in json.dumps(call["body"]) for call in calls)

    await until(summarising, what="the summariser's call")
    stage.program.kill()
    stage.program.start()
    await stage.program.ready()
    await goes_on(stage, bob, "after a kill")
    assert sum("wishes noted" in text for text in await bob.texts()) == 1
