"""Conversion of platform messages to what an agent reads, and the keys of the inbox. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from agent.core.ids import ConversationId, PersonId
from agent.core.messages import FilePart
from agent.core.outbox import OutgoingMessage
from agent.core.untrusted_text import one_line, whole
from agent.inbox import GroupPlace, Incoming
from gateway.access.policy import Role, Unanswered, person_name
from gateway.access.roles import RANK_NAMES
from gateway.channels.inbound import (
    Attachment,
    ButtonClicked,
    ChatType,
    Edited,
    Inbound,
    MessageReceived,
    Quoted,
    Received,
)
from gateway.channels.keys import ConversationKey, parts_of
from gateway.otel.context import accepted

AMBIENT = "ambient"  # the job that unasked turns are paid as
LONGEST_NAME = 255  # characters of a person's, a chat's or a file's name
NAMED_BY = 60  # characters of a message that tell which one is meant
LONGEST_QUOTE = 4_000
LONGEST_SHOWN = 64  # characters of the name of whoever is quoted
OWN_WORDS = "you"
NO_ACCOUNT = "account unknown"  # beside a bare name, so that nobody is called what the bot is


def made_whole(inbound: Inbound) -> Inbound:
    """The same with all that people have written in it made whole, and names on one line; a command gets it so."""
    sender = replace(inbound.sender, display=one_line(inbound.sender.display, LONGEST_NAME))
    title = one_line(inbound.chat_title, LONGEST_NAME)
    match inbound:
        case MessageReceived():
            return replace(
                inbound,
                sender=sender,
                chat_title=title,
                text=whole(inbound.text),
                quoted=_quoted_whole(inbound.quoted) if inbound.quoted is not None else None,
                attachments=_named_whole(inbound.attachments),
            )
        case Edited():
            return replace(inbound, sender=sender, chat_title=title, text=whole(inbound.text))
        case ButtonClicked():
            return replace(inbound, sender=sender, chat_title=title, action=whole(inbound.action))
        case _:
            return replace(inbound, sender=sender, chat_title=title)


def _quoted_whole(quoted: Quoted) -> Quoted:
    sender = quoted.sender
    return replace(
        quoted,
        text=whole(quoted.text),
        sender=replace(sender, display=one_line(sender.display, LONGEST_NAME)) if sender is not None else None,
        attachments=_named_whole(quoted.attachments),
    )


def _named_whole(attachments: Sequence[Attachment]) -> tuple[Attachment, ...]:
    return tuple(replace(one, name=one_line(one.name, LONGEST_NAME)) for one in attachments)


def incoming_from(
    said: MessageReceived,
    role: Role,
    files: Sequence[FilePart] = (),
    notes: Sequence[str] = (),
    *,
    roles: tuple[str, ...] = (),
    ambient: bool = False,
) -> Incoming:
    """The message as the inbox stores it; `notes` name what could not be read of it, `roles` are named roles."""
    return Incoming(
        text=with_notes(said.text, notes),
        person=person_of(said),
        display=said.sender.display,
        language=language_of(said),
        role=RANK_NAMES[role],
        roles=roles,
        chat_type=said.chat_type.value,
        place=said.chat_title,
        group=group_place_of(said),
        files=tuple(files),
        notes=tuple(notes),
        quoted=said.quoted.text[:LONGEST_QUOTE] if said.quoted is not None else None,
        quoted_from=_quoted_from(said),
        album=said.album,
        message_ref=None if said.interaction_id else said.message_id,
        interaction=said.interaction,
        zone=said.sender.zone,
        may_be_silent=ambient,
        ambient=ambient,
        job=AMBIENT if ambient else None,
        traceparent=accepted(said.traceparent) if said.traceparent else "",
        received_at=came_at(said),
    )


def group_place_of(inbound: Received) -> GroupPlace | None:
    """Where in a group it was said; None in a direct chat.

    A message that begins a thread stands in the channel, though its conversation is the thread's (Slack).
    """
    if inbound.chat_type is ChatType.DIRECT:
        return None
    own, channel = ConversationId(str(inbound.key)), ConversationKey(inbound.key.channel_type, inbound.place)
    begins_thread = parts_of(inbound.key.channel_id)[-1] == inbound.message_id
    stands_in_channel = inbound.thread_root is None and (inbound.key == channel or begins_thread)
    around = ConversationId(str(channel))
    return GroupPlace(channel=around, stream=around if stands_in_channel else own, root=inbound.thread_root)


def _quoted_from(said: MessageReceived) -> str:
    """The writer of what is quoted, for the model: "you" is the bot, everybody else a name and an account."""
    quoted = said.quoted
    if quoted is None or quoted.is_own:
        return OWN_WORDS if quoted is not None else ""
    sender = quoted.sender
    if sender is None or not (sender.id or sender.display):
        return ""
    account = f"{said.key.platform}:{sender.id}" if sender.id else NO_ACCOUNT
    return f"{sender.display[:LONGEST_SHOWN]} ({account})" if sender.display else account


def came_at(said: MessageReceived) -> datetime:
    """When it came, or would have come had anybody listened: a stop is for what went on or waited then."""
    if said.from_history and said.sent_at is not None:
        return min(said.sent_at, said.received_at)
    return said.received_at


def with_notes(text: str, notes: Sequence[str]) -> str:
    """The message and what could not be read of it."""
    return "\n".join((*((text,) if text else ()), *notes))


def notice_for(said: MessageReceived | Edited, text: str) -> OutgoingMessage:
    """The gateway's word on this message: below it in a group, and for its sender alone where the platform can."""
    in_direct_chat = said.chat_type is ChatType.DIRECT
    has_message = isinstance(said, Edited) or not said.interaction_id
    return OutgoingMessage(
        text=text,
        kind="notice",
        reply_to=said.message_id if has_message and not in_direct_chat else None,
        answers=said.message_id if has_message else None,
        private_to=None if in_direct_chat and said.interaction is None else person_of(said),
        interaction=said.interaction,
        verbatim=True,
    )


