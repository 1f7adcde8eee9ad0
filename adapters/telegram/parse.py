"""A Telegram update, as raw JSON, as inbound values. Pure; never decides who may talk."""

import mimetypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

from adapters.telegram.render import index_at
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
from gateway.channels.keys import ConversationKey, UserId, place_id

# Text of a Telegram message: without the bot's name, with its address to the bot. Pure.

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Me:
    """The bot itself, as getMe tells."""

    id: int
    username: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    text: str
    mention: Mention


CHAT_TYPES = {"private": ChatType.DIRECT, "channel": ChatType.CHANNEL}  # every other is a group


def wording_of(message: Json, me: Me) -> Wording | None:
    """The text as the person meant it; None for a command that names another bot."""
    raw = message.get("text")
    text, entities = (
        (raw, message.get("entities")) if raw is not None else (message.get("caption"), message.get("caption_entities"))
    )
    if text is None:
        text = _spelled_out(message)
    cuts: list[tuple[int, int]] = []
    direct = False
    for entity in entities or ():
        start = index_at(text, entity["offset"])
        end = index_at(text, entity["offset"] + entity["length"])
        kind, word = entity["type"], text[start:end]
        named = kind == "mention" and word[1:].lower() == me.username.lower()
        if named or (kind == "text_mention" and entity.get("user", {}).get("id") == me.id):
            direct = True
            cuts.append((start, end))
        elif kind == "bot_command" and start == 0:
            command, at, bot = word.partition("@")
            if at and bot.lower() != me.username.lower():
                return None
            # In a group one without a name may be another bot's; the gateway knows its own (`access.policy.decide`).
            direct = direct or bool(at) or (message.get("chat") or {}).get("type") == "private"
            if at:
                cuts.append((len(command), end))
    if direct:
        return Wording(text=_without(text, cuts), mention=Mention.DIRECT)
    return Wording(text=text, mention=Mention.IMPLICIT if _answers(message, me) else Mention.NONE)


def _answers(message: Json, me: Me) -> bool:
    original = message.get("reply_to_message") or {}
    return "forum_topic_created" not in original and original.get("from", {}).get("id") == me.id


def is_to_others(message: Json, me: Me) -> bool:
    """Whether it names other people, or replies to one."""
    text = message.get("text") or message.get("caption") or ""
    for entity in (*(message.get("entities") or ()), *(message.get("caption_entities") or ())):
        start, end = index_at(text, entity["offset"]), index_at(text, entity["offset"] + entity["length"])
        kind = entity["type"]
        if kind == "mention" and text[start:end][1:].lower() != me.username.lower():
            return True
        if kind == "text_mention" and entity.get("user", {}).get("id") != me.id:
            return True
    original = message.get("reply_to_message") or {}
    return bool(original) and "forum_topic_created" not in original and original.get("from", {}).get("id") != me.id


def _without(text: str, cuts: Sequence[tuple[int, int]]) -> str:
    """The text without those ranges, and without the gap each leaves."""
    if not cuts:
        return text
    kept, position = "", 0
    for start, end in cuts:
        kept += text[position:start]
        if not kept.strip():
            end += len(text[end:]) - len(text[end:].lstrip(" ,:"))  # "@bot, hello"
        elif text[end : end + 1] in (",", ".", ":", ";", "!", "?"):
            kept = kept.rstrip()
        elif kept[-1].isspace() and text[end : end + 1] == " ":
            end += 1
        position = end
    return (kept + text[position:]).strip()


def _spelled_out(message: Json) -> str:
    """Words for what is neither text nor file, so that nothing a person sends is silently lost."""
    if sticker := message.get("sticker"):
        return str(sticker.get("emoji") or "[sticker]")
    if dice := message.get("dice"):
        return f"{dice.get('emoji', '')} {dice.get('value', '')}".strip()
    if venue := message.get("venue"):
        return f"[venue: {venue.get('title')}, {venue.get('address')}, {_position(venue.get('location') or {})}]"
    if location := message.get("location"):
        return f"[location: {_position(location)}]"
    if contact := message.get("contact"):
        name = " ".join(filter(None, (contact.get("first_name"), contact.get("last_name"))))
        return f"[contact: {name}, {contact.get('phone_number')}]"
    if poll := message.get("poll"):
        options = "; ".join(str(option.get("text")) for option in poll.get("options", ()))
        return f"[poll: {poll.get('question')} ({options})]"
    return _rich_text(message.get("rich_message"))


