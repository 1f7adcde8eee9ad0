"""Commit of a turn: transcript, usage, session, replies and "inbox row done" in one fenced transaction."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from sqlalchemy import Connection

from agent.compaction.pairs import with_orphaned_uses_answered
from agent.compaction.state import settle, writing_of
from agent.core.events import PersistStarted, TokensUsed
from agent.core.failpoints import failpoint
from agent.core.ids import ConversationId
from agent.core.messages import Message
from agent.core.outbox import OutgoingMessage, SpokenText, Tone, answer_of
from agent.core.untrusted_text import beginning_of, one_line
from agent.documents.documents import Document
from agent.ledger import rows
from agent.ledger.spending import Entry
from agent.providers.usage import Spent, read_of
from agent.run.features import Ended
from agent.run.run import Executed, Notice, Persisted, Run, StagedChanges, Verdict, total_cost
from agent.sessions import runs, store, window_store
from agent.sessions.runs import Checkpoint, Loop, RunState
from agent.sessions.store import Place, Stored
from agent.spoken_answers import PURPOSE, is_spoken
from agent.storage import audit_rows, inbox_rows, outbox_rows, task_rows
from agent.storage.audit_rows import Record
from agent.storage.database import check_epoch
from agent.storage.timestamps import to_timestamp
from agent.turn.context_budget import notices_of, sync_window, write_window
from agent.turn.decision import is_silence
from agent.turn.states import States, announce

# Writes of a run's progress, each in one fenced transaction. Safe to repeat.


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The parts of a run that the store lacks. The first message takes `position` in the run.

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
    """The parts of the run that are not yet stored."""
    messages = tuple(run.messages[len(run.stored.ids) :])
    return Growth(
        messages=messages,
        counted=tuple(map(states.metrics.estimator.written, messages)),
        position=run.stored.next_position,
        usage=tuple(run.usage[run.stored.usage :]),
        entries=states.runtime.services.ledger.unwritten(run.work.inbox_id),
        records=tuple(run.calls.records[run.stored.records :]),
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
    states.runtime.services.ledger.written(growth.entries)
    begin = len(run.stored.ids)
    for offset, id in enumerate(ids):
        message, stored = run.messages[begin + offset], store.with_id(run.messages[begin + offset], id)
        states.metrics.estimator.same(message, stored)
        run.messages[begin + offset] = stored
    run.stored.ids += ids
    run.stored.next_position += len(growth.messages)
    run.stored.usage += len(growth.usage)
    run.stored.records += len(growth.records)
    if growth.place is not None and growth.place == states.lifecycle.place(states.tool.workspace):
        states.lifecycle.unplaced = False


async def save_progress(
    run: Run, states: States, checkpoint: Checkpoint, also: Callable[[Connection], None] = lambda conn: None
) -> None:
    """Put what the run has come to on disk before it goes on, and `also` that. Raises Fenced or StorageTrouble."""
    growth = growth_of(run, states)
    conversation = states.session.conversation
    at = to_timestamp(states.runtime.services.clock.now())

    def work(conn: Connection) -> list[int | None]:
        check_epoch(conn, conversation, run.work.epoch)
        also(conn)
        runs.save_checkpoint(conn, run.work.inbox_id, replace(checkpoint, loop=run.loop))
        rows.add(conn, growth.entries)
        if growth.records:
            audit_rows.add(conn, growth.records)
        has_grown = growth.messages or growth.usage or growth.place
        return write_growth(conn, growth, run, conversation, at, states) if has_grown else []

    ids = await states.runtime.services.database.write(work)
    note_stored(run, states, growth, ids)
    run.stored.checkpoint = checkpoint


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

    await states.runtime.services.database.write(write)
    states.lifecycle.unplaced = False


async def save_records(run: Run, states: States) -> None:
    """Put the record of a run's calls on disk: a model never reads what is not recorded.

    Raises Fenced or StorageTrouble.
    """
    records, conversation, epoch = run.calls.records[run.stored.records :], states.session.conversation, run.work.epoch
    if not records:
        return

    def write(conn: Connection) -> None:
        check_epoch(conn, conversation, epoch)
        audit_rows.add(conn, records)

    await states.runtime.services.database.write(write)
    run.stored.records += len(records)


async def save_spent(run: Run, states: States) -> None:
    """Put on disk what a run's calls cost where no commit of a turn follows. Raises Fenced or StorageTrouble."""
    entries = states.runtime.services.ledger.unwritten(run.work.inbox_id)
    conversation, epoch = states.session.conversation, run.work.epoch
    if not entries:
        return

    def write(conn: Connection) -> None:
        check_epoch(conn, conversation, epoch)
        rows.add(conn, entries)

    await states.runtime.services.database.write(write)
    states.runtime.services.ledger.written(entries)


