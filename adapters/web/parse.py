"""Posts of the page as inbound values. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from adapters.web.messages import ShownFile, again
from gateway.channels.adapter import SignedIn
from gateway.channels.inbound import Attachment, ButtonClicked, Mention, MessageReceived, Sender
from gateway.channels.keys import ConversationKey
from gateway.channels.media import kind_of

Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{8,64}$")]  # made by the page: a repeat of a post has the same

TEXT_LIMIT = 200_000


class Posted(BaseModel):
    """A message. `files` were uploaded before, `zone` is the IANA time zone of the page."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Id
    text: str = Field(default="", max_length=TEXT_LIMIT)
    zone: str | None = Field(default=None, max_length=64)  # where the browser is
    files: tuple[str, ...] = Field(default=(), max_length=20)


class PostedName(BaseModel):
    """The new name of a conversation; "" for what its first message says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str = Field(max_length=60)


class PostedPress(BaseModel):
    """A button was pressed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Id
    message: str
    action: str


class PostedStop(BaseModel):
    """Stop what is running."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Id


class PostedAgain(BaseModel):
    """Answer once more; `message` is the answer that a person was not content with."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Id
    message: str = Field(max_length=200)


def said(
    key: ConversationKey,
    posted: Posted,
    files: Sequence[ShownFile],
    *,
    person: SignedIn,
    languages: str | None,
    at: datetime,
) -> MessageReceived:
    return MessageReceived(
        key=key,
        place=key.channel_id,
        message_id=posted.id,
        sender=replace(sender(person, languages), zone=posted.zone),
        received_at=at,
        sent_at=at,
        text=posted.text,
        attachments=tuple(
            Attachment(
                kind=kind_of(file.mime_type), handle=file.id, name=file.name, mime_type=file.mime_type, size=file.size
            )
            for file in files
        ),
        mention=Mention.DIRECT,
    )


def stop(
    key: ConversationKey, posted: PostedStop, *, person: SignedIn, languages: str | None, at: datetime
) -> MessageReceived:
    """The stop button is the command of that name, without a message on the page.

    It carries no interaction: the end of the turn tells that it was stopped, and another answer would be noise.
    """
    return MessageReceived(
        key=key,
        place=key.channel_id,
        message_id=posted.id,
        sender=sender(person, languages),
        received_at=at,
        sent_at=at,
        text="/stop",
        mention=Mention.DIRECT,
        interaction_id=posted.id,
    )


def retry(
    key: ConversationKey, posted: PostedAgain, asked: str, *, person: SignedIn, languages: str | None, at: datetime
) -> MessageReceived:
    """The button below the newest answer is the command of that name, without a message on the page.

    Its id names the message that is answered once more: a stop of that answer is shown there.
    """
    return MessageReceived(
        key=key,
        place=key.channel_id,
        message_id=again(asked, posted.id),
        sender=sender(person, languages),
        received_at=at,
        sent_at=at,
        text="/retry",
        mention=Mention.DIRECT,
    )


def pressed(
    key: ConversationKey, posted: PostedPress, *, person: SignedIn, languages: str | None, at: datetime
) -> ButtonClicked:
    return ButtonClicked(
        key=key,
        place=key.channel_id,
        message_id=posted.message,
        sender=sender(person, languages),
        received_at=at,
        action=posted.action,
        interaction=posted.id,
        interaction_id=posted.id,
    )


def sender(person: SignedIn, languages: str | None) -> Sender:
    return Sender(id=person.id, display=person.display, language=first_language(languages))


def first_language(languages: str | None) -> str | None:
    """The tag the browser puts first in `Accept-Language`: "de" of "de-DE,de;q=0.9,en;q=0.8"."""
    first = (languages or "").split(",")[0].split(";")[0].strip()
    tag = first.partition("-")[0].lower()
    return tag if tag.isalpha() and len(tag) in {2, 3} else None
