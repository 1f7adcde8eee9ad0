"""Erasure in the database, wherever it holds what somebody wants forgotten: the one rewrite of a transcript.

In many short transactions, so that others are let in between. What a message has left elsewhere goes before it, and
what the memory has kept goes last: cut off anywhere, the whole can be done again. Backups and dumps are not reached:
the documentation says so.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Column, Connection, delete, func, insert, or_, select, update

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
from agent.core.outbox import OutgoingMessage
from agent.memory import rows
from agent.memory.records import Item
from agent.memory.rows import FORGOTTEN, PAGE, Erased, Target, chunks
from agent.storage.payloads import (
    decode_incoming,
    decode_outgoing,
    decode_parts,
    encode_incoming,
    encode_outgoing,
    encode_parts,
)
from agent.storage.tables import (
    approval,
    approval_rule,
    cleared_result,
    entity,
    feedback,
    goal,
    group_message,
    guideline,
    inbox,
    memory,
    memory_erasure,
    message,
    outbox,
    passage,
    plan,
    relation,
    session,
    session_goal,
    skill_outcomes,
    task,
    tool_call,
    turn,
    user_model,
)
from agent.storage.watch_tables import event_delivery, log_entry, turn_trace

# Search for what is to be forgotten. Changes nothing, and runs in a reader, so that no writer waits for it.

MOST_OF_OTHERS = 20  # things of others that a person is told of


@dataclass(frozen=True, slots=True, kw_only=True)
class Meant:
    """Things to be forgotten, by their ids; `runs` and `touched` are the runs and sessions that the messages are of.

    `sessions` are all of these conversations. `texts` is what people said in messages that go with one item or session.
    """

    items: tuple[int, ...]
    messages: tuple[int, ...]
    runs: frozenset[int]
    touched: frozenset[str]
    conversations: tuple[ConversationId, ...]
    sessions: tuple[str, ...]
    texts: tuple[str, ...]
    facts: int = 0  # of the items
    overheard: tuple[int, ...] = ()  # said in these places without addressing the bot
    since: int | None = None  # when the one session began that is meant (UTC microseconds)

    @property
    def erased(self) -> Erased:
        """How much it is."""
        return Erased(
            items=len(self.items),
            facts=self.facts,
            messages=len(self.messages) + len(self.overheard),
            conversations=self.conversations,
            texts=self.texts,
        )


def newest(conn: Connection) -> int:
    """The id of the newest erasure; 0: there was none."""
    return conn.execute(select(func.max(memory_erasure.c.id))).scalar() or 0


def places(conn: Connection, target: Target) -> tuple[ConversationId, ...]:
    """The conversations it may stand in: those of the same people; of one session its own.

    A direct chat that became a group, or that something else says is one, is none of a person's own: see `shared`.
    """
    if target.session:
        return (target.scope.conversation,)
    found = rows.conversations(conn, target.scope.theirs)
    others = shared(conn, found, target.scope.accounts) if target.scope.is_private else frozenset()
    return tuple(dict.fromkeys((target.scope.conversation, *(one for one in found if one not in others))))


def shared(
    conn: Connection, conversations: Iterable[ConversationId], accounts: Collection[PersonId]
) -> frozenset[ConversationId]:
    """The conversations in which others than the person with these accounts have spoken.

    An operator who spoke there is none of them: their account is of another platform than the conversation.
    """
    found: set[ConversationId] = set()
    for some in chunks(tuple(conversations)):
        spoke = select(session.c.conv, message.c.person).join(message, message.c.session_id == session.c.id)
        heard = select(group_message.c.conv, group_message.c.person).where(group_message.c.conv.in_(some))
        kept = select(memory.c.conv, memory.c.person).where(memory.c.conv.in_(some), memory.c.person.is_not(None))
        for query in (spoke.where(session.c.conv.in_(some), message.c.person.is_not(None)), heard, kept):
            for key, person in conn.execute(query.distinct()):
                is_there = person.partition(":")[0] == key.partition(":")[0].partition("@")[0]
                if is_there and person not in accounts:
                    found.add(ConversationId(key))
    return frozenset(found)


def gathered(conn: Connection, target: Target) -> Meant:
    """All of it, as things stand now."""
    conversations = places(conn, target)
    sessions = (target.session,) if target.session else _sessions_of(conn, conversations)
    theirs = _runs_of(conn, target.only_by, sessions) if target.only_by is not None else None
    kinds: dict[int, str] = {}
    sources: set[int] = set()
    told_in: set[str | None] = set()
    for item in _items(conn, target, theirs):
        kinds[item.id] = item.kind
        told_in.add(item.session)
        if item.inbox_id is not None:
            sources.add(item.inbox_id)
    looked_at: Iterable[str] = sessions
    if target.item is not None:
        looked_at = [id for id in sessions if id in told_in | _sessions_with(conn, sources)]
    derived = _with_traces(conn, target, sessions) if target.words else frozenset()
    hits: list[tuple[int, int | None, str]] = []
    texts: list[str] = []
    for row in _messages(conn, looked_at):
        by_the_gateway = row.inbox_id is None  # a summary, which may tell of anything
        if theirs is not None and row.inbox_id not in theirs and not by_the_gateway:
            continue
        if target.words:
            wanted = any(target.holds(text) for part in parts_of(row) for text in texts_of(part))
            wanted = wanted or row.id in derived or target.holds(row.deferred or "")
        elif target.item is not None:
            wanted = row.inbox_id in sources or (by_the_gateway and row.session_id in told_in)
        else:
            wanted = True
        if wanted:
            hits.append((row.id, row.inbox_id, row.session_id))
            if (target.item is not None or target.session) and row.person is not None:
                texts += [part.text for part in parts_of(row) if isinstance(part, TextPart)]
    if target.item is not None:
        kinds |= _copies(conn, [id for id, _, _ in hits])
    return Meant(
        items=tuple(kinds),
        facts=sum(kind == "fact" for kind in kinds.values()),
        messages=tuple(id for id, _, _ in hits),
        runs=frozenset(run for _, run, _ in hits if run is not None),
        touched=frozenset(place for _, _, place in hits),
        conversations=conversations,
        sessions=sessions,
        texts=tuple(texts),
        overheard=_overheard(conn, target, conversations),
        since=_began(conn, target.session) if target.session else None,
    )


def _copies(conn: Connection, messages: Sequence[int]) -> dict[int, str]:
    """The kinds of what recall finds of these messages, by its id; facts that came of them stand for themselves."""
    found: dict[int, str] = {}
    for some in chunks(messages):
        copies = select(memory.c.id, memory.c.kind).where(memory.c.message_id.in_(some), memory.c.kind != "fact")
        found.update((row.id, row.kind) for row in conn.execute(copies))
    return found


def _overheard(conn: Connection, target: Target, conversations: Sequence[ConversationId]) -> tuple[int, ...]:
    """Messages that did not address the bot, as they are kept for a while of groups that it reads along in."""
    if target.item is not None or target.session or target.scope.is_private:
        return ()
    found: list[int] = []
    places = dict.fromkeys((*conversations, target.scope.own.partition(":")[2]))
    for some in chunks(tuple(places)):
        here = or_(group_message.c.conv.in_(some), group_message.c.stream.in_(some))
        for row in conn.execute(select(group_message).where(here)):
            theirs = target.only_by in (None, row.person)
            if theirs and (target.everything or target.holds(row.text) or target.holds(row.name)):
                found.append(row.id)
    return tuple(found)


def of_others(conn: Connection, target: Target) -> tuple[Item, ...]:
    """Things that the target names and its scope may see, whoever told them, oldest first; at most `MOST_OF_OTHERS`."""
    named = islice(_items(conn, replace(target, only_by=None), None), MOST_OF_OTHERS)
    ids = [item.id for item in named]
    visible = rows.by_ids(conn, target.scope, ids)
    return tuple(visible[id] for id in ids if id in visible)


def files(conn: Connection, target: Target, meant: Meant) -> tuple[list[str], list[str]]:
    """Names of files that came or were sent with what is meant; and, where words are, of all others there."""
    gone: list[str] = []
    others: list[str] = []
    hits = frozenset(meant.messages)
    for row in _messages(conn, meant.sessions) if target.item is None else ():
        for part in parts_of(row) if '"path"' in row.parts else ():
            if isinstance(part, FilePart):
                whole = row.id in hits and (not target.words or target.holds(part.name))
                (gone if whole else others).append(part.path)
    for some in chunks(meant.conversations):
        ended = outbox.c.status.in_(("sent", "dead", "dropped"))
        sent = select(outbox.c.payload, outbox.c.inbox_id, outbox.c.created_at).where(outbox.c.conv.in_(some), ended)
        for row in conn.execute(sent):
            said = decode_outgoing(row.payload)
            went = is_said(target, meant.runs, row.inbox_id, said) or is_within(meant, row.created_at)
            kept = [said.spoken.folder] if said.spoken is not None else []
            (gone if went else others).extend([*kept, *(one.path for one in said.files)])
    return gone, others if target.words else []


def is_said(target: Target, runs: Collection[int], run: int | None, said: OutgoingMessage) -> bool:
    """Whether something that was sent is meant."""
    texts = (said.text, said.spoken.text if said.spoken is not None else "", *(file.name for file in said.files))
    return run in runs or any(map(target.holds, texts)) or (target.everything and target.only_by is None)


def is_within(meant: Meant, at: int) -> bool:
    """Whether it came or went while the one session was there that is meant: an answer to a command may quote it."""
    return meant.since is not None and at >= meant.since


def _began(conn: Connection, id: str) -> int | None:
    found: int | None = conn.execute(select(session.c.created_at).where(session.c.id == id)).scalar_one_or_none()
    return found


def _sessions_of(conn: Connection, conversations: Sequence[str]) -> tuple[str, ...]:
    found: list[str] = []
    for some in chunks(conversations):
        found += conn.execute(select(session.c.id).where(session.c.conv.in_(some))).scalars()
    return tuple(found)


def _with_traces(conn: Connection, target: Target, sessions: Sequence[str]) -> frozenset[int]:
    """Messages of which something that was made of them holds the words, whatever they say themselves by now."""
    found: set[int] = set()
    for made in (passage, cleared_result):
        for some in chunks(sessions):
            of_them = select(made.c.message_id, made.c.text).where(made.c.session_id.in_(some))
            found.update(row.message_id for row in conn.execute(of_them) if target.holds(row.text))
    return frozenset(found)


def _sessions_with(conn: Connection, runs: Collection[int]) -> set[str]:
    found: set[str] = set()
    for some in chunks(sorted(runs)):
        found.update(conn.execute(select(message.c.session_id).where(message.c.inbox_id.in_(some))).scalars())
    return found


def _runs_of(conn: Connection, person: PersonId, sessions: Sequence[str]) -> set[int]:
    """The runs that a person's messages began."""
    found: set[int] = set()
    for some in chunks(sessions):
        statement = select(message.c.inbox_id).where(message.c.session_id.in_(some), message.c.person == person)
        found.update(id for id in conn.execute(statement).scalars() if id is not None)
    return found


