"""Rows of what was said in groups without addressing the bot, of how far each stream was read, of unasked turns."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, func, insert, or_, select, update

from agent.core.ids import ConversationId, PersonId
from agent.core.messages import TextPart
from agent.group_context.settings import AmbientSettings
from agent.group_context.window import Overheard
from agent.inbox import GroupPlace
from agent.storage.payloads import decode_incoming, encode_incoming, encode_parts
from agent.storage.statements import or_ignore, or_update
from agent.storage.tables import ambient_turn, group_message, group_stream, inbox, message
from agent.storage.timestamps import from_timestamp, to_timestamp

BATCH = 500  # messages in one transaction, so that nobody waits
HOUR_US, DAY_US = 3_600_000_000, 86_400_000_000

_KEEP = or_ignore(insert(group_message))
_READ = or_update(insert(group_stream), key=("conv",), columns=("read_to",))
_TOLD = or_update(insert(group_stream), key=("conv",), columns=("told_at",))


def keep(
    conn: Connection,
    place: GroupPlace,
    conversation: ConversationId,
    *,
    ref: str,
    person: PersonId,
    name: str,
    text: str,
    said_at: datetime,
    most: int,
    since: int,
) -> bool:
    """Keep a message, and of its stream the newest `most` that were said after `since` (UTC microseconds).

    False: it was there already.
    """
    values = {"person": person, "name": name, "text": text, "said_at": to_timestamp(said_at)}
    done = conn.execute(_KEEP, {"conv": conversation, "stream": place.stream, "ref": ref, **values})
    if not done.rowcount:
        return False
    here = group_message.c.stream == place.stream
    newest = select(group_message.c.id).where(here).order_by(group_message.c.id.desc()).offset(most).limit(1)
    too_many = group_message.c.id <= newest.scalar_subquery()
    conn.execute(delete(group_message).where(here, or_(too_many, group_message.c.said_at < since)))
    return True


def edit(conn: Connection, conversation: ConversationId, ref: str, text: str) -> None:
    """Its writer has changed it."""
    conn.execute(update(group_message).where(*_is(conversation, ref)).values(text=text))


def take_back(conn: Connection, conversation: ConversationId, ref: str) -> None:
    """Its writer has deleted it, or it stands in the dialogue by now."""
    conn.execute(delete(group_message).where(*_is(conversation, ref)))


def said_around(
    conn: Connection, place: GroupPlace, *, since: int, unread: bool, most: int, but: str | None = None
) -> Sequence[Overheard]:
    """The newest `most` messages where a question stands that were said after `since` (UTC microseconds), in order.

    A thread is read from the message that begins it; of a channel or topic, with `unread`, what came after the bot has
    last read it. `but` is left out: the question's own message.
    """
    stream = group_message.c.stream == place.stream
    if place.root is not None:
        begins = and_(group_message.c.stream == place.channel, group_message.c.ref == place.root)
        stream = or_(stream, begins)
    elif unread:
        read_to = select(group_stream.c.read_to).where(group_stream.c.conv == place.stream).scalar_subquery()
        stream = and_(stream, group_message.c.id > func.coalesce(read_to, 0))
    wanted = select(group_message).where(stream, group_message.c.said_at >= since)
    if but is not None:
        wanted = wanted.where(group_message.c.ref != but)
    newest = conn.execute(wanted.order_by(group_message.c.id.desc()).limit(most)).all()
    return [_overheard(row) for row in reversed(newest)]


def read_to(conn: Connection, place: GroupPlace, id: int) -> None:
    """The bot has spoken, and had read its stream up to there."""
    conn.execute(_READ, {"conv": place.stream, "read_to": id})


def told_at(conn: Connection, channel: ConversationId) -> int | None:
    """When people there were told that the bot reads along; None: they were not."""
    found: int | None = conn.execute(
        select(group_stream.c.told_at).where(group_stream.c.conv == channel)
    ).scalar_one_or_none()
    return found


def told(conn: Connection, channel: ConversationId, at: int) -> None:
    """People there are told now."""
    conn.execute(_TOLD, {"conv": channel, "told_at": at})


def streams(conn: Connection) -> Sequence[ConversationId]:
    """All streams of which something is kept or known."""
    kept = select(group_message.c.stream).union(select(group_stream.c.conv))
    return [ConversationId(stream) for stream in conn.execute(kept).scalars()]


def forget_stream(conn: Connection, stream: ConversationId) -> None:
    """Nothing is read there any more: what was kept goes, and people are told again should it begin anew."""
    conn.execute(delete(group_message).where(group_message.c.stream == stream))
    conn.execute(delete(group_stream).where(group_stream.c.conv == stream))


def forget_place(conn: Connection, channel: ConversationId) -> None:
    """The same of a channel or group with all its topics and threads, whether or not the bot was ever asked there."""
    for table, stream in ((group_message, group_message.c.stream), (group_stream, group_stream.c.conv)):
        below = func.substr(stream, 1, len(channel) + 1) == f"{channel}:"
        conn.execute(delete(table).where(or_(stream == channel, below)))


def said_by(conn: Connection, people: Collection[PersonId]) -> Sequence[int]:
    """Messages of these people, wherever they were said; 500 at most."""
    theirs = select(group_message.c.id).where(group_message.c.person.in_(people)).limit(BATCH)
    return list(conn.execute(theirs).scalars())


def forget(conn: Connection, ids: Sequence[int]) -> None:
    """Remove these messages."""
    conn.execute(delete(group_message).where(group_message.c.id.in_(ids)))


def said_before(conn: Connection, moment: int) -> Sequence[int]:
    """Messages that are older than that (UTC microseconds); 500 at most."""
    older = select(group_message.c.id).where(group_message.c.said_at < moment).limit(BATCH)
    return list(conn.execute(older).scalars())


def forget_ambient(conn: Connection, before: int) -> None:
    """Remove turns that no cap counts any more: those of a day before that moment (UTC microseconds)."""
    conn.execute(delete(ambient_turn).where(ambient_turn.c.at < before - DAY_US))


def _is(conversation: ConversationId, ref: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return group_message.c.conv == conversation, group_message.c.ref == ref


def _overheard(row: Row[Any]) -> Overheard:
    return Overheard(
        id=row.id,
        conversation=row.conv,
        ref=row.ref,
        person=row.person,
        name=row.name,
        text=row.text,
        said_at=from_timestamp(row.said_at),
    )


# Turns that nobody asked for.


@dataclass(frozen=True, slots=True, kw_only=True)
class AmbientUse:
    """Unasked turns of a place: messages and turns of the last hour, tokens and USD of the UTC day.

    A turn that has not ended counts as one that speaks.
    """

    messages: int = 0
    turns: int = 0
    tokens: int = 0
    usd: float = 0.0

    def is_over(self, settings: AmbientSettings) -> bool:
        """Whether no further turn may begin."""
        return (
            self.messages >= settings.messages_per_hour
            or self.turns >= settings.turns_per_hour
            or (settings.daily_tokens is not None and self.tokens >= settings.daily_tokens)
            or (settings.daily_usd is not None and self.usd >= settings.daily_usd)
        )


def ambient_use(conn: Connection, channel: ConversationId, at: int) -> AmbientUse:
    """The unasked turns there as they stand at that moment (UTC microseconds)."""
    this_hour = ambient_turn.c.at > at - HOUR_US
    today = ambient_turn.c.at >= at - at % DAY_US
    spoken = and_(this_hour, ambient_turn.c.spoke.is_not(False))
    row = conn.execute(
        select(
            func.count().filter(spoken).label("messages"),
            func.count().filter(this_hour).label("turns"),
            func.coalesce(func.sum(ambient_turn.c.tokens).filter(today), 0).label("tokens"),
            func.coalesce(func.sum(ambient_turn.c.cost_usd).filter(today), 0.0).label("usd"),
        ).where(ambient_turn.c.conv == channel, ambient_turn.c.at > at - DAY_US)
    ).one()
    return AmbientUse(messages=row.messages, turns=row.turns, tokens=int(row.tokens), usd=float(row.usd))


def begin_ambient(conn: Connection, channel: ConversationId, inbox_id: int, at: int) -> None:
    """One begins."""
    conn.execute(insert(ambient_turn).values(conv=channel, inbox_id=inbox_id, at=at))


def end_ambient(conn: Connection, inbox_id: int, *, spoke: bool, tokens: int, cost_usd: float | None) -> None:
    """It has ended, and took so much."""
    values = {"spoke": spoke, "tokens": tokens, "cost_usd": cost_usd}
    conn.execute(update(ambient_turn).where(ambient_turn.c.inbox_id == inbox_id).values(**values))


def unsay(conn: Connection, inbox_id: int) -> None:
    """It said nothing: the words that it was begun with stay in the window alone, as long as that keeps them."""
    row = conn.execute(select(inbox.c.payload).where(inbox.c.id == inbox_id)).one()
    left = replace(decode_incoming(row.payload), text="", quoted=None, notes=())
    conn.execute(update(inbox).where(inbox.c.id == inbox_id).values(payload=encode_incoming(left)))
    empty = {"parts": encode_parts((TextPart(text=""),)), "agent_visible": False, "user_visible": False}
    conn.execute(update(message).where(message.c.inbox_id == inbox_id).values(**empty))
