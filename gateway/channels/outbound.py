"""Outbound value: one message that fits, already split, as the gateway hands it to a channel."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent.core.outbox import Tone
from gateway.channels.document import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Button:
    """`action` comes back in `ButtonClicked`; at most 64 bytes."""

    label: str
    action: str
    style: Literal["plain", "primary", "danger"] = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file that goes with a message. `voice`: it is a voice message, where the platform has such; it comes alone."""

    path: Path
    name: str
    mime_type: str
    voice: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outbound:
    """One platform message. `key` names it across repeats: at most 25 characters; "" for what is never repeated.

    What comes from the outbox has a key, and so has the first showing of a preview, status or question where the
    platform remembers keys (`Capabilities.idempotent_send`), so that it can be found and taken away after a crash.

    A channel renders `document` as richly as it can and falls back to plain text by itself when the platform refuses
    the rendering. `reply_to` is the message that it is shown below, `answers` the one whose answer it is, also where
    nothing shows that. `interaction` answers a slash command or a button where the platform still allows it. `tone`:
    that an answer was stopped, is none because of a problem, or waits behind a question; a channel that has no sign for
    it leaves it out.
    """

    document: Document
    key: str = ""
    reply_to: str | None = None
    answers: str | None = None
    buttons: tuple[tuple[Button, ...], ...] = ()
    files: tuple[File, ...] = ()
    silent: bool = False
    interaction: str | None = None
    tone: Tone = ""

    @property
    def is_frame(self) -> bool:
        """Whether it only moves what is on the screen: a frame of a preview, a change of a status line.

        It is never waited for. Where the platform is busy raise ChannelBusy at once, and leave room in the account's
        rate for what must arrive: the next frame shows more.
        """
        return not self.key


@dataclass(frozen=True, slots=True)
class SentRef:
    """The platform's id of a message we sent; `kind` tells the channel how to reach it again (its own words)."""

    id: str
    kind: str = "message"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSpec:
    """A slash command as platforms register it. `options` is the usage hint, such as `[name]`.

    `menu`: one of the few that a platform's own menu shows; the others work as text all the same. `choices` are all
    the words that may follow it, where it takes one of a closed set; where that set is only known at run time it
    `suggests`, and a platform that can asks while somebody types (`AdapterContext.suggest`). `platform` is the only one
    where it is of use.
    """

    name: str
    description: str
    options: str = ""
    admin: bool = False
    menu: bool = True
    choices: tuple[str, ...] = ()
    suggests: bool = False
    platform: str = ""
