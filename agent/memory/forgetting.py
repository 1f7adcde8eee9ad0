"""Erases what somebody wants forgotten, wherever the database has it: the one rewrite of a transcript (DESIGN §13.9).

Plain functions over a `Connection`, in one transaction. Backups and dumps are not reached: the documentation says so.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
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
from agent.memory import rows
from agent.memory.audience import Scope
from agent.memory.records import Item
from agent.storage.memory_tables import entity, memory_erasure, relation, skill_outcomes, user_model
from agent.storage.payloads import decode_incoming, decode_parts, decode_say, encode_incoming, encode_parts, encode_say
from agent.storage.tables import (
    approval,
    cleared_result,
    goal,
    inbox,
    message,
    outbox,
    passage,
    session,
    session_goal,
    tool_call,
    turn,
)

FORGOTTEN = "[forgotten]"
COMMAND = "/memory forget"  # what is left of the command that named the words
PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is to be erased in the scope's own audience: what holds `words`, one `item`, or (neither) everything.

    `only_by`: what that person said or was answered, and nothing of others.
    """

    scope: Scope
    words: str = ""
    item: int | None = None
    only_by: PersonId | None = None

    @property
    def everything(self) -> bool:
        return not self.words and self.item is None

    def holds(self, text: str) -> bool:
        """Whether the words stand in it, in whatever case."""
        return bool(self.words) and self.words.casefold() in text.casefold()


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """How much it was: things that were kept, messages of transcripts; `paths` are files that they named."""

    items: int
    messages: int
    conversations: tuple[ConversationId, ...] = ()
    paths: tuple[str, ...] = ()


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
        whole = not target.words
        left = tuple(part for one in parts if (part := _without(one, target, whole=whole)) is not None)
        values = {"parts": encode_parts(left or (TextPart(text=FORGOTTEN),)), "deferred": None}
        conn.execute(update(message).where(message.c.id == hit.id).values(**values))
    for part_of in _chunks(ids):
        conn.execute(delete(passage).where(passage.c.message_id.in_(part_of)))
        conn.execute(delete(cleared_result).where(cleared_result.c.message_id.in_(part_of)))
    sessions = {hit.session_id for hit in hits}
    _sessions(conn, target, conversations, sessions)
    _goals(conn, target, conversations, sessions)
    _boxes(conn, target, conversations, runs)
    _calls(conn, target, conversations, runs)
    _misses(conn, target, conversations)
    _styles(conn, target)
    rows.remove(conn, [item.id for item in items])
    _names(conn, target)
    rows.tidy_index(conn)
    erased = Erased(items=len(items), messages=len(hits), conversations=conversations, paths=tuple(paths))
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


def _sessions(conn: Connection, target: Target, conversations: Sequence[str], touched: Collection[str]) -> None:
    """Titles are first words, summaries tell of what was said."""
    statement = select(session.c.id, session.c.title, session.c.summary).where(session.c.conv.in_(conversations))
    for row in conn.execute(statement).all():
        meant = row.id in touched or target.holds(row.title) or target.holds(row.summary or "")
        if meant:
            title = FORGOTTEN if not target.words or target.holds(row.title) else row.title
            values = {"title": title, "summary": None, "summary_upto": None}
            conn.execute(update(session).where(session.c.id == row.id).values(**values))


def _goals(conn: Connection, target: Target, conversations: Sequence[str], touched: Collection[str]) -> None:
    """What sessions were after, in people's words; kept goals, which go on being worked on, lose theirs once ended."""
    of_them = select(session.c.id).where(session.c.conv.in_(conversations))
    for row in conn.execute(select(session_goal).where(session_goal.c.session_id.in_(of_them))).all():
        if target.holds(row.text) or (not target.words and row.session_id in touched):
            conn.execute(delete(session_goal).where(session_goal.c.session_id == row.session_id))
    for row in conn.execute(select(goal).where(goal.c.conv.in_(conversations))).all():
        theirs = target.only_by is None or row.person == target.only_by
        meant = target.holds(row.text) or (target.everything and row.status in ("completed", "cleared"))
        if theirs and meant:
            conn.execute(update(goal).where(goal.c.id == row.id).values(text=FORGOTTEN))


