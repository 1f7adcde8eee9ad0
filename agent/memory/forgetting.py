"""Erases what somebody wants forgotten, wherever the database has it: the one rewrite of a transcript (DESIGN §13.9).

In many short transactions, so that others are let in between. What a message has left elsewhere goes before it, and
what the memory has kept goes last: cut off anywhere, the whole can be done again. Backups and dumps are not reached:
the documentation says so.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from sqlalchemy import Connection, delete, insert, or_, select, update

from agent.core.ids import ConversationId
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
from agent.memory.gathering import Meant, parts_of, texts_of
from agent.memory.target import FORGOTTEN, Target, chunks
from agent.storage.memory_tables import entity, memory_erasure, relation, user_model
from agent.storage.payloads import encode_parts
from agent.storage.transcript_tables import cleared_result, guideline, message, passage

Step = Callable[[Connection], object]


def steps(target: Target, meant: Meant, left: traces.Left, *, at: int) -> Iterator[Step]:
    """The transactions that erase it, in order; each is safe to repeat."""
    if meant.items or meant.messages:
        yield partial(_note, target=target, meant=meant, at=at)
    for erase, ids in left:
        for some in chunks(ids):
            yield partial(erase, target=target, meant=meant, ids=some)
    for some in chunks(meant.messages):
        yield partial(_rewrite, target=target, ids=some)
    for some in chunks(meant.items):
        yield partial(rows.remove, ids=some)
    yield partial(_finish, target=target, meant=meant, at=at)


def _note(conn: Connection, *, target: Target, meant: Meant, at: int) -> None:
    """That it is done stands there before it is: what was erased when all was cut off leaves the file as well."""
    note = {"items": len(meant.items), "messages": len(meant.messages), "at": at}
    conn.execute(insert(memory_erasure).values(conv=target.scope.conversation, person=target.scope.person, **note))


def _finish(conn: Connection, *, target: Target, meant: Meant, at: int) -> None:
    _styles(conn, target)
    _names(conn, target)
    traces.commands(conn, target, meant.conversations)
    _guidelines(conn, target, meant.conversations)
    # The file may have been rebuilt since the beginning.
    mine = (memory_erasure.c.conv == target.scope.conversation, memory_erasure.c.at == at)
    conn.execute(update(memory_erasure).where(*mine).values(cleaned_at=None))


def _rewrite(conn: Connection, *, target: Target, ids: Sequence[int]) -> None:
    """Take it out of these messages, and out of what was derived from them."""
    for row in conn.execute(select(message).where(message.c.id.in_(ids))).all():
        found = (_without(part, target, whole=not target.words) for part in parts_of(row))
        left = tuple(part for part in found if part is not None)
        values = {"parts": encode_parts(left or (TextPart(text=FORGOTTEN),)), "deferred": None}
        conn.execute(update(message).where(message.c.id == row.id).values(**values))
    conn.execute(delete(passage).where(passage.c.message_id.in_(ids)))
    conn.execute(delete(cleared_result).where(cleared_result.c.message_id.in_(ids)))


def _without(part: Part, target: Target, *, whole: bool) -> Part | None:
    """The part without what is to be forgotten; calls and results stay, empty, because they stand for each other."""
    if not whole and not any(target.holds(text) for text in texts_of(part)):
        return part
    match part:
        case TextPart():
            return replace(part, text=FORGOTTEN)
        case SummaryPart():
            return replace(part, text=FORGOTTEN, sealed="")
        case ToolUse():
            return replace(part, input={})
        case ToolResult():
            return replace(part, content=FORGOTTEN)
        case CompactionPart():
            return replace(part, summary=FORGOTTEN)
        case Thinking() | RedactedThinking() | FilePart():
            return None


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


def _guidelines(conn: Connection, target: Target, conversations: Sequence[ConversationId]) -> None:
    """What compactions have learnt says what was looked for: what holds the words goes, or all of it."""
    for some in chunks(conversations):
        for row in conn.execute(select(guideline).where(guideline.c.conv.in_(some))).all():
            if not target.words or target.holds(row.body):
                conn.execute(delete(guideline).where(guideline.c.conv == row.conv))


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
