"""Slack's payloads, parsed into inbound messages."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from adapters.slack.account import Account, completed
from adapters.slack.parse import parse_event, parse_message, parse_press, parse_slash, person_of, response_url_of
from gateway.channels.inbound import (
    ButtonClicked,
    ChatType,
    Deleted,
    Edited,
    Membership,
    Mention,
    MessageReceived,
    Quoted,
    Sender,
)
from gateway.channels.keys import ConversationKey, UserId

RECORDINGS = Path(__file__).parents[2] / "recordings" / "slack"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
BOT = Account(channel_type="slack", team="T061EG9R6", bot_user="U0LAN0Z89", bot_id="BAH5CA16Z", app_id="A0PNCHHK2")


def recorded(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((RECORDINGS / f"{name}.json").read_text())
    return loaded


def read(name: str, **changes: Any) -> Any:
    payload = recorded(name)
    return parse_event(payload["event"] | changes, BOT, received_at=NOW, event_id=payload["event_id"])


def message(**fields: Any) -> dict[str, Any]:
    return {"type": "message", "user": "U1", "text": "hi", "ts": "1700000000.000100", "channel": "C1"} | fields


def test_a_direct_message() -> None:
    said = read("message_im")
    assert isinstance(said, MessageReceived)
    assert said.key == ConversationKey("slack", "T061EG9R6:D024BE91L")
    assert (said.place, said.message_id) == ("T061EG9R6:D024BE91L", "1355517523.000005")
    assert said.text == "Hello <world> & all"
    assert (said.sender.id, said.sender.is_bot) == ("U2147483697", False)
    assert (said.chat_type, said.mention) == (ChatType.DIRECT, Mention.NONE)
    assert said.sent_at == datetime.fromtimestamp(1355517523.000005, UTC)
    assert said.grantable == ("D024BE91L", "T061EG9R6")


@pytest.mark.requirement("G-12")
def test_a_mention_and_its_twin_are_one_and_the_same() -> None:
    first, second = read("message_channel_mention"), read("app_mention")
    assert first == second  # so the same inbox key, whichever comes first
    assert isinstance(first, MessageReceived)
    assert first.mention is Mention.DIRECT
    assert first.text == "is it everything a river should be? see example.org"
    # Answered in the thread below it.
    assert first.key.channel_id == "T061EG9R6:C123ABC456:1515449522.000016"
    assert first.place == "T061EG9R6:C123ABC456"
    assert first.chat_type is ChatType.GROUP


def test_an_edit() -> None:
    edited = read("message_changed")
    assert isinstance(edited, Edited)
    assert (edited.message_id, edited.text) == ("1355517523.000005", "Hello, world!")
    assert edited.version == "1358878755.000000"
    assert edited.event_id == "Ev0CHANGED"


def test_a_deletion_in_a_thread() -> None:
    deleted = read("message_deleted")
    assert isinstance(deleted, Deleted)
    assert deleted.message_id == "1358878749.000002"
    assert deleted.key.channel_id == "T061EG9R6:C123ABC456:1358878700.000001"


def test_a_deleted_message_with_replies_leaves_a_stone() -> None:
    event = recorded("message_changed")["event"]
    stone = event | {"message": {"subtype": "tombstone", "ts": "1355517523.000005", "user": "USLACKBOT"}}
    deleted = parse_event(stone, BOT, received_at=NOW)
    assert isinstance(deleted, Deleted)
    assert deleted.message_id == "1355517523.000005"


def test_files_are_attachments() -> None:
    said = read("file_share")
    picture, voice = said.attachments  # the tombstone is none
    assert (picture.kind, picture.name, picture.mime_type, picture.size) == (
        "image",
        "tedair.gif",
        "image/gif",
        137531,
    )
    assert picture.handle == "https://files.slack.com/files-pri/T061EG9R6-F0S43PZDF/download/tedair.gif"
    assert (voice.kind, voice.handle, voice.size) == ("audio", "file:F0SHARED", None)


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(message(user="U0LAN0Z89"), id="its own words"),
        pytest.param(message(bot_id="BAH5CA16Z", subtype="bot_message"), id="its own words as a bot"),
        pytest.param(message(app_id="A0PNCHHK2"), id="its own words as an app"),
        pytest.param(message(subtype="channel_join"), id="somebody joined"),
        pytest.param(message(subtype="channel_topic"), id="a new topic"),
        pytest.param(message(text=""), id="nothing"),
        pytest.param(message(hidden=True), id="hidden"),
        pytest.param(message(ts="x"), id="no timestamp"),
        pytest.param({"type": "reaction_added", "user": "U1"}, id="a reaction"),
        pytest.param({"type": "assistant_thread_started", "assistant_thread": {}}, id="a thread opened"),
        pytest.param({"type": "member_joined_channel", "user": "U1", "channel": "C1"}, id="somebody else joined"),
        pytest.param({}, id="empty"),
        pytest.param(
            message(subtype="message_changed", message=message(attachments=[{}]), previous_message=message()),
            id="a link unfurled, nobody edited",
        ),
        pytest.param(
            message(
                subtype="message_changed",
                message=message(user="U0LAN0Z89", text="b", edited={"ts": "1.1"}),
                previous_message=message(user="U0LAN0Z89", text="a"),
            ),
            id="its own edit",
        ),
        pytest.param(
            message(subtype="message_deleted", deleted_ts="1.1", previous_message=message(user="U0LAN0Z89")),
            id="its own deletion",
        ),
    ],
)
@pytest.mark.requirement("G-12")
def test_what_is_nobodys_words(event: dict[str, Any]) -> None:
    assert parse_event(event, BOT, received_at=NOW) is None


@pytest.mark.parametrize(
    ("fields", "channel_id"),
    [
        pytest.param({"channel": "D1"}, "T061EG9R6:D1", id="direct"),
        pytest.param({"channel": "D1", "thread_ts": "1.000001"}, "T061EG9R6:D1:1.000001", id="thread in direct"),
        pytest.param(
            {"channel": "D1", "thread_ts": "1700000000.000100"}, "T061EG9R6:D1", id="the head of a direct thread"
        ),
        pytest.param({"channel": "X1", "channel_type": "im"}, "T061EG9R6:X1", id="direct by its type"),
        pytest.param({}, "T061EG9R6:C1:1700000000.000100", id="channel: a thread begins here"),
        pytest.param({"thread_ts": "1.000001"}, "T061EG9R6:C1:1.000001", id="thread"),
        pytest.param({"channel_type": "mpim", "channel": "G1"}, "T061EG9R6:G1:1700000000.000100", id="group talk"),
    ],
)
def test_where_it_belongs(fields: dict[str, Any], channel_id: str) -> None:
    said = parse_event(message(**fields), BOT, received_at=NOW)
    assert said is not None
    assert said.key.channel_id == channel_id


@pytest.mark.parametrize(
    ("fields", "joined", "mention"),
    [
        pytest.param({}, (), Mention.NONE, id="not addressed"),
        pytest.param({"text": "<@U0LAN0Z89> go"}, (), Mention.DIRECT, id="by name"),
        pytest.param({"text": "go <@U0LAN0Z89|tie>"}, (), Mention.DIRECT, id="by name at the end"),
        pytest.param({"text": "<@U2> go"}, (), Mention.NONE, id="somebody else's name"),
        pytest.param(
            {"thread_ts": "1.000001", "parent_user_id": "U0LAN0Z89"}, (), Mention.IMPLICIT, id="below its words"
        ),
        pytest.param(
            {"thread_ts": "1.000001"}, ("T061EG9R6:C1:1.000001",), Mention.IMPLICIT, id="in a thread it takes part in"
        ),
        pytest.param({"thread_ts": "1.000001"}, ("T061EG9R6:C1:2.000001",), Mention.NONE, id="in another thread"),
    ],
)
def test_how_it_is_addressed(fields: dict[str, Any], joined: tuple[str, ...], mention: Mention) -> None:
    said = parse_event(message(**fields), BOT, received_at=NOW, joined=joined)
    assert isinstance(said, MessageReceived)
    assert said.mention is mention


@pytest.mark.requirement("G-52")
@pytest.mark.parametrize(
    ("fields", "to_others"),
    [
        pytest.param({"text": "who knows?"}, False, id="nobody"),
        pytest.param({"text": "<!here> who knows?"}, False, id="everybody"),
        pytest.param({"text": "<@U2> who knows?"}, True, id="a name"),
        pytest.param({"text": "ask <@W2|bob>"}, True, id="a name with its label"),
        pytest.param({"text": "<@U0LAN0Z89>?"}, False, id="the bot's name"),
        pytest.param({"text": "<@U0LAN0Z89> or <@U2>?"}, True, id="the bot and somebody else"),
        pytest.param({"text": "<!subteam^S1> who knows?"}, True, id="a group of people"),
        pytest.param({"text": "see <#C2|general>"}, False, id="a channel"),
        pytest.param({"thread_ts": "1.000001", "parent_user_id": "U2"}, True, id="in somebody's thread"),
        pytest.param({"thread_ts": "1.000001", "parent_user_id": "U0LAN0Z89"}, False, id="in the bot's thread"),
    ],
)
def test_whether_somebody_else_is_spoken_to(fields: dict[str, Any], to_others: bool) -> None:
    said = parse_event(message(**fields), BOT, received_at=NOW)
    assert isinstance(said, MessageReceived)
    assert said.to_others is to_others


@pytest.mark.parametrize(
    ("fields", "root"),
    [
        pytest.param({}, None, id="in the channel"),
        pytest.param({"thread_ts": "1700000000.000100"}, None, id="the head of a thread"),
        pytest.param({"thread_ts": "1.000001"}, "1.000001", id="a reply in it"),
    ],
)
@pytest.mark.requirement("G-49")
def test_which_message_begins_its_thread(fields: dict[str, Any], root: str | None) -> None:
    said = parse_event(message(**fields), BOT, received_at=NOW)
    assert said is not None
    assert said.thread_root == root


@pytest.mark.parametrize(
    ("event", "present"),
    [
        ({"type": "member_joined_channel", "user": "U0LAN0Z89", "channel": "C1", "inviter": "U1"}, True),
        ({"type": "member_left_channel", "user": "U0LAN0Z89", "channel": "C1"}, False),
        ({"type": "channel_left", "channel": "C1", "actor_id": "U1"}, False),
        ({"type": "group_left", "channel": "C1"}, False),
        ({"type": "channel_archive", "channel": "C1", "user": "U1"}, False),
        ({"type": "channel_deleted", "channel": "C1"}, False),
        ({"type": "channel_unarchive", "channel": "C1"}, True),
    ],
)
def test_membership(event: dict[str, Any], present: bool) -> None:
    found = parse_event(event, BOT, received_at=NOW, event_id="Ev1")
    assert isinstance(found, Membership)
    assert (found.key.channel_id, found.place, found.present) == ("T061EG9R6:C1", "T061EG9R6:C1", present)


def test_an_uninstalled_app_leaves_the_whole_workspace() -> None:
    found = parse_event({"type": "app_uninstalled"}, BOT, received_at=NOW, event_id="Ev1")
    assert isinstance(found, Membership)
    assert (found.key.channel_id, found.present) == ("T061EG9R6", False)


def test_other_bots_are_marked() -> None:
    said = parse_event(
        message(
            subtype="bot_message", user=None, bot_id="B9", username="ci", text="", attachments=[{"fallback": "red"}]
        ),
        BOT,
        received_at=NOW,
    )
    assert isinstance(said, MessageReceived)
    assert said.sender.is_bot
    assert (said.sender.id, said.sender.display, said.text) == ("B9", "ci", "red")


def test_a_shared_message_is_quoted() -> None:
    shared = [{"is_share": True, "text": "the &lt;old&gt; words"}, {"text": "a preview"}]
    said = parse_event(message(attachments=shared), BOT, received_at=NOW)
    assert isinstance(said, MessageReceived)
    assert said.quoted == Quoted(text="the <old> words", sender=Sender(id=UserId("")))


def test_history_gives_the_same_message_as_the_live_event() -> None:
    live = parse_event(message(channel="D1", channel_type="im"), BOT, received_at=NOW)
    bare = {name: value for name, value in message().items() if name != "channel"}
    read_back = parse_message(bare, BOT, received_at=NOW, channel="D1", from_history=True)
    assert isinstance(live, MessageReceived)
    assert isinstance(read_back, MessageReceived)
    assert (read_back.key, read_back.place, read_back.message_id) == (live.key, live.place, live.message_id)
    assert read_back.from_history


def test_who_the_bot_is_can_be_learned_from_an_event() -> None:
    account = completed(Account(channel_type="slack@second"), recorded("message_im"))
    assert (account.team, account.bot_user, account.app_id) == ("T061EG9R6", "U0LAN0Z89", "A0PNCHHK2")
    assert account.wrote({"user": "U0LAN0Z89"})
    assert not account.wrote({"user": "", "bot_id": ""})


@pytest.mark.parametrize(
    ("command", "text", "commands", "reads"),
    [
        pytest.param("/tieline", "provider main", {"provider"}, "/provider main", id="a command in the umbrella"),
        pytest.param("/tieline", "/provider main", {"provider"}, "/provider main", id="with its own slash"),
        pytest.param("/tieline", "Provider main", {"provider"}, "/Provider main", id="in any case"),
        pytest.param("/tieline", "what is it?", {"provider"}, "what is it?", id="no command: words"),
        pytest.param("/tieline", "provider main", set(), "/provider main", id="before the commands are known"),
        pytest.param("/tieline", "", {"provider"}, "/help", id="alone"),
        pytest.param("/tieline-status", "", {"status"}, "/status", id="a name that Slack keeps"),
        pytest.param("/new", "", {"new"}, "/new", id="a command of its own"),
        pytest.param("/ask", "a &amp; b <@U1|ann>", {"new"}, "/ask a & b @ann", id="arguments are read"),
    ],
)
def test_slash_commands(command: str, text: str, commands: set[str], reads: str) -> None:
    payload = recorded("slash_command") | {"command": command, "text": text}
    said = parse_slash(payload, BOT, received_at=NOW, umbrella="/tieline", commands=commands)
    assert said is not None
    assert said.text == reads
    assert said.key.channel_id == "T061EG9R6:C2147483705"
    assert said.interaction_id == "13345224609.738474920.8088930838d88f008e0"
    assert said.interaction is not None
    assert response_url_of(said.interaction) == "https://hooks.slack.com/commands/1234/5678"
    assert person_of(said.interaction) == "U2147483697"
    assert (said.sender.display, said.chat_title, said.mention) == ("Steve", "test", Mention.DIRECT)


def test_a_pressed_button() -> None:
    pressed = parse_press(recorded("block_actions"), BOT, received_at=NOW)
    assert isinstance(pressed, ButtonClicked)
    assert (pressed.action, pressed.message_id) == ("q:abc:yes", "1548261231.000200")
    assert pressed.key.channel_id == "T061EG9R6:C2147483705:1548261200.000100"
    assert pressed.interaction_id == "12321423423.333649436676.d8c1bb837935619ccad0f624c448ffb3"
    assert pressed.sender.id == "U2147483697"


def test_a_button_below_which_people_replied_still_belongs_to_its_channel() -> None:
    payload = recorded("block_actions")
    payload["message"]["thread_ts"] = payload["message"]["ts"]
    payload["container"].pop("thread_ts")
    pressed = parse_press(payload, BOT, received_at=NOW)
    assert pressed is not None
    assert pressed.key.channel_id == "T061EG9R6:C2147483705"


def test_an_ephemeral_button_has_no_message() -> None:
    payload = recorded("block_actions")
    payload.pop("message")
    pressed = parse_press(payload, BOT, received_at=NOW)
    assert pressed is not None
    assert pressed.message_id == "1548261231.000200"
    assert pressed.key.channel_id == "T061EG9R6:C2147483705:1548261200.000100"


@pytest.mark.parametrize(
    "payload",
    [{"type": "view_submission"}, {"type": "block_actions", "actions": [{"type": "static_select"}]}, {}],
    ids=["a modal", "a menu", "empty"],
)
def test_other_interactions_are_none_of_ours(payload: dict[str, Any]) -> None:
    assert parse_press(payload, BOT, received_at=NOW) is None
