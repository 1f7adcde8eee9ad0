"""How the references of what is shown are written into the `ephemeral` table. Pure."""

from dataclasses import dataclass
from typing import Literal

from gateway.channels.outbound import SentRef

By = Literal["message", "stream"]


@dataclass(frozen=True, slots=True)
class Shown:
    """Something on the screen that must not stay, and how it got there: as a message, or as a native stream."""

    sent: SentRef
    by: By = "message"


def encode(shown: Shown) -> str:
    return f"{shown.by}|{shown.sent.kind}|{shown.sent.id}"


def decode(text: str) -> Shown:
    """Raises ValueError for anything but an encoded one."""
    by, kind, message_id = text.split("|", 2)
    if by == "message":
        return Shown(SentRef(message_id, kind), "message")
    if by == "stream":
        return Shown(SentRef(message_id, kind), "stream")
    raise ValueError(f"not the reference of something shown: {text!r}")
