"""Roles of people in groups, as getChatAdministrators and updates tell them, and what privacy mode withholds."""

from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any

import pytest

from adapters.telegram.parse import changed_roles_in, roles_of
from gateway.channels.document import Plain
from gateway.channels.inbound import ButtonClicked, MessageReceived
from gateway.channels.kit.lookups import KEEP_S
from gateway.channels.outbound import Button, Outbound
from gateway.testing.harness import eventually
from tests.adapters.telegram.stage import GROUP, PERSON, Stage, hooked, stage
from tests.fakes.clock import FakeClock

ANN, BEN, CAT = PERSON, {"id": 78, "first_name": "Ben"}, {"id": 79, "first_name": "Cat"}
NOBODY: Set[str] = frozenset()
ASKS = "getChatAdministrators"


def admin(user: dict[str, Any], status: str = "administrator", **more: Any) -> dict[str, Any]:
    return {"user": user, "status": status, "is_anonymous": False, **more}


async def administered(actor: Stage, *members: dict[str, Any]) -> None:
    await actor.telegram.control("chats", chat=GROUP, administrators=list(members))


async def writes(actor: Stage, text: str, user: dict[str, Any], **more: Any) -> MessageReceived:
    await actor.telegram.update(text=text, user=user, chat=GROUP, **more)
    await eventually(lambda: any(said.text == text for said in actor.said))
    return next(said for said in actor.said if said.text == text)


def held(said: MessageReceived | ButtonClicked) -> tuple[bool, Set[str]]:
    return said.sender.is_chat_admin, said.sender.platform_roles


