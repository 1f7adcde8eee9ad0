"""Erases what somebody wants forgotten, wherever the database has it: the one rewrite of a transcript (DESIGN §13.9).

Plain functions over a `Connection`, in one transaction. Backups and dumps are not reached: the documentation says so.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection, delete, insert, or_, select, update

from agent.core.ids import ConversationId, PersonId
from agent.core.messages import (
    CompactionPart,
    FilePart,
    Part,
    RedactedThinking,
    SummaryPart,
    TextPart,
    Thinking,
    ToolResult,
    ToolUse,
)
from agent.memory import rows, traces
from agent.memory.records import Item
from agent.memory.target import FORGOTTEN, PAGE, Erased, Target, chunks
from agent.storage.memory_tables import entity, memory_erasure, relation, user_model
from agent.storage.payloads import decode_parts, encode_parts
from agent.storage.tables import cleared_result, message, passage


def found(conn: Connection, target: Target) -> Erased:
    """What `erase` would erase now; changes nothing."""
    items = _items(conn, target)
    conversations = _conversations(conn, target)
    hits = list(_messages(conn, target, items, conversations))
    return Erased(items=len(items), messages=len(hits), conversations=conversations)


def erase(conn: Connection, target: Target, *, at: int) -> Erased:
    """Erase it for good. Safe to repeat."""
    items = _items(conn, target)
    conversations = _conversations(conn, target)
    hits = list(_messages(conn, target, items, conversations))
    runs = {hit.inbox_id for hit in hits if hit.inbox_id is not None}
    ids = [hit.id for hit in hits]
    paths: list[str] = []
    for hit in hits:
        parts = _parts_of(hit)
        if target.everything:
            paths += [part.path for part in parts if isinstance(part, FilePart)]
        elif target.words:
            paths += [part.path for part in parts if isinstance(part, FilePart) and target.holds(part.name)]
        whole = not target.words
        left = tuple(part for one in parts if (part := _without(one, target, whole=whole)) is not None)
        values = {"parts": encode_parts(left or (TextPart(text=FORGOTTEN),)), "deferred": None}
        conn.execute(update(message).where(message.c.id == hit.id).values(**values))
    for part_of in chunks(ids):
        conn.execute(delete(passage).where(passage.c.message_id.in_(part_of)))
        conn.execute(delete(cleared_result).where(cleared_result.c.message_id.in_(part_of)))
    sessions = {hit.session_id for hit in hits}
    traces.sessions(conn, target, conversations, sessions)
    traces.goals(conn, target, conversations, sessions)
    traces.plans(conn, target, conversations)
    traces.tasks(conn, target, conversations, sessions)
    others = _files(conn, conversations) if target.words else []
    sent = traces.boxes(conn, target, conversations, runs)
    traces.calls(conn, target, conversations, runs)
    traces.misses(conn, target, conversations)
    _styles(conn, target)
    rows.remove(conn, [item.id for item in items])
    _names(conn, target)
    rows.tidy_index(conn)
    erased = Erased(
        items=len(items),
        messages=len(hits),
        conversations=conversations,
        paths=(*paths, *(path for path, gone in sent if gone)),
        others=(*others, *(path for path, gone in sent if not gone)),
        texts=_said(hits) if target.item is not None else (),
    )
    if items or hits:
        note = {"items": erased.items, "messages": erased.messages, "at": at}
        conn.execute(insert(memory_erasure).values(conv=target.scope.conversation, person=target.scope.person, **note))
    return erased


def _items(conn: Connection, target: Target) -> tuple[Item, ...]:
    if target.item is not None:
        one = rows.fact(conn, target.scope.own, target.item)
        every: Sequence[Item] = (one,) if one is not None else ()
    else:
        every = rows.everything(conn, target.scope.own)
    if target.words:
        every = [item for item in every if target.holds(item.text) or target.holds(item.speaker)]
    if target.only_by is not None:
        runs = _runs_of(conn, target.only_by, _conversations(conn, target))
        every = [item for item in every if item.person == target.only_by or item.inbox_id in runs]
    return tuple(every)


def _conversations(conn: Connection, target: Target) -> tuple[ConversationId, ...]:
    """Where that audience has spoken: this conversation, and others whose words it may see anyway."""
    return tuple(dict.fromkeys((target.scope.conversation, *rows.conversations(conn, target.scope.own))))


def _runs_of(conn: Connection, person: PersonId, conversations: Sequence[str]) -> set[int]:
    """The runs that a person's messages began."""
    statement = select(message.c.inbox_id).where(message.c.conv.in_(conversations), message.c.person == person)
    return {int(id) for id in conn.execute(statement).scalars() if id is not None}