def _items(conn: Connection, target: Target, theirs: Collection[int] | None) -> Iterator[Item]:
    if target.item is not None:
        one = rows.fact(conn, target.scope.theirs, target.item)
        every: Iterable[Item] = (one,) if one is not None else ()
    else:
        audiences = (target.scope.own,) if target.session else target.scope.theirs
        every = chain.from_iterable(rows.paged(conn, audience) for audience in audiences)
    for item in every:
        if target.session and (item.session != target.session or item.kind == "fact"):
            continue
        if target.words and not target.holds(item.text) and not target.holds(item.speaker):
            continue
        if theirs is None or item.person == target.only_by or item.inbox_id in theirs:
            yield item


def _messages(conn: Connection, sessions: Iterable[str]) -> Iterator[Any]:
    """The messages of these sessions, by the index of each session: other people's are not read."""
    for one in sessions:
        after = 0
        while True:
            statement = select(message).where(message.c.session_id == one, message.c.id > after)
            page = conn.execute(statement.order_by(message.c.id).limit(PAGE)).all()
            yield from page
            if len(page) < PAGE:
                break
            after = page[-1].id


def parts_of(row: Any) -> tuple[Part, ...]:
    try:
        return decode_parts(row.parts)
    except ValidationError:  # damaged: what cannot be read is looked at as it stands
        return (TextPart(text=row.parts),)


