"""Recorded events, parsed into inbound messages."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from adapters.discord import parse
from adapters.discord.parse import Account, Where
from gateway.channels.inbound import ChatType, Mention, Sender
from gateway.channels.keys import ConversationKey, UserId

RECORDINGS = Path(__file__).parents[2] / "recordings" / "discord"
ME = Account(channel_type="discord", user_id="100000000000000001")
NOW = datetime(2026, 1, 1, 12, 0, 1, tzinfo=UTC)
GENERAL = Where(
    channel_id="300000000000000001",
    place="300000000000000001",
    guild_id="200000000000000001",
    title="Double #general",
    owner_id="1",
    admin_roles=frozenset({"800000000000000009"}),
    own_roles=frozenset({"800000000000000001"}),
)
DIRECT = Where(channel_id="400000000000000001", place="400000000000000001")


def recorded(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((RECORDINGS / f"{name}.json").read_text())
    return loaded


def said(name: str, where: Where = GENERAL, **change: Any) -> Any:
    return parse.said({**recorded(name), **change}, where, ME, received_at=NOW)


def test_every_part_of_a_message() -> None:
    found = said("message_mention")
    assert found.key == ConversationKey("discord", "300000000000000001")
    assert (found.place, found.grantable, found.chat_title) == (
        GENERAL.place,
        ("200000000000000001",),
        "Double #general",
    )
    assert (found.message_id, found.received_at) == ("1456275480064000000", NOW)
    assert found.sent_at is not None
    assert found.sent_at.date() == NOW.date()
    assert (found.sender.id, found.sender.display, found.sender.is_bot) == ("500000000000000001", "Annie", False)
    assert found.text == "what is <@600000000000000001> doing?"  # only the bot's own mention goes
    assert found.mention is Mention.DIRECT
    assert found.chat_type is ChatType.GROUP
    assert (found.interaction, found.interaction_id, found.event_id, found.from_history) == (None, None, None, False)


@pytest.mark.parametrize(
    ("content", "text", "mention"),
    [
        pytest.param("<@100000000000000001> hi", "hi", Mention.DIRECT, id="before"),
        pytest.param("hi <@!100000000000000001>", "hi", Mention.DIRECT, id="after, old form"),
        pytest.param("say <@100000000000000001>, now", "say, now", Mention.DIRECT, id="within"),
        pytest.param("<@100000000000000001>", "", Mention.DIRECT, id="alone"),
        pytest.param("hi <@&800000000000000001>", "hi", Mention.DIRECT, id="its role"),
        pytest.param("  hi <@&800000000000000002>", "  hi <@&800000000000000002>", Mention.NONE, id="another role"),
        pytest.param("@everyone hi", "@everyone hi", Mention.NONE, id="everyone"),
        pytest.param("/start now", "/start now", Mention.NONE, id="command as text"),
    ],
)
def test_how_a_message_addresses_the_bot(content: str, text: str, mention: Mention) -> None:
    found = said("message_mention", content=content)
    assert (found.text, found.mention) == (text, mention)


def test_its_role_stands_for_the_bot() -> None:
    assert (said("message_role_mention").text, said("message_role_mention").mention) == ("hey help", Mention.DIRECT)


def test_a_reply_quotes_and_addresses_only_the_one_replied_to() -> None:
    found = said("message_reply")
    assert found.quoted is not None
    assert (found.mention, found.quoted.text, found.quoted.is_own) == (Mention.IMPLICIT, "First, **boil** water.", True)
    other = {**recorded("message_reply")["referenced_message"], "author": {"id": "7", "username": "bob"}}
    found = said("message_reply", referenced_message=other)
    assert found.quoted is not None
    assert found.quoted.sender == Sender(id=UserId("7"), display="bob")
    assert (found.mention, found.quoted.text, found.quoted.is_own) == (Mention.NONE, "First, **boil** water.", False)
    assert found.quoted.message_id == other["id"]
    found = said("message_reply", referenced_message=None)  # it was deleted
    assert (found.mention, found.quoted) == (Mention.NONE, None)


BOB = {"id": "500000000000000002", "username": "bob"}


@pytest.mark.requirement("G-52")
@pytest.mark.parametrize(
    ("change", "to_others"),
    [
        pytest.param({"content": "who knows?"}, False, id="nobody"),
        pytest.param({"content": "@everyone who knows?", "mention_everyone": True}, False, id="everybody"),
        pytest.param({"content": "<@500000000000000002>?", "mentions": [BOB]}, True, id="a name"),
        pytest.param(
            {"content": "<@100000000000000001>?", "mentions": [{"id": ME.user_id}]}, False, id="the bot's name"
        ),
        pytest.param(
            {"content": "<@100000000000000001> or <@500000000000000002>", "mentions": [{"id": ME.user_id}, BOB]},
            True,
            id="the bot and somebody else",
        ),
        pytest.param(
            {"content": "<@&800000000000000002>?", "mention_roles": ["800000000000000002"]}, True, id="a role"
        ),
        pytest.param(
            {"content": "<@&800000000000000001>?", "mention_roles": ["800000000000000001"]}, False, id="the bot's role"
        ),
    ],
)
def test_whether_somebody_else_is_spoken_to(change: dict[str, Any], to_others: bool) -> None:
    found = said("message_mention", **{"mentions": [], "mention_roles": [], **change})
    assert found.to_others is to_others


@pytest.mark.requirement("G-52")
def test_a_reply_speaks_to_whom_it_replies_to() -> None:
    assert said("message_reply", mentions=[]).to_others is False, "to the bot"
    other = {**recorded("message_reply")["referenced_message"], "author": BOB}
    assert said("message_reply", referenced_message=other, mentions=[]).to_others is True
    assert said("message_reply", referenced_message=None, mentions=[]).to_others is False, "it was deleted"


def test_a_thread_of_the_bot_addresses_it() -> None:
    thread = replace(GENERAL, channel_id="9", own_thread=True)
    found = said("message_edited", thread, content="more?", edited_timestamp=None)
    assert (found.key.channel_id, found.place, found.mention) == ("9", GENERAL.place, Mention.IMPLICIT)


def test_a_forwarded_message_brings_its_words_and_files() -> None:
    found = said("message_forward")
    assert (found.text, found.attachments) == ("", ())
    assert found.quoted is not None
    assert (found.quoted.text, found.quoted.sender, found.quoted.message_id) == ("The numbers of December", None, None)
    (attachment,) = found.quoted.attachments
    assert (attachment.name, attachment.kind, attachment.mime_type, attachment.size) == (
        "december.csv",
        "file",
        "text/csv",
        2048,
    )


def test_a_voice_message_in_a_direct_conversation() -> None:
    found = said("direct_voice_message", DIRECT)
    assert found.chat_type is ChatType.DIRECT
    assert found.grantable == ()
    assert [(a.kind, a.mime_type, a.size) for a in found.attachments] == [("audio", "audio/ogg", 12345)]
    assert found.sender.display == "Ann"


def test_a_sticker_is_named() -> None:
    assert said("message_sticker").text == "(sticker: wave)"


@pytest.mark.parametrize("name", ["member_joined", "pinned"])
def test_what_the_service_writes_is_no_message(name: str) -> None:
    assert said(name) is None


def test_text_hidden_by_a_missing_intent_is_no_message() -> None:
    assert said("message_role_mention", content="", mention_roles=[]) is None


@pytest.mark.requirement("G-12")
def test_own_words_are_none_and_other_machines_are_marked() -> None:
    assert said("message_mention", author={"id": ME.user_id, "username": "double", "bot": True}) is None
    found = said("webhook_message")
    assert (found.sender.is_bot, found.sender.display, found.text) == (True, "CI", "build failed")


@pytest.mark.parametrize(
    ("change", "admin"),
    [
        pytest.param({}, False, id="nobody special"),
        pytest.param({"owner_id": "500000000000000001"}, True, id="owner of the server"),
        pytest.param({"admin_roles": frozenset({"800000000000000002"})}, True, id="by a role"),
        pytest.param({"guild_id": None, "owner_id": "500000000000000001"}, False, id="no server, no admin"),
    ],
)
def test_who_is_an_admin_of_the_chat(change: dict[str, Any], admin: bool) -> None:
    assert said("message_mention", replace(GENERAL, **change)).sender.is_chat_admin is admin


def test_an_edit_is_ordered_by_its_time() -> None:
    edited = parse.edited(recorded("message_edited"), GENERAL, ME, received_at=NOW)
    assert edited is not None
    assert (edited.text, edited.mention) == ("what about Tuesday?", Mention.DIRECT)
    assert edited.version == "2026-01-01T12:00:09.123000+00:00"
    assert edited.message_id == "1456275480064000000"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({}, id="a link unfolded"),
        pytest.param({"edited_timestamp": "2026-01-01T12:00:09+00:00", "author": {"id": ME.user_id}}, id="its own"),
        pytest.param({"edited_timestamp": "2026-01-01T12:00:09+00:00", "type": 18}, id="of the service"),
    ],
)
def test_what_is_no_edit(change: dict[str, Any]) -> None:
    message = {**recorded("message_embed_unfolded"), **change}
    assert parse.edited(message, GENERAL, ME, received_at=NOW) is None


def test_a_partial_update_is_no_edit() -> None:
    assert parse.edited({"id": "1", "channel_id": "2", "edited_timestamp": "x"}, GENERAL, ME, received_at=NOW) is None


def test_a_slash_command_with_everything() -> None:
    event = recorded("slash_command")
    where = parse.where_of_channel(event["channel"], me=ME.user_id)
    found = parse.command(event, where, ME, received_at=NOW)
    assert found is not None
    assert found.text == "/goal add ship it 3 yes"
    assert (found.key.channel_id, found.place, found.grantable) == (
        "300000000000000007",
        "300000000000000001",
        ("200000000000000001",),
    )
    assert (found.message_id, found.interaction_id) == ("1456275490000000000", "1456275490000000000")
    assert found.interaction == "slash.1456275490000000000.aW50ZXJhY3Rpb24.token-1"
    assert (found.sender.language, found.sender.is_chat_admin, found.mention) == ("de", True, Mention.DIRECT)
    assert [(a.name, a.kind) for a in found.attachments] == [("plan.png", "image")]


@pytest.mark.parametrize("options", [[], [{"type": 3, "name": "arguments", "value": " / "}]])
def test_the_umbrella_without_words_shows_the_help(options: list[dict[str, Any]]) -> None:
    """And is not said to the model, publicly and paid for."""
    event = recorded("slash_command")
    event = {**event, "data": {**event["data"], "name": "tieline", "options": options}}
    found = parse.command(event, parse.where_of_channel(event["channel"], me=ME.user_id), ME, received_at=NOW)
    assert found is not None
    assert found.text == "/help"


def test_a_button_in_a_direct_conversation() -> None:
    event = recorded("button_in_direct_message")
    found = parse.press(event, parse.where_of_channel(event["channel"], me=ME.user_id), ME, received_at=NOW)
    assert found is not None
    assert (found.action, found.message_id, found.interaction_id) == (
        "q:17:yes",
        "1456275480000000001",
        "1456275492000000000",
    )
    assert (found.chat_type, found.sender.id) == (ChatType.DIRECT, "500000000000000001")
    assert parse.person_of(event) == "500000000000000001"


def test_what_is_neither_command_nor_press() -> None:
    where = parse.where_of_channel(recorded("slash_command")["channel"], me=ME.user_id)
    assert parse.command(recorded("menu_command"), where, ME, received_at=NOW) is None
    assert parse.command(recorded("button_in_direct_message"), where, ME, received_at=NOW) is None
    assert parse.press(recorded("slash_command"), where, ME, received_at=NOW) is None


@pytest.mark.parametrize(
    ("channel", "place", "own"),
    [
        pytest.param({"id": "1", "type": 0, "guild_id": "9", "parent_id": "5"}, "1", False, id="in a category"),
        pytest.param({"id": "1", "type": 11, "guild_id": "9", "parent_id": "5"}, "5", False, id="thread"),
        pytest.param(
            {"id": "1", "type": 12, "guild_id": "9", "parent_id": "5", "owner_id": ME.user_id},
            "5",
            True,
            id="own thread",
        ),
        pytest.param({"id": "1", "type": 1}, "1", False, id="direct"),
    ],
)
def test_where_a_channel_is(channel: dict[str, Any], place: str, own: bool) -> None:
    where = parse.where_of_channel(channel, me=ME.user_id)
    assert (where.channel_id, where.place, where.own_thread) == ("1", place, own)
    assert (where.chat_type is ChatType.DIRECT) == (channel["type"] == 1)


def test_the_bot_was_removed() -> None:
    found = parse.membership(GENERAL, ME, present=False, received_at=NOW)
    assert (found.present, found.place, found.key.channel_id) == (False, GENERAL.place, GENERAL.channel_id)
