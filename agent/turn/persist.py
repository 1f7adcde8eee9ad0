"""PERSIST: transcript, usage, session, replies and "inbox row done" in one fenced transaction (DESIGN §4.5)."""

from dataclasses import asdict

from sqlalchemy import Connection

from agent.compaction.pairs import with_orphaned_uses_answered
from agent.compaction.writing import settle, writing_of
from agent.core.events import PersistStarted
from agent.core.failpoints import failpoint
from agent.core.long_texts import beginning_of
from agent.core.outbox import OutgoingMessage, Tone
from agent.core.provider_events import TokensUsed
from agent.ledger import rows
from agent.sessions import runs, store
from agent.sessions.runs import Loop, RunState
from agent.storage import audit_rows, inbox_rows, outbox_rows
from agent.storage.fence import check_epoch
from agent.storage.timestamps import to_timestamp
from agent.turn.accounting import total_cost
from agent.turn.context_budget import notices_of, sync_window, write_window
from agent.turn.goals import Closed, close_goals, said_now, settle_goals
from agent.turn.no_reply import is_silence
from agent.turn.remembering import keep_words
from agent.turn.run import Executed, Notice, Persisted, Run, Verdict
from agent.turn.saving import growth_of, note_stored, write_growth
from agent.turn.states import States, announce

LONGEST_NOTE = 300  # characters of an error that is kept with the message
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
    runtime = states.runtime
    runtime.bus.publish(PersistStarted(conversation=states.session.conversation, run=run.id))
    if executed.verdict == "suspended":
        states.message.forget()
        return Persisted()
    before = run.messages[: run.windowed]
    if run.opened:
        run.messages = with_orphaned_uses_answered(run.messages)
    work, says = run.work, says_of(executed, run, states)
    hidden_from_history = (
        run.opened
        and not says
        and not run.speech.was_committed
        and (run.hidden_from_history or work.incoming.may_be_silent)
    )
    step = writing_of(states.message.compaction) if run.opened else None
    growth = growth_of(run, states)
    at = to_timestamp(runtime.clock.now())
    conversation = states.session.conversation

    def commit(conn: Connection) -> tuple[list[int | None], list[int] | None, Closed]:
        check_epoch(conn, conversation, work.epoch)
        rows.add(conn, growth.entries)
        audit_rows.add(conn, growth.records)
        ids: list[int | None] = []
        placed = write_window(conn, step, states) if step is not None else []
        loop = loop_of(run) if executed.verdict == "waiting" else None
        ends_now = run.opened and runs.end_run(conn, work.inbox_id, ENDS[executed.verdict], at, loop)
        if ends_now:
            ids = write_growth(conn, growth, run, conversation, at, states)
            if not hidden_from_history:
                keep_words(conn, run, [*run.ids, *ids], runtime.memory.lexicon, at=at)
        if hidden_from_history:  # a heartbeat with nothing to say must not fill the history that every call sends
            store.hide_run(conn, work.inbox_id)
        for part, say in enumerate(says):
            outbox_rows.add(
                conn,
                conversation=conversation,
                inbox_id=work.inbox_id,
                part=part,
                dedup=f"inbox:{work.inbox_id}:{part}",
                say=say,
                at=at,
            )
        if run.voice_unheard and ends_now:
            outbox_rows.add(
                conn,
                conversation=conversation,
                inbox_id=work.inbox_id,
                part=len(says),
                dedup=f"voice-unheard:{conversation}",  # the row that is there already says it once a chat
                say=_voice_unheard(run, states),
                at=at,
            )
        if run.on_commit is not None:
            run.on_commit(conn, executed, at)
        closed = close_goals(conn, executed, run, states, at) if ends_now or not run.opened else Closed()
        refused = executed.verdict == "refused" and not run.opened
        note = executed.notice.phrase if refused and executed.notice is not None else None
        if executed.verdict == "failed" and executed.error:
            note = beginning_of(executed.error, LONGEST_NOTE, states.tool.executor.redact)
        if run.quarantined:
            gone = f"{inbox_rows.SET_ASIDE}: {run.quarantined} messages"
            note = f"{gone}; {note}" if note else gone
        status: inbox_rows.InboxStatus = "refused" if refused else "done"
        inbox_rows.finish(conn, work.inbox_ids, status, work.epoch, note)
        take_first(conn)
        failpoint("commit.within")
        return ids, placed, closed

    failpoint("commit.before")
    with runtime.outbox.committing() as take_first:
        ids, placed, closed = await runtime.database.write(commit)
        failpoint("commit.after")
    if step is not None and placed is not None:
        settle(states.message.compaction, step, placed)
    note_stored(run, states, growth, ids)
    settle_goals(closed, states)
    if states.message.loaded and run.opened:
        same = all(one.parts is other.parts for one, other in zip(before, run.messages, strict=False))
        known = len(run.ids) == len(run.messages) and None not in run.ids
        if not hidden_from_history and same and known and placed is not None:
            sync_window(run, states)
        else:  # a repeated commit knows no ids, and what was forgotten meanwhile must be read as it stands now
            states.message.forget()
    _report_tokens(run, states)
    return Persisted(transcript_updated=run.opened, session_updated=run.opened, memory_updated=run.notes_written)


def says_of(executed: Executed, run: Run, states: States) -> tuple[OutgoingMessage, ...]:
    """What the person gets: what the model said, then what the gateway adds."""
    audience = run.audience
    if run.work.incoming.may_be_silent and (not executed.success or is_silence(executed.text)):
        return ()
    says = []
    if executed.text.strip():
        says.append(
            OutgoingMessage(
                text=executed.text,
                kind="reply",
                reply_to=audience.reply_to,
                answers=audience.message,
                interaction=audience.interaction,
            )
        )
    notices = [executed.notice] if executed.notice is not None else []
    if run.quarantined:
        notices.append(Notice("history_set_aside", {"count": run.quarantined}))
    if run.without_tools:
        notices.append(Notice("model_without_tools", {"model": run.without_tools}))
    if run.opened:
        notices += notices_of(run, states)
    for notice in notices:
        sentence = states.runtime.phrases(notice.phrase, audience.language, **notice.values)
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
    return said_now(executed, says) if run.work.incoming.wake_up is not None else tuple(says)


def _voice_unheard(run: Run, states: States) -> OutgoingMessage:
    """That voice messages are not heard here. A group hears of it below the message."""
    text = states.runtime.phrases("voice_unheard", run.audience.language)
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
    told = states.runtime.phrases("with_ref", run.audience.language, text=sentence, ref=ref)
    is_operator = incoming.role in ("admin", "owner") and incoming.chat_type == "direct"
    if is_operator and executed.error and executed.notice is not None and executed.notice.phrase in REASONED:
        told += "\n" + beginning_of(executed.error, LONGEST_NOTE, states.tool.executor.redact)
    return told


def loop_of(run: Run) -> Loop:
    """What the next message of a person goes on with, when this run ends with a question (G-18)."""
    return Loop(**asdict(run.progress), repeats=dict(run.repeats))


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