def texts_of(part: Part) -> tuple[str, ...]:
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


# Erasure of what work has left of the words: boxes, checkpoints, calls, questions, titles, goals, remarks, misses.

COMMAND = "/memory forget"  # what is left of the command that named the words
Erase = Callable[..., None]  # of a connection, the target, what is meant, and the ids of rows to look at
Left = Sequence[tuple[Erase, Sequence[Any]]]


def left_behind(conn: Connection, meant: Meant) -> Left:
    """Where to look: every row of these conversations that may have something left. Changes nothing."""

    def of(id: Column[Any], place: Column[Any], places: Sequence[str]) -> list[Any]:
        found: list[Any] = []
        for some in chunks(places):
            found += conn.execute(select(id).where(place.in_(some))).scalars()
        return found

    here = meant.conversations
    return (
        (_sessions, meant.sessions),
        (_session_goals, meant.sessions),
        (_goals, of(goal.c.id, goal.c.conv, here)),
        (_plans, of(plan.c.id, plan.c.conv, here)),
        (_tasks, of(task.c.id, task.c.session_id, meant.sessions)),
        (_came, of(inbox.c.id, inbox.c.conv, here)),
        (_sent, of(outbox.c.id, outbox.c.conv, here)),
        (_checkpoints, of(turn.c.id, turn.c.conv, here)),
        (_calls, of(tool_call.c.id, tool_call.c.conv, here)),
        (_questions, of(approval.c.id, approval.c.conv, here)),
        (_rules, of(approval_rule.c.id, approval_rule.c.conv, here)),
        (_remarks, of(feedback.c.id, feedback.c.conv, here)),
        (_misses, of(skill_outcomes.c.id, skill_outcomes.c.conv, here)),
        (_traces, of(turn_trace.c.id, turn_trace.c.conv, here)),
        (_log_lines, of(log_entry.c.id, log_entry.c.conv, here)),
        (_events, of(event_delivery.c.id, event_delivery.c.conv, here)),
    )


