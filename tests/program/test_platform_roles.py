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
async def test_an_administrator_of_the_group_is_answered_until_telegram_says_otherwise(doubles: Doubles) -> None:
    ben, cat = OnTelegram(doubles, BEN), OnTelegram(doubles, CAT)
    await doubles.telegram.post("chats", {"chat": GROUP, "administrators": [administrator(BEN)]})
    await cat.say("@double_bot from a member", chat=GROUP)
    await ben.say("@double_bot from an administrator", chat=GROUP)
    await ben.hears("from an administrator", chat=-1005)
    assert not any("from a member" in text for text in await ben.texts(-1005))

    await doubles.telegram.post("chats", {"chat": GROUP, "administrators": [administrator(CAT)]})
    change = {"old_chat_member": administrator(BEN), "new_chat_member": {"user": BEN, "status": "member"}}
    await ben.send({"raw": {"chat_member": {"chat": GROUP, "from": CAT, "date": 1, **change}}})
    await ben.say("@double_bot from a former one", chat=GROUP)
    await cat.say("@double_bot from the new one", chat=GROUP)
    await cat.hears("from the new one", chat=-1005)
    assert not any("from a former one" in text for text in await ben.texts(-1005))


@pytest.mark.requirement("G-44")
async def test_nobody_is_an_administrator_while_telegram_does_not_say_so_and_all_are_heard(doubles: Doubles) -> None:
    ben = OnTelegram(doubles, BEN)
    elsewhere = {"id": -1006, "type": "supergroup", "title": "H"}
    await doubles.telegram.post("chats", {"chat": elsewhere, "administrators": [administrator(BEN)]})
    await doubles.telegram.post("faults", {"method": "getChatAdministrators", "kind": "server_error", "status": 502})
    await ben.say("@double_bot while it fails", chat=elsewhere)
    await ben.say("privately")
    await ben.hears("privately")
    assert await ben.texts(-1006) == []
