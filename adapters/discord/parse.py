"""Discord's messages as inbound values. Pure: gateway events and history rows are the same JSON.

None for the bot's own words and for what is no message of a person (joins, pins, embeds that unfold).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from adapters.discord.commands import UMBRELLA
from adapters.discord.limits import moment_of
from gateway.channels.inbound import (
    Attachment,
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

Payload = Mapping[str, Any]

DEFAULT, REPLY = 0, 19  # the message types that people write
THREADS = (10, 11, 12)
ADMINISTRATOR, MANAGE_GUILD = 1 << 3, 1 << 5  # permissions that make somebody an admin of the chat


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """A channel or thread as the adapter knows it. `place` is what grants are given for: a thread's parent."""

    channel_id: str
    place: str
    guild_id: str | None = None
    title: str = ""
    own_thread: bool = False  # the bot started it
    owner_id: str | None = None  # of the guild
    admin_roles: frozenset[str] = frozenset()
    own_roles: frozenset[str] = frozenset()  # the bot's own, which stand for it when mentioned

    @property
    def parent(self) -> str | None:
        """The channel that this is a thread of: its key does not tell."""
        return self.place if self.place != self.channel_id else None

    @property
    def around(self) -> str | None:
        """The server that it is in."""
        return self.guild_id if self.guild_id != self.channel_id else None

    @property
    def chat_type(self) -> ChatType:
        return ChatType.DIRECT if self.guild_id is None else ChatType.GROUP

    @property
    def grantable(self) -> tuple[str, ...]:
        return (self.guild_id,) if self.guild_id else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The bot's account: its user, and the channel type its keys carry."""

    channel_type: str
    user_id: str


def where_of_channel(channel: Payload, *, me: str) -> Where:
    """The place in a channel object itself (an interaction's, or one that was fetched)."""
    channel_id, guild_id = str(channel["id"]), channel.get("guild_id")
    thread = channel.get("type") in THREADS
    return Where(
        channel_id=channel_id,
        place=str(channel.get("parent_id") or channel_id) if thread else channel_id,
        guild_id=str(guild_id) if guild_id else None,
        title=f"#{channel['name']}" if channel.get("name") else "",
        own_thread=thread and str(channel.get("owner_id")) == me,
    )


def said(
    message: Payload, where: Where, account: Account, *, received_at: datetime, from_history: bool = False
) -> MessageReceived | None:
    """Somebody wrote; None for the bot itself and for what says nothing."""
    if message.get("type", DEFAULT) not in (DEFAULT, REPLY) or _author(message) == account.user_id:
        return None
    text, mention = _addressed(message, where, account)
    attachments = _attachments(message, where.channel_id)
    text = text or _stickers(message)
    quoted = _quoted(message, where, account)
    if not text and not attachments and quoted is None and mention is not Mention.DIRECT:
        return None  # without the Message Content intent this is all that is shown of what others say
    return MessageReceived(
        key=ConversationKey(account.channel_type, where.channel_id),
        place=where.place,
        parent=where.parent,
        around=where.around,
        message_id=str(message["id"]),
        sender=sender_of(message["author"], where, message.get("member"), webhook=bool(message.get("webhook_id"))),
        received_at=received_at,
        chat_type=where.chat_type,
        chat_title=where.title,
        grantable=where.grantable,
        thread_root=where.channel_id if where.parent is not None else None,  # a thread has the id of what it hangs on
        text=text,
        attachments=attachments,
        mention=mention,
        to_others=_is_to_others(message, where, account),
        quoted=quoted,
        sent_at=moment_of(str(message["id"])),
        from_history=from_history,
    )


def edited(message: Payload, where: Where, account: Account, *, received_at: datetime) -> Edited | None:
    """A person changed a message; None for the bot's own, and for updates that change no words (embeds, pins)."""
    if not message.get("edited_timestamp") or "content" not in message or "author" not in message:
        return None
    if message.get("type", DEFAULT) not in (DEFAULT, REPLY) or _author(message) == account.user_id:
        return None
    text, mention = _addressed(message, where, account)
    return Edited(
        key=ConversationKey(account.channel_type, where.channel_id),
        place=where.place,
        parent=where.parent,
        around=where.around,
        message_id=str(message["id"]),
        sender=sender_of(message["author"], where, message.get("member"), webhook=bool(message.get("webhook_id"))),
        received_at=received_at,
        chat_type=where.chat_type,
        chat_title=where.title,
        grantable=where.grantable,
        text=text,
        version=str(message["edited_timestamp"]),
        mention=mention,
    )


