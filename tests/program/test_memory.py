"""Memory of the running program: facts that come back on a later day; what /memory shows and erases."""

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.program import configs
from tests.program.people import GROUP, OnDiscord, OnTelegram
from tests.program.stage import Stage, on_stage

pytestmark = pytest.mark.asyncio(loop_scope="module")

FACT = "Ann's boat is called Wandering Albatross."
TOLD = "Remember that my boat is called Wandering Albatross."


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    home = tmp_path_factory.mktemp("h", numbered=True)
    async with on_stage(home, lambda d, _: configs.telegram(d) + configs.discord(d)) as stage:
        yield stage


@pytest.mark.slow
@pytest.mark.requirement("W-10", "W-68")
async def test_told_in_a_direct_chat_and_known_after_a_kill(stage: Stage) -> None:
    ann = OnTelegram(stage.doubles)
    call = {"type": "tool_use", "name": "remember", "input": {"fact": FACT}}
    rules = [
        {"match": {"contains": TOLD, "tool_result": False}, "times": 1, "reply": {"blocks": [call]}},
        {"match": {"contains": TOLD, "tool_result": True}, "times": 1, "reply": {"text": "A fine name, kept."}},
    ]
    await stage.doubles.llm.post("script", rules, append="1")
    await ann.say(TOLD)
    await ann.hears("A fine name, kept.")
    await ann.say("/new")
    await ann.hears("new conversation")
    await stage.program.settled()
    stage.program.kill()
    stage.program.start()
    await stage.program.ready()

    await ann.say("what is my boat called?")
    asked = json.dumps((await stage.asking("what is my boat called?"))["body"]["messages"])
    assert "[known facts]" in asked
    assert FACT in asked
    await ann.hears("what is my boat called?")

    await ann.send({"user": ann.user, "chat": GROUP, "text": "@double_bot what is the boat of Ann called?"})
    elsewhere = json.dumps((await stage.asking("the boat of Ann"))["body"]["messages"])
    assert "Albatross" not in elsewhere
    ben = OnDiscord(stage.doubles)
    await ben.say("which boat is it, by the way?")
    assert "Albatross" not in json.dumps((await stage.asking("which boat is it"))["body"]["messages"])


@pytest.mark.slow  # two starts
@pytest.mark.requirement("W-69")
async def test_how_somebody_writes_is_told_in_the_next_session_too(stage: Stage) -> None:
    ben = OnDiscord(stage.doubles)
    for number in range(5):
        await ben.say(f"ok do it {number}")
        await ben.hears(f"ok do it {number}")
    await ben.say("/new")
    await ben.hears("new conversation")
    await stage.program.settled()
    stage.program.kill()
    stage.program.start()
    await stage.program.ready()
    await ben.say("and now this one")
    asked = json.dumps((await stage.asking("and now this one"))["body"]["messages"][-1])
    assert "casual, short messages" in asked
    await ben.say("/style")
    assert "casual, short messages" in await ben.hears("The model is told")
    await ben.say("/style off")
    await ben.hears("do not look at how you write any more")
    await ben.say("and this one too")
    newest = (await stage.asking("and this one too"))["body"]["messages"][-1]
    assert "How they write" not in json.dumps(newest)


async def test_memory_shows_and_forgets(stage: Stage) -> None:
    ann = OnTelegram(stage.doubles)
    await ann.say(f"/memory add {FACT}")
    await ann.hears("Kept")
    await ann.say("/memory")
    assert FACT in await ann.hears("What I have kept from")
    await ann.say("/memory forget albatross")
    await ann.hears("Forget this for good?")
    await ann.say("yes")
    await ann.hears("Forgotten. Things I had kept")
    await ann.say("/memory search wandering albatross")
    await ann.hears("nothing like that")
    await ann.say("/graph")
    await ann.hears("nothing that belongs together")
