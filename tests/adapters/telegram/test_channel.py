"""Sending, editing and taking away, against the double, with every trouble it can make."""

import logging
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from adapters.telegram.account import RETRY_AFTER_S, UNKNOWN_FOR_S
from adapters.telegram.channel import DRAFT
from agent.core.clock import SystemClock
from agent.storage.database import Database
from gateway.channels.adapter import Forgetful
from gateway.channels.channel import Channel
from gateway.channels.document import (
    Bold,
    Document,
    Heading,
    Item,
    Link,
    List,
    Paragraph,
    Plain,
    Table,
    Text,
)
from gateway.channels.errors import (
    ChannelBusy,
    ChannelError,
    ChannelFatal,
    ChannelGone,
    ChannelRejected,
    ChannelUnsure,
    GatewayUnavailable,
)
from gateway.channels.inbound import Moved
from gateway.channels.outbound import Button, File, Outbound, SentRef
from gateway.delivery.rendering.markdown import parse
from gateway.delivery.rendering.splitting import split
from gateway.running.foundation import Kept
from gateway.testing.harness import eventually
from tests.adapters.telegram.reading import intended, shown
from tests.adapters.telegram.stage import GROUP, Stage, Telegram, acting, stage
from tests.adapters.telegram.test_rich import merged, read
from tests.fakes.clock import FakeClock

STYLED: Document = (Paragraph((Text("a "), Bold((Text("b"),)))),)
RICH: Document = (
    Heading(1, (Text("T"),)),
    Table(((Text("h"),),), (((Bold((Text("1"),)),),),), ("right",)),
    List((Item((Paragraph((Text("x"),)),), True),)),
)


def final(document: Document, **fields: Any) -> Outbound:
    return Outbound(document=document, key="k-1-0", **fields)


def frame(text: str) -> Document:
    return (Plain(text),)


async def group_channel(actor: Stage) -> Channel:
    await actor.telegram.control("chats", chat=GROUP)
    return actor.adapter.channel("-1005")


# -- what goes out


