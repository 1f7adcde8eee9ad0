"""Sessions and their transcripts: append-only rows; visibility alone changes.

Plain functions over a `Connection`; each write is safe to repeat.
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, cast

from pydantic import ValidationError
from sqlalchemy import BigInteger, Connection, Text, bindparam, func, insert, or_, select, update

from agent.core.ids import ConversationId, PersonId, SessionId
from agent.core.messages import FilePart, Message, Part, Role, TextPart
from agent.storage.payloads import decode_parts, encode_parts
from agent.storage.statements import CompiledStatement, or_ignore
from agent.storage.tables import conversation as conversation_table
from agent.storage.tables import message as message_table
from agent.storage.tables import session as session_table
from agent.storage.timestamps import from_timestamp, to_timestamp

# Rows of a session and its messages, as values.

SessionStatus = Literal["active", "ended", "terminated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session as `/sessions` lists it. `terminated`: closed for good, no run may go on in it (B-13)."""

    id: SessionId
    title: str
    state: SessionStatus
    message_count: int
    prompt_tokens: int
    output_tokens: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the tools of a session work, as a path below its workspace (None: the workspace itself), and what hooks
    and loaded skills have set for the programs they start."""

    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A message of the transcript with the run that wrote it and whose words it holds.

    `counted` tells what it weighs, as the estimator wrote it down; "" is not known.
    """

    message: Message
    inbox_id: int | None
    position: int
    person: PersonId | None = None
    counted: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The part of a session that a model may see, oldest first. `damaged` counts rows that could not be read (B-23)."""

    messages: tuple[Message, ...]
    damaged: int = 0


# Reading of the transcript: the message of a row, repaired where it is damaged, and its words (B-23).

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
    """The words of a message."""
    return "".join(part.text for part in message.parts if isinstance(part, TextPart))


def words_of(message: Message) -> str:
    """A person's own words in a stored user message: its last text."""
    for part in reversed(message.parts):
        if isinstance(part, TextPart):
            return part.text
        if isinstance(part, FilePart):
            break
    return ""


MOST_LOADED = 5_000  # newest messages of a session; no window holds more
PAGE = 500
LONGEST_TITLE = 60
STEP = 1 << 20  # between the places in the window of two messages written one after the other