def write_staged(conn: Connection, staged: StagedChanges, states: States, at: int) -> None:
    """Make a command's changes to the session. Call it in a fenced transaction."""
    session = states.session.id
    if staged.hide_from is not None and session is not None:
        store.hide_from(conn, session, staged.hide_from, also_from_people=staged.hide_from_people)
        window_store.hush_guidelines(conn, states.session.conversation)
        if staged.clears:
            window_store.forget_compaction(conn, session)
    if session is not None:
        for changing in states.runtime.features.changing:
            changing(conn, staged, session, at)
    if staged.closes is not None:
        store.set_state(conn, staged.closes, "terminated")
    if staged.switch_session:
        # A session closed for good stays so when it is left (B-13).
        if session is not None and session != staged.session and store.state_of(conn, session) != "terminated":
            store.set_state(conn, session, "ended")
        if staged.session is not None:
            store.set_state(conn, staged.session, "active")
        store.set_current(conn, states.session.conversation, staged.session)
        if session is not None and staged.keep_tasks:
            task_rows.hand_on(conn, session, states.session.conversation)


def settle_staged(staged: StagedChanges, states: States) -> None:
    """The changes are on disk: let the states follow."""
    if not staged.any:
        return
    if staged.switch_session or staged.hide_from is not None:
        states.metrics.context_raw = 0  # of what is no longer there
        states.provider.cache.forget()
    for changed in states.runtime.features.changed:
        changed(staged, states.session.id)
    if staged.switch_session:
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


LONGEST_SPOKEN = 16_000  # characters of Markdown; what is read out of them is bounded by `[speech] max_chars`
LONGEST_NOTE = 300  # characters of an error that is kept with the message
LONGEST_NAME = 80  # of a file, as a notice names it
REF_DIGITS = 8  # of the run's id
# Sentences that tell of something broken, and not of a limit or a choice: they carry a reference.
ERRORS = frozenset(
    {
        "provider_busy", "provider_refused", "no_providers", "no_providers_refused", "model_filtered", "model_slow",
        "model_cut", "context_too_long", "tools_too_large", "reply_too_large", "empty_answer", "unpriced", "defect",
        "hook_blocked", "execution_timeout", "recovery_budget",
    }
)  # fmt: skip
REASONED = frozenset({"provider_refused", "no_providers", "no_providers_refused", "unpriced", "tools_too_large"})
ENDS: dict[Verdict, RunState] = {
    "answered": "done",
    "waiting": "waiting",
    "failed": "failed",
    "cancelled": "cancelled",
    "refused": "failed",
}