def deleted(message_id: str, where: Where, account: Account, *, received_at: datetime) -> Deleted:
    """A message went. Discord does not tell who did it: the sender's id is empty."""
    return Deleted(
        key=ConversationKey(account.channel_type, where.channel_id),
        place=where.place,
        parent=where.parent,
        around=where.around,
        message_id=message_id,
        sender=Sender(id=UserId("")),
        received_at=received_at,
        chat_type=where.chat_type,
        chat_title=where.title,
        grantable=where.grantable,
    )


def membership(where: Where, account: Account, *, present: bool, received_at: datetime) -> Membership:
    return Membership(
        key=ConversationKey(account.channel_type, where.channel_id),
        place=where.place,
        parent=where.parent,
        around=where.around,
        message_id="",
        sender=Sender(id=UserId("")),
        received_at=received_at,
        chat_type=where.chat_type,
        chat_title=where.title,
        grantable=where.grantable,
        present=present,
    )


def _author(message: Payload) -> str:
    return str(message["author"]["id"])


def _addressed(message: Payload, where: Where, account: Account) -> tuple[str, Mention]:
    """The text without the bot's mention, and how the message addresses it."""
    text = str(message.get("content") or "")
    names = [rf"<@!?{account.user_id}>", *(rf"<@&{role}>" for role in where.own_roles)]
    bare, found = re.subn(rf"[ \t]?(?:{'|'.join(names)})", "", text)
    if found:
        return bare.strip(), Mention.DIRECT
    replied = message.get("referenced_message")
    to_bot = message.get("type") == REPLY and replied and str(replied["author"]["id"]) == account.user_id
    return text, Mention.IMPLICIT if to_bot or where.own_thread else Mention.NONE


def _is_to_others(message: Payload, where: Where, account: Account) -> bool:
    """Whether it names other people or a role of theirs, or replies to one."""
    named = {str(user["id"]) for user in message.get("mentions") or ()} - {account.user_id}
    named |= {str(role) for role in message.get("mention_roles") or ()} - where.own_roles
    replied = message.get("referenced_message") if message.get("type") == REPLY else None
    return bool(named) or (replied is not None and _author(replied) != account.user_id)


def sender_of(user: Payload, where: Where, member: Payload | None, *, webhook: bool = False) -> Sender:
    """The author. Events and interactions bring the `member` along; a history has none, and so nobody's roles."""
    roles = {str(role) for role in (member or {}).get("roles", ())}
    granted = int((member or {}).get("permissions") or 0)  # told by interactions only
    admin = (
        user["id"] == where.owner_id
        or not roles.isdisjoint(where.admin_roles)
        or bool(granted & (ADMINISTRATOR | MANAGE_GUILD))
    )
    return Sender(
        id=UserId(str(user["id"])),
        display=str((member or {}).get("nick") or user.get("global_name") or user.get("username") or ""),
        is_bot=bool(user.get("bot")) or webhook,
        is_chat_admin=where.guild_id is not None and admin,
        platform_roles=frozenset(roles) if where.guild_id is not None else frozenset(),
    )


def _forwarded(message: Payload) -> Payload:
    """The content of a forwarded message; the message around it is empty."""
    snapshots = message.get("message_snapshots") or ()
    return snapshots[0].get("message", {}) if snapshots else {}


def _quoted(message: Payload, where: Where, account: Account) -> Quoted | None:
    """The message replied to, else the one forwarded, of which Discord tells no author; None where it says nothing."""
    replied = message.get("referenced_message") if message.get("type") == REPLY else None
    if not replied:
        forwarded = _forwarded(message)
        quoted = Quoted(text=_words(forwarded), attachments=_attachments(forwarded, where.channel_id, message))
    else:
        forwarded = _forwarded(replied)
        quoted = Quoted(
            text=_words(replied) or _words(forwarded),
            attachments=_attachments(replied, where.channel_id) + _attachments(forwarded, where.channel_id, replied),
            sender=sender_of(replied["author"], where, replied.get("member"), webhook=bool(replied.get("webhook_id"))),
            is_own=_author(replied) == account.user_id,
            message_id=str(replied["id"]),
        )
    return quoted if quoted.text or quoted.attachments else None


def _words(message: Payload) -> str:
    return str(message.get("content") or "") or _stickers(message)


def _stickers(message: Payload) -> str:
    return " ".join(f"(sticker: {sticker.get('name', '?')})" for sticker in message.get("sticker_items") or ())


def _attachments(message: Payload, channel_id: str, reminder_target: Payload | None = None) -> tuple[Attachment, ...]:
    return tuple(
        attachment_of(found, channel_id, str((reminder_target or message)["id"]))
        for found in message.get("attachments") or ()
    )


