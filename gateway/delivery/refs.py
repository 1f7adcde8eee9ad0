"""How the references of what is shown are written into the `ephemeral` table. Pure."""

from dataclasses import dataclass
from typing import Literal

from gateway.channels.channel import Channel
from gateway.channels.outbound import Outbound, SentRef

By = Literal["message", "stream", "key"]


@dataclass(frozen=True, slots=True)
class Shown:
    """Something on the screen that must not stay, and how it got there: as a message, or as a native stream.

    By "key" it is somewhere, or nowhere, or still on its way: where the platform remembers keys it is noted before it
    is shown, and asked for by its key while nobody knows its name. `of` is the work (its inbox id) that a preview grows
    for.
    """

    sent: SentRef
    by: By = "message"
    of: int | None = None
    key: str = ""


def unnamed(key: str, of: int | None = None) -> Shown:
    """What is about to be shown, or may have been."""
    return Shown(SentRef(""), "key", of, key)


def has_keys(channel: Channel, message: Outbound) -> bool:
    """Whether such a message can be found by its key; answers to slash commands and buttons keep none."""
    return channel.history is not None and message.interaction is None


def encode(shown: Shown) -> str:
    of = "" if shown.of is None else shown.of
    if shown.by == "key":
        return f"key|{of}||{shown.key}"
    return f"{shown.by}|{of}|{shown.sent.kind}|{shown.sent.id}"


def notes(shown: Shown) -> tuple[str, ...]:
    """All that it may be noted by: its name, and the key it had before anybody knew that."""
    if shown.by == "key" or not shown.key:
        return (encode(shown),)
    return encode(shown), encode(unnamed(shown.key, shown.of))


def decode(text: str) -> Shown:
    """Raises ValueError for anything but an encoded one."""
    match text.split("|", 3):
        case ["key", of, "", key]:
            return unnamed(key, int(of) if of else None)
        case ["message" | "stream" as by, of, kind, message_id]:
            return Shown(SentRef(message_id, kind), by, int(of) if of else None)
        case _:
            raise ValueError(f"not the reference of something shown: {text!r}")