async def persist(executed: Executed, run: Run, states: States) -> Persisted:
    """Commit the run. A suspended one stays as it was stored, to be resumed. Raises Fenced or StorageTrouble."""
    runtime, services = states.runtime, states.runtime.services
    services.bus.publish(PersistStarted(conversation=states.session.conversation, run=run.id))
    if executed.verdict == "suspended":
        states.message.forget()
        return Persisted()
    before = run.messages[: run.windowed]
    if run.opened:
        run.messages = with_orphaned_uses_answered(run.messages)
    said = read_by_people(executed, run, states)
    work, says = run.work, says_of(said, executed, run, states)
    hidden_from_history = (
        run.opened and not says and not run.speech.was_committed and (run.ending.hidden or work.incoming.may_be_silent)
    )
    step = writing_of(states.message.compaction) if run.opened else None
    growth = growth_of(run, states)
    at = to_timestamp(services.clock.now())
    conversation = states.session.conversation

    def commit(conn: Connection) -> tuple[list[int | None], list[int] | None, list[Callable[[], None]]]:
        check_epoch(conn, conversation, work.epoch)
        rows.add(conn, growth.entries)
        if growth.records:
            audit_rows.add(conn, growth.records)
        ids: list[int | None] = []
        placed = write_window(conn, step, states) if step is not None else []
        loop = loop_of(run) if executed.verdict == "waiting" else None
        ends_now = run.opened and runs.end_run(conn, work.inbox_id, ENDS[executed.verdict], at, loop)
        if ends_now:
            ids = write_growth(conn, growth, run, conversation, at, states)
            if not hidden_from_history:
                for stored in runtime.features.stored:
                    stored(conn, run, [*run.stored.ids, *ids], at)
        if hidden_from_history:  # a heartbeat with nothing to say must not fill the history that every call sends
            store.hide_run(conn, work.inbox_id)
        outbox_rows.add_parts(
            conn, says, conversation=conversation, inbox_id=work.inbox_id, dedup=f"inbox:{work.inbox_id}", at=at
        )
        if run.ending.voice_unheard and ends_now:
            outbox_rows.add(
                conn,
                conversation=conversation,
                inbox_id=work.inbox_id,
                part=len(says),
                dedup=f"voice-unheard:{conversation}",  # the row that is there already says it once a chat
                say=_voice_unheard(run, states),
                at=at,
            )
        if run.ending.on_commit is not None:
            run.ending.on_commit(conn, executed, at)
        follow: list[Callable[[], None]] = []
        if ends_now or not run.opened:
            ended = Ended(run=run, executed=executed, said=said, at=at)
            follow += filter(None, [committing(conn, ended) for committing in runtime.features.committing])
        refused = executed.verdict == "refused" and not run.opened
        note = executed.notice.phrase if refused and executed.notice is not None else None
        if executed.verdict == "failed" and executed.error:
            note = beginning_of(executed.error, LONGEST_NOTE, states.tool.executor.redact)
        if run.requests.quarantined:
            gone = f"{inbox_rows.SET_ASIDE}: {run.requests.quarantined} messages"
            note = f"{gone}; {note}" if note else gone
        status: inbox_rows.InboxStatus = "refused" if refused else "done"
        inbox_rows.finish(conn, work.inbox_ids, status, work.epoch, note)
        take_first(conn)
        failpoint("commit.within")
        return ids, placed, follow

    failpoint("commit.before")
    with runtime.outbox.committing() as take_first:
        ids, placed, follow = await services.database.write(commit)
        failpoint("commit.after")
    if step is not None and placed is not None:
        settle(states.message.compaction, step, placed)
    note_stored(run, states, growth, ids)
    for settled in follow:
        settled()
    if states.message.loaded and run.opened:
        same = all(one.parts is other.parts for one, other in zip(before, run.messages, strict=False))
        known = len(run.stored.ids) == len(run.messages) and None not in run.stored.ids
        if not hidden_from_history and same and known and placed is not None:
            sync_window(run, states)
        else:  # a repeated commit knows no ids, and what was forgotten meanwhile must be read as it stands now
            states.message.forget()
    _report_tokens(run, states)
    return Persisted(
        transcript_updated=run.opened,
        session_updated=run.opened,
        memory_updated=run.memory.written,
        messages=len(says),
    )


def read_by_people(executed: Executed, run: Run, states: States) -> str:
    """The words of the run's end as people read them: an answer has what features add to it."""
    text = executed.text
    if text.strip() and executed.verdict == "answered":
        for final_text in states.runtime.features.final_text:
            text = final_text(run, text)
    return text