def first_words(said: Inbound) -> str:
    """The beginning of what somebody sent, to name that message to them; "" where there is nothing to read."""
    if not isinstance(said, MessageReceived):
        return ""
    text = one_line(said.text) or next((one.name for one in said.attachments if one.name), "")
    if len(text) <= NAMED_BY:
        return text
    return text[:NAMED_BY].rsplit(" ", 1)[0].rstrip() + "…"


def unanswered(inbound: Received, why: str, at: datetime) -> Unanswered:
    """The record of a refusal for `/why`."""
    return Unanswered(message_id=inbound.message_id, person=person_name(inbound), why=why, at=at)


def person_of(inbound: Received) -> PersonId:
    return PersonId(person_name(inbound))


def language_of(inbound: Received) -> str:
    """The person's language as the platform tells it, without region; English where it does not."""
    return (inbound.sender.language or "en").partition("-")[0].lower()


# Keys of the inbox: two deliveries with one key are the same thing.


def dedup_key(inbound: Received) -> str:
    """`<channel_type>:<place>:<message id>`, with `:e<version>` for an edit and `:i<id>` for an interaction.

    A live event, its twin and the same message read from history have the same key.
    """
    key = _message_key(inbound, inbound.message_id)
    match inbound:
        case Edited():
            return f"{key}:e{inbound.version}"
        case ButtonClicked():
            return f"{key}:i{inbound.interaction_id}"
        case MessageReceived(interaction_id=str() as interaction):
            return f"{key}:i{interaction}"
        case _:
            return key


def quoted_key(said: MessageReceived) -> str | None:
    """The key of the message that it quotes, if that stands in the same place."""
    quoted = said.quoted
    return _message_key(said, quoted.message_id) if quoted is not None and quoted.message_id else None


def _message_key(inbound: Received, message_id: str) -> str:
    return f"{inbound.key.channel_type}:{inbound.place}:{message_id}"


def event_key(inbound: Received) -> str | None:
    """The platform's own update or event id, unique within the account."""
    return f"{inbound.key.channel_type}:{inbound.event_id}" if inbound.event_id else None
