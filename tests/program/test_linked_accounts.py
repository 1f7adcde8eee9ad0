"""One person on Telegram and Discord before the running program, which is killed right after the link."""

import json
import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.program import configs
from tests.program.doubles import until
from tests.program.people import OnDiscord, OnTelegram
from tests.program.stage import Stage, on_stage

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOLD = "Please keep in mind that my locker code is HAT-QXZJV, I use it at the gym."
ASKED = "Which locker code do I use at the gym?"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    home = tmp_path_factory.mktemp("h", numbered=True)
    async with on_stage(home, lambda doubles, program: configs.telegram(doubles) + configs.discord(doubles)) as stage:
        yield stage


@pytest.mark.requirement("G-54", "G-55")
async def test_a_link_outlives_a_kill_and_carries_the_memory(stage: Stage) -> None:
    telegram, discord, tieline = OnTelegram(stage.doubles), OnDiscord(stage.doubles), stage.program
    await telegram.say(TOLD)
    await telegram.hears("locker code is HAT-QXZJV")
    await telegram.say("/link")
    found = re.search(r"/link ([A-Z2-9]{8})", await telegram.hears("works once"))
    assert found is not None
    await discord.say(f"/link {found[1]}")
    await discord.hears("Is that you, too?")
    await discord.say("yes")
    await until(lambda: linked(stage), what="the link in the database")
    tieline.kill()
    tieline.start()
    await tieline.ready()
    await telegram.hears("is linked with")
    await discord.say(ASKED)
    call = await stage.asking(ASKED)
    assert "HAT-QXZJV" in json.dumps(call["body"]["messages"])
    shown = await tieline.cli("rights", "--person", "discord:500000000000000001")
    assert "Linked with telegram:77: rights stay apart." in shown.stdout
    await discord.say("/unlink")
    await telegram.hears("is no longer linked with your account")
    assert tieline.rows("select person from identity") == []


async def linked(stage: Stage) -> bool:
    return len(stage.program.rows("select person from identity")) == 2
