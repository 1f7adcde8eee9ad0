"""Goals that the running program works on by itself, on each platform, and over a kill of the process."""

import json
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import pytest

from tests.program import configs
from tests.program.conftest import Start
from tests.program.doubles import Doubles, until
from tests.program.people import OnDiscord, OnSlack, OnTelegram

AUTO = """
[agent.goal]
autonomous_enabled = true
verify_interval = 2
autonomous_turn_delay_ms = 50
"""
REACHED = json.dumps({"achieved": True, "reason": "all pages are there"})
CHECK = {"match": {"contains": "Is the goal reached?"}, "reply": {"text": REACHED}}
STEP = {"match": {"contains": "[autonomous]"}, "reply": {"text": "Every page is tidy."}}

Shown = Callable[[], Awaitable[Sequence[str]]]


async def holds(shown: Shown, words: str, *, not_: bool = False) -> bool:
    return any(words in text for text in await shown()) is not not_


async def sees(shown: Shown, words: str) -> None:
    await until(lambda: holds(shown, words), what=f"{words!r} in {await shown()}")


@pytest.mark.requirement("Z-115", "Z-116", "Z-119", "Z-145")
@pytest.mark.timeout(300)
async def test_on_each_platform_one_message_follows_it_until_it_is_reached(doubles: Doubles, program: Start) -> None:
    held = {**STEP, "reply": {**STEP["reply"], "hold": "step"}}
    await doubles.llm.post("script", [CHECK, held])
    accounts = configs.telegram(doubles) + configs.discord(doubles) + configs.slack(doubles)
    telegram, discord, slack = OnTelegram(doubles), OnDiscord(doubles), OnSlack(doubles)

    async def on_discord() -> list[str]:
        return [str(one["content"]) for one in await discord.messages()]

    async def on_slack() -> list[str]:
        return [str(one["text"]) for one in await slack.messages()]

    places: list[tuple[Callable[..., Awaitable[Any]], Shown]] = [
        (telegram.say, telegram.texts), (discord.say, on_discord), (slack.say, on_slack),
    ]  # fmt: skip
    async with program(configs.ACCESS + AUTO + configs.models(doubles, "a") + accounts, about={"agent.goal"}):
        for say, shown in places:
            await say("/goal create tidy up the wiki --auto --turns 4")
            await sees(shown, "I start now")
        for _, shown in places:
            await sees(shown, "Working on: tidy up the wiki")
            assert not await holds(shown, "Every page")  # nothing is said in between
        await doubles.llm.post("release", {"name": "step"})
        for _, shown in places:
            await sees(shown, "is reached: tidy up the wiki")
            await until(partial(holds, shown, "Working on", not_=True), what="the end")
            texts = await shown()
            assert sum("Every page is tidy." in text for text in texts) == 1
            assert len(texts) == 3, texts  # that it starts, its answer, how it came out


@pytest.mark.slow  # three starts; tests/scenarios/gateway/test_goals.py has the same in one process
@pytest.mark.requirement("Z-130")
@pytest.mark.timeout(300)
async def test_after_a_kill_it_rests_is_told_once_and_can_go_on(doubles: Doubles, program: Start) -> None:
    await doubles.llm.post("script", [CHECK, {**STEP, "reply": {"text": "Slow.", "hold": "never"}}])
    telegram = OnTelegram(doubles)
    config = configs.ACCESS + AUTO + configs.models(doubles, "a") + configs.telegram(doubles)
    tieline = program(config, about={"agent.goal"})

    async def turns() -> int:
        calls = (await doubles.llm.get("calls"))["calls"]
        asked = [str(call["body"]["messages"][-1]) for call in calls]
        return sum("[autonomous]" in words and "Is the goal reached?" not in words for words in asked)

    async def one_turn() -> bool:
        return await turns() == 1

    async with tieline:
        await telegram.say("/goal create tidy up the wiki --auto")
        await sees(telegram.texts, "Working on: tidy up the wiki")
        await until(one_turn, what="its first turn")
        await tieline.settled()
        await tieline.noted()
        tieline.kill()
        tieline.start()
        await tieline.ready()
        await sees(telegram.texts, "was restarted while I worked on it")
        await until(lambda: holds(telegram.texts, "Working on", not_=True), what="no line of the dead")
        await tieline.settled()
        tieline.kill()
        await doubles.llm.post("script", [CHECK, STEP])
        tieline.start()
        await tieline.ready()
        await telegram.say("/agents")
        await sees(telegram.texts, "orphaned by a restart")
        await telegram.say("/goal resume --auto")
        await sees(telegram.texts, "is reached: tidy up the wiki")
        assert sum("was restarted" in text for text in await telegram.texts()) == 1  # at the first start only
        assert await turns() == 3  # one before the kill, two when it was asked to go on