def commands(conn: Connection, target: Target, conversations: Sequence[str]) -> None:
    """The words of commands that forget: of those that have ended, and of this one, whose words are gone now.

    Others that are still to be carried out would forget nothing without theirs.
    """
    columns = (inbox.c.id, inbox.c.payload, inbox.c.status, inbox.c.attempts)
    for some in chunks(conversations):
        named = inbox.c.payload.icontains(COMMAND, autoescape=True)
        for row in conn.execute(select(*columns).where(inbox.c.conv.in_(some), named)).all():
            came = decode_incoming(row.payload)
            own = row.attempts and (not target.words or target.holds(" ".join(came.text.split())))
            if _forgets(came.text) and (row.status != "new" or own):
                left = replace(came, text=COMMAND, quoted=None, quoted_from="", notes=())
                conn.execute(update(inbox).where(inbox.c.id == row.id).values(payload=encode_incoming(left)))


def _forgets(text: str) -> bool:
    return text.lstrip().lower().startswith(COMMAND)


def _sessions(conn: Connection, target: Target, meant: Meant, ids: Sequence[str]) -> None:
    """Titles are first words, summaries tell of what was said."""
    statement = select(session.c.id, session.c.title, session.c.summary).where(session.c.id.in_(ids))
    for row in conn.execute(statement).all():
        if row.id in meant.touched or target.holds(row.title) or target.holds(row.summary or ""):
            title = FORGOTTEN if not target.words or target.holds(row.title) else row.title
            values = {"title": title, "summary": None, "summary_upto": None}
            conn.execute(update(session).where(session.c.id == row.id).values(**values))


def _session_goals(conn: Connection, target: Target, meant: Meant, ids: Sequence[str]) -> None:
    """Erase the goals of sessions, which are in people's words."""
    for row in conn.execute(select(session_goal).where(session_goal.c.session_id.in_(ids))).all():
        if target.holds(row.text) or (not target.words and row.session_id in meant.touched):
            conn.execute(delete(session_goal).where(session_goal.c.session_id == row.session_id))


