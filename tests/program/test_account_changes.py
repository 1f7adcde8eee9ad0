"""Accounts of each platform that come, go and come back by the file, while the program runs."""

from functools import partial

import aiohttp
import pytest

from tests.program import configs
from tests.program.conftest import Start
from tests.program.doubles import Doubles, until
from tests.program.people import OnDiscord, OnSlack, OnTelegram
from tests.program.running import Program
from tests.program.stage import MANY


async def heard(tieline: Program) -> set[str]:
    """The accounts that can hear, as `/metrics` tells them."""
    async with aiohttp.ClientSession() as client, client.get(f"{tieline.url}/metrics") as answer:
        lines = (await answer.text()).splitlines()
    return {
        line.split('"')[1] for line in lines if line.startswith("tieline_adapter_up{") and line.endswith((" 1", "1.0"))
    }


@pytest.mark.requirement("G-82")
@pytest.mark.slow
async def test_accounts_come_go_and_come_back_on_each_platform(doubles: Doubles, program: Start) -> None:
    people: dict[str, OnTelegram | OnDiscord | OnSlack] = {
        "telegram": OnTelegram(doubles),
        "discord": OnDiscord(doubles),
        "slack": OnSlack(doubles),
    }
    without = configs.ACCESS + MANY + configs.models(doubles, "a")
    accounts = configs.telegram(doubles) + configs.discord(doubles) + configs.slack(doubles)
    tieline = program(without)

    async def hears(all_of: bool) -> bool:
        there = people.keys() & await heard(tieline)
        return there == people.keys() if all_of else not there

    async with tieline:
        tieline.write(without + accounts)
        await until(partial(hears, True), what="three accounts that hear")
        for platform, ann in people.items():
            await ann.say(f"good day {platform}")
            await ann.hears(f"good day {platform}")
        await tieline.settled()
        tieline.write(without)
        await until(partial(hears, False), what="the end of three accounts")
        for platform, ann in people.items():
            await ann.say(f"nobody hears {platform}")
        tieline.write(without + accounts)
        for platform, ann in people.items():
            await ann.hears(f"nobody hears {platform}")
            await ann.say(f"good evening {platform}")
            await ann.hears(f"good evening {platform}")
