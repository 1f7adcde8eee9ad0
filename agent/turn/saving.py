"""Writes what a run has come to, in one fenced transaction each time (DESIGN §13.4). Safe to repeat."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from agent.core.ids import ConversationId, SessionId
from agent.core.messages import Message
from agent.goals import store as goals
from agent.goals.lifecycle import IDLE, completed
from agent.ledger import rows
from agent.ledger.attributions import Entry
from agent.memory.index import take_back
from agent.providers.metering import Spent, read_of
from agent.sessions import runs, store, windows
from agent.sessions.records import Place, Stored
from agent.sessions.runs import Checkpoint
from agent.storage import audit_rows, task_rows
from agent.storage.audit_rows import Record
from agent.storage.fence import check_epoch
from agent.storage.timestamps import to_timestamp
from agent.turn.hooking import session_ends_soon
from agent.turn.run import Run, StagedChanges
from agent.turn.states import States


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What a run has and the store does not. The first message takes `position` in the run.

    `usage` is counted in the session, `entries` are the ledger's, `records` the audit's.
    """

    messages: tuple[Message, ...]
    counted: tuple[str, ...]  # what each message weighs
    position: int
    usage: tuple[Spent, ...]
    entries: tuple[Entry, ...]
    records: tuple[Record, ...]
    place: Place | None = None  # where the session's next turn works, where that has changed


def growth_of(run: Run, states: States) -> Growth:
    """What is not yet stored of the run."""
    messages = tuple(run.messages[len(run.ids) :])
    return Growth(
        messages=messages,
        counted=tuple(map(states.metrics.estimator.written, messages)),
        position=run.next_position,
        usage=tuple(run.usage[run.usage_stored :]),
        entries=states.runtime.ledger.unwritten(run.work.inbox_id),
        records=tuple(run.records[run.records_stored :]),
        place=_place_of(run, states),
    )


def _place_of(run: Run, states: States) -> Place | None:
    lifecycle = states.lifecycle
    changed = lifecycle.unplaced and run.parent is None and lifecycle.placed_for == run.session
    return lifecycle.place(states.tool.workspace) if changed else None


def write_growth(
    conn: Connection, growth: Growth, run: Run, conversation: ConversationId, at: int, states: States
) -> list[int | None]:
    """Add the messages and what their calls used; returns the messages' ids. Call it in a fenced transaction."""
    if growth.place is not None:
        store.put_place(conn, run.session, growth.place)
    ids: list[int | None] = []
    person = run.work.incoming.person
    for offset, (message, counted) in enumerate(zip(growth.messages, growth.counted, strict=True)):
        stored = Stored(
            message=message,
            inbox_id=run.work.inbox_id,
            position=growth.position + offset,
            person=person if growth.position + offset == 0 else None,
            counted=counted,
        )
        ids.append(store.append(conn, run.session, conversation, stored, at=at))
    if growth.messages and not any(ids):
        return ids  # this growth was written before: a commit whose answer was lost, or a cancelled wait for it
    store.grow(
        conn,
        run.session,
        messages=len([id for id in ids if id is not None]),
        prompt=sum(read_of(call.usage) for call in growth.usage),
        output=sum(call.usage.output for call in growth.usage),
        at=at,
        besides=store.Besides(fixed, states.metrics.estimator.scale) if (fixed := states.context.fixed) else None,
    )
    return ids


def note_stored(run: Run, states: States, growth: Growth, ids: list[int | None]) -> None:
    """The growth is on disk."""
    states.runtime.ledger.written(growth.entries)
    begin = len(run.ids)
    for offset, id in enumerate(ids):
        message, stored = run.messages[begin + offset], store.with_id(run.messages[begin + offset], id)
        states.metrics.estimator.same(message, stored)
        run.messages[begin + offset] = stored
    run.ids += ids
    run.next_position += len(growth.messages)
    run.usage_stored += len(growth.usage)
    run.records_stored += len(growth.records)
    if growth.place is not None and growth.place == states.lifecycle.place(states.tool.workspace):
        states.lifecycle.unplaced = False


