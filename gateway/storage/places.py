"""Conversations by place: which belong to one, and which are worth catching up with."""

from dataclasses import dataclass

from sqlalchemy import BindParameter, ColumnElement, Connection, Text, and_, bindparam, func, or_, select

from agent.core.ids import ConversationId
from agent.storage.tables import conversation, inbox


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPlace:
    """`last_message_id` is the platform's; `last_at` when it was stored, in UTC microseconds."""

    conversation: ConversationId
    last_message_id: str
    last_at: int


def _begins(key: ColumnElement[str]) -> ColumnElement[bool]:
    """Not by a range of keys: how they are ordered is a matter of the server's locale."""
    prefix: BindParameter[str] = bindparam("prefix", type_=Text)
    return func.substr(key, 1, func.length(prefix)) == prefix


_LAST = (
    select(func.max(inbox.c.id).label("id"))
    .where(
        _begins(inbox.c.conv),
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

_WITHIN = (
    select(conversation.c.key)
    .where(
        or_(
            conversation.c.key == bindparam("place"),
            _begins(conversation.c.key),
        )
    )
    .order_by(conversation.c.key)
)


def within(conn: Connection, place: ConversationId) -> tuple[ConversationId, ...]:
    """The conversation of that key and those of its parts: topics and threads have its key, a colon and their own."""
    return tuple(
        ConversationId(key) for key in conn.execute(_WITHIN, {"place": place, "prefix": f"{place}:"}).scalars()
    )


def known_places(conn: Connection, channel_type: str, *, since: int, most: int = 1000) -> tuple[KnownPlace, ...]:
    """One account's conversations with a message stored at `since` (UTC microseconds) or later, newest first.

    Places that the bot was removed from are left out.
    """
    # With the colon: none of "<channel_type>@account:".
    bounds = {"prefix": f"{channel_type}:", "since": since, "most": most}
    return tuple(
        KnownPlace(conversation=ConversationId(row.conv), last_message_id=row.platform_ref, last_at=row.created_at)
        for row in conn.execute(_PLACES, bounds)
    )