_KEY = conversation_table.c.key == bindparam("conversation")
_CURRENT = select(conversation_table.c.session_id).where(_KEY)
_SET_CURRENT = update(conversation_table).where(_KEY).values(session_id=bindparam("to"))
_OPEN = or_ignore(insert(session_table))
_ONE = select(session_table).where(session_table.c.id == bindparam("session"))
_STATE = update(session_table).where(session_table.c.id == bindparam("session")).values(state=bindparam("new_state"))
_STATE_OF = CompiledStatement(select(session_table.c.state).where(session_table.c.id == bindparam("session")))
_PLACE = select(session_table.c.cwd, session_table.c.env).where(session_table.c.id == bindparam("session"))
_PUT_PLACE = (
    update(session_table)
    .where(session_table.c.id == bindparam("session"))
    .values(cwd=bindparam("folder", type_=Text), env=bindparam("set", type_=Text))
)
_LIST = (
    select(session_table)
    .where(session_table.c.conv == bindparam("conversation"))
    .order_by(session_table.c.updated_at.desc(), session_table.c.id)
    .limit(bindparam("most"))
)
_GROW = CompiledStatement(
    update(session_table)
    .where(session_table.c.id == bindparam("session"))
    .values(
        message_count=session_table.c.message_count + bindparam("messages"),
        prompt_tokens=session_table.c.prompt_tokens + bindparam("more_prompt"),
        output_tokens=session_table.c.output_tokens + bindparam("more_output"),
        fixed_tokens=func.coalesce(bindparam("fixed"), session_table.c.fixed_tokens),
        scale=func.coalesce(bindparam("counted_scale"), session_table.c.scale),
        updated_at=bindparam("at"),
    )
)
_APPEND = CompiledStatement(or_ignore(insert(message_table)).returning(message_table.c.id))
_VISIBLE = (
    select(message_table)
    .where(message_table.c.session_id == bindparam("session"), message_table.c.agent_visible)
    .order_by(message_table.c.id.desc())
    .limit(bindparam("most"))
)
_OF_RUN = select(message_table).where(message_table.c.inbox_id == bindparam("inbox")).order_by(message_table.c.position)
_NEWEST = select(func.max(message_table.c.id)).where(message_table.c.session_id == bindparam("session"))
_OTHERS = (
    select(message_table.c.id)
    .where(
        message_table.c.session_id == bindparam("session"),
        message_table.c.id > bindparam("first"),
        message_table.c.inbox_id != bindparam("inbox"),
    )
    .limit(1)
)
_MOVE = (
    update(message_table)
    .where(message_table.c.id == bindparam("row"))
    .values(place=bindparam("where", type_=BigInteger), agent_visible=True)
)
_ALL = (
    select(message_table)
    .where(message_table.c.session_id == bindparam("session"), message_table.c.id > bindparam("after"))
    .order_by(message_table.c.id)
    .limit(bindparam("most"))
)
_PAGE_BEFORE = (
    select(message_table)
    .where(message_table.c.session_id == bindparam("session"), message_table.c.id < bindparam("before"))
    .order_by(message_table.c.id.desc())
    .limit(bindparam("most"))
)
# A summary is younger than what it stands for: it goes only if that goes too, which its place tells.
_HIDE = (
    update(message_table)
    .where(message_table.c.session_id == bindparam("session"), message_table.c.id >= bindparam("first"))
    .where(or_(message_table.c.agent_visible, message_table.c.user_visible))
    .where(or_(message_table.c.position >= 0, message_table.c.place >= bindparam("first") * STEP))
)
# A message that people take back is out of reach for good: not counted as compacted, it cannot be recalled.
_HIDE_FROM_AGENT = _HIDE.values(agent_visible=False, compacted_at=None)
_HIDE_FROM_ALL = _HIDE.values(agent_visible=False, user_visible=False, compacted_at=None)
_NO_SUMMARY = (
    update(session_table).where(session_table.c.id == bindparam("session")).values(summary=None, summary_upto=None)
)
_HIDE_RUN = update(message_table).where(message_table.c.inbox_id == bindparam("inbox")).values(agent_visible=False)
_LAST_SAID = (
    select(message_table)
    .where(
        message_table.c.session_id == bindparam("session"),
        message_table.c.agent_visible,
        message_table.c.role == "user",
        message_table.c.position == 0,
    )
    .order_by(message_table.c.id.desc())
    .limit(1)
)
_LATEST_BUT = (
    select(session_table)
    .where(
        session_table.c.conv == bindparam("conversation"),
        session_table.c.id != bindparam("but"),
        session_table.c.state != "terminated",
    )
    .order_by(session_table.c.updated_at.desc(), session_table.c.id)
    .limit(1)
)
_PINNED = (
    select(func.count())
    .select_from(message_table)
    .where(message_table.c.session_id == bindparam("session"), message_table.c.pinned, message_table.c.agent_visible)
)
_ANY = CompiledStatement(
    select(message_table.c.id)
    .where(message_table.c.session_id == bindparam("session"), message_table.c.agent_visible)
    .limit(1)
)
_COUNT = (
    select(func.count())
    .select_from(message_table)
    .where(message_table.c.session_id == bindparam("session"), message_table.c.agent_visible)
)


def current(conn: Connection, conversation: ConversationId) -> SessionId | None:
    """The session that the conversation is in; None: the next message begins one."""
    found = conn.execute(_CURRENT, {"conversation": conversation}).scalar_one_or_none()
    return SessionId(found) if found else None


def open_session(conn: Connection, id: SessionId, conversation: ConversationId, *, title: str, at: int) -> None:
    """Make the session and let the conversation be in it."""
    values = {"id": id, "conv": conversation, "title": title_of(title), "created_at": at, "updated_at": at}
    conn.execute(_OPEN, values)
    set_current(conn, conversation, id)


def set_current(conn: Connection, conversation: ConversationId, session: SessionId | None) -> None:
    """Put the conversation into a session; None: the next message begins one."""
    conn.execute(_SET_CURRENT, {"conversation": conversation, "to": session})


