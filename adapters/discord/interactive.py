"""Slash commands and pressed buttons of Discord as the gateway's inbound words. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from adapters.discord.commands import UMBRELLA
from adapters.discord.limits import moment_of
from adapters.discord.parse import Account, Payload, Where, attachment_of, sender_of
from gateway.channels.inbound import ButtonClicked, Mention, MessageReceived, Sender
from gateway.channels.keys import ConversationKey

COMMAND, COMPONENT, AUTOCOMPLETE = 2, 3, 4  # interaction types
SUB_COMMAND, SUB_COMMAND_GROUP, ATTACHMENT_OPTION = 1, 2, 11


@dataclass(frozen=True, slots=True)
class Handle:
    """How an interaction is answered, as the opaque text that goes through the gateway (it outlives a restart)."""

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
    """What somebody would have written; `/tieline status` stands for `/status`."""
    if name == UMBRELLA:
        return f"/{' '.join(words).strip().removeprefix('/')}"
    return " ".join([f"/{name}", *words])


def person_of(interaction: Payload) -> str:
    """The id of whoever acted."""
    return str((interaction.get("member") or interaction)["user"]["id"])


def _person(interaction: Payload, where: Where) -> Sender:
    member = interaction.get("member")
    user = (member or interaction)["user"]
    sender = sender_of(user, where, member)
    return Sender(
        id=sender.id,
        display=sender.display,
        is_bot=sender.is_bot,
        language=interaction.get("locale"),
        is_chat_admin=sender.is_chat_admin,
    )


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