def _messages(conn: Connection, target: Target, items: Sequence[Item], conversations: Sequence[str]) -> Iterator[Any]:
    """The transcript's messages that are meant. What nobody's run wrote is a summary, which may tell of anything."""
    theirs = _runs_of(conn, target.only_by, conversations) if target.only_by is not None else None
    sources = {item.inbox_id for item in items if item.inbox_id is not None}
    sessions = {item.session for item in items}
    after = 0
    while True:
        statement = select(message).where(message.c.conv.in_(conversations), message.c.id > after)
        page = conn.execute(statement.order_by(message.c.id).limit(PAGE)).all()
        if not page:
            return
        after = page[-1].id
        for row in page:
            by_the_house = row.inbox_id is None
            if theirs is not None and row.inbox_id not in theirs and not by_the_house:
                continue
            if target.words:
                wanted = any(target.holds(text) for part in _parts_of(row) for text in _texts(part))
                wanted = wanted or target.holds(row.deferred or "")
            elif target.item is not None:
                wanted = row.inbox_id in sources or (by_the_house and row.session_id in sessions)
            else:
                wanted = True
            if wanted:
                yield row


def _parts_of(row: Any) -> tuple[Part, ...]:
    try:
        return decode_parts(row.parts)
    except ValidationError:  # damaged: what cannot be read is looked at as it stands
        return (TextPart(text=row.parts),)


def _texts(part: Part) -> tuple[str, ...]:
    match part:
        case TextPart() | SummaryPart():
            return (part.text,)
        case ToolUse():
            return (json.dumps(dict(part.input), ensure_ascii=False),)
        case ToolResult():
            return (part.content,)
        case Thinking():
            return (part.thinking,)
        case FilePart():
            return (part.name,)
        case CompactionPart():
            return (part.summary,)
        case RedactedThinking():
            return ()


def _said(hits: Sequence[Any]) -> tuple[str, ...]:
    """What people wrote in these messages."""
    theirs = [hit for hit in hits if hit.person is not None]
    return tuple(part.text for hit in theirs for part in _parts_of(hit) if isinstance(part, TextPart))


def _without(part: Part, target: Target, *, whole: bool) -> Part | None:
    """The part without what is to be forgotten; calls and results stay, empty, because they stand for each other."""
    if not whole and not any(target.holds(text) for text in _texts(part)):
        return part
    match part:
        case TextPart() | SummaryPart():
            return replace(part, text=FORGOTTEN)
        case ToolUse():
            return replace(part, input={})
        case ToolResult():
            return replace(part, content=FORGOTTEN)
        case CompactionPart():
            return replace(part, summary=FORGOTTEN)
        case Thinking() | RedactedThinking() | FilePart():
            return None


def _files(conn: Connection, conversations: Sequence[str]) -> list[str]:
    """Every file that came with a message."""
    with_files = select(message.c.parts).where(message.c.conv.in_(conversations), message.c.parts.contains('"path"'))
    rows_with = conn.execute(with_files).all()
    return [part.path for row in rows_with for part in _parts_of(row) if isinstance(part, FilePart)]


def _styles(conn: Connection, target: Target) -> None:
    """How people write goes with everything else: from one's own chat everywhere, in a group what was seen there."""
    if not target.everything:
        return
    theirs = user_model.c.audience == target.scope.own
    if target.only_by is not None:
        theirs &= user_model.c.person == target.only_by
    elif target.scope.is_private:
        theirs |= (user_model.c.person == target.scope.person) & (user_model.c.audience != "")
    conn.execute(delete(user_model).where(theirs))


def _names(conn: Connection, target: Target) -> None:
    """Entities that are called so, and what the graph says of them."""
    if not target.words:
        return
    statement = select(entity.c.id, entity.c.name).where(entity.c.audience == target.scope.own)
    gone = [row.id for row in conn.execute(statement).all() if target.holds(row.name)]
    for some in chunks(gone):
        conn.execute(delete(relation).where(or_(relation.c.subject_id.in_(some), relation.c.object_id.in_(some))))
        conn.execute(delete(entity).where(entity.c.id.in_(some)))
    told = select(relation.c.id, relation.c.word).where(relation.c.audience == target.scope.own)
    for some in chunks([row.id for row in conn.execute(told).all() if target.holds(row.word)]):
        conn.execute(delete(relation).where(relation.c.id.in_(some)))
