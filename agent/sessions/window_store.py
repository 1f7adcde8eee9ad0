"""The stored window of a session: what a model sees, in what order, and what compaction changed of it.

Plain functions over a `Connection`. Rows are hidden and placed, never rewritten.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from types import MappingProxyType

from sqlalchemy import Connection, bindparam, insert, select, update

from agent.core.ids import ConversationId, SessionId
from agent.core.messages import Message
from agent.sessions import transcript_search
from agent.sessions.store import MOST_LOADED, ROLES, STEP, read_parts
from agent.storage.payloads import encode_parts
from agent.storage.statements import CompiledStatement, or_update
from agent.storage.tables import cleared_result, guideline
from agent.storage.tables import message as message_table
from agent.storage.tables import session as session_table
from agent.storage.timestamps import from_timestamp, to_timestamp

BY_THE_HOUSE = -1  # the position of what no run wrote
NOTHING_CLEARED: Mapping[str, str] = MappingProxyType({})

_VISIBLE = CompiledStatement(
    select(
        message_table.c.id,
        message_table.c.role,
        message_table.c.parts,
        message_table.c.created_at,
        message_table.c.user_visible,
        message_table.c.pinned,
        message_table.c.place,
        message_table.c.deferred,
        message_table.c.counted,
    )
    .where(message_table.c.session_id == bindparam("session"), message_table.c.agent_visible)
    .order_by(message_table.c.id.desc())
    .limit(bindparam("most"))
)
_CLEARED = select(cleared_result).where(cleared_result.c.session_id == bindparam("session"))
_LEARNT = select(
    session_table.c.summary,
    session_table.c.summary_upto,
    session_table.c.fixed_tokens,
    session_table.c.scale,
    session_table.c.compacted,
    guideline.c.body,
    guideline.c.session_id.label("told_in"),
).select_from(session_table.outerjoin(guideline, guideline.c.conv == session_table.c.conv))
_SUMMARY = _LEARNT.where(session_table.c.id == bindparam("session"))
_GUIDE = or_update(insert(guideline), key=("conv",), columns=("session_id", "body", "at"))
_HUSH = update(guideline).where(guideline.c.conv == bindparam("conversation")).values(session_id="")
_BY_ID = message_table.c.id == bindparam("row")
_PARTS = select(message_table.c.parts).where(_BY_ID)
_HIDE = update(message_table).where(_BY_ID).values(agent_visible=False, compacted_at=bindparam("at"))
_MARK = update(message_table).where(_BY_ID).values(compacted_at=bindparam("at"))
_PLACE = update(message_table).where(_BY_ID).values(place=bindparam("where"))
_DEFER = update(message_table).where(_BY_ID).values(deferred=bindparam("written"))
_CLEAR = or_update(insert(cleared_result), key=("message_id", "call"), columns=("text", "at"))
_INSERT = insert(message_table).returning(message_table.c.id)
_SUMMARISE = (
    update(session_table)
    .where(session_table.c.id == bindparam("session"))
    .values(summary=bindparam("written"), summary_upto=bindparam("upto"))
)


_COMPACT = (
    update(session_table).where(session_table.c.id == bindparam("session")).values(compacted=bindparam("figures"))
)
NEVER = (0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """One message of a window: as stored, its place, the results cleared in it, the summary that waits for it.

    `counted` is what was written down of its weight.
    """

    message: Message
    place: int
    cleared: Mapping[str, str] = field(default_factory=dict)
    deferred: str = ""
    counted: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedWindow:
    """Oldest first. `summary` covers everything up to the message `summary_upto`; `damaged` rows were left out.

    `guidelines` are the conversation's, as compaction wrote them; `told_here`: in this session. `fixed`: tokens of the
    newest request besides its messages, 0 where that is not known. `scale`: what a counted token was by the model.
    `compacted`: tokens before and after, UTC ms.
    """

    entries: tuple[Loaded, ...]
    summary: str = ""
    summary_upto: int | None = None
    damaged: int = 0
    guidelines: str = ""
    told_here: bool = False
    fixed: int = 0
    scale: float = 1.0
    compacted: tuple[int, int, int] = NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowChanges:
    """Changes of a window by compaction since it was last written. `inserted` and `placed` come with their places.

    `summary` is (text, id of the last message it covers); "" takes the stored one away.
    """

    hidden: tuple[Message, ...] = ()
    inserted: tuple[tuple[Message, int], ...] = ()
    placed: tuple[tuple[int, int], ...] = ()  # (message id, place)
    cleared: tuple[tuple[Message, str, str], ...] = ()  # (message, call, what stands there)
    deferred: tuple[tuple[int, str], ...] = ()
    summary: tuple[str, int | None] | None = None
    guidelines: str | None = None
    compacted: tuple[int, int, int] | None = None

    @property
    def any(self) -> bool:
        return bool(
            self.hidden or self.inserted or self.placed or self.cleared or self.deferred
            or self.summary is not None or self.guidelines is not None or self.compacted is not None
        )  # fmt: skip


def load(conn: Connection, session: SessionId, *, most: int = MOST_LOADED) -> LoadedWindow:
    """The messages of the session that a model sees; at most the newest `most` (Z-24, B-15)."""
    cleared: dict[int, dict[str, str]] = {}
    for row in conn.execute(_CLEARED, {"session": session}):
        cleared.setdefault(row.message_id, {})[row.call] = row.text
    rows = _VISIBLE.rows(conn, {"session": session, "most": most})
    entries: list[Loaded] = []
    for id, role, written, created_at, user_visible, pinned, place, deferred, counted in reversed(rows):
        parts = read_parts(written, id)
        if not parts or role not in ROLES:
            continue
        message = Message(
            role=role,
            parts=parts,
            created_at=from_timestamp(created_at),
            id=id,
            user_visible=bool(user_visible),
            pinned=bool(pinned),
        )
        entries.append(
            Loaded(
                message=message,
                place=id * STEP if place is None else place,
                cleared=cleared.get(id, NOTHING_CLEARED),
                deferred=deferred or "",
                counted=counted or "",
            )
        )
    entries.sort(key=attrgetter("place"))
    summary = conn.execute(_SUMMARY, {"session": session}).one_or_none()
    return LoadedWindow(
        entries=tuple(entries),
        summary=(summary.summary or "") if summary is not None else "",
        summary_upto=summary.summary_upto if summary is not None else None,
        damaged=len(rows) - len(entries),
        guidelines=(summary.body or "") if summary is not None else "",
        told_here=summary is not None and summary.told_in == session,
        fixed=(summary.fixed_tokens or 0) if summary is not None else 0,
        scale=(summary.scale or 1.0) if summary is not None else 1.0,
        compacted=_compacted(summary.compacted) if summary is not None else NEVER,
    )


def write(
    conn: Connection, session: SessionId, conversation: ConversationId, changes: WindowChanges, *, at: int
) -> list[int]:
    """Write the changes; returns the ids of what was inserted, in order. Call it in a fenced transaction."""
    for message, call, text in changes.cleared:
        values = {"message_id": message.id, "call": call, "session_id": session, "text": text, "at": at}
        conn.execute(_CLEAR, values)
        conn.execute(_MARK, {"row": message.id, "at": at})
        _keep(conn, session, conversation, message, [call])
    for message in changes.hidden:
        conn.execute(_HIDE, {"row": message.id, "at": at})
        _keep(conn, session, conversation, message)
    for id, place in changes.placed:
        conn.execute(_PLACE, {"row": id, "where": place})
    for id, summary in changes.deferred:
        conn.execute(_DEFER, {"row": id, "written": summary or None})
    if changes.summary is not None:
        text, upto = changes.summary
        conn.execute(_SUMMARISE, {"session": session, "written": text or None, "upto": upto if text else None})
    if changes.compacted is not None:
        conn.execute(_COMPACT, {"session": session, "figures": " ".join(map(str, changes.compacted))})
    if changes.guidelines is not None:
        conn.execute(_GUIDE, {"conv": conversation, "session_id": session, "body": changes.guidelines, "at": at})
    return [_insert(conn, session, conversation, message, place, at) for message, place in changes.inserted]


def summary_of(conn: Connection, session: SessionId) -> str:
    """The summary that was made of it ahead of time; "" where there is none."""
    row = conn.execute(_SUMMARY, {"session": session}).one_or_none()
    return (row.summary or "") if row is not None else ""


def _compacted(written: str | None) -> tuple[int, int, int]:
    before, after, at_ms = map(int, written.split()) if written else NEVER
    return before, after, at_ms


def forget_compaction(conn: Connection, session: SessionId) -> None:
    """Take the figures of the newest compaction away: people have cleared what it was about (Z-77)."""
    conn.execute(_COMPACT, {"session": session, "figures": None})


def hush_guidelines(conn: Connection, conversation: ConversationId) -> None:
    """Keep guidelines out of later summaries: people have taken back or cleared what they are about."""
    conn.execute(_HUSH, {"conversation": conversation})


def _keep(
    conn: Connection,
    session: SessionId,
    conversation: ConversationId,
    message: Message,
    calls: Sequence[str] | None = None,
) -> None:
    """Make it findable as it stands in the store: what was forgotten since it was read must not come back."""
    assert message.id is not None
    written = conn.execute(_PARTS, {"row": message.id}).scalar_one_or_none()
    parts = read_parts(written, message.id) if written is not None else ()
    transcript_search.keep(conn, session, conversation, replace(message, parts=parts), calls)


def _insert(
    conn: Connection, session: SessionId, conversation: ConversationId, message: Message, place: int, at: int
) -> int:
    values = {
        "session_id": session,
        "conv": conversation,
        "position": BY_THE_HOUSE,
        "role": message.role,
        "parts": encode_parts(message.parts),
        "agent_visible": message.agent_visible,
        "user_visible": message.user_visible,
        "pinned": message.pinned,
        "created_at": to_timestamp(message.created_at) if message.created_at is not None else at,
        "place": place,
    }
    id: int = conn.execute(_INSERT, values).scalar_one()
    return id
