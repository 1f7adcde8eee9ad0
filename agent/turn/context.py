"""CONTEXT: the history a model may see, the notes, and how large all that is (SPEC §2.3, §7.4). Bounded in time."""

import logging

import anyio
from sqlalchemy import Connection

from agent.core.events import ContextBuilt, ContextDegraded
from agent.goals import store as goals
from agent.sessions import store, usage
from agent.sessions.records import History
from agent.storage.moments import to_us
from agent.turn.fitting import begins_exchange
from agent.turn.goal_text import is_wanted
from agent.turn.notes import read_notes, says_terminated
from agent.turn.pairs import repaired
from agent.turn.requests import estimate_of
from agent.turn.run import Executed, Notice, Prepared, Run
from agent.turn.states import States, announce

log = logging.getLogger("tieline.turn")


async def prepare(run: Run, states: States) -> Prepared:
    """Load what is not at hand. Too slow: the turn goes on with what was cached (Z-24)."""
    degraded = False
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
    notes = states.memory.text
    estimate = estimate_of(run, states, notes)
    states.metrics.context_tokens = estimate
    states.runtime.bus.publish(
        ContextBuilt(conversation=states.session.conversation, run=run.id, token_estimate=estimate)
    )
    ended = None
    if says_terminated(notes):
        ended = Executed(verdict="refused", notice=Notice("agent_retired"))
    return Prepared(
        history=states.message.history, memory=notes, token_estimate=estimate, degraded=degraded, ended=ended
    )


def _in_back_off(run: Run, states: States) -> bool:
    since = states.provider.none_at
    return since is not None and states.runtime.clock.monotonic() - since < run.settings.timeouts.no_providers_backoff


async def _advance(run: Run, states: States) -> None:
    await read_notes(states.memory, run.settings.context.memory_chars)
    if not states.message.loaded:
        session, estimator = run.session, states.metrics.estimator

        def load(conn: Connection) -> History:
            loaded = store.history(conn, session)
            estimator.messages(loaded.messages)  # here, in the reader's thread: thousands of messages take a while
            return loaded

        take_history(await states.runtime.database.read(load), run, states)
    if is_wanted(run) and states.goal.known_for != run.session:
        session_id = run.session
        states.goal.of_session = await states.runtime.database.read(lambda conn: goals.of_session(conn, session_id))
        states.goal.known_for = session_id
    if run.settings.budget.max_daily_cost_usd is not None:
        midnight = states.runtime.clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
        conversation, since = states.session.conversation, to_us(midnight)
        totals = await states.runtime.database.read(lambda conn: usage.totals_since(conn, conversation, since))
        run.progress.spent_today_usd = totals.cost_usd


def take_history(loaded: History, run: Run, states: States) -> None:
    """Keep what was loaded, in pairs and without this run's own messages."""
    first = next((id for id in run.ids if id is not None), None)
    before = [message for message in loaded.messages if first is None or message.id is None or message.id < first]
    history = repaired(before)
    state = states.message
    # What was loaded may begin in the middle of an exchange; a request must not.
    start = next((index for index, message in enumerate(history) if begins_exchange(message)), len(history))
    state.history, state.loaded, state.view_start = history, True, start
    state.view_tokens = states.metrics.estimator.messages(history[start:])
