"""Context of a turn: the history a model may see, the notes, their size, and recovery of a refused history."""

import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime

import anyio
from sqlalchemy import Connection

from agent.compaction.window import Drain
from agent.core.errors import AgentError, RequestInvalid
from agent.core.events import ContextBuilt, ContextDegraded, MemoryRead
from agent.core.messages import Message
from agent.memory import notes
from agent.providers.routing import Answered
from agent.run.environment import environment_of, look
from agent.run.run import Executed, Notice, Prepared, Run
from agent.sessions import runs, store
from agent.storage import audit_rows
from agent.storage.timestamps import to_timestamp
from agent.tools.deferred_tools import loaded_in
from agent.tools.session_tools import ENTER, EXIT
from agent.turn.context_budget import load_window, options_of, sync_window
from agent.turn.model_call import CallStopped
from agent.turn.requests import raw_of
from agent.turn.states import NotesFile, States, announce

# MEMORY.md in a turn: read anew when the file has changed, whoever changed it (B-16, B-22).

CUT = "\n[The notes go on; only their beginning is shown.]"
_TERMINATED = re.compile(r"\s*AGENT_STATUS:\s*terminated\s*$", re.MULTILINE)

log = logging.getLogger("tieline.notes")


async def read_notes(state: NotesFile, most: int, at: datetime) -> str:
    """The notes as they stand now, at most `most` characters; "" when there are none or they cannot be read."""
    await state.sync()
    try:
        status = state.path.stat()
    except OSError:
        state.signature, state.text = None, ""
        return ""
    signature = (status.st_mtime_ns, status.st_size)
    if signature != state.signature:
        try:
            # Left alone when the turn's deadline passes: a disk that does not answer would outlast it (Z-23).
            read = await anyio.to_thread.run_sync(notes.read, state.path, most + 1, abandon_on_cancel=True)
        except OSError as error:
            log.warning("notes not read, the turn goes on without them: %s", error)
            return state.text
        state.text = read[:most] + CUT if len(read) > most else read
        state.signature = signature
        await _keep_version(state, read, at)
    return state.text


def says_terminated(text: str) -> bool:
    """Whether the first line closes the agent's service here."""
    first = text.lstrip().partition("\n")[0]
    return _TERMINATED.fullmatch(first) is not None


async def _keep_version(state: NotesFile, text: str, at: datetime) -> None:
    """Keep a person's version too, so that a slip of theirs can be taken back."""
    try:
        await anyio.to_thread.run_sync(lambda: notes.keep_version(state.path, text, at=at))
    except OSError as error:
        log.warning("a version of the notes is not kept: %s", error)


async def prepare(run: Run, states: States) -> Prepared:
    """Load what is not at hand. Too slow: the turn goes on with what was cached (Z-24)."""
    degraded = False
    if not states.message.loaded:
        states.message.forget()  # what a turn without its history left there
    states.context.engine.begin_turn(run.id, options_of(run.settings))
    if _in_back_off(run, states):
        log.info("context not prepared: no provider could answer just now", extra={"run": run.id})  # Z-26
    else:
        limit = run.settings.timeouts.context_prep
        with anyio.move_on_after(limit or float("inf")) as scope:
            await _advance(run, states)
        degraded = scope.cancelled_caught
        if degraded:
            log.warning("context not ready in %g s, going on with the cached one", limit, extra={"run": run.id})
            event = ContextDegraded(conversation=states.session.conversation, run=run.id, after_s=limit)
            announce(states, event)
    states.context.run = run
    notes = states.instruction.notes.text
    sync_window(run, states)
    metrics = states.metrics
    metrics.context_raw = raw_of(run, states, notes)
    for before_call in states.runtime.features.before_call:
        if before_call(run, metrics.context_tokens):
            states.instruction.frame = None
            metrics.context_raw = raw_of(run, states, notes)
    states.runtime.services.bus.publish(
        ContextBuilt(
            conversation=states.session.conversation,
            run=run.id,
            token_estimate=metrics.context_tokens,
            window=states.provider.slot.current().context_window,
        )
    )
    ended = None
    if says_terminated(notes):
        ended = Executed(verdict="refused", notice=Notice("agent_retired"))
    return Prepared(
        history=states.message.compaction.window.messages[: states.message.compaction.own],
        memory=notes,
        token_estimate=metrics.context_tokens,
        degraded=degraded,
        ended=ended,
    )


def _in_back_off(run: Run, states: States) -> bool:
    since = states.provider.none_at
    return (
        since is not None
        and states.runtime.services.clock.monotonic() - since < run.settings.timeouts.no_providers_backoff
    )


async def _advance(run: Run, states: States) -> None:
    notes = await read_notes(
        states.instruction.notes, run.settings.context.memory_chars, states.runtime.services.clock.now()
    )
    if notes:
        announce(states, MemoryRead(conversation=states.session.conversation, run=run.id, size=len(notes)))
    await _look_around(run, states)
    if not states.message.loaded:
        await load_history(run, states)
    for context in states.runtime.features.context:
        await context(run)