def _boxes(conn: Connection, target: Target, conversations: Sequence[str], runs: Collection[int]) -> None:
    """What came and what was sent, as it still stands in inbox, outbox and the checkpoints of runs."""
    for row in conn.execute(
        select(inbox.c.id, inbox.c.payload, inbox.c.status).where(inbox.c.conv.in_(conversations))
    ).all():
        came = decode_incoming(row.payload)
        command = came.text.lstrip().lower().startswith(COMMAND)
        if row.status == "new" and not command:
            continue  # not answered yet
        texts = (came.text, came.quoted or "", *(file.name for file in came.files))
        if row.id in runs or command or any(map(target.holds, texts)) or (target.everything and target.only_by is None):
            left = replace(came, text=COMMAND if command else FORGOTTEN, quoted=None, notes=())
            conn.execute(update(inbox).where(inbox.c.id == row.id).values(payload=encode_incoming(left)))
    sent = select(outbox.c.id, outbox.c.payload, outbox.c.inbox_id).where(
        outbox.c.conv.in_(conversations), outbox.c.status.in_(("sent", "dead", "dropped"))
    )
    for row in conn.execute(sent).all():
        said = decode_say(row.payload)
        if row.inbox_id in runs or target.holds(said.text) or (target.everything and target.only_by is None):
            left_over = replace(said, text=FORGOTTEN, buttons=(), files=())
            conn.execute(update(outbox).where(outbox.c.id == row.id).values(payload=encode_say(left_over)))
    ended = (turn.c.conv.in_(conversations), turn.c.state != "running", turn.c.checkpoint.is_not(None))
    for row in conn.execute(select(turn.c.id, turn.c.inbox_id, turn.c.checkpoint).where(*ended)).all():
        if row.inbox_id in runs or target.holds(row.checkpoint) or target.everything:
            conn.execute(update(turn).where(turn.c.id == row.id).values(checkpoint=None))


def _calls(conn: Connection, target: Target, conversations: Sequence[str], runs: Collection[int]) -> None:
    """The record of calls keeps who ran what and when, and loses the words; so do questions that are answered."""

    def meant(row: Any, *texts: str) -> bool:
        return row.inbox_id in runs or any(map(target.holds, texts)) or (target.everything and target.only_by is None)

    for row in conn.execute(select(tool_call).where(tool_call.c.conv.in_(conversations))).all():
        if meant(row, row.arguments, row.result):
            emptied = {"arguments": "{}", "result": FORGOTTEN}
            conn.execute(update(tool_call).where(tool_call.c.id == row.id).values(**emptied))
    asked = select(approval).where(approval.c.conv.in_(conversations), approval.c.status != "pending")
    for row in conn.execute(asked).all():
        if meant(row, row.arguments, row.reason, row.shown):
            asked_for = {"arguments": "{}", "reason": "", "shown": FORGOTTEN, "covers": None}
            conn.execute(update(approval).where(approval.c.id == row.id).values(**asked_for))


def _misses(conn: Connection, target: Target, conversations: Sequence[str]) -> None:
    statement = select(skill_outcomes.c.id, skill_outcomes.c.query).where(skill_outcomes.c.conv.in_(conversations))
    gone = [row.id for row in conn.execute(statement).all() if target.everything or target.holds(row.query)]
    for some in _chunks(gone):
        conn.execute(delete(skill_outcomes).where(skill_outcomes.c.id.in_(some)))


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
    for some in _chunks(gone):
        conn.execute(delete(relation).where(or_(relation.c.subject_id.in_(some), relation.c.object_id.in_(some))))
        conn.execute(delete(entity).where(entity.c.id.in_(some)))


def _chunks(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    for begin in range(0, len(ids), PAGE):
        yield ids[begin : begin + PAGE]
