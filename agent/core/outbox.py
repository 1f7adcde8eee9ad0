"""The port through which an agent speaks: rows for what must arrive, calls for what may vanish.

What must arrive (replies, notices) is written as an `outbox` row in the turn's own transaction (`agent.storage`), and
within `committing()`, so that delivery goes on with it. Everything else is best effort: it never fails a turn.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal, Protocol

from agent.core.events import Event
from agent.core.ids import CostAttribution, PersonId


@dataclass(frozen=True, slots=True, kw_only=True)
class Button:
    """`action` comes back when it is pressed: at most 64 bytes (Telegram's callback_data)."""

    label: str
    action: str
    style: Literal["plain", "primary", "danger"] = "plain"


SENT = "files/sent"  # below the data directory: what the bot sends; tidied up with what people have sent
Buttons = tuple[tuple[Button, ...], ...]  # rows of them


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRef:
    """A file to send; `path` is relative to the data directory. `voice`: it is shown as a voice message."""

    path: str
    name: str
    mime_type: str
    voice: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenText:
    """Words, in Markdown, that are read out when their row is delivered, on the account of `payer`.

    `key` is their own: the sound is kept in a folder that follows from it, so that it is found again and can be erased.
    """

    text: str
    key: str
    payer: CostAttribution

    @property
    def folder(self) -> str:
        """Where the sound is kept, relative to the data directory."""
        return f"{SENT}/{blake2b(f'spoken:{self.key}'.encode(), digest_size=8).hexdigest()}"


# The tone of a notice on an answer: it was stopped, or there is none. "behind": a status line tells that a message
# waits behind a question.
Tone = Literal["", "stopped", "problem", "behind"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingMessage:
    """One thing to say, in Markdown, of any length: delivery splits, renders and paces it.

    `reply_to` is the platform's id of the message answered, where the answer shows it; `answers` is that id in any chat
    (None for what nobody asked for). `private_to` asks for an ephemeral message to that person, if the platform has
    one.

    A `notice` is the gateway speaking (errors, answers to commands). An `answer` is what the model says at the end of
    its work, and `answer_of` alone makes it. A `reply` is any other word of the model: before a question, or by a tool.
    One that is `spoken` has no text: it becomes a voice message, or a sentence that there is none.
    """

    text: str
    kind: Literal["answer", "reply", "notice"]
    tone: Tone = ""
    reply_to: str | None = None
    answers: str | None = None
    private_to: PersonId | None = None
    interaction: str | None = None
    buttons: Buttons = ()
    files: tuple[FileRef, ...] = ()
    spoken: SpokenText | None = None
    verbatim: bool = False  # plain text: no Markdown is looked for
    without_buttons: str = ""  # a last line where the platform has none: how to answer by text
    while_open: str = ""  # stands below the text until the question has its answer: how to answer, and until when


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A short question with buttons; only `asked_of` (None: anybody) may answer, text "yes" counts.

    `grave`: what "yes" does cannot be taken back, so that button is the one to be wary of. The last `asides` of the
    choices are no answers but ways around one (skip, decline). `takes_words`: what else that person writes is the
    answer; only a question that is written down (`ToolContext.elicit`) can do that.
    """

    prompt: str
    asked_of: PersonId | None
    choices: tuple[str, ...] = ("yes", "no")
    timeout_s: float = 120.0
    interaction: str | None = None
    grave: bool = False
    asides: int = 0
    takes_words: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """`choice` is None when nobody answered in time: a denial."""

    choice: str | None
    by: PersonId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    """The recipients of a turn's transient output: the person who asked, and the handles the platform gave.

    `message` is what they wrote, to react on; `reply_to` is the same where the answer is to be shown as a reply.
    `inbox_id` is the work that is answered: the reply to it, and no other, takes the place of its preview. For a
    `silent` turn nothing is shown before its answer, if it has one.
    """

    person: PersonId | None = None
    message: str | None = None
    reply_to: str | None = None
    interaction: str | None = None
    language: str = "en"
    inbox_id: int | None = None
    silent: bool = False


def answer_of(text: str, audience: Audience | None = None) -> tuple[OutgoingMessage, ...]:
    """The model's words at the end of a turn, or of a goal's turns; none where it has said nothing.

    `audience` None: nobody has written the message that it answers.
    """
    if not text.strip():
        return ()
    to = audience or Audience()
    return (
        OutgoingMessage(text=text, kind="answer", reply_to=to.reply_to, answers=to.message, interaction=to.interaction),
    )


class Outbox(Protocol):
    """The agent's port to its channel. Nothing here raises for a platform's sake."""

    def begin(self, audience: Audience) -> None:
        """A turn starts: show presence (typing), aim previews and status at this audience."""

    def preview(self, delta: str) -> None:
        """The reply grows by `delta`. Never waits; frames may be dropped, the final is sent from its row."""

    def reset_preview(self) -> None:
        """The text so far is void: the stream is being retried (G-24)."""

    def end_preview(self) -> None:
        """The text so far is committed: its row takes the preview's place, and what comes begins a new one."""

    def status(self, text: str) -> None:
        """Show one line that does not stay; "" clears it (Z-145, G-08)."""

    def live(self, text: str, buttons: tuple[tuple[Button, ...], ...] = ()) -> None:
        """One message, with buttons, that follows something longer than a turn and changes in place; "" ends it."""

    def show(self, event: Event) -> None:
        """Let people see an event, as far as the channel's verbosity goes."""

    @property
    def suspends(self) -> bool:
        """Whether a run may wait here for a person's word (W-49)."""

    def awaiting(self) -> AbstractContextManager[None]:
        """Within the block a person is waited for: nobody is at work, so there are no signs of life."""

    def committing(self) -> AbstractContextManager[Callable[[Any], None]]:
        """Rows of this conversation are committed in the block; left without an error, they are delivered.

        What it gives is called last in their transaction, with its connection: so the first row is marked as being
        sent by the same commit.
        """

    async def end(self) -> None:
        """The turn is over: presence, status and unfinished previews go away. Called in every case."""