def _position(location: Json) -> str:
    return f"{location.get('latitude')}, {location.get('longitude')}"


def _rich_text(value: object) -> str:
    """The words of a received rich message, one line a block."""
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence):
        return "".join(_rich_text(part) for part in value)
    if not isinstance(value, Mapping):
        return ""
    if "cells" in value:
        rows = (" | ".join(_rich_text(cell) for cell in row) for row in value["cells"])
        return "\n".join(rows) + "\n"
    if children := value.get("blocks") or value.get("items"):
        label = f"{value['label']} " if value.get("label") else ""
        return label + "".join(_rich_text(child).rstrip("\n") + "\n" for child in children)
    return _rich_text(value.get("text")) or _rich_text(value.get("expression"))


# Files of a Telegram message, from its raw JSON. Pure.

Kind = Literal["audio", "image", "video", "file"]


def attachments_of(message: Mapping[str, Any]) -> tuple[Attachment, ...]:
    """Every file of the message; an album arrives as one message a file."""
    found: list[Attachment] = []
    if sizes := message.get("photo"):
        largest = max(sizes, key=lambda size: size.get("width", 0) * size.get("height", 0))
        found.append(_attachment(largest, "image", "image/jpeg", "photo"))
    # An animation comes with a document of the same file, for clients that know no animations.
    if animation := message.get("animation"):
        found.append(_attachment(animation, "video", "video/mp4", "animation"))
    elif document := message.get("document"):
        mime_type = document.get("mime_type") or "application/octet-stream"
        found.append(_attachment(document, _kind(mime_type), mime_type, "document"))
    if voice := message.get("voice"):
        found.append(_attachment(voice, "audio", "audio/ogg", "voice"))
    if audio := message.get("audio"):
        found.append(_attachment(audio, "audio", "audio/mpeg", "audio"))
    if video := message.get("video"):
        found.append(_attachment(video, "video", "video/mp4", "video"))
    if note := message.get("video_note"):
        found.append(_attachment(note, "video", "video/mp4", "video-note"))
    return tuple(found)


def _kind(mime_type: str) -> Kind:
    family = mime_type.partition("/")[0]
    return family if family in ("audio", "image", "video") else "file"  # type: ignore[return-value]


def _attachment(file: Mapping[str, Any], kind: Kind, usual_type: str, stem: str) -> Attachment:
    mime_type = file.get("mime_type") or usual_type
    name = str(file.get("file_name") or "").replace("\\", "/").rpartition("/")[2].strip(". \0")
    if not name:
        suffix = ".jpg" if mime_type == "image/jpeg" else mimetypes.guess_extension(mime_type) or ""
        name = f"{stem}-{file.get('file_unique_id', '')}{suffix}"
    return Attachment(
        kind=kind, handle=str(file["file_id"]), name=name, mime_type=mime_type, size=file.get("file_size")
    )


# The message that a Telegram message replies to, in the same chat or in another one, from its raw JSON. Pure.


def quoted_in(message: Json, me: Me) -> Quoted | None:
    """Its text, or the part that was picked out, its files and its sender; None where it has neither text nor file."""
    picked = str((message.get("quote") or {}).get("text") or "")
    original = message.get("reply_to_message") or {}
    # The first messages of a topic hang on the service message that opened it.
    if "forum_topic_created" in original:
        return None
    if not original:
        return _quoted_from_elsewhere(message.get("external_reply") or {}, picked)
    text = picked or str(original.get("text") or original.get("caption") or _spelled_out(original))
    attachments = attachments_of(original)
    if not text and not attachments:
        return None
    is_own = (original.get("from") or {}).get("id") == me.id
    return Quoted(
        text=text,
        attachments=attachments,
        sender=_sender(original),
        is_own=is_own,
        message_id=str(original["message_id"]) if "message_id" in original else None,
    )


def _quoted_from_elsewhere(original: Json, picked: str) -> Quoted | None:
    """A message of another chat, of which Telegram tells the files, and of the text what was picked out."""
    text, attachments = picked or _spelled_out(original), attachments_of(original)
    if not text and not attachments:
        return None
    return Quoted(text=text, attachments=attachments, sender=_origin(original.get("origin") or {}))