def place_of(conn: Connection, session: SessionId) -> Place:
    """Where its tools work and what is set for them; for one that is not there: nothing."""
    row = conn.execute(_PLACE, {"session": session}).one_or_none()
    if row is None:
        return Place()
    return Place(cwd=row.cwd, env=json.loads(row.env) if row.env else {})


def put_place(conn: Connection, session: SessionId, place: Place) -> None:
    """Keep it for the session's next turns."""
    env = json.dumps(dict(place.env), ensure_ascii=False) if place.env else None
    conn.execute(_PUT_PLACE, {"session": session, "folder": place.cwd, "set": env})


def set_state(conn: Connection, session: SessionId, state: SessionStatus) -> None:
    conn.execute(_STATE, {"session": session, "new_state": state})


def state_of(conn: Connection, session: SessionId) -> SessionStatus | None:
    return cast(SessionStatus | None, _STATE_OF.scalar(conn, {"session": session}))


def find(conn: Connection, session: SessionId) -> Session | None:
    row = conn.execute(_ONE, {"session": session}).one_or_none()
    return _session(row) if row is not None else None


def sessions_of(conn: Connection, conversation: ConversationId, *, most: int = 20) -> tuple[Session, ...]:
    """The conversation's sessions, the one used last first."""
    return tuple(_session(row) for row in conn.execute(_LIST, {"conversation": conversation, "most": most}))


def by_prefix(conn: Connection, conversation: ConversationId, prefix: str) -> tuple[Session, ...]:
    """The conversation's sessions whose id begins so: none, the one, or two that make the prefix ambiguous."""
    begins = session_table.c.id.startswith(prefix.lower(), autoescape=True)
    found = conn.execute(_LIST.where(begins), {"conversation": conversation, "most": 2})
    return tuple(_session(row) for row in found)


@dataclass(frozen=True, slots=True)
class Besides:
    """Of a request: its tokens besides its messages, as counted, and what such a token is by the model's own count."""

    fixed: int
    scale: float


def grow(
    conn: Connection,
    session: SessionId,
    *,
    messages: int,
    prompt: int,
    output: int,
    at: int,
    besides: Besides | None = None,
) -> None:
    """Add to what the session counts (B-43). `besides`: of the newest request."""
    values = {
        "session": session,
        "messages": messages,
        "more_prompt": prompt,
        "more_output": output,
        "fixed": besides.fixed if besides is not None else None,
        "counted_scale": besides.scale if besides is not None else None,
        "at": at,
    }
    _GROW.run(conn, values)


def append(
    conn: Connection, session: SessionId, conversation: ConversationId, stored: Stored, *, at: int
) -> int | None:
    """Add a message to the transcript and return its id; None when that place of that run is written already."""
    message = stored.message
    values = {
        "session_id": session,
        "conv": conversation,
        "inbox_id": stored.inbox_id,
        "position": stored.position,
        "role": message.role,
        "parts": encode_parts(message.parts),
        "agent_visible": message.agent_visible,
        "user_visible": message.user_visible,
        "pinned": message.pinned,
        "person": stored.person,
        "counted": stored.counted or None,
        "created_at": to_timestamp(message.created_at) if message.created_at is not None else at,
    }
    return cast(int | None, _APPEND.scalar(conn, values))


def history(conn: Connection, session: SessionId, *, most: int = MOST_LOADED) -> History:
    """The messages a model may see, oldest first; at most the newest `most` (Z-24, B-15)."""
    rows = conn.execute(_VISIBLE, {"session": session, "most": most}).all()
    read = [read_message(row) for row in reversed(rows)]
    messages = tuple(message for message in read if message is not None)
    return History(messages=messages, damaged=len(read) - len(messages))


def messages_of_run(conn: Connection, inbox_id: int) -> tuple[Stored, ...]:
    """The stored messages of a run, in order, whatever their visibility."""
    return _stored(conn.execute(_OF_RUN, {"inbox": inbox_id}))