async def _look_around(run: Run, states: States) -> None:
    """Where this is: known before the prompt is made, and the same until the turn ends (R-10)."""
    instruction, settings = states.instruction, run.settings
    instruction.looked = await look(states.tool.workspace, instruction.looked, settings.context.project_chars)
    has_shell = "shell" in states.tool.executor.toolbox.names
    shell = settings.tools.shell.mode if has_shell else ""
    run.environment = environment_of(instruction.looked, place=run.work.incoming.place, shell=shell)


async def load_history(run: Run, states: States) -> None:
    """Read the session's window anew, this run's own messages with it; what it had loaded and planned holds again."""
    await load_window(run.session, run.stored.ids, states)
    run.windowed = len(run.stored.ids)
    window = states.message.compaction.window
    pairs = (window[place].message for position in window.results for place in (position - 1, position) if place >= 0)
    states.tool.load(run.session, loaded_in((*pairs, *run.messages)))
    conversation, session = states.session.conversation, run.session

    def planned(conn: Connection) -> bool:
        found = store.find(conn, session)
        since = to_timestamp(found.created_at) if found is not None else 0
        last = audit_rows.last_run(conn, conversation, (ENTER, EXIT))
        return last is not None and last.tool == ENTER and last.at >= since

    states.tool.plan(session, await states.runtime.services.database.read(planned))


# Words forgotten elsewhere during a run leave its next request (docs/memory.md).


async def renewed(prepared: Prepared, run: Run, states: States) -> Prepared:
    """The window and the notes as the store has them now, where words of this conversation were rewritten."""
    drop_stale_recall(run, states)
    count = states.runtime.memory.forgotten.words(states.session.conversation)
    if count == states.message.forgotten:
        return prepared
    states.message.forgotten = count
    run.group.said = ""
    states.provider.cache.forget()
    states.instruction.notes.signature = None
    notes = await read_notes(
        states.instruction.notes, run.settings.context.memory_chars, states.runtime.services.clock.now()
    )
    if states.message.loaded:
        await read_anew(run, states)
    return replace(prepared, memory=notes)


def drop_stale_recall(run: Run, states: States) -> None:
    """An answer can do without what it was reminded of, of which something may be forgotten by now."""
    if (
        run.memory.scope is not None
        and states.runtime.memory.forgotten.facts(run.memory.scope.visible) != run.memory.recalled_after
    ):
        run.memory.recall = ""


async def read_anew(run: Run, states: States) -> None:
    """The window as the store has it, and what of the run is not stored yet."""
    states.message.forget()
    states.instruction.frame = None
    await load_history(run, states)
    sync_window(run, states)


# Recovery after a refused request (400): the history is the suspect, is read anew, then left out.

MOST_CALLS = 3  # read anew and without what was recalled; without what no model has accepted yet; without any history


def suspects(history: Sequence[Message], unproven_from: int | None) -> tuple[int, ...]:
    """From which position on to do without the history, the lesser loss first. Pure.

    First what came since the last run that went well, then everything.
    """
    if unproven_from is None:
        return (0,)
    since = next((at for at, message in enumerate(history) if (message.id or 0) >= unproven_from), 0)
    return (since, 0) if since else (0,)


async def heal(error: RequestInvalid, call: Callable[[], Awaitable[Answered]], run: Run, states: States) -> Answered:
    """The reply to a request that can be accepted. Raises the refusal where the history is not to blame.

    `call` makes the request anew from the states as they are then.
    """
    state = states.message.compaction
    if run.requests.healed or not (state.own or run.memory.recall or run.group.said):
        raise error
    run.requests.healed = True
    run.memory.recall = run.group.said = ""  # these may be the culprit as well, and the answer can do without
    log.warning("%s; the history is read anew, nothing is recalled", error, extra={"run": run.id})
    await _read_anew(run, states)
    try:
        return await call()
    except RequestInvalid as again:
        error = again
    session = run.session
    unproven = await states.runtime.services.database.read(lambda conn: runs.unproven_from(conn, session))
    for start in suspects([entry.stored for entry in state.window[: state.own]], unproven):
        run.speech.retract()
        count = state.own - start
        state.change(Drain(start=start, end=state.own, summary=None))
        try:
            answered = await call()
        except RequestInvalid as again:
            error = again
            await _read_anew(run, states)  # it was not to blame: it stays
            continue
        except (AgentError, CallStopped):
            await read_anew(run, states)  # nothing is known against it
            raise
        if answered.provider.name != states.provider.slot.current().name:
            await read_anew(run, states)  # a stand-in may have taken it as well
            return answered
        run.requests.quarantined = count
        log.warning("%d messages of the history are set aside", count, extra={"run": run.id})
        return answered
    raise error


async def _read_anew(run: Run, states: States) -> None:
    run.speech.retract()
    await read_anew(run, states)
