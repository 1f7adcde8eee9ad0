"""Keeps a run's messages in the conversation's window and makes room before each call."""

from collections.abc import Collection

from sqlalchemy import Connection

from agent.compaction import pairs
from agent.compaction import state as writing
from agent.compaction.state import ContextUsage, Options, Writing
from agent.core.events import CompactComplete, CompactTriggered, Event
from agent.core.failpoints import failpoint
from agent.core.ids import SessionId
from agent.providers.provider import Provider
from agent.run.guards import begins_exchange, ceiling
from agent.run.run import Notice, Run
from agent.run.settings import DEFAULT_WINDOW, Settings
from agent.sessions import window_store
from agent.sessions.window_store import LoadedWindow
from agent.storage.database import check_epoch
from agent.storage.timestamps import to_timestamp
from agent.turn.model_call import CallStopped
from agent.turn.states import States, announce


def options_of(settings: Settings) -> Options:
    """Options of compaction in one turn."""
    return Options(
        level=settings.context.compaction,
        memory=settings.memory,
        microcompact=settings.context.microcompact,
        subgoals=settings.agent.compression.subgoal_config,
        reserve_floor=settings.context.reserve_floor,
        flush_threshold=settings.context.flush_threshold,
    )


def load_of(fixed: int, provider: Provider, states: States, settings: Settings, *, first: bool) -> ContextUsage:
    """The weight of a request besides the window; `fixed` in raw tokens."""
    return ContextUsage(
        fixed=fixed,
        scale=states.metrics.estimator.scale,
        window=provider.context_window or DEFAULT_WINDOW,
        room=ceiling(provider.context_window, settings.context),
        first=first,
    )


async def load_window(session: SessionId, own: Collection[int | None], states: States) -> None:
    """Read the session's window; messages of the ids `own` belong to the run that goes on."""
    estimator = states.metrics.estimator

    def load(conn: Connection) -> LoadedWindow:
        loaded = window_store.load(conn, session)
        # Here, in the reader's thread: thousands of messages that were never counted take a while.
        estimator.take((entry.message, entry.counted) for entry in loaded.entries)
        return loaded

    take_window(await states.runtime.services.database.read(load), own, states)


def take_window(loaded: LoadedWindow, own_ids: Collection[int | None], states: States) -> None:
    """Let the empty window hold what was read: in pairs, from the beginning of an exchange on."""
    state = states.message.compaction
    writing.fill(state, loaded)
    window = state.window
    start = next((i for i, entry in enumerate(window) if begins_exchange(entry.message)), len(window))
    if start:
        window.skip(start)
        if state.summary is not None:
            state.summary = None  # it covers messages that are not there
    states.context.fixed = states.context.fixed or loaded.fixed
    pairs.mend(window, state.change, aloud=state.aloud)
    own = len(window)
    while own > 0 and (id := window[own - 1].stored.id) is not None and id in own_ids:
        own -= 1
    state.own = pairs.answer(window, own)
    states.message.loaded = True


def sync_window(run: Run, states: States) -> None:
    """The run's newest messages join the window."""
    states.message.compaction.window.extend(run.messages[run.windowed :])
    run.windowed = len(run.messages)


async def make_room(load: ContextUsage, run: Run, states: States) -> None:
    """Run the stages that the pressure calls for. Raises CallStopped, Fenced or StorageTrouble."""
    engine = states.context.engine
    states.context.fixed = load.fixed
    with run.interrupts.scope():
        await engine.before_call(load, idle_minutes=_idle_minutes(states) if load.first else 0.0)
    await _write_now(run, states)
    if run.token.fired:
        raise CallStopped


def _idle_minutes(states: States) -> float:
    """How long nobody had said anything when this turn began; 0 where that is not known."""
    own, window = states.message.compaction.own, states.message.compaction.window
    at = window[own - 1].stored.created_at if own else None
    return (states.runtime.services.clock.now() - at).total_seconds() / 60 if at is not None else 0.0


def notices_of(run: Run, states: States) -> tuple[Notice, ...]:
    """Notices about the window with the answer: a compaction is near (if they asked), or none helps."""
    engine, notices = states.context.engine, []
    if engine.take_exhaustion():
        notices.append(Notice("context_exhausted"))
    if run.settings.memory.warn and states.context.fixed:
        load = load_of(states.context.fixed, states.provider.slot.current(), states, run.settings, first=False)
        percent = engine.near_hard(load)
        if percent is not None:
            notices.append(Notice("context_nearly_full", {"percent": percent}))
    return tuple(notices)


def prepare_next(run: Run, states: States) -> None:
    """The turn is over and stored: what the next ones may want is made ready in the background (Z-58)."""
    if run.opened and states.message.loaded and states.context.fixed:
        load = load_of(states.context.fixed, states.provider.slot.current(), states, run.settings, first=False)
        states.context.engine.after_turn(load)


async def make_room_after_refusal(load: ContextUsage, run: Run, states: States, *, below: int | None = None) -> bool:
    """The provider found the request too long; False when nothing could be done about it (R-19, R-20).

    `below`: see `Engine.after_overflow`.
    """
    made_room = False
    with run.interrupts.scope():
        made_room = await states.context.engine.after_overflow(load, below)
    await _write_now(run, states)
    if run.token.fired:
        raise CallStopped
    return made_room


async def _write_now(run: Run, states: States) -> None:
    """Put hidden and placed rows on disk before anything goes on from them; the rest waits for the next commit."""
    unwritten = states.message.compaction.window.unwritten
    if unwritten.any:
        states.provider.cache.forget()  # of our own doing the provider reads less from its cache
    if not (unwritten.hidden or unwritten.placed) or not run.opened:
        return
    step = writing.writing_of(states.message.compaction)
    if step is None:
        return
    conversation, epoch = states.session.conversation, run.work.epoch

    def work(conn: Connection) -> list[int] | None:
        check_epoch(conn, conversation, epoch)
        written = write_window(conn, step, states)
        failpoint("window.commit")
        return written

    ids = await states.runtime.services.database.write(work)
    failpoint("window.after")
    if ids is not None:  # else the window is read again before the next request
        writing.settle(states.message.compaction, step, ids)


def write_window(conn: Connection, step: Writing, states: States) -> list[int] | None:
    """Write what compaction changed, in the caller's fenced transaction; for `settle`.

    None and nothing written where words of the conversation were, or are being, forgotten since the window was read:
    what compaction made of it may hold them.
    """
    session, conversation = states.session.id, states.session.conversation
    assert session is not None
    if not states.runtime.memory.forgotten.may_write(conversation, states.message.forgotten):
        return None
    at = to_timestamp(states.runtime.services.clock.now())
    return window_store.write(conn, session, conversation, step.changes, at=at)


def show_compaction(event: Event, states: States) -> None:
    """Publish what compaction does; people see that it goes on and what it came to, and neither stays (Z-75)."""
    announce(states, event)
    phrases, language, outbox = states.runtime.services.phrases, states.lifecycle.language, states.runtime.outbox
    match event:
        case CompactTriggered():
            outbox.status(phrases("compacting_now", language))
        case CompactComplete(tokens_before=before, tokens_after=after) if after < before:
            outbox.status(phrases("compacting", language, before=before, after=after))
        case _:
            pass
