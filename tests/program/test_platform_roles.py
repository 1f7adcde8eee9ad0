"""Administrators of a Telegram group before the running program: who counts as one, and for how long."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.program import configs
from tests.program.doubles import Doubles, all_doubles
from tests.program.people import GROUP, OnTelegram
from tests.program.running import Program

pytestmark = pytest.mark.asyncio(loop_scope="module")

BEN, CAT = {"id": 78, "first_name": "Ben"}, {"id": 79, "first_name": "Cat"}
ACCESS = """
[access]
dm = "open"
groups = "allowlist"
allow_groups = ["telegram:-1005", "telegram:-1006"]
platform_admins = true
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def doubles(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Doubles]:
    home = tmp_path_factory.mktemp("h", numbered=True)
    async with all_doubles() as doubles:
        program = Program(home, "")
        program.write(
            ACCESS + configs.models(doubles, "a") + configs.telegram(doubles), about={"access.platform_admins"}
        )
        async with program:
            yield doubles


def administrator(user: dict[str, Any]) -> dict[str, Any]:
    return {"user": user, "status": "administrator", "is_anonymous": False}


@pytest.mark.requirement("G-44")
async def test_an_administrator_of_the_group_may_set_it_until_telegram_says_otherwise(doubles: Doubles) -> None:
    ben, cat = OnTelegram(doubles, BEN), OnTelegram(doubles, CAT)
    await doubles.telegram.post("chats", {"chat": GROUP, "administrators": [administrator(BEN)]})
    await cat.say("/settings merge_ms 1", chat=GROUP)
    await ben.hears("for admins", chat=-1005)
    await ben.say("/settings merge_ms 2", chat=GROUP)
    await ben.hears("merge_ms is 2 now", chat=-1005)

    await doubles.telegram.post("chats", {"chat": GROUP, "administrators": [administrator(CAT)]})
    change = {"old_chat_member": administrator(BEN), "new_chat_member": {"user": BEN, "status": "member"}}
    await ben.send({"raw": {"chat_member": {"chat": GROUP, "from": CAT, "date": 1, **change}}})
    await ben.say("/settings merge_ms 3", chat=GROUP)
    await cat.say("/settings merge_ms 4", chat=GROUP)
    await cat.hears("merge_ms is 4 now", chat=-1005)
    shown = "\n".join(await ben.texts(-1005))
    assert "is 1 now" not in shown
    assert "is 3 now" not in shown


@pytest.mark.requirement("G-44")
async def test_nobody_is_an_administrator_while_telegram_does_not_say_so_and_all_are_heard(doubles: Doubles) -> None:
    ben = OnTelegram(doubles, BEN)
    elsewhere = {"id": -1006, "type": "supergroup", "title": "H"}
    await doubles.telegram.post("chats", {"chat": elsewhere, "administrators": [administrator(BEN)]})
    await doubles.telegram.post("faults", {"method": "getChatAdministrators", "kind": "server_error", "status": 502})
    await ben.say("/settings merge_ms 5", chat=elsewhere)
    await ben.hears("for admins", chat=-1006)


@pytest.mark.requirement("G-44")
async def test_an_administrator_of_a_group_that_nobody_let_in_is_nobody(doubles: Doubles) -> None:
    """Everybody can make a group and bring the bot to it."""
    ben, own = OnTelegram(doubles, BEN), {"id": -1007, "type": "supergroup", "title": "Ben's own"}
    await doubles.telegram.post("chats", {"chat": own, "administrators": [administrator(BEN)]})
    await ben.say("@double_bot at your cost", chat=own)
    await ben.say("/allow", chat=own)
    await ben.say("privately")
    await ben.hears("privately")
    assert await ben.texts(-1007) == []