def _goals(conn: Connection, target: Target, meant: Meant, ids: Sequence[int]) -> None:
    """Kept goals, which go on being worked on, lose their words once ended."""
    for row in conn.execute(select(goal).where(goal.c.id.in_(ids))).all():
        if target.only_by is not None and row.person != target.only_by:
            continue
        if target.holds(row.text) or (target.everything and row.status in ("completed", "cleared")):
            conn.execute(update(goal).where(goal.c.id == row.id).values(text=FORGOTTEN))
        if row.auto and (target.everything or target.holds(json.dumps(json.loads(row.auto), ensure_ascii=False))):
            worked = json.loads(row.auto) | {"said": "", "digest": "", "recent": [], "verdict": ""}
            conn.execute(update(goal).where(goal.c.id == row.id).values(auto=json.dumps(worked)))


def _plans(conn: Connection, target: Target, meant: Meant, ids: Sequence[int]) -> None:
    """Erase plans that have ended."""
    for row in conn.execute(select(plan).where(plan.c.id.in_(ids))).all():
        theirs = target.only_by is None or row.person == target.only_by
        over = row.status in ("completed", "failed", "cancelled")
        if theirs and over and (target.everything or target.holds(f"{row.goal}\n{row.tasks}")):
            conn.execute(update(plan).where(plan.c.id == row.id).values(goal=FORGOTTEN, tasks="[]", status="cancelled"))


def _tasks(conn: Connection, target: Target, meant: Meant, ids: Sequence[int]) -> None:
    """Erase the tasks of sessions, which tell of what was said in them."""
    for row in conn.execute(select(task).where(task.c.id.in_(ids))).all():
        told = target.holds(row.description) or target.holds(row.output)
        if told or (not target.words and row.session_id in meant.touched):
            conn.execute(delete(task).where(task.c.id == row.id))


def _came(conn: Connection, target: Target, meant: Meant, ids: Sequence[int]) -> None:
    """Erase inbox rows. Commands that forget wait for the end: they are what is done again after a crash."""
    columns = (inbox.c.id, inbox.c.payload, inbox.c.status, inbox.c.created_at)
    for row in conn.execute(select(*columns).where(inbox.c.id.in_(ids))).all():
        came = decode_incoming(row.payload)
        if row.status == "new" or _forgets(came.text):  # new: not answered yet
            continue
        texts = (came.text, came.quoted or "", came.quoted_from, *(file.name for file in came.files))
        whole = is_within(meant, row.created_at) or (target.everything and target.only_by is None)
        if row.id in meant.runs or any(map(target.holds, texts)) or whole:
            left = replace(came, text=FORGOTTEN, quoted=None, quoted_from="", notes=())
            conn.execute(update(inbox).where(inbox.c.id == row.id).values(payload=encode_incoming(left)))


def _sent(conn: Connection, target: Target, meant: Meant, ids: Sequence[int]) -> None:
    """Erase sent messages, as they still stand in the outbox."""
    ended = outbox.c.status.in_(("sent", "dead", "dropped"))
    columns = (outbox.c.id, outbox.c.payload, outbox.c.inbox_id, outbox.c.created_at)
    for row in conn.execute(select(*columns).where(outbox.c.id.in_(ids), ended)).all():
        said = decode_outgoing(row.payload)
        if is_said(target, meant.runs, row.inbox_id, said) or is_within(meant, row.created_at):
            left = replace(said, text=FORGOTTEN, buttons=(), files=(), spoken=None)
            conn.execute(update(outbox).where(outbox.c.id == row.id).values(payload=encode_outgoing(left)))


def _checkpoints(conn: Connection, target: Target, meant: Meant, ids: Sequence[int]) -> None:
    """How far runs have come, once they have ended."""
    ended = (turn.c.id.in_(ids), turn.c.state != "running", turn.c.checkpoint.is_not(None))
    for row in conn.execute(select(turn.c.id, turn.c.inbox_id, turn.c.checkpoint).where(*ended)).all():
        if row.inbox_id in meant.runs or target.holds(row.checkpoint) or target.everything:
            conn.execute(update(turn).where(turn.c.id == row.id).values(checkpoint=None))


def _is_meant(row: Any, target: Target, meant: Meant, *texts: str) -> bool:
    told = row.inbox_id in meant.runs or any(map(target.holds, texts))
    return told or (target.everything and target.only_by is None)


