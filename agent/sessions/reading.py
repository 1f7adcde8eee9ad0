"""Rows of the transcript read back: the message that one holds, mended where it is damaged, and its words (B-23).

Asks the database nothing, and never fails over what is written there: a turn goes on with what can be read.
"""

import json
import logging
from collections.abc import Sequence
from typing import Any, cast

from pydantic import ValidationError

from agent.core.messages import Message, Part, Role, TextPart
from agent.storage.payloads import decode_parts
from agent.storage.timestamps import from_timestamp

ROLES = frozenset({"user", "assistant", "system"})

log = logging.getLogger("tieline.sessions")


def read_message(row: Any) -> Message | None:
    """The message of a row. A damaged one is mended as far as it can be read, else left out, loudly (B-23)."""
    parts = read_parts(row.parts, row.id)
    if not parts or row.role not in ROLES:
        return None
    return Message(
        role=cast(Role, row.role),
        parts=parts,
        created_at=from_timestamp(row.created_at),
        id=row.id,
        agent_visible=row.agent_visible,
        user_visible=row.user_visible,
        pinned=row.pinned,
    )


def read_parts(written: str, id: int) -> tuple[Part, ...]:
    """The parts of message `id`; of a damaged one those that can be read."""
    try:
        return decode_parts(written)
    except ValidationError:  # its text holds the message's own words: they do not belong in a log
        parts = _salvaged(written)
    rest = f"{len(parts)} of its parts could be read" if parts else "nothing of it could be read, it is left out"
    log.error("message %d is damaged: %s", id, rest)
    return parts


def _salvaged(written: str) -> tuple[Part, ...]:
    """The parts that can be read one by one; plain text of a message from before there were parts is one."""
    try:
        value = json.loads(written)
    except ValueError:
        return ()
    if isinstance(value, str):
        return (TextPart(text=value),) if value else ()
    kept: Sequence[Part] = ()
    for item in value if isinstance(value, list) else ():
        try:
            kept = (*kept, *decode_parts(json.dumps([item])))
        except ValidationError:
            continue
    return tuple(kept)


def text_of(message: Message) -> str:
    """What a message says in words."""
    return "".join(part.text for part in message.parts if isinstance(part, TextPart))
