"""INTAKE: is it sound, which session, which run; afterwards the person's words are on disk (SPEC §2.3, §19.1)."""

from dataclasses import dataclass

from sqlalchemy import Connection

from agent.core.ids import SessionId
from agent.core.messages import Message
from agent.inbox import Incoming
from agent.sessions import runs, store
from agent.sessions.records import Stored
from agent.sessions.runs import Checkpoint
from agent.storage.fence import check_epoch
from agent.storage.moments import to_us
from agent.turn.prompt import user_message
from agent.turn.run import Executed, Notice, Run, Taken
from agent.turn.saving import settle_staged, write_staged
from agent.turn.speech import Speech
from agent.turn.states import States


def refusal_of(incoming: Incoming, limit: int) -> Executed | None:
    """Why this cannot be a turn, or None (B-05)."""
    if not incoming.text.strip() and not incoming.files and not incoming.quoted:
        return Executed(verdict="refused", notice=Notice("message_empty"))
    if len(incoming.text) > limit:
        values: dict[str, object] = {"length": len(incoming.text), "limit": limit}
        return Executed(verdict="refused", notice=Notice("message_too_long", values))
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opening:
    session: SessionId
    stored: tuple[Stored, ...] = ()
    checkpoint: Checkpoint = Checkpoint()  # noqa: RUF009 - frozen
    resumed: bool = False
    terminated: bool = False
    over: bool = False


async def take_in(run: Run, states: States) -> Taken:
    """Store the message, the run and, with the first message, the session, in one transaction (W-12, W-14).

    A run that was cut off is taken up where it was. Raises Fenced or StorageTrouble.
    """
    at = states.runtime.clock.now()
    refused = refusal_of(run.work.incoming, run.settings.agent.max_message_chars)
    if refused is not None:
        return Taken(refused=refused, at=at)
    message = user_message(run.work, at)
    opening = await states.runtime.database.write(lambda conn: _open(conn, run, states, message, to_us(at)))
    if opening.terminated:
        return Taken(refused=Executed(verdict="refused", notice=Notice("session_terminated")), at=at)
    if opening.over:
        return Taken(refused=Executed(verdict="refused"), at=at)
    settle_staged(run.staged, states)
    if opening.session != states.session.id:
        if opening.resumed:
            states.message.forget()
        else:
            states.message.start_empty()
    states.session.id = run.session = opening.session
    states.session.known = True
    run.opened, run.resumed, run.checkpoint = True, opening.resumed, opening.checkpoint
    run.messages = [stored.message for stored in opening.stored]
    run.ids = [stored.message.id for stored in opening.stored]
    run.next_position = opening.stored[-1].position + 1 if opening.stored else 0
    if opening.resumed:
        _count_rounds(run, states)
    return Taken(at=at)


def _open(conn: Connection, run: Run, states: States, message: Message, at: int) -> _Opening:
    conversation, inbox_id = states.session.conversation, run.work.inbox_id
    check_epoch(conn, conversation, run.work.epoch)
    begun = runs.find_run(conn, inbox_id)
    if begun is not None:
        if begun.state != "running":
            return _Opening(session=begun.session, over=True)
        runs.take_over(conn, inbox_id, run=run.id, epoch=run.work.epoch)
        store.set_current(conn, conversation, begun.session)
        stored = store.messages_of_run(conn, inbox_id)
        return _Opening(session=begun.session, stored=stored, checkpoint=begun.checkpoint, resumed=True)
    write_staged(conn, run.staged, states, at)
    if run.fresh:
        title = run.work.incoming.text or ", ".join(file.name for file in run.work.incoming.files)
        store.open_session(conn, run.session, conversation, title=title, at=at)
    else:
        session = store.find(conn, run.session)
        if session is not None and session.state == "terminated":
            return _Opening(session=run.session, terminated=True)
    runs.open_run(
        conn,
        inbox_id=inbox_id,
        conversation=conversation,
        session=run.session,
        run=run.id,
        epoch=run.work.epoch,
        at=at,
    )
    first = Stored(message=message, inbox_id=inbox_id, position=0, person=run.work.incoming.person)
    id = store.append(conn, run.session, conversation, first, at=at)
    store.grow(conn, run.session, messages=1, prompt=0, output=0, at=at)
    return _Opening(
        session=run.session,
        stored=(Stored(message=store.with_id(message, id), inbox_id=inbox_id, position=0),),
    )


def _count_rounds(run: Run, states: States) -> None:
    """A run taken up again has the rounds behind it that are stored, and has said what they said."""
    said = []
    for message in run.messages:
        if message.role == "assistant":
            run.progress.model_calls += 1
            run.progress.steps += 1
            run.progress.tool_rounds += bool(message.tool_uses)
            said.append(store.text_of(message))
        run.progress.tool_failures += sum(result.is_error for result in message.tool_results)
    run.speech = Speech(states.runtime.outbox, tuple(said))