async def test_styled_text_goes_as_text_with_entities(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        await actor.channel.send(final(STYLED))
        (message,) = await actor.telegram.bot_messages()
        assert message["text"] == "a b"
        assert message["entities"] == [{"type": "bold", "offset": 2, "length": 1}]
        assert not actor.telegram.calls("sendRichMessage")


async def test_what_text_cannot_show_goes_as_a_rich_message(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        sent = await actor.channel.send(final(RICH))
        (message,) = await actor.telegram.bot_messages()
        assert merged(read(message["rich_message"]["blocks"])) == merged(RICH)
        await actor.channel.edit(sent, final(STYLED))
        (message,) = await actor.telegram.bot_messages()
        assert message["text"] == "a b"
        await actor.channel.edit(sent, final(RICH))
        await actor.channel.edit(sent, final(RICH))
        (message,) = await actor.telegram.bot_messages()
        assert "text" not in message


@pytest.mark.parametrize(("setting", "again_after_s"), [("refuse", RETRY_AFTER_S), ("absent", UNKNOWN_FOR_S)])
async def test_a_server_without_rich_messages_is_asked_once(tmp_path: Path, setting: str, again_after_s: float) -> None:
    clock = FakeClock()
    async with stage(tmp_path, clock) as actor:
        await actor.telegram.settings(rich_messages=setting)
        sent = await actor.channel.send(final(RICH))
        await actor.channel.send(final(RICH))
        await actor.channel.edit(sent, final((*RICH, *RICH)))
        assert len(actor.telegram.calls("sendRichMessage")) == 1
        messages = await actor.telegram.bot_messages()
        assert list(shown(messages[1]["text"], messages[1]["entities"])) == list(intended(RICH))
        clock.advance(again_after_s)
        await actor.telegram.settings(rich_messages="accept")
        await actor.channel.send(final(RICH))
        assert "rich_message" in (await actor.telegram.bot_messages())[-1]


async def test_one_refused_content_does_not_end_rich_messages(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        await actor.channel.send(final(RICH))
        await actor.telegram.fault("sendRichMessage", "error", description="Bad Request: RICH_MESSAGE_INVALID")
        await actor.channel.send(final(RICH))
        await actor.channel.send(final(RICH))
        kinds = ["rich_message" in message for message in await actor.telegram.bot_messages()]
        assert kinds == [True, False, True]


@pytest.mark.parametrize("fields", [{"rich": "off"}, {"rich_off_in": ["77"]}])
async def test_rich_messages_can_be_switched_off(tmp_path: Path, fields: dict[str, Any]) -> None:
    async with stage(tmp_path, **fields) as actor:
        await actor.channel.send(final(RICH))
        assert not actor.telegram.calls("sendRichMessage")
        assert actor.channel.streams is not None
        await actor.channel.streams.open(RICH, reply_to=None, to=None)
        assert not actor.telegram.calls("sendRichMessageDraft")


async def test_entities_the_server_refuses_are_left_out(tmp_path: Path) -> None:
    document: Document = (Paragraph((Link("https://example.org", (Text("here"),)),)),)
    async with stage(tmp_path) as actor:
        await actor.telegram.fault("sendMessage", "error", description="Bad Request: can't parse entities: no")
        await actor.channel.send(final(document))
        (message,) = await actor.telegram.bot_messages()
        assert message["text"] == "here (https://example.org)"


async def test_what_hangs_on_a_message(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        said = await actor.says("hi")
        buttons = ((Button(label="Yes", action="y", style="primary"),), (Button(label="No", action="n"),))
        await actor.channel.send(final(frame("x"), reply_to=said, silent=True, buttons=buttons))
        (message,) = await actor.telegram.bot_messages()
        assert message["reply_to_message"]["message_id"] == int(said)
        rows = message["reply_markup"]["inline_keyboard"]
        assert rows[0][0] == {"text": "Yes", "callback_data": "y", "style": "primary"}
        assert rows[1][0] == {"text": "No", "callback_data": "n"}
        (call,) = actor.telegram.calls("sendMessage")
        assert call["params"]["disable_notification"] is True
        assert call["params"]["link_preview_options"] == {"is_disabled": True}


@pytest.mark.parametrize("action", ["", "é" * 33])
async def test_a_button_that_cannot_be_carried_is_rejected_before_it_is_sent(tmp_path: Path, action: str) -> None:
    async with stage(tmp_path) as actor:
        with pytest.raises(ChannelRejected, match="64"):
            await actor.channel.send(final(frame("x"), buttons=((Button(label="Yes", action=action),),)))
        assert not actor.telegram.calls("sendMessage")


async def test_blank_text_is_rejected_before_it_is_sent(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        with pytest.raises(ChannelRejected):
            await actor.channel.send(final(frame(" \n")))
        assert not actor.telegram.calls("sendMessage")


async def test_a_topic_is_answered_in_the_topic(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        await actor.telegram.update(chat=GROUP, text="hi", message_thread_id=3, is_topic_message=True)
        await eventually(lambda: bool(actor.said))
        channel = actor.adapter.channel(actor.said[0].key.channel_id)
        assert channel.streams is None  # no drafts in groups
        await channel.send(final(frame("there")))
        assert channel.presence is not None
        await channel.presence.typing()
        (message,) = await actor.telegram.bot_messages(-1005)
        assert message["message_thread_id"] == 3
        assert actor.telegram.calls("sendChatAction")[0]["params"]["message_thread_id"] == 3
        await actor.telegram.control("chats", chat=GROUP, closed_topics=[3])
        with pytest.raises(ChannelGone):
            await channel.send(final(frame("lost")))


# -- a long answer


LONG = (
    "# Report 📊\n\n"
    + "Some **bold** words, *others*, `code` and 日本語 👩‍👩‍👧‍👦. " * 40
    + "\n\n```python\n"
    + "\n".join(f"print('line {n}', '😀' * {n})  # <&>" for n in range(120))
    + "\n```\n\n| n | square | emoji |\n|--:|---:|:--|\n"
    + "\n".join(f"| {n} | **{n * n}** | 🎈 |" for n in range(80))
    + "\n\n"
    + "\n".join(f"{n}. item ~~{n}~~ with [a link](https://example.org/{n})" for n in range(1, 60))
    + "\n\n> a quote\n> of two lines\n\n"
    + "end " * 200
)


@pytest.mark.requirement("G-10")
@pytest.mark.parametrize("rich_messages", ["accept", "absent"])
async def test_a_long_answer_arrives_whole_and_valid(tmp_path: Path, rich_messages: str) -> None:
    assert len(LONG) > 10_000
    async with stage(tmp_path) as actor:
        await actor.telegram.settings(rich_messages=rich_messages)
        capabilities = actor.channel.capabilities
        parts = split(parse(LONG), capabilities.text_limit, capabilities.measure)
        assert len(parts) > 2
        for part in parts:
            await actor.channel.send(final(part))
        messages = await actor.telegram.bot_messages()
        assert len(messages) == len(parts)
        for part, message in zip(parts, messages, strict=True):
            if "rich_message" in message:
                assert merged(read(message["rich_message"]["blocks"])) == merged(part)
            else:
                assert list(shown(message["text"], message.get("entities", []))) == list(intended(part))
        if rich_messages == "absent":
            codes = [
                _slice(message["text"], entity)
                for message in messages
                for entity in message["entities"]
                if entity.get("language") == "python"
            ]
            wanted = LONG.partition("```python\n")[2].partition("\n```")[0]
            assert "\n".join(codes) == wanted


def _slice(text: str, entity: dict[str, Any]) -> str:
    units = text.encode("utf-16-le")
    return units[entity["offset"] * 2 : (entity["offset"] + entity["length"]) * 2].decode("utf-16-le")


# -- trouble on each way out


async def act(channel: Channel, actor: Stage, method: str) -> None:
    """Something that calls this method once."""
    streams, presence, interactions = channel.streams, channel.presence, channel.interactions
    assert streams is not None
    assert presence is not None
    assert interactions is not None
    match method:
        case "sendMessage":
            await channel.send(final(frame("x")))
        case "sendRichMessage":
            await channel.send(final(RICH))
        case "editMessageText":
            sent = await channel.send(final(frame("old")))
            await channel.edit(sent, final(frame("x")))
        case "deleteMessage":
            await channel.delete(await channel.send(final(frame("old"))))
        case "sendMessageDraft":
            await streams.open(frame("x"), reply_to=None, to=None)
        case "sendRichMessageDraft":
            await streams.open(RICH, reply_to=None, to=None)
        case "sendChatAction":
            await presence.typing()
        case "setMessageReaction":
            await presence.react(await actor.says("hi"), "👀")
        case "answerCallbackQuery":
            sent = await channel.send(final(frame("?"), buttons=((Button(label="Y", action="y"),),)))
            await actor.presses(sent.id, "y")
            await interactions.acknowledge("1", "ok")


METHODS = [
    "sendMessage",
    "sendRichMessage",
    "editMessageText",
    "deleteMessage",
    "sendMessageDraft",
    "sendRichMessageDraft",
    "sendChatAction",
    "setMessageReaction",
    "answerCallbackQuery",
]


@pytest.mark.requirement("G-09", "Z-35")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        pytest.param({"kind": "rate_limit", "retry_after": 7}, ChannelBusy, id="429"),
        pytest.param({"kind": "server_error", "status": 502}, ChannelBusy, id="502"),
        pytest.param({"kind": "server_error", "status": 500}, ChannelBusy, id="500"),
        pytest.param({"kind": "page", "status": 403}, ChannelBusy, id="403 of what stands before the server"),
        pytest.param({"kind": "server_error", "status": 504}, ChannelUnsure, id="504"),
        pytest.param({"kind": "drop"}, ChannelUnsure, id="cut"),
        pytest.param({"kind": "drop_after"}, ChannelUnsure, id="cut after"),
        pytest.param(
            {"kind": "error", "status": 403, "description": "Forbidden: bot was blocked by the user"},
            ChannelGone,
            id="blocked",
        ),
        pytest.param({"kind": "error", "status": 401, "description": "Unauthorized"}, ChannelFatal, id="token revoked"),
    ],
)
async def test_each_trouble_has_its_class(
    tmp_path: Path, method: str, fault: dict[str, Any], error: type[ChannelError], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with stage(tmp_path) as actor:
        await actor.telegram.control("faults", {"method": method, **fault})
        with pytest.raises(error) as raised:
            await act(actor.channel, actor, method)
        assert type(raised.value) is error
        if isinstance(raised.value, ChannelBusy):
            assert raised.value.after_s == fault.get("retry_after", 2.0)
        assert len(actor.telegram.calls(method)) == 1  # no retry inside
    assert "TEST-token" not in str(raised.value) + repr(raised.value.__cause__) + caplog.text


@pytest.mark.parametrize(
    ("description", "error"),
    [
        ("Bad Request: chat not found", ChannelGone),
        ("Bad Request: group chat was deactivated", ChannelGone),
        ("Bad Request: not enough rights to send text messages to the chat", ChannelGone),
        ("Bad Request: TOPIC_CLOSED", ChannelGone),
        ("Bad Request: message is too long", ChannelRejected),
        ("Bad Request: message can't be sent", ChannelRejected),
    ],
)
@pytest.mark.requirement("Z-06")
async def test_refusals_are_told_apart(tmp_path: Path, description: str, error: type[ChannelError]) -> None:
    async with stage(tmp_path) as actor:
        await actor.telegram.fault("sendMessage", "error", description=description)
        with pytest.raises(ChannelRejected) as raised:
            await actor.channel.send(final(STYLED))
        assert type(raised.value) is error
        assert await actor.seen() == []


async def test_a_server_that_is_not_there_is_no_doubt(tmp_path: Path) -> None:
    telegram = Telegram()
    telegram.url = "http://127.0.0.1:9"
    async with acting(telegram, tmp_path) as actor:
        with pytest.raises(ChannelBusy) as raised:
            await actor.channel.send(final(frame("x")))
        assert raised.value.after_s <= 5


@pytest.mark.requirement("G-09")
async def test_a_429_of_one_chat_leaves_the_others_alone(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        group = await group_channel(actor)
        await actor.telegram.fault("sendMessage", "rate_limit", retry_after=30)
        for _ in range(2):
            with pytest.raises(ChannelBusy) as raised:
                await actor.channel.send(final(frame("x")))
            assert 0 < raised.value.after_s <= 30
        assert len(actor.telegram.calls("sendMessage")) == 1  # the second try is not even made
        await group.send(final(frame("y")))


@pytest.mark.requirement("G-09")
async def test_a_flood_of_frames_never_meets_a_429_and_leaves_room_for_the_final(tmp_path: Path) -> None:
    async with stage(tmp_path, FakeClock()) as actor:
        streams = actor.channel.streams
        assert streams is not None
        sent = await streams.open(frame("0"), reply_to=None, to=None)
        for number in range(4):
            await streams.update(sent, frame(f"{number} more"))
        for number in range(30):
            with pytest.raises(ChannelBusy) as raised:
                await streams.update(sent, frame(f"{number} more"))
            assert 0 < raised.value.after_s <= 30
        for number in range(3):
            await actor.channel.send(Outbound(document=frame(f"part {number}"), key=f"k-1-{number}"))
        assert [seen.text for seen in await actor.seen()] == ["part 0", "part 1", "part 2"]
        assert not [call for call in actor.telegram.double.calls if call.get("status") == 429]


# -- drafts


async def test_drafts_are_for_private_chats(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        assert actor.channel.streams is not None
        assert actor.channel.capabilities.stream_every_s == 1.0
        group = await group_channel(actor)
        assert group.streams is None
        assert group.capabilities.stream_every_s == 3.0


@pytest.mark.requirement("G-11")
@pytest.mark.parametrize(
    ("fields", "private_s", "group_s"),
    [
        ({"drafts": False}, 3.0, 3.0),
        ({"drafts": False, "stream_interval_ms": 1000}, 1.0, 3.0),
        ({"drafts": False, "stream_interval_ms": 5000}, 5.0, 5.0),
        ({"draft_interval_ms": 2000}, 2.0, 3.0),
    ],
)
async def test_how_often_a_preview_changes(
    tmp_path: Path, fields: dict[str, Any], private_s: float, group_s: float
) -> None:
    async with stage(tmp_path, **fields) as actor:
        group = await group_channel(actor)
        assert actor.channel.capabilities.stream_every_s == private_s
        assert group.capabilities.stream_every_s == group_s
        assert (actor.channel.streams is None) is (fields.get("drafts") is False)


@pytest.mark.parametrize("with_file", [False, True])
async def test_a_server_without_drafts_is_asked_once_and_sees_edits(tmp_path: Path, with_file: bool) -> None:
    async with stage(tmp_path) as actor:
        await actor.telegram.settings(drafts="absent")
        streams = actor.channel.streams
        assert streams is not None
        sent = await streams.open(frame("a"), reply_to=None, to=None)
        await streams.update(sent, frame("a b"))
        assert [seen.text for seen in await actor.seen()] == ["a b"]
        files = (_file(tmp_path, "a.txt"),) if with_file else ()
        last = await streams.finish(sent, final(frame("a b c"), files=files))
        (seen,) = await actor.seen()
        assert (seen.text, seen.id) == ("a b c", last.id)
        await streams.drop(await streams.open(frame("x"), reply_to=None, to=None))
        assert len(await actor.seen()) == 1
        assert len(actor.telegram.calls("sendMessageDraft")) == 1


async def test_a_chat_takes_drafts_again_when_its_server_does(tmp_path: Path) -> None:
    clock = FakeClock()
    async with stage(tmp_path, clock) as actor:
        await actor.telegram.settings(drafts="absent")
        streams = actor.channel.streams
        assert streams is not None
        during: list[float] = []
        for _ in range(2):
            assert (await streams.open(frame("a"), reply_to=None, to=None)).kind != DRAFT
            during.append(actor.channel.capabilities.stream_every_s)
        assert len(actor.telegram.calls("sendMessageDraft")) == 1
        await actor.telegram.settings(drafts="accept")
        clock.advance(UNKNOWN_FOR_S)
        assert (await streams.open(frame("b"), reply_to=None, to=None)).kind == DRAFT
        assert [*during, actor.channel.capabilities.stream_every_s] == [3.0, 3.0, 1.0]


async def test_a_draft_that_a_message_took_the_place_of_needs_no_clearing(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        streams = actor.channel.streams
        assert streams is not None
        sent = await streams.open(frame("a"), reply_to=None, to=None)
        await actor.channel.send(final(frame("b")))
        await streams.drop(sent)
        assert len(actor.telegram.calls("sendMessage")) == 1
        await streams.drop(await streams.open(frame("c"), reply_to=None, to=None))
        assert [seen.text for seen in await actor.seen()] == ["b"]


async def test_one_refused_frame_does_not_end_drafts(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        streams = actor.channel.streams
        assert streams is not None
        sent = await streams.open(frame("a"), reply_to=None, to=None)
        await actor.telegram.fault("sendMessageDraft", "error", description="Bad Request: no")
        with pytest.raises(ChannelRejected):
            await streams.update(sent, frame("b"))
        await streams.update(sent, frame("c"))
        assert [seen.text for seen in await actor.seen()] == ["c"]


async def test_a_rich_draft_falls_back_to_a_text_draft(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        streams = actor.channel.streams
        assert streams is not None
        sent = await streams.open(RICH, reply_to=None, to=None)
        assert len(actor.telegram.calls("sendRichMessageDraft")) == 1
        await actor.telegram.settings(rich_messages="absent")
        await streams.update(sent, RICH)
        await streams.update(sent, (*RICH, *RICH))
        assert len(actor.telegram.calls("sendRichMessageDraft")) == 2
        assert len(actor.telegram.calls("sendMessageDraft")) == 2
        (seen,) = await actor.seen()
        assert "☑ x" in seen.text


async def test_a_frame_that_outgrew_a_message_shows_its_beginning(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        streams = actor.channel.streams
        assert streams is not None
        await streams.open((Paragraph((Bold((Text("😀" * 3000),)),)),), reply_to=None, to=None)
        (seen,) = await actor.seen()
        assert seen.text == "😀" * 2048


# -- edits and deletions


async def test_a_message_with_a_file_has_a_caption_to_edit(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        sent = await actor.channel.send(final(STYLED, files=(_file(tmp_path, "a.txt"),)))
        await actor.channel.edit(sent, final(frame("other")))
        await actor.channel.edit(sent, final(frame("other")))
        (message,) = await actor.telegram.bot_messages()
        assert message["caption"] == "other"


async def test_a_message_too_old_to_delete_is_told(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        sent = await actor.channel.send(final(frame("old")))
        await actor.telegram.fault("deleteMessage", "error", description="Bad Request: message can't be deleted")
        with pytest.raises(ChannelRejected):
            await actor.channel.delete(sent)


async def test_a_draft_left_by_a_crash_can_be_deleted(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        await actor.channel.delete(SentRef("12345", "draft"))
        assert not actor.telegram.calls("deleteMessage")


# -- files


def _file(directory: Path, name: str, mime_type: str = "text/plain", size: int = 10) -> File:
    path = directory / f"stored-{name}"
    path.write_bytes(b"x" * size)
    return File(path=path, name=name, mime_type=mime_type)


@pytest.mark.parametrize(
    ("mime_type", "method"),
    [
        ("image/png", "sendPhoto"),
        ("image/gif", "sendDocument"),
        ("audio/ogg", "sendVoice"),
        ("application/pdf", "sendDocument"),
    ],
)
async def test_files_go_as_what_they_are(tmp_path: Path, mime_type: str, method: str) -> None:
    async with stage(tmp_path) as actor:
        file = _file(tmp_path, 'größe "1".bin', mime_type, 3000)
        await actor.channel.send(final((), files=(file,)))
        (call,) = actor.telegram.calls("sendPhoto", "sendDocument", "sendVoice")
        assert call["method"] == method
        assert list(call["files"].values()) == [{"name": 'größe "1".bin', "size": 3000}]


async def test_a_picture_telegram_cannot_show_goes_as_a_document(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        await actor.telegram.fault("sendPhoto", "error", description="Bad Request: PHOTO_INVALID_DIMENSIONS")
        await actor.channel.send(final(frame("see"), files=(_file(tmp_path, "a.png", "image/png"),)))
        (message,) = await actor.telegram.bot_messages()
        assert message["document"]["file_name"] == "a.png"
        assert message["caption"] == "see"


_RIGHTS = "Bad Request: not enough rights to send {} to the chat"


@pytest.mark.parametrize(
    ("mime_type", "method", "what"),
    [
        pytest.param("image/png", "sendPhoto", "photos", id="a photo"),
        pytest.param("audio/ogg", "sendVoice", "voice notes", id="a voice note"),
    ],
)
async def test_where_only_documents_may_go_a_file_goes_as_one(
    tmp_path: Path, mime_type: str, method: str, what: str
) -> None:
    async with stage(tmp_path) as actor:
        group = await group_channel(actor)
        await actor.telegram.fault(method, "error", description=_RIGHTS.format(what))
        await group.send(final(frame("see"), files=(_file(tmp_path, "a.bin", mime_type),)))
        (message,) = await actor.telegram.bot_messages(-1005)
        assert (message["document"]["file_name"], message["caption"]) == ("a.bin", "see")


async def test_a_group_without_rights_for_media_refuses_the_message_and_stays_open(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        group = await group_channel(actor)
        for method, what in (("sendPhoto", "photos"), ("sendDocument", "documents")):
            await actor.telegram.fault(method, "error", description=_RIGHTS.format(what))
        with pytest.raises(ChannelRejected) as raised:
            await group.send(final(frame("see"), files=(_file(tmp_path, "a.png", "image/png"),)))
        assert type(raised.value) is ChannelRejected  # not ChannelGone: words may go there
        await group.send(final(frame("no pictures here")))
        assert [message["text"] for message in await actor.telegram.bot_messages(-1005)] == ["no pictures here"]


async def test_a_long_text_stands_before_its_files(tmp_path: Path) -> None:
    files = (_file(tmp_path, "a.txt"), _file(tmp_path, "b.txt"))
    async with stage(tmp_path) as actor:
        await actor.channel.send(final(frame("x" * 1025), files=files))
        seen = await actor.seen()
        assert [(message.text[:1], message.files) for message in seen] == [
            ("x", ()),
            ("", ("a.txt",)),
            ("", ("b.txt",)),
        ]


async def test_a_repeat_goes_on_behind_the_pieces_that_arrived(tmp_path: Path) -> None:
    message = final(frame("see"), files=(_file(tmp_path, "a.txt"), _file(tmp_path, "b.txt")))
    async with stage(tmp_path) as actor:
        await actor.telegram.fault("sendDocument", "server_error", status=502, after=1)
        with pytest.raises(ChannelBusy):
            await actor.channel.send(message)
        sent = await actor.channel.send(message)
        seen = await actor.seen()
        assert [(part.text, part.files) for part in seen] == [("see", ("a.txt",)), ("", ("b.txt",))]
        assert sent.id == seen[0].id


async def test_files_that_cannot_go_are_rejected_before_they_are_sent(tmp_path: Path) -> None:
    missing = File(path=tmp_path / "none", name="none.txt", mime_type="text/plain")
    huge = tmp_path / "huge"
    with huge.open("wb") as out:
        out.truncate(51 * 1024 * 1024)
    async with stage(tmp_path) as actor:
        for file in (missing, File(path=huge, name="huge.bin", mime_type="application/zip")):
            with pytest.raises(ChannelRejected, match=file.name):
                await actor.channel.send(final((), files=(file,)))
        assert not actor.telegram.calls("sendDocument")


async def test_files_come_in(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        await actor.telegram.update(file={"name": "a.txt", "text": "hello file"}, caption="see")
        await eventually(lambda: bool(actor.said))
        (attachment,) = actor.said[0].attachments
        assert actor.channel.files is not None
        assert await actor.channel.files.fetch(attachment, tmp_path / "in", limit=1000) == 10
        assert (tmp_path / "in").read_bytes() == b"hello file"


@pytest.mark.parametrize(
    ("spec", "limit"),
    [
        pytest.param({"text": "x" * 100}, 50, id="larger than we take"),
        pytest.param({"text": "x", "size": 21 * 1024 * 1024}, 10**9, id="larger than Telegram gives"),
        pytest.param({"text": "x" * 100, "size": 10}, 50, id="larger than it says"),
    ],
)
async def test_files_too_large_leave_nothing(tmp_path: Path, spec: dict[str, Any], limit: int) -> None:
    async with stage(tmp_path) as actor:
        await actor.telegram.update(file={"name": "big.txt", **spec})
        await eventually(lambda: bool(actor.said))
        (attachment,) = actor.said[0].attachments
        assert actor.channel.files is not None
        with pytest.raises(ChannelRejected, match=r"big\.txt"):
            await actor.channel.files.fetch(attachment, tmp_path / "in", limit=limit)
        assert not (tmp_path / "in").exists()


# -- buttons


async def test_an_answer_to_a_button_that_is_too_old(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        assert actor.channel.interactions is not None
        await actor.channel.interactions.acknowledge("999")  # nothing waits any more: fine
        with pytest.raises(ChannelRejected):
            await actor.channel.interactions.acknowledge("999", "words that nobody saw")


async def test_an_answer_to_a_button_is_shown(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        sent = await actor.channel.send(final(frame("?"), buttons=((Button(label="Y", action="y"),),)))
        await actor.presses(sent.id, "y")
        await eventually(lambda: bool(actor.admitted))
        assert actor.channel.interactions is not None
        await actor.channel.interactions.acknowledge(actor.admitted[0].interaction or "", "n" * 500, visible=True)
        (call,) = actor.telegram.calls("answerCallbackQuery")
        assert call["status"] == 200
        assert (len(call["params"]["text"]), call["params"]["show_alert"]) == (200, True)


# -- a group that moves


async def test_a_message_to_a_moved_group_arrives_in_the_new_one_and_the_move_is_told(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        await actor.telegram.control("chats", chat={"id": -4002, "type": "group", "title": "G"}, migrate_to=-1009)
        channel = actor.adapter.channel("-4002")
        await channel.send(final(frame("one")))
        await channel.send(final(frame("two")))
        assert [message["text"] for message in await actor.telegram.bot_messages(-1009)] == ["one", "two"]
        assert len(actor.telegram.calls("sendMessage")) == 3  # the old id is tried once
        await eventually(lambda: bool(actor.admitted))
        (moved,) = actor.admitted
        assert isinstance(moved, Moved)
        assert (str(moved.key), str(moved.new_key)) == ("telegram:-4002", "telegram:-1009")


async def test_a_move_that_could_not_be_stored_is_told_again(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        await actor.telegram.control("chats", chat={"id": -4002, "type": "group", "title": "G"}, migrate_to=-1009)
        actor.stores_nothing(1)
        await actor.adapter.channel("-4002").send(final(frame("one")))
        await eventually(lambda: [type(inbound) for inbound in actor.admitted] == [Moved])


async def test_a_file_to_a_moved_group_is_tried_again(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        await actor.telegram.control("chats", chat={"id": -4002, "type": "group", "title": "G"}, migrate_to=-1009)
        channel = actor.adapter.channel("-4002")
        message = final((), files=(_file(tmp_path, "a.txt"),))
        with pytest.raises(ChannelBusy):
            await channel.send(message)
        await channel.send(message)
        (arrived,) = await actor.telegram.bot_messages(-1009)
        assert arrived["document"]["file_size"] == 10


@pytest.mark.parametrize("channel_id", ["", "abc", "1:x"])
async def test_what_is_no_chat_is_named(tmp_path: Path, channel_id: str) -> None:
    async with stage(tmp_path) as actor:
        with pytest.raises(ValueError, match="invalid literal"):
            actor.adapter.channel(channel_id)


async def test_a_server_without_rich_messages_is_not_asked_for_them_at_each_start(
    tmp_path: Path, sqlite_database: Database
) -> None:
    clock = FakeClock()
    store = partial(Kept, sqlite_database, clock)
    async with Telegram().running() as telegram:

        async def asked() -> int:
            """By how many of two processes, one after the other."""
            before = len(telegram.calls("sendRichMessage"))
            for _ in range(2):
                async with acting(telegram, tmp_path, clock, store=store) as actor:
                    await actor.channel.send(final(parse("# A heading")))
            return len(telegram.calls("sendRichMessage")) - before

        await telegram.settings(rich_messages="absent")
        assert await asked() == 1
        assert [message["text"] for message in await telegram.bot_messages()] == ["A heading"] * 2
        clock.advance(UNKNOWN_FOR_S - 1)
        assert await asked() == 0
        await telegram.settings(rich_messages="accept")
        clock.advance(1)
        assert await asked() == 2, "it was updated"


async def test_what_one_server_lacks_another_may_have(tmp_path: Path, sqlite_database: Database) -> None:
    store = partial(Kept, sqlite_database, SystemClock())
    for lacks in (True, False):
        async with Telegram().running() as telegram:
            await telegram.settings(drafts="absent" if lacks else "accept")
            async with acting(telegram, tmp_path, store=store) as actor:
                streams = actor.channel.streams
                assert streams is not None
                sent = await streams.open(frame("a"), reply_to=None, to=None)
                assert (sent.kind == DRAFT) is not lacks


@pytest.mark.parametrize("fails", ["get", "put"])
async def test_a_store_that_fails_costs_no_message(tmp_path: Path, fails: str) -> None:
    class Troubled(Forgetful):
        async def get(self, key: str) -> str | None:
            if fails == "get":
                raise GatewayUnavailable("disk full")
            return None

        async def put(self, key: str, value: str, *, until: datetime) -> None:
            raise GatewayUnavailable("disk full")

    async with Telegram().running() as telegram:
        await telegram.settings(rich_messages="absent")
        async with acting(telegram, tmp_path, store=lambda scope: Troubled()) as actor:
            for _ in range(2):
                await actor.channel.send(final(parse("# A heading")))
        assert len(await telegram.bot_messages()) == 2
        assert len(telegram.calls("sendRichMessage")) == 1