def says_of(said: str, executed: Executed, run: Run, states: States) -> tuple[OutgoingMessage, ...]:
    """The messages for the person: the words that they read, then the gateway's additions."""
    audience = run.audience
    if run.work.incoming.may_be_silent and (not executed.success or is_silence(executed.text)):
        return ()
    says = [*answer_of(said, audience)]
    notices = [executed.notice] if executed.notice is not None else []
    if run.requests.quarantined:
        notices.append(Notice("history_set_aside", {"count": run.requests.quarantined}))
    if run.requests.without_tools:
        notices.append(Notice("model_without_tools", {"model": run.requests.without_tools}))
    notices += unread(run.documents, states.provider.slot.current().takes)
    if run.opened:
        notices += notices_of(run, states)
    for notice in notices:
        sentence = states.runtime.services.phrases(notice.phrase, audience.language, **notice.values)
        if notice is executed.notice and notice.phrase in ERRORS:
            sentence = _with_reference(sentence, executed, run, states)
        says.append(
            OutgoingMessage(
                text=sentence,
                kind="notice",
                reply_to=audience.reply_to if not says else None,
                answers=audience.message,
                interaction=audience.interaction,
                buttons=notice.buttons,
                verbatim=True,
                tone=tone_of(notice, executed),
            )
        )
    if said.strip() and executed.success and _is_read_out(run, states):
        says.append(_spoken(said, run))
    if run.work.incoming.wake_up is not None and executed.verdict != "waiting":
        return ()  # of a goal's own turn only a question to a person is said at once; answers wait for the end
    return tuple(says)


def _is_read_out(run: Run, states: States) -> bool:
    settings = states.runtime.services.speech()
    return is_spoken(run.settings.place.voice, settings, run.work.incoming.files)


def _spoken(said: str, run: Run) -> OutgoingMessage:
    """The answer as a voice message, below its text: made when it is delivered, on the account of the turn."""
    spoken = SpokenText(text=said[:LONGEST_SPOKEN], key=run.id, payer=run.attribution(PURPOSE))
    return OutgoingMessage(text="", kind="reply", answers=run.audience.message, spoken=spoken)


def unread(documents: Sequence[Document], takes: frozenset[str]) -> Iterator[Notice]:
    """A notice for each document that its model knows nothing of, or sees no picture of."""
    for document in documents:
        refused = document.found.refused
        name: dict[str, object] = {"name": one_line(document.file.name, LONGEST_NAME)}
        if refused is not None and not (document.file.sent and document.file.mime_type in takes):
            yield Notice(f"document_{refused}", name)
        elif document.pages and takes.isdisjoint(page.mime_type for page in document.pages):
            yield Notice("document_unseen", name)


def _voice_unheard(run: Run, states: States) -> OutgoingMessage:
    """The notice that voice messages are not heard here. A group hears of it below the message."""
    text = states.runtime.services.phrases("voice_unheard", run.audience.language)
    return OutgoingMessage(
        text=text, kind="notice", reply_to=run.audience.reply_to, answers=run.audience.message, verbatim=True
    )


def tone_of(notice: Notice, executed: Executed) -> Tone:
    """Whether it tells that the answer was stopped, or why there is none."""
    if notice is not executed.notice:
        return ""
    return "stopped" if notice.phrase == "stopped" else "problem" if executed.verdict == "failed" else ""


def _with_reference(sentence: str, executed: Executed, run: Run, states: States) -> str:
    """With what the operator finds it by (`tieline find`). An admin in a chat of their own reads the reason at once."""
    ref, incoming = run.id[:REF_DIGITS], run.work.incoming
    told = states.runtime.services.phrases("with_ref", run.audience.language, text=sentence, ref=ref)
    is_operator = incoming.role in ("admin", "owner") and incoming.chat_type == "direct"
    if is_operator and executed.error and executed.notice is not None and executed.notice.phrase in REASONED:
        told += "\n" + beginning_of(executed.error, LONGEST_NOTE, states.tool.executor.redact)
    return told


def loop_of(run: Run) -> Loop:
    """The state that a person's next message goes on with, when this run ends with a question (G-18)."""
    return Loop(**asdict(run.progress), repeats=dict(run.calls.repeats))


def _report_tokens(run: Run, states: States) -> None:
    if not run.usage:
        return
    announce(
        states,
        TokensUsed(
            conversation=states.session.conversation,
            run=run.id,
            prompt=sum(call.usage.prompt for call in run.usage),
            output=sum(call.usage.output for call in run.usage),
            cache_creation=sum(call.usage.cache_creation for call in run.usage),
            cache_read=sum(call.usage.cache_read for call in run.usage),
            estimated_cost_usd=total_cost(run.usage),
            estimated=any(call.estimated for call in run.usage),
        ),
    )