def move_to_end(conn: Connection, session: SessionId, inbox_id: int, stored: Sequence[Stored]) -> None:
    """Let a run that goes on stand last in the session's window, where others were answered since it began.

    That is so when its message had been given up and is tried again: a model answers what stands last.
    """
    ids = [id for one in stored if (id := one.message.id) is not None]
    if not ids or conn.execute(_OTHERS, {"session": session, "first": ids[0], "inbox": inbox_id}).first() is None:
        return
    newest = conn.execute(_NEWEST, {"session": session}).scalar_one()
    for number, id in enumerate(ids, 1):
        conn.execute(_MOVE, {"row": id, "where": newest * STEP + number})


def transcript(conn: Connection, session: SessionId) -> Iterator[Stored]:
    """Every message of the session, oldest first, read in pages."""
    after = 0
    while rows := conn.execute(_ALL, {"session": session, "after": after, "most": PAGE}).all():
        yield from _stored(rows)
        after = rows[-1].id


def page_before(
    conn: Connection, session: SessionId, *, before: int | None = None, most: int = PAGE
) -> tuple[Stored, ...]:
    """The newest messages of the session whose ids are below `before`, oldest first, whatever their visibility."""
    values = {"session": session, "before": before if before is not None else 2**63 - 1, "most": most}
    return _stored(reversed(conn.execute(_PAGE_BEFORE, values).all()))


def hide_from(conn: Connection, session: SessionId, first: int, *, also_from_people: bool) -> int:
    """Hide the messages from id `first` on from the model, or from everybody; returns how many. Nothing is deleted."""
    statement = _HIDE_FROM_ALL if also_from_people else _HIDE_FROM_AGENT
    conn.execute(_NO_SUMMARY, {"session": session})  # one made ahead of time may tell of what is taken back
    return conn.execute(statement, {"session": session, "first": first}).rowcount


def hide_run(conn: Connection, inbox_id: int) -> None:
    """Hide one run's messages from the model; people and the transcript keep them."""
    conn.execute(_HIDE_RUN, {"inbox": inbox_id})


def pinned_count(conn: Connection, session: SessionId) -> int:
    """How many messages outlive every compaction of the session."""
    count: int = conn.execute(_PINNED, {"session": session}).scalar_one()
    return count


def is_empty(conn: Connection, session: SessionId) -> bool:
    """Whether the model sees nothing of the session."""
    return _ANY.scalar(conn, {"session": session}) is None


def visible_count(conn: Connection, session: SessionId) -> int:
    count: int = conn.execute(_COUNT, {"session": session}).scalar_one()
    return count


def last_said(conn: Connection, session: SessionId) -> tuple[Message, PersonId | None] | None:
    """The newest message that began an exchange and is still visible to the model, and who said it."""
    row = conn.execute(_LAST_SAID, {"session": session}).one_or_none()
    if row is None or (message := read_message(row)) is None:
        return None
    return message, PersonId(row.person) if row.person else None


def latest_but(conn: Connection, conversation: ConversationId, current: SessionId | None) -> Session | None:
    """The session used last, the current one left out."""
    row = conn.execute(_LATEST_BUT, {"conversation": conversation, "but": current or ""}).one_or_none()
    return _session(row) if row is not None else None


def title_of(text: str) -> str:
    """The first words of a text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_TITLE else line[: LONGEST_TITLE - 1].rstrip() + "…"


def _stored(rows: Any) -> tuple[Stored, ...]:
    read = ((row, read_message(row)) for row in rows)
    return tuple(
        Stored(
            message=message,
            inbox_id=row.inbox_id,
            position=row.position,
            person=PersonId(row.person) if row.person else None,
        )
        for row, message in read
        if message is not None
    )


def _session(row: Any) -> Session:
    return Session(
        id=SessionId(row.id),
        title=row.title,
        state=cast(SessionStatus, row.state),
        message_count=row.message_count,
        prompt_tokens=row.prompt_tokens,
        output_tokens=row.output_tokens,
        created_at=from_timestamp(row.created_at),
        updated_at=from_timestamp(row.updated_at),
    )


def with_id(message: Message, id: int | None) -> Message:
    """The message as it stands in the transcript; the same object where it has its id already."""
    return message if id is None or message.id == id else replace(message, id=id)
