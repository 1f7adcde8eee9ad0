"""Conversations worth catching up with (DESIGN §13.15): where people wrote lately, and the last that was stored."""

from dataclasses import dataclass

from sqlalchemy import Connection, and_, bindparam, func, select

from agent.core.ids import ConversationId
from agent.storage.tables import conversation, inbox


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPlace:
    """`last_message_id` is the platform's; `last_at` when it was stored, in UTC microseconds."""

    conversation: ConversationId
    last_message_id: str
    last_at: int


_LAST = (
    select(func.max(inbox.c.id).label("id"))
    .where(
        inbox.c.conv >= bindparam("first"),
        inbox.c.conv < bindparam("beyond"),
        inbox.c.platform_ref.is_not(None),
        inbox.c.kind == "message",
        inbox.c.created_at >= bindparam("since"),
    )
    .group_by(inbox.c.conv)
    .subquery()
)
_PLACES = (
    select(inbox.c.conv, inbox.c.platform_ref, inbox.c.created_at)
    .join(_LAST, inbox.c.id == _LAST.c.id)
    .join(conversation, and_(conversation.c.key == inbox.c.conv, conversation.c.state != "gone"))
    .order_by(inbox.c.id.desc())
    .limit(bindparam("most"))
)


def known_places(conn: Connection, channel_type: str, *, since: int, most: int = 1000) -> tuple[KnownPlace, ...]:
    """One account's conversations with a message stored at `since` (UTC microseconds) or later, newest first.

    Places that the bot was removed from are left out.
    """
    # All keys that begin with "<channel_type>:", and none of "<channel_type>@account:".
    bounds = {"first": f"{channel_type}:", "beyond": f"{channel_type};", "since": since, "most": most}
    return tuple(
        KnownPlace(conversation=ConversationId(row.conv), last_message_id=row.platform_ref, last_at=row.created_at)
        for row in conn.execute(_PLACES, bounds)
    )