def _calls(conn: Connection, target: Target, meant: Meant, ids: Sequence[int]) -> None:
    """The record of calls keeps who ran what and when, and loses the words."""
    for row in conn.execute(select(tool_call).where(tool_call.c.id.in_(ids))).all():
        if _is_meant(row, target, meant, row.arguments, row.result):
            emptied = {"arguments": "{}", "result": FORGOTTEN}
            conn.execute(update(tool_call).where(tool_call.c.id == row.id).values(**emptied))


def _questions(conn: Connection, target: Target, meant: Meant, ids: Sequence[str]) -> None:
    """Erase the words of questions that are answered."""
    for row in conn.execute(select(approval).where(approval.c.id.in_(ids), approval.c.status != "pending")).all():
        offered = json.loads(row.choices) if row.choices is not None else ()
        said = (row.arguments, row.reason, row.shown, row.covers or "", row.answer or "", *offered)
        if _is_meant(row, target, meant, *said):
            asked_for = {"arguments": "{}", "reason": "", "shown": FORGOTTEN, "covers": None}
            if row.choices is not None:
                asked_for |= {"choices": "[]", "answer": FORGOTTEN}
            conn.execute(update(approval).where(approval.c.id == row.id).values(**asked_for))


def _rules(conn: Connection, target: Target, meant: Meant, ids: Sequence[int]) -> None:
    """Erase rules that name what they cover for good: it is asked for again."""
    for row in conn.execute(select(approval_rule).where(approval_rule.c.id.in_(ids))).all():
        if any(map(target.holds, (row.covers, row.shown))) or (target.everything and target.only_by is None):
            conn.execute(delete(approval_rule).where(approval_rule.c.id == row.id))


def _remarks(conn: Connection, target: Target, meant: Meant, ids: Sequence[int]) -> None:
    """Erase remarks of people together with the answers, and those that hold the words."""
    for row in conn.execute(select(feedback).where(feedback.c.id.in_(ids))).all():
        theirs = target.everything and target.only_by in (None, row.person)
        if row.inbox_id in meant.runs or target.holds(row.text) or theirs:
            conn.execute(delete(feedback).where(feedback.c.id == row.id))


def _misses(conn: Connection, target: Target, meant: Meant, ids: Sequence[int]) -> None:
    statement = select(skill_outcomes.c.id, skill_outcomes.c.query).where(skill_outcomes.c.id.in_(ids))
    gone = [row.id for row in conn.execute(statement).all() if target.everything or target.holds(row.query)]
    conn.execute(delete(skill_outcomes).where(skill_outcomes.c.id.in_(gone)))


def _traces(conn: Connection, target: Target, meant: Meant, ids: Sequence[int]) -> None:
    """Traces hold no words, and tell all the same when somebody spoke: they go with what was said."""
    columns = (turn_trace.c.id, turn_trace.c.inbox_id, turn_trace.c.person)
    gone = [
        row.id
        for row in conn.execute(select(*columns).where(turn_trace.c.id.in_(ids))).all()
        if row.inbox_id in meant.runs or (target.everything and target.only_by in (None, row.person))
    ]
    conn.execute(delete(turn_trace).where(turn_trace.c.id.in_(gone)))


def _log_lines(conn: Connection, target: Target, meant: Meant, ids: Sequence[int]) -> None:
    """Lines of the log hold nobody's words by intent, but an exception may quote some.

    Those of turns that are forgotten go; with everything, unless one member of a group forgets, all lines of the place.
    """
    columns = (log_entry.c.id, log_entry.c.ref, log_entry.c.message, log_entry.c.error, log_entry.c.traceback)
    lines = conn.execute(select(*columns).where(log_entry.c.id.in_(ids))).all()
    turns = select(turn.c.run_id, turn.c.inbox_id).where(turn.c.run_id.in_({line.ref for line in lines}))
    theirs = {row.run_id for row in conn.execute(turns) if row.inbox_id in meant.runs}
    all_of_it = target.everything and target.only_by is None
    gone = [
        line.id
        for line in lines
        if all_of_it or line.ref in theirs or any(map(target.holds, (line.message, line.error, line.traceback)))
    ]
    conn.execute(delete(log_entry).where(log_entry.c.id.in_(gone)))


