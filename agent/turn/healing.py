"""When the provider finds the request itself wrong (400), the history is the suspect: it is read anew, then left out.

One bounded step: at most `MOST_CALLS` more calls, once in a run. What a request without it proved to be the culprit is
hidden from the model with the commit of the run, so that the conversation never fails for ever (PEERS §3, theme 12).
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from agent.core.errors import RequestInvalid
from agent.core.messages import Message
from agent.sessions import runs
from agent.turn.context import load_history
from agent.turn.run import Run
from agent.turn.states import States

T = TypeVar("T")

MOST_CALLS = 3  # the same request read anew; without what no model has accepted yet; without any history

log = logging.getLogger("tieline.turn")


def suspects(history: Sequence[Message], unproven_from: int | None) -> tuple[Sequence[Message], ...]:
    """What to do without, the lesser loss first: what came since the last run that went well, then everything. Pure."""
    tail = [message for message in history if unproven_from is not None and (message.id or 0) >= unproven_from]
    return (tail, history) if tail and len(tail) < len(history) else (history,)


async def heal(error: RequestInvalid, call: Callable[[], Awaitable[T]], run: Run, states: States) -> T:
    """The reply to a request that can be accepted. Raises the refusal where the history is not to blame.

    `call` makes the request anew from the states as they are then.
    """
    if run.healed or not states.message.history[states.message.view_start :]:
        raise error
    run.healed = True
    log.warning("%s; the history is read anew", error, extra={"run": run.id})
    run.speech.retract()
    await load_history(run, states)
    try:
        return await call()
    except RequestInvalid as again:
        error = again
    session = run.session
    unproven = await states.runtime.database.read(lambda conn: runs.unproven_from(conn, session))
    for span in suspects(states.message.history, unproven):
        run.speech.retract()
        with _without(span, run, states):
            try:
                reply = await call()
            except RequestInvalid as again:
                error = again
                continue
            run.set_aside = tuple(message.id for message in span if message.id is not None)
            log.warning("%d messages of the history are set aside", len(span), extra={"run": run.id})
            return reply
    raise error


@contextmanager
def _without(span: Sequence[Message], run: Run, states: States) -> Iterator[None]:
    """The history without these messages; as it was where that helped nothing."""
    state = states.message
    before = (state.history, state.view_start, state.view_tokens)
    left_out = set(span)
    state.history = [message for message in state.history if message not in left_out]
    state.view_start = 0
    state.view_tokens = states.metrics.estimator.messages(state.history)
    try:
        yield
    finally:
        if not run.set_aside:
            state.history, state.view_start, state.view_tokens = before