async def save_progress(
    run: Run, states: States, checkpoint: Checkpoint, also: Callable[[Connection], None] = lambda conn: None
) -> None:
    """Put what the run has come to on disk before it goes on, and `also` that. Raises Fenced or StorageTrouble."""
    growth = growth_of(run, states)
    conversation = states.session.conversation
    at = to_timestamp(states.runtime.clock.now())

    def work(conn: Connection) -> list[int | None]:
        check_epoch(conn, conversation, run.work.epoch)
        also(conn)
        runs.save_checkpoint(conn, run.work.inbox_id, replace(checkpoint, loop=run.loop))
        rows.add(conn, growth.entries)
        audit_rows.add(conn, growth.records)
        has_grown = growth.messages or growth.usage or growth.place
        return write_growth(conn, growth, run, conversation, at, states) if has_grown else []

    ids = await states.runtime.database.write(work)
    note_stored(run, states, growth, ids)
    run.checkpoint = checkpoint


async def save_place(run: Run, states: States) -> None:
    """Put on disk what hooks have set at the beginning of a turn: they are not asked again after a crash.

    Raises Fenced or StorageTrouble.
    """
    place, conversation, epoch = _place_of(run, states), states.session.conversation, run.work.epoch
    if place is None:
        return

    def write(conn: Connection) -> None:
        check_epoch(conn, conversation, epoch)
        store.put_place(conn, run.session, place)

    await states.runtime.database.write(write)
    states.lifecycle.unplaced = False


async def save_records(run: Run, states: States) -> None:
    """Put the record of a run's calls on disk: a model never reads what is not recorded.

    Raises Fenced or StorageTrouble.
    """
    records, conversation, epoch = run.records[run.records_stored :], states.session.conversation, run.work.epoch
    if not records:
        return

    def write(conn: Connection) -> None:
        check_epoch(conn, conversation, epoch)
        audit_rows.add(conn, records)

    await states.runtime.database.write(write)
    run.records_stored += len(records)


async def save_spent(run: Run, states: States) -> None:
    """Put on disk what a run's calls cost where no commit of a turn follows. Raises Fenced or StorageTrouble."""
    entries = states.runtime.ledger.unwritten(run.work.inbox_id)
    conversation, epoch = states.session.conversation, run.work.epoch
    if not entries:
        return

    def write(conn: Connection) -> None:
        check_epoch(conn, conversation, epoch)
        rows.add(conn, entries)

    await states.runtime.database.write(write)
    states.runtime.ledger.written(entries)


def write_staged(conn: Connection, staged: StagedChanges, states: States, at: int) -> None:
    """Make a command's changes to the session. Call it in a fenced transaction."""
    session = states.session.id
    if staged.hide_from is not None and session is not None:
        store.hide_from(conn, session, staged.hide_from, also_from_people=staged.hide_from_people)
        windows.hush_guidelines(conn, states.session.conversation)
        if staged.hide_from_people:
            take_back(conn, session, staged.hide_from)
    if session is not None:
        _write_goal(conn, staged, session, at)
    if staged.closes is not None:
        store.set_state(conn, staged.closes, "terminated")
    if staged.switch_session:
        # What was closed for good stays so when it is left (B-13).
        if session is not None and session != staged.session and store.state_of(conn, session) != "terminated":
            store.set_state(conn, session, "ended")
        if staged.session is not None:
            store.set_state(conn, staged.session, "active")
        store.set_current(conn, states.session.conversation, staged.session)
        if session is not None and staged.keep_tasks:
            task_rows.hand_on(conn, session, states.session.conversation)


def _write_goal(conn: Connection, staged: StagedChanges, session: SessionId, at: int) -> None:
    """A cleared session and one that was left for a fresh one are after nothing any more (Z-87)."""
    if staged.clears or (staged.switch_session and staged.session is None):
        goals.put_of_session(conn, session, IDLE, at)
    elif staged.complete_goal:
        goals.put_of_session(conn, session, completed(goals.of_session(conn, session)), at)


def settle_staged(staged: StagedChanges, states: States) -> None:
    """The changes are on disk: let the states follow."""
    if staged.switch_session or staged.hide_from is not None:
        states.metrics.context_raw = 0  # of what is no longer there
        states.provider.cache.forget()
    if staged.taken_back:
        states.runtime.learning.take_back(states.session.conversation, staged.taken_back)
    if staged.complete_goal:
        states.goal.of_session = states.goal.completed = completed(states.goal.of_session)
    elif staged.any:
        states.goal.of_session, states.goal.known_for = IDLE, None
    if staged.switch_session:
        if states.session.id is not None and states.session.id != staged.session:
            session_ends_soon(states.session.id, states)
        states.session.id = staged.session
        states.session.known = True
        if staged.session is None:
            states.message.start_empty()
        else:
            states.message.start_other()
    elif staged.clears:
        states.message.start_other()
    elif staged.hide_from is not None:
        states.message.forget()