def _origin(origin: Json) -> Sender | None:
    """The sender of a message of another chat; of a person who hides the account, the name alone."""
    if user := origin.get("sender_user"):
        return _person(user)
    if chat := origin.get("sender_chat") or origin.get("chat"):
        return Sender(id=UserId(str(chat["id"])), display=origin.get("author_signature") or chat.get("title") or "")
    if name := origin.get("sender_user_name"):
        return Sender(id=UserId(""), display=str(name))
    return None


# Updates that Telegram is asked for; it need not send any other.
UPDATES = (
    "message",
    "edited_message",
    "channel_post",
    "edited_channel_post",
    "callback_query",
    "my_chat_member",
    "chat_member",  # only of groups that the bot administers
)
_PRESENT = {"creator", "administrator", "member"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Facts that an update does not tell by itself."""

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
    """`<chat>[:<topic>]`."""
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
        "chat_type": CHAT_TYPES.get(chat["type"], ChatType.GROUP),
        "chat_title": chat.get("title") or "",
        "grantable": (f"@{chat['username'].lower()}",) if chat.get("username") and chat["type"] != "private" else (),
        "event_id": event_id,
    }


# Roles in a group: the status, and the title that an administrator has there. Pure.

ADMINISTRATORS = ("creator", "administrator")
_NOBODY: frozenset[str] = frozenset()
Roles = Mapping[str, frozenset[str]]  # of a group's administrators, by their ids


def roles_of(members: Sequence[Json]) -> Roles:
    """The roles that getChatAdministrators tells. Raises ValueError for an answer of another form."""
    try:
        return {
            str(member["user"]["id"]): _roles(member["status"], member.get("custom_title"))
            for member in members
            if member["status"] in ADMINISTRATORS
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a list of administrators ({type(error).__name__})") from error


def with_roles(inbound: Inbound, roles: Roles) -> Inbound:
    """The same with the roles of its sender."""
    held = roles.get(inbound.sender.id, _NOBODY)
    if not held:
        return inbound
    return replace(inbound, sender=replace(inbound.sender, is_chat_admin=True, platform_roles=held))


def has_roles(inbound: Inbound) -> bool:
    """Whether its sender may have roles that the update does not tell: a person in a group."""
    acts = isinstance(inbound, MessageReceived | Edited | ButtonClicked)
    return acts and inbound.chat_type is ChatType.GROUP and inbound.sender.id.isdecimal()


def changed_roles_in(update: Json) -> str | None:
    """The chat whose administrators an update changes, or that the bot comes to or leaves; None for any other."""
    if "my_chat_member" in update:
        return place_of(update)
    change = update.get("chat_member")
    if not isinstance(change, Mapping):
        return None
    members = (change.get("old_chat_member"), change.get("new_chat_member"))
    statuses = [member.get("status") for member in members if isinstance(member, Mapping)]
    return place_of(update) if any(status in ADMINISTRATORS for status in statuses) else None


def _roles(status: str, title: object) -> frozenset[str]:
    """A title that reads like a status is none: whoever may promote others gives them titles as they like."""
    named = str(title or "").strip()
    return frozenset({status} if not named or named.casefold() in ADMINISTRATORS else {status, named})


def _person(user: Json) -> Sender:
    name = " ".join(filter(None, (user.get("first_name"), user.get("last_name"))))
    return Sender(
        id=UserId(str(user.get("id", ""))),
        display=name or user.get("username") or "",
        is_bot=bool(user.get("is_bot")),
        language=user.get("language_code"),
    )


def _sender(message: Json) -> Sender:
    """The sender. A message in the name of a chat has a stand-in bot in `from`: then the chat itself is the sender."""
    chat = message["chat"]
    if spokes := message.get("sender_chat"):
        anonymous = spokes["id"] == chat["id"]
        # In a channel it is the name that its author goes by, which everybody chooses for themselves.
        title = message.get("author_signature") if chat.get("type") != "channel" else None
        return Sender(
            id=UserId(str(spokes["id"])),
            display=message.get("author_signature") or spokes.get("title") or "",
            is_chat_admin=anonymous,
            # Who posts in the group's name is an administrator of it, and shown by title alone.
            platform_roles=_roles("administrator", title) if anonymous else _NOBODY,
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
        to_others=is_to_others(message, context.me),
        quoted=quoted_in(message, context.me),
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
