"""The life of places on the running program: a group moves, the bot is shown out, blocked, and back."""

import pytest

from tests.program import configs
from tests.program.conftest import Start
from tests.program.doubles import Doubles, until
from tests.program.people import GENERAL, OnDiscord, OnSlack, OnTelegram

OWNER = {"id": 77, "first_name": "Ann"}
BEA = {"id": 4001, "first_name": "Bea"}
OLD = {"id": -4005, "type": "group", "title": "Old"}
BOT = {"id": 123456, "is_bot": True, "first_name": "Double", "username": "double_bot"}


pytestmark = pytest.mark.slow  # a program for each; the rooms have tests of their own


def config(doubles: Doubles, *accounts: str) -> str:
    access = configs.ACCESS + "messages_per_minute = 600\n"
    return access + configs.models(doubles, "a", "b") + configs.telegram(doubles) + "".join(accounts)


def membership(chat: dict[str, object], status: str, user: dict[str, object] = BEA) -> dict[str, object]:
    """Telegram's update when the bot is added or removed."""
    member = {"user": BOT, "status": status}
    return {"raw": {"my_chat_member": {"chat": chat, "from": user, "date": 1, "new_chat_member": member}}}


async def test_a_group_that_becomes_a_supergroup_takes_its_history_and_choice_along(
    doubles: Doubles, program: Start
) -> None:
    bea, tieline = OnTelegram(doubles, BEA), program(config(doubles))
    async with tieline:
        ann = OnTelegram(doubles, OWNER)
        await ann.say("@double_bot remember the harbour", chat=OLD)
        await ann.hears("harbour", chat=-4005)
        await ann.say("/provider b", chat=OLD)
        await ann.hears("model-b", chat=-4005)
        await doubles.telegram.post("chats", {"chat": OLD, "migrate_to": -1004005})
        new = {"id": -1004005, "type": "supergroup", "title": "Old"}
        moved = {"message_id": 900, "date": 1, "chat": OLD, "from": OWNER, "migrate_to_chat_id": -1004005}
        await doubles.telegram.post("updates", {"raw": {"message": moved}})
        await bea.say("@double_bot what do you remember", chat=new)
        await bea.hears("what do you remember", chat=-1004005)
        call = (await doubles.llm.get("calls"))["calls"][-1]["body"]
        assert "harbour" in str(call["messages"])
        assert call["model"] == "model-b"


async def test_shown_out_of_a_group_it_is_silent_there_and_tells_the_owner_once(
    doubles: Doubles, program: Start
) -> None:
    bea, ann, tieline = OnTelegram(doubles, BEA), OnTelegram(doubles, OWNER), program(config(doubles))
    group = {"id": -1004006, "type": "supergroup", "title": "Team"}
    async with tieline:
        await ann.say("I am the owner")
        await ann.hears("the owner")
        await bea.say("@double_bot hello", chat=group)
        await bea.hears("hello", chat=-1004006)
        for _ in range(2):
            await doubles.telegram.post("updates", membership(group, "kicked"))
        await ann.hears("removed from or blocked in telegram:-1004006")
        before = len(await ann.texts())
        await doubles.telegram.post("updates", membership(group, "member"))
        await bea.say("@double_bot are you back", chat=group)
        await bea.hears("are you back", chat=-1004006)
        assert len(await ann.texts()) == before


async def test_blocked_while_it_answers_it_keeps_the_answer_until_it_is_let_in_again(
    doubles: Doubles, program: Start
) -> None:
    rule = {"match": {"contains": "slowly"}, "reply": {"text": "the late answer", "hold": "late"}}
    await doubles.llm.post("script", [rule])
    bea, ann, tieline = OnTelegram(doubles, BEA), OnTelegram(doubles, OWNER), program(config(doubles))
    async with tieline:
        await ann.say("I am the owner")
        await ann.hears("the owner")
        await bea.say("slowly please")

        async def asked() -> bool:
            return any("slowly" in str(call["body"]) for call in (await doubles.llm.get("calls"))["calls"])

        await until(asked, what="the model call")
        await doubles.telegram.post("chats", {"chat": {"id": BEA["id"]}, "blocked": True})
        await doubles.llm.post("release", {"name": "late"})
        await ann.hears(f"removed from or blocked in telegram:{BEA['id']}")
        assert not any("the late answer" in text for text in await bea.texts())
        private = {"id": BEA["id"], "type": "private", "first_name": "Bea"}
        await doubles.telegram.post("updates", membership(private, "member"))
        await doubles.telegram.post("chats", {"chat": {"id": BEA["id"]}, "blocked": False})
        await bea.say("I am sorry")
        await bea.hears("the late answer")
        await bea.hears("I am sorry")


@pytest.mark.parametrize("platform", ["discord", "slack"])
async def test_a_channel_that_is_gone_is_told_and_the_others_go_on(
    doubles: Doubles, program: Start, platform: str
) -> None:
    account = configs.discord(doubles) if platform == "discord" else configs.slack(doubles)
    ann, tieline = OnTelegram(doubles, OWNER), program(config(doubles, account))
    rule = {"match": {"contains": "slowly"}, "reply": {"text": "the late answer", "hold": "late"}}
    await doubles.llm.post("script", [rule])
    async with tieline:
        await ann.say("hello")
        await ann.hears("hello")
        if platform == "discord":
            await OnDiscord(doubles).say("<@100000000000000001> slowly please", GENERAL)
        else:
            await OnSlack(doubles).say("<@U0DOUBLE> slowly please", "C0GENERAL", wait=False)

        async def asked() -> bool:
            return any("slowly" in str(call["body"]) for call in (await doubles.llm.get("calls"))["calls"])

        await until(asked, what="the model call")
        if platform == "discord":
            await doubles.discord.post("channels", {"channels": [{"id": GENERAL, "no_access": True}]})
        else:
            gone = {"id": "C0GENERAL", "name": "general", "is_channel": True, "is_member": False, "members": ["U0ANN"]}
            await doubles.slack.post("channels", {"channels": [gone]})
        await doubles.llm.post("release", {"name": "late"})
        await ann.hears(f"removed from or blocked in {platform}:")
        await ann.say("still here?")
        await ann.hears("still here?")
