"""Updates as Telegram sends them (scrubbed), parsed into inbound messages."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.telegram.parse import Context, Me, parse, place_of
from gateway.channels.inbound import (
    Attachment,
    ButtonClicked,
    ChatType,
    Edited,
    Inbound,
    Membership,
    Mention,
    MessageReceived,
    Moved,
    Quoted,
    Sender,
)
from gateway.channels.keys import UserId

RECORDINGS = Path(__file__).parents[2] / "recordings" / "telegram"
ME = Me(id=123456, username="double_bot")
NOW = datetime(2026, 1, 1, 12, 0, 5, tzinfo=UTC)
CONTEXT = Context(channel_type="telegram@second", me=ME, received_at=NOW)
GROUP, FORUM = "-1001234567890", "-1009876543210"


def recorded(name: str) -> dict[str, Any]:
    update: dict[str, Any] = json.loads((RECORDINGS / f"{name}.json").read_text())
    return update


def read(name: str) -> Inbound | None:
    return parse(recorded(name), CONTEXT)


def said(name: str) -> MessageReceived:
    inbound = read(name)
    assert isinstance(inbound, MessageReceived)
    return inbound


def test_a_private_message() -> None:
    message = said("private_text")
    assert str(message.key) == "telegram@second:77"
    assert (message.place, message.message_id, message.event_id) == ("77", "41", "812000001")
    assert (message.chat_type, message.mention, message.text) == (
        ChatType.DIRECT,
        Mention.NONE,
        "Wie spät ist es? 😀",
    )
    sender = message.sender
    assert (sender.id, sender.display, sender.language, sender.is_bot) == ("77", "Ann Example", "de", False)
    assert message.sent_at == datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
    assert message.received_at == NOW
    assert (message.attachments, message.quoted, message.grantable) == ((), None, ())


@pytest.mark.parametrize(
    ("name", "text", "mention"),
    [
        ("start_with_payload", "/start from-flyer", Mention.DIRECT),
        ("group_mention", "👩‍👩‍👧‍👦, wann giessen?", Mention.DIRECT),
        ("group_chatter", "nice weather", Mention.NONE),
        ("group_command", "/status now", Mention.DIRECT),
        ("text_mention", "help", Mention.DIRECT),
        ("reply_to_the_bot", "and then?", Mention.IMPLICIT),
        ("topic_text", "which speed?", Mention.NONE),
        ("channel_post", "summarise", Mention.DIRECT),
    ],
)
def test_how_a_message_addresses_the_bot(name: str, text: str, mention: Mention) -> None:
    message = said(name)
    assert (message.text, message.mention) == (text, mention)


def spoken(text: str, **more: Any) -> MessageReceived:
    """Words in the recorded group."""
    update = recorded("group_chatter")
    update["message"] |= {"text": text, **more}
    inbound = parse(update, CONTEXT)
    assert isinstance(inbound, MessageReceived)
    return inbound


def entity(kind: str, offset: int, length: int, **more: Any) -> dict[str, Any]:
    return {"type": kind, "offset": offset, "length": length, **more}


@pytest.mark.requirement("G-52")
@pytest.mark.parametrize(
    ("message", "to_others"),
    [
        pytest.param({"text": "who knows?"}, False, id="nobody"),
        pytest.param({"text": "@bob who knows?", "entities": [entity("mention", 0, 4)]}, True, id="a name"),
        pytest.param({"text": "👍 @bob?", "entities": [entity("mention", 3, 4)]}, True, id="a name behind an emoji"),
        pytest.param({"text": "@Double_Bot?", "entities": [entity("mention", 0, 11)]}, False, id="the bot's own name"),
        pytest.param(
            {"text": "@double_bot @bob", "entities": [entity("mention", 0, 11), entity("mention", 12, 4)]},
            True,
            id="the bot and somebody else",
        ),
        pytest.param(
            {"text": "Bob?", "entities": [entity("text_mention", 0, 3, user={"id": 78, "first_name": "Bob"})]},
            True,
            id="somebody without a user name",
        ),
        pytest.param(
            {"text": "Bot?", "entities": [entity("text_mention", 0, 3, user={"id": ME.id, "first_name": "D"})]},
            False,
            id="the bot, as if without a user name",
        ),
        pytest.param(
            {"text": "", "caption": "@bob look", "caption_entities": [entity("mention", 0, 4)]}, True, id="in a caption"
        ),
        pytest.param({"text": "bob@example.org", "entities": [entity("email", 0, 15)]}, False, id="an address of mail"),
        pytest.param(
            {"text": "yes", "reply_to_message": {"message_id": 1, "from": {"id": 78, "first_name": "Bob"}}},
            True,
            id="a reply to somebody",
        ),
        pytest.param(
            {"text": "yes", "reply_to_message": {"message_id": 1, "from": {"id": ME.id, "is_bot": True}}},
            False,
            id="a reply to the bot",
        ),
        pytest.param(
            {"text": "yes", "reply_to_message": {"message_id": 1, "forum_topic_created": {}, "from": {"id": 78}}},
            False,
            id="a topic that somebody made",
        ),
    ],
)
def test_whether_somebody_else_is_spoken_to(message: dict[str, Any], to_others: bool) -> None:
    assert spoken(**message).to_others is to_others


@pytest.mark.parametrize(
    ("chat", "text", "mention"),
    [
        pytest.param({"type": "supergroup"}, "/warn", Mention.NONE, id="perhaps another bot's"),
        pytest.param({"type": "supergroup"}, "/warn @double_bot", Mention.DIRECT, id="it names us"),
        pytest.param(
            {"id": 77, "type": "private", "first_name": "Ann"}, "/warn", Mention.DIRECT, id="nobody else here"
        ),
    ],
)
def test_a_command_that_names_no_bot_is_for_us_where_nobody_else_is(
    chat: dict[str, Any], text: str, mention: Mention
) -> None:
    """In a group a command is ours if the gateway knows it, whatever the mention says."""
    update = recorded("group_command")
    message = update["message"]
    message["chat"] |= chat
    message |= {"text": text, "entities": [{"offset": 0, "length": 5, "type": "bot_command"}]}
    if " " in text:
        message["entities"].append({"offset": 6, "length": 11, "type": "mention"})
    found = parse(update, CONTEXT)
    assert isinstance(found, MessageReceived)
    assert (found.text, found.mention) == ("/warn", mention)


@pytest.mark.parametrize(
    "name",
    [
        "command_for_another_bot",
        "own_words",
        "somebody_joined",
        "group_upgraded_twin",
        "live_location_moved",
        "unknown_kind",
    ],
)
@pytest.mark.requirement("G-12")
def test_what_is_not_for_us_is_nothing(name: str) -> None:
    assert read(name) is None


@pytest.mark.parametrize(
    ("name", "channel_id", "place"),
    [
        ("group_mention", GROUP, GROUP),
        ("reply_to_the_bot", GROUP, GROUP),  # a thread of replies is no topic
        ("topic_text", f"{FORUM}:3", FORUM),
        ("general_topic", FORUM, FORUM),
    ],
)
def test_the_key_of_a_place(name: str, channel_id: str, place: str) -> None:
    message = said(name)
    assert (message.key.channel_id, message.place) == (channel_id, place)
    assert place_of(recorded(name)) == place


def test_a_topic_without_its_flag_is_known_by_being_no_reply() -> None:
    update = recorded("group_chatter")
    update["message"]["message_thread_id"] = 9
    message = parse(update, CONTEXT)
    assert message is not None
    assert message.key.channel_id == f"{GROUP}:9"


def test_a_public_group_can_be_granted_by_name() -> None:
    assert said("group_chatter").grantable == ("@gardeners_chat",)
    assert said("group_chatter").chat_title == "Gardeners"


@pytest.mark.parametrize(
    ("name", "quoted"),
    [
        ("reply_to_the_bot", "First, water the roses. Then rest."),
        ("reply_with_quote", "Then rest."),
        ("topic_text", None),
    ],
)
def test_what_is_quoted(name: str, quoted: str | None) -> None:
    found = said(name).quoted
    assert (found.text if found is not None else None) == quoted


PICTURE = {"photo": [{"file_id": "P", "file_unique_id": "U", "width": 9, "height": 9, "file_size": 7}]}
PHOTO = Attachment(kind="image", handle="P", name="photo-U.jpg", mime_type="image/jpeg", size=7)


def replying(**fields: Any) -> Quoted | None:
    """The quotation of a message that replies to one with these fields in place of its text."""
    update = recorded("reply_to_the_bot")
    original = update["message"]["reply_to_message"]
    del original["text"]
    original |= fields
    message = parse(update, CONTEXT)
    assert isinstance(message, MessageReceived)
    assert message.attachments == ()
    return message.quoted


@pytest.mark.parametrize(
    ("fields", "text", "files"),
    [
        pytest.param(PICTURE | {"caption": "a heron"}, "a heron", (PHOTO,), id="a picture with its caption"),
        pytest.param({"sticker": {"emoji": "🐦", "file_id": "S"}}, "🐦", (), id="a sticker"),
        pytest.param({"dice": {"emoji": "🎲", "value": 4}}, "🎲 4", (), id="something else"),
    ],
)
def test_a_quoted_message_is_read_as_it_would_be_by_itself(
    fields: Mapping[str, Any], text: str, files: tuple[Attachment, ...]
) -> None:
    found = replying(**fields)
    assert found is not None
    assert (found.text, found.attachments, found.is_own) == (text, files, True)


def test_a_quoted_message_that_says_nothing_is_none() -> None:
    assert replying(new_chat_title="Garden") is None


def test_a_quoted_message_names_itself_and_its_sender() -> None:
    found = replying(**PICTURE, **{"from": {"id": 78, "first_name": "Bob"}})
    assert found is not None
    assert found.sender == Sender(id=UserId("78"), display="Bob")
    assert (found.message_id, found.is_own) == (
        str(recorded("reply_to_the_bot")["message"]["reply_to_message"]["message_id"]),
        False,
    )


@pytest.mark.parametrize(
    ("origin", "sender"),
    [
        pytest.param({"sender_user": {"id": 5, "first_name": "Eve"}}, ("5", "Eve"), id="a person"),
        pytest.param({"sender_user_name": "Zoe"}, ("", "Zoe"), id="a person who hides the account"),
        pytest.param({"sender_chat": {"id": -7, "title": "Gardeners"}}, ("-7", "Gardeners"), id="a group"),
        pytest.param({"chat": {"id": -8, "title": "News"}, "author_signature": "Ed"}, ("-8", "Ed"), id="a channel"),
        pytest.param({}, None, id="nobody"),
    ],
)
def test_a_message_of_another_chat_is_quoted_with_its_files(
    origin: Mapping[str, Any], sender: tuple[str, str] | None
) -> None:
    update = recorded("reply_to_the_bot")
    del update["message"]["reply_to_message"]
    update["message"] |= {
        "external_reply": {"origin": origin, "message_id": 5, **PICTURE},
        "quote": {"text": "its leg"},
    }
    message = parse(update, CONTEXT)
    assert isinstance(message, MessageReceived)
    assert message.quoted == Quoted(
        text="its leg",
        attachments=(PHOTO,),
        sender=Sender(id=UserId(sender[0]), display=sender[1]) if sender is not None else None,
    )


def test_a_quoted_rich_message_is_read() -> None:
    update = recorded("reply_to_the_bot")
    cells = [[{"text": "a"}, {"text": {"type": "bold", "text": "b"}}]]
    items = [{"label": "1.", "blocks": [{"type": "paragraph", "text": ["x ", {"type": "code", "text": "y"}]}]}]
    blocks = [
        {"type": "heading", "text": "T", "size": 1},
        {"type": "list", "items": items},
        {"type": "table", "cells": cells},
    ]
    original = update["message"]["reply_to_message"]
    del original["text"]
    original["rich_message"] = {"blocks": blocks}
    message = parse(update, CONTEXT)
    assert isinstance(message, MessageReceived)
    assert message.quoted is not None
    assert message.quoted.text.split("\n") == ["T", "1. x y", "a | b", ""]


@pytest.mark.parametrize(
    ("name", "attachment"),
    [
        (
            "photo_with_caption",
            Attachment(kind="image", handle="AgACbig", name="photo-AQADb.jpg", mime_type="image/jpeg", size=98000),
        ),
        (
            "voice",
            Attachment(kind="audio", handle="AwACvoice", name="voice-AgADv.oga", mime_type="audio/ogg", size=9021),
        ),
        (
            "document",
            Attachment(kind="file", handle="BQACdoc", name="plan.pdf", mime_type="application/pdf", size=20480),
        ),
        ("animation", Attachment(kind="video", handle="CgACanim", name="cat.mp4", mime_type="video/mp4", size=50000)),
    ],
)
def test_attachments(name: str, attachment: Attachment) -> None:
    (found,) = said(name).attachments
    assert found.name.rpartition(".")[0] == attachment.name.rpartition(".")[0]
    assert (found.kind, found.handle, found.mime_type, found.size) == (
        attachment.kind,
        attachment.handle,
        attachment.mime_type,
        attachment.size,
    )


def test_a_part_of_an_album_names_it() -> None:
    update = recorded("photo_with_caption")
    update["message"]["media_group_id"] = "13579"
    part = parse(update, CONTEXT)
    assert isinstance(part, MessageReceived)
    assert (part.album, said("photo_with_caption").album) == ("13579", None)


def test_a_caption_is_the_text() -> None:
    assert said("photo_with_caption").text == "Was ist das?"


@pytest.mark.parametrize(("name", "text"), [("sticker", "👍"), ("location", "[location: 52.52, 13.405]")])
def test_what_is_neither_text_nor_file_is_spelled_out(name: str, text: str) -> None:
    assert said(name).text == text


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"dice": {"emoji": "🎲", "value": 4}}, "🎲 4"),
        ({"contact": {"first_name": "Bo", "phone_number": "+49"}}, "[contact: Bo, +49]"),
        (
            {"poll": {"question": "When?", "options": [{"text": "now"}, {"text": "later"}]}},
            "[poll: When? (now; later)]",
        ),
        (
            {"venue": {"title": "Pub", "address": "Elm 1", "location": {"latitude": 1, "longitude": 2}}},
            "[venue: Pub, Elm 1, 1, 2]",
        ),
    ],
)
def test_other_contents_are_spelled_out(content: dict[str, Any], text: str) -> None:
    update = recorded("private_text")
    del update["message"]["text"]
    update["message"] |= content
    message = parse(update, CONTEXT)
    assert isinstance(message, MessageReceived)
    assert message.text == text


def test_an_edit_has_a_version() -> None:
    edit = read("edited")
    assert isinstance(edit, Edited)
    assert (edit.message_id, edit.version, edit.text) == ("41", "1767268860", "Wie spät ist es in Oslo?")


def test_a_press() -> None:
    press = read("button")
    assert isinstance(press, ButtonClicked)
    assert (press.action, press.message_id, press.sender.id) == ("q:1:yes", "950", "77")
    assert press.interaction == press.interaction_id == "330000000000000001"
    assert press.key.channel_id == f"{FORUM}:3"


def test_a_press_on_a_message_too_old_to_be_shown() -> None:
    press = read("button_on_an_old_message")
    assert isinstance(press, ButtonClicked)
    assert (press.key.channel_id, press.message_id) == ("77", "12")


@pytest.mark.parametrize(("name", "present"), [("blocked", False), ("added_to_group", True), ("muted_in_group", True)])
def test_membership(name: str, present: bool) -> None:
    change = read(name)
    assert isinstance(change, Membership)
    assert change.present is present


def test_a_group_that_moved() -> None:
    move = read("group_upgraded")
    assert isinstance(move, Moved)
    assert (move.place, move.new_place) == ("-4002", GROUP)
    assert (str(move.key), str(move.new_key)) == ("telegram@second:-4002", f"telegram@second:{GROUP}")


def test_an_anonymous_admin_is_the_group_itself() -> None:
    sender = said("anonymous_admin").sender
    assert (sender.id, sender.is_bot, sender.is_chat_admin) == (GROUP, False, True)


def test_a_channel_speaks_for_itself() -> None:
    post = said("channel_post")
    assert (post.chat_type, post.sender.id, post.sender.display) == (ChatType.CHANNEL, "-1007777", "Ann")


@pytest.mark.requirement("G-12")
def test_another_bot_is_flagged() -> None:
    assert said("another_bot").sender.is_bot


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("@double_bot", ""),
        ("@double_bot hi", "hi"),
        ("@DOUBLE_bot: hi", "hi"),
        ("hi @double_bot", "hi"),
        ("hey @double_bot how", "hey how"),
        ("@double_bot @double_bot go", "go"),
        ("tell @double_botanist", "tell @double_botanist"),
    ],
)
def test_the_bots_name_is_taken_out(text: str, meant: str) -> None:
    update = recorded("group_chatter")
    entities, at = [], 0
    for word in text.split(" "):
        if word.startswith("@"):
            entities.append({"type": "mention", "offset": at, "length": len(word.rstrip(":"))})
        at += len(word) + 1
    update["message"] |= {"text": text, "entities": entities}
    message = parse(update, CONTEXT)
    assert isinstance(message, MessageReceived)
    assert message.text == meant


@pytest.mark.parametrize("name", sorted(path.stem for path in RECORDINGS.glob("*.json")))
def test_the_same_update_gives_the_same(name: str) -> None:
    assert read(name) == read(name)


@given(st.text(max_size=40), st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), max_size=4))
def test_no_entity_makes_it_fall_over(text: str, spans: list[tuple[int, int]]) -> None:
    update = recorded("group_chatter")
    entities = [{"type": "mention", "offset": offset, "length": length} for offset, length in spans]
    update["message"] |= {"text": text, "entities": entities}
    parse(update, CONTEXT)
