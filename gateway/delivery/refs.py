"""How the references of what is shown are written into the `ephemeral` table. Pure."""

from dataclasses import dataclass
from typing import Literal

from gateway.channels.outbound import SentRef

By = Literal["message", "stream"]


@dataclass(frozen=True, slots=True)
class Shown:
    """Something on the screen that must not stay, and how it got there: as a message, or as a native stream.

    `of` is the work (its inbox id) that a preview grows for.
    """

    sent: SentRef
    by: By = "message"
    of: int | None = None


def encode(shown: Shown) -> str:
    return f"{shown.by}|{'' if shown.of is None else shown.of}|{shown.sent.kind}|{shown.sent.id}"


def decode(text: str) -> Shown:
    """Raises ValueError for anything but an encoded one."""
    match text.split("|", 3):
        case ["message" | "stream" as by, of, kind, message_id]:
            return Shown(SentRef(message_id, kind), by, int(of) if of else None)
        case _:
            raise ValueError(f"not the reference of something shown: {text!r}")