def attachment_of(found: Payload, channel_id: str, message_id: str) -> Attachment:
    """The handle keeps where the file hangs, because the address in it stops working after a day."""
    mime_type = str(found.get("content_type") or "application/octet-stream").partition(";")[0]
    return Attachment(
        kind=_kind(mime_type),
        handle=f"{channel_id} {message_id} {found['id']} {found['url']}",
        name=str(found.get("filename") or "file"),
        mime_type=mime_type,
        size=int(found["size"]) if found.get("size") is not None else None,
    )


def _kind(mime_type: str) -> Literal["audio", "image", "video", "file"]:
    match mime_type.partition("/")[0]:
        case "audio":
            return "audio"
        case "image":
            return "image"
        case "video":
            return "video"
        case _:
            return "file"


# Slash commands and pressed buttons as inbound values. Pure.

COMMAND, COMPONENT, AUTOCOMPLETE = 2, 3, 4  # interaction types
SUB_COMMAND, SUB_COMMAND_GROUP, ATTACHMENT_OPTION = 1, 2, 11


@dataclass(frozen=True, slots=True)
class Handle:
    """The handle for answers to an interaction, as opaque text for the gateway (it outlives a restart)."""

    kind: Literal["slash", "button"]
    id: str
    token: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.id}.{self.token}"

    @classmethod
    def read(cls, text: str) -> "Handle | None":
        kind, _, rest = text.partition(".")
        number, _, token = rest.partition(".")
        if kind == "slash" and number.isdecimal() and token:
            return cls("slash", number, token)
        if kind == "button" and number.isdecimal() and token:
            return cls("button", number, token)
        return None


def command(interaction: Payload, where: Where, account: Account, *, received_at: datetime) -> MessageReceived | None:
    """A slash command as the text somebody would have written: `/name value value`. None for menu commands.

    The same of one that is still being written.
    """
    data = interaction.get("data") or {}
    if interaction.get("type") not in (COMMAND, AUTOCOMPLETE) or data.get("type", 1) != 1:
        return None
    words, files = _options(data.get("options") or ())
    resolved = (data.get("resolved") or {}).get("attachments") or {}
    number = str(interaction["id"])
    return MessageReceived(
        key=ConversationKey(account.channel_type, where.channel_id),
        place=where.place,
        parent=where.parent,
        around=where.around,
        message_id=number,
        sender=_person(interaction, where),
        received_at=received_at,
        chat_type=where.chat_type,
        chat_title=where.title,
        grantable=where.grantable,
        interaction=str(Handle("slash", number, str(interaction["token"]))),
        text=_typed(str(data["name"]), words),
        attachments=tuple(
            attachment_of(resolved[file], where.channel_id, number) for file in files if file in resolved
        ),
        mention=Mention.DIRECT,
        sent_at=moment_of(number),
        interaction_id=number,
    )


def press(interaction: Payload, where: Where, account: Account, *, received_at: datetime) -> ButtonClicked | None:
    """A button of ours was pressed."""
    data, message = interaction.get("data") or {}, interaction.get("message") or {}
    if interaction.get("type") != COMPONENT or "custom_id" not in data or "id" not in message:
        return None
    number = str(interaction["id"])
    return ButtonClicked(
        key=ConversationKey(account.channel_type, where.channel_id),
        place=where.place,
        parent=where.parent,
        around=where.around,
        message_id=str(message["id"]),
        sender=_person(interaction, where),
        received_at=received_at,
        chat_type=where.chat_type,
        chat_title=where.title,
        grantable=where.grantable,
        interaction=str(Handle("button", number, str(interaction["token"]))),
        action=str(data["custom_id"]),
        interaction_id=number,
    )


def _typed(name: str, words: Sequence[str]) -> str:
    """The words somebody would have typed; `/tieline status` stands for `/status`, and without words for `/help`."""
    if name == UMBRELLA:
        return f"/{' '.join(words).strip().removeprefix('/').strip() or 'help'}"
    return " ".join([f"/{name}", *words])


def person_of(interaction: Payload) -> str:
    """The id of whoever acted."""
    return str((interaction.get("member") or interaction)["user"]["id"])


def _person(interaction: Payload, where: Where) -> Sender:
    member = interaction.get("member")
    user = (member or interaction)["user"]
    return replace(sender_of(user, where, member), language=interaction.get("locale"))


def _options(options: Sequence[Payload]) -> tuple[list[str], list[str]]:
    """The values in the order they were given, and the ids of attached files."""
    words: list[str] = []
    files: list[str] = []
    for option in options:
        kind = option.get("type")
        if kind in (SUB_COMMAND, SUB_COMMAND_GROUP):
            inner_words, inner_files = _options(option.get("options") or ())
            words += [str(option["name"]), *inner_words]
            files += inner_files
        elif kind == ATTACHMENT_OPTION:
            files.append(str(option["value"]))
        else:
            value = option.get("value")
            words.append({True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value))
    return words, files
