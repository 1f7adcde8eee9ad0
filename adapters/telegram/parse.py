"""A Telegram update, as raw JSON, as inbound values. Pure; never decides who may talk."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from adapters.telegram.attachments import attachments_of
from adapters.telegram.wording import Json, Me, quoted_in, wording_of
from gateway.channels.inbound import (
    ButtonClicked,
    ChatType,
    Edited,
    Inbound,
    Membership,
    MessageReceived,
    Moved,
    Sender,
)
from gateway.channels.keys import ConversationKey, UserId, place_id

# What is asked of Telegram; everything else it need not send.
UPDATES = ("message", "edited_message", "channel_post", "edited_channel_post", "callback_query", "my_chat_member")
_PRESENT = {"creator", "administrator", "member"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What an update does not say by itself."""

    channel_type: str
    me: Me
    received_at: datetime


def parse(update: Json, context: Context) -> Inbound | None:
    """None for the bot's own words, for commands of other bots and for what is no message."""
    event_id = str(update["update_id"])
    for kind in ("message", "channel_post"):
        if message := update.get(kind):
            return _moved(message, event_id, context) or _said(message, event_id, context)
    for kind in ("edited_message", "edited_channel_post"):
        if message := update.get(kind):
            return _edited(message, event_id, context)
    if query := update.get("callback_query"):
        return _pressed(query, event_id, context)
    if member := update.get("my_chat_member"):
        return _membership(member, event_id, context)
    return None


def place_of(update: Json) -> str:
    """The chat an update belongs to, the unit of order; "" if it belongs to none."""
    for value in update.values():
        if isinstance(value, Mapping):
            chat = value.get("chat") or (value.get("message") or {}).get("chat") or {}
            return str(chat.get("id", ""))
    return ""


def topic_of(message: Json) -> int | None:
    """The forum topic of a message. In a plain group the same field counts the replies to one message: no topic."""
    thread = message.get("message_thread_id")
    if thread is None:
        return None
    in_forum = message.get("is_topic_message") or (message.get("chat") or {}).get("is_forum")
    return int(thread) if in_forum or "reply_to_message" not in message else None


def channel_id(chat_id: int, topic: int | None) -> str:
    """DESIGN §13.1: `<chat>[:<topic>]`."""
    return place_id(str(chat_id)) if topic is None else place_id(str(chat_id), str(topic))


def _common(message: Json, sender: Sender, event_id: str, context: Context) -> dict[str, Any]:
    """The fields of `Received`."""
    chat = message["chat"]
    return {
        "key": ConversationKey(context.channel_type, channel_id(chat["id"], topic_of(message))),
        "place": str(chat["id"]),
        "message_id": str(message.get("message_id", "")),
        "sender": sender,
        "received_at": context.received_at,
        "chat_type": _chat_type(chat),
        "chat_title": chat.get("title") or "",
        "grantable": (f"@{chat['username'].lower()}",) if chat.get("username") and chat["type"] != "private" else (),
        "event_id": event_id,
    }


def _chat_type(chat: Json) -> ChatType:
    return {"private": ChatType.DIRECT, "channel": ChatType.CHANNEL}.get(chat["type"], ChatType.GROUP)


def _person(user: Json) -> Sender:
    name = " ".join(filter(None, (user.get("first_name"), user.get("last_name"))))
    return Sender(
        id=UserId(str(user.get("id", ""))),
        display=name or user.get("username") or "",
        is_bot=bool(user.get("is_bot")),
        language=user.get("language_code"),
    )


def _sender(message: Json) -> Sender:
    """Who wrote. A message in the name of a chat has a stand-in bot in `from`: then the chat itself is the sender."""
    chat = message["chat"]
    if spokes := message.get("sender_chat"):
        return Sender(
            id=UserId(str(spokes["id"])),
            display=message.get("author_signature") or spokes.get("title") or "",
            is_chat_admin=spokes["id"] == chat["id"],
        )
    return _person(message.get("from") or chat)


def _said(message: Json, event_id: str, context: Context) -> MessageReceived | None:
    sender = _sender(message)
    if sender.id == str(context.me.id):
        return None
    wording = wording_of(message, context.me)
    if wording is None:
        return None
    attachments = attachments_of(message)
    if not wording.text and not attachments and not ("text" in message or "caption" in message):
        return None  # somebody joined, a title changed, and the like
    return MessageReceived(
        **_common(message, sender, event_id, context),
        text=wording.text,
        attachments=attachments,
        mention=wording.mention,
        quoted=quoted_in(message),
        album=message.get("media_group_id"),
        sent_at=datetime.fromtimestamp(message["date"], UTC),
    )


def _edited(message: Json, event_id: str, context: Context) -> Edited | None:
    sender = _sender(message)
    if sender.id == str(context.me.id):
        return None
    wording = wording_of(message, context.me)
    # Without an edit date it is no person's edit: a reaction count or a live location changed.
    if wording is None or not message.get("edit_date") or not ("text" in message or "caption" in message):
        return None
    return Edited(
        **_common(message, sender, event_id, context),
        text=wording.text,
        version=str(message["edit_date"]),
        mention=wording.mention,
    )


def _pressed(query: Json, event_id: str, context: Context) -> ButtonClicked | None:
    message, action = query.get("message"), query.get("data")
    if not message or not action:
        return None  # an inline message of another chat, or a game
    common = _common(message, _person(query["from"]), event_id, context)
    handle = str(query["id"])
    return ButtonClicked(**(common | {"interaction": handle}), action=action, interaction_id=handle)


def _membership(change: Json, event_id: str, context: Context) -> Membership:
    member = change["new_chat_member"]
    present = member["status"] in _PRESENT or (member["status"] == "restricted" and bool(member.get("is_member")))
    return Membership(**_common(change, _person(change["from"]), event_id, context), present=present)


def _moved(message: Json, event_id: str, context: Context) -> Moved | None:
    """A group became a supergroup; its twin in the new chat says nothing more."""
    new = message.get("migrate_to_chat_id")
    if new is None:
        return None
    return moved(
        str(message["chat"]["id"]), str(new), context, message_id=str(message["message_id"]), event_id=event_id
    )


def moved(old: str, new: str, context: Context, *, message_id: str = "", event_id: str | None = None) -> Moved:
    """The move of one chat to its new id, told by a service message or found when sending."""
    return Moved(
        key=ConversationKey(context.channel_type, old),
        place=old,
        message_id=message_id,
        sender=Sender(id=UserId("")),
        received_at=context.received_at,
        chat_type=ChatType.GROUP,
        event_id=event_id,
        new_key=ConversationKey(context.channel_type, new),
        new_place=new,
    )