def _events(conn: Connection, target: Target, meant: Meant, ids: Sequence[int]) -> None:
    """Events for other programs go with the turn that they tell of, also those that are not sent yet."""
    columns = (event_delivery.c.id, event_delivery.c.inbox_id, event_delivery.c.body)
    gone = [
        row.id
        for row in conn.execute(select(*columns).where(event_delivery.c.id.in_(ids))).all()
        if row.inbox_id in meant.runs
        or (target.everything and target.only_by is None)
        or any(map(target.holds, _texts_in(row.body)))
    ]
    conn.execute(delete(event_delivery).where(event_delivery.c.id.in_(gone)))


def _texts_in(body: str) -> Sequence[str]:
    """The texts of an event's body."""
    return [text for text in json.loads(body)["data"].values() if isinstance(text, str)]


Step = Callable[[Connection], object]


def steps(target: Target, meant: Meant, left: Left, *, at: int) -> Iterator[Step]:
    """The transactions that erase it, in order; each is safe to repeat."""
    if meant.items or meant.messages or meant.overheard:
        yield partial(_note, target=target, meant=meant, at=at)
    for erase, ids in left:
        for some in chunks(ids):
            yield partial(erase, target=target, meant=meant, ids=some)
    for some in chunks(meant.overheard):
        yield partial(_unhear, ids=some)
    for some in chunks(meant.messages):
        yield partial(_rewrite, target=target, ids=some)
    for some in chunks(meant.items):
        yield partial(rows.remove, ids=some)
    yield partial(_finish, target=target, meant=meant, at=at)


def _note(conn: Connection, *, target: Target, meant: Meant, at: int) -> None:
    """Note the erasure before it ends: rows erased before an interruption leave the file as well."""
    note = {"items": len(meant.items), "messages": meant.erased.messages, "at": at}
    conn.execute(insert(memory_erasure).values(conv=target.scope.conversation, person=target.scope.person, **note))


def _finish(conn: Connection, *, target: Target, meant: Meant, at: int) -> None:
    _styles(conn, target)
    _names(conn, target)
    commands(conn, target, meant.conversations)
    _guidelines(conn, target, meant.conversations)
    # The file may have been rebuilt since the beginning.
    mine = (memory_erasure.c.conv == target.scope.conversation, memory_erasure.c.at == at)
    conn.execute(update(memory_erasure).where(*mine).values(cleaned_at=None))


def _unhear(conn: Connection, *, ids: Sequence[int]) -> None:
    conn.execute(delete(group_message).where(group_message.c.id.in_(ids)))


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
    """Erase styles of writing with everything else: from one's own chat everywhere, in a group what was seen there."""
    if not target.everything:
        return
    theirs = user_model.c.audience == target.scope.own
    if target.only_by is not None:
        theirs &= user_model.c.person == target.only_by
    elif target.scope.is_private:
        people = dict.fromkeys((target.scope.person, *target.scope.accounts))
        theirs |= user_model.c.person.in_(people) & (user_model.c.audience != "")
    conn.execute(delete(user_model).where(theirs))


def _guidelines(conn: Connection, target: Target, conversations: Sequence[ConversationId]) -> None:
    """Erase guidelines, which say what was looked for: those that hold the words, or all of them."""
    for some in chunks(conversations):
        for row in conn.execute(select(guideline).where(guideline.c.conv.in_(some))).all():
            if not target.words or target.holds(row.body):
                conn.execute(delete(guideline).where(guideline.c.conv == row.conv))


def _names(conn: Connection, target: Target) -> None:
    """Entities that are called so, and what the graph says of them."""
    if not target.words:
        return
    statement = select(entity.c.id, entity.c.name).where(entity.c.audience.in_(target.scope.theirs))
    gone = [row.id for row in conn.execute(statement).all() if target.holds(row.name)]
    for some in chunks(gone):
        conn.execute(delete(relation).where(or_(relation.c.subject_id.in_(some), relation.c.object_id.in_(some))))
        conn.execute(delete(entity).where(entity.c.id.in_(some)))
    told = select(relation.c.id, relation.c.word).where(relation.c.audience.in_(target.scope.theirs))
    for some in chunks([row.id for row in conn.execute(told).all() if target.holds(row.word)]):
        conn.execute(delete(relation).where(relation.c.id.in_(some)))