@pytest.mark.requirement("G-44")
async def test_who_administers_a_group_is_asked_once_and_told_with_each_message(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        await administered(actor, admin(ANN, "creator"), admin(BEN, custom_title="Gardener"))
        assert held(await writes(actor, "one", ANN)) == (True, {"creator"})
        assert held(await writes(actor, "two", BEN)) == (True, {"administrator", "Gardener"})
        assert held(await writes(actor, "three", CAT)) == (False, NOBODY)
        assert [call["params"] for call in actor.telegram.calls(ASKS)] == [{"chat_id": -1005}]


async def test_it_is_told_with_edits_and_buttons_too(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        await administered(actor, admin(ANN))
        await writes(actor, "hello", BEN)
        group = actor.adapter.channel("-1005")
        sent = await group.send(Outbound(document=(Plain("?"),), buttons=((Button(label="Yes", action="y"),),)))
        await actor.telegram.update(kind="callback", user=ANN, chat=GROUP, message_id=int(sent.id), data="y")
        await eventually(lambda: any(isinstance(inbound, ButtonClicked) for inbound in actor.admitted))
        (pressed,) = [inbound for inbound in actor.admitted if isinstance(inbound, ButtonClicked)]
        assert held(pressed) == (True, {"administrator"})


async def test_in_a_private_chat_nobody_is_asked(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        await actor.says("hi")
        await eventually(lambda: bool(actor.said))
        assert held(actor.said[0]) == (False, NOBODY)
        assert actor.telegram.calls(ASKS) == []


@pytest.mark.requirement("G-44")
@pytest.mark.parametrize("title", ["creator", " Administrator ", "CREATOR"])
async def test_a_title_that_reads_like_a_status_gives_none(tmp_path: Path, title: str) -> None:
    async with stage(tmp_path) as actor:
        await administered(actor, admin(BEN, custom_title=title))
        assert held(await writes(actor, "hello", BEN)) == (True, {"administrator"})


async def test_somebody_who_posts_in_the_groups_name_administers_it(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        raw = {"message_id": 900, "date": 1, "chat": GROUP, "sender_chat": GROUP, "text": "as the group"}
        await actor.telegram.update(raw={"message": {**raw, "from": {"id": 1087968824, "is_bot": True}}})
        signed = {**raw, "message_id": 901, "text": "signed", "author_signature": "Gardener"}
        await actor.telegram.update(raw={"message": {**signed, "from": {"id": 1087968824, "is_bot": True}}})
        await eventually(lambda: len(actor.said) == 2)
        assert [held(said) for said in actor.said] == [
            (True, {"administrator"}),
            (True, {"administrator", "Gardener"}),
        ]


async def test_in_a_channel_the_name_of_its_author_is_no_role(tmp_path: Path) -> None:
    """Authors sign with a name that they choose for themselves; in a group the signature is a title given to them."""
    async with stage(tmp_path) as actor:
        channel = {"id": -100123, "type": "channel", "title": "News"}
        post = {"message_id": 902, "date": 1, "chat": channel, "sender_chat": channel, "text": "news"}
        await actor.telegram.update(raw={"channel_post": {**post, "author_signature": "Gardener"}})
        await eventually(lambda: bool(actor.said))
        (said,) = actor.said
        assert (said.sender.display, held(said)) == ("Gardener", (True, {"administrator"}))


@pytest.mark.requirement("G-44")
@pytest.mark.parametrize("gate", [stage, hooked], ids=["polling", "webhook"])
async def test_a_change_that_telegram_tells_counts_from_the_next_message_on(tmp_path: Path, gate: Any) -> None:
    async with gate(tmp_path) as actor:
        await administered(actor, admin(BEN))
        assert held(await writes(actor, "before", BEN)) == (True, {"administrator"})
        await administered(actor)
        change = {"old_chat_member": admin(BEN), "new_chat_member": {"user": BEN, "status": "member"}}
        await actor.telegram.update(raw={"chat_member": {"chat": GROUP, "from": ANN, "date": 1, **change}})
        assert held(await writes(actor, "after", BEN)) == (False, NOBODY)


async def test_a_change_that_nobody_tells_is_noticed_after_five_minutes(tmp_path: Path) -> None:
    clock = FakeClock()
    async with stage(tmp_path, clock) as actor:
        await administered(actor, admin(BEN))
        await writes(actor, "before", BEN)
        await administered(actor)
        assert held(await writes(actor, "at once", BEN)) == (True, {"administrator"})
        clock.advance(KEEP_S)
        assert held(await writes(actor, "later", BEN)) == (False, NOBODY)


@pytest.mark.parametrize(
    ("update", "chat"),
    [
        ({"chat_member": {"chat": {"id": -1}, "new_chat_member": {"status": "administrator"}}}, "-1"),
        ({"chat_member": {"chat": {"id": -1}, "old_chat_member": {"status": "creator"}}}, "-1"),
        ({"chat_member": {"chat": {"id": -1}, "new_chat_member": {"status": "member"}}}, None),
        ({"chat_member": {"chat": {"id": -1}, "new_chat_member": None}}, None),
        ({"chat_member": "odd"}, None),
        ({"my_chat_member": {"chat": {"id": -1}}}, "-1"),
        ({"message": {"chat": {"id": -1}}}, None),
    ],
)
def test_updates_that_change_who_administers_a_chat(update: dict[str, Any], chat: str | None) -> None:
    assert changed_roles_in({"update_id": 1, **update}) == chat


@pytest.mark.requirement("G-44")
@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "error", "status": 400, "description": "Bad Request: chat not found"},
        {"kind": "error", "status": 403, "description": "Forbidden: bot was kicked from the supergroup chat"},
        {"kind": "error", "status": 404, "description": "Not Found"},
        {"kind": "error", "status": 401, "description": "Unauthorized"},
        {"kind": "rate_limit", "retry_after": 30},
        {"kind": "server_error", "status": 502},
        {"kind": "page", "status": 502},
        {"kind": "drop"},
        {"kind": "drop_after"},
        {"kind": "slow", "delay": 600},
    ],
    ids=lambda fault: f"{fault['kind']} {fault.get('status', '')}",
)
async def test_a_message_is_taken_and_answered_whatever_becomes_of_the_question(
    tmp_path: Path, fault: dict[str, Any]
) -> None:
    async with stage(tmp_path) as actor:
        await administered(actor, admin(ANN))
        await actor.telegram.fault(ASKS, fault.pop("kind"), times=100, **fault)
        said = [await writes(actor, text, ANN) for text in ("one", "two", "three")]
        assert [held(one) for one in said] == [(False, NOBODY)] * 3
        assert len(actor.telegram.calls(ASKS)) == 1  # not for each message anew
        await actor.adapter.channel("-1005").send(Outbound(document=(Plain("an answer"),)))
        assert actor.adapter.health().hears


@pytest.mark.parametrize("answer", [[{}], [None], ["x"], [{"user": {}, "status": "creator"}], 7])
def test_an_answer_of_another_form_is_said_to_be_one(answer: Sequence[Any]) -> None:
    with pytest.raises(ValueError, match="not a list of administrators"):
        roles_of(answer)


# -- what Telegram withholds


@pytest.mark.requirement("G-45")
async def test_privacy_mode_is_told_with_the_health_and_anew_when_the_bot_is_brought_to_a_group(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        (withheld,) = actor.adapter.health().withheld
        assert withheld.affects == ("unaddressed messages",)
        assert "privacy mode is on" in withheld.finding
        assert "/setprivacy" in withheld.fix
        actor.telegram.double.bot("123456:TEST-token").user["can_read_all_group_messages"] = True
        member = {"user": {"id": 123456, "is_bot": True}, "status": "member"}
        brought = {"chat": GROUP, "from": PERSON, "date": 1, "new_chat_member": member}
        await actor.telegram.fault("getMe", "server_error", status=502)
        await actor.telegram.update(raw={"my_chat_member": brought})
        await eventually(lambda: len(actor.telegram.calls("getMe")) == 2)
        assert actor.adapter.health().withheld == (withheld,)
        await actor.telegram.update(raw={"my_chat_member": brought})
        await eventually(lambda: actor.adapter.health().withheld == ())
