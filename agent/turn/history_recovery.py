"""When the provider finds the request itself wrong (400), the history is the suspect: it is read anew, then left out.

One bounded step: at most `MOST_CALLS` more calls, once in a run. What a request without it proved to be the culprit is
hidden from the model with the commit of the run, so that the conversation never fails for ever (PEERS §3, theme 12).
"""

import logging
from collections.abc import Awaitable, Callable, Sequence

from agent.compaction.changes import Drain
from agent.core.errors import AgentError, RequestInvalid
from agent.core.messages import Message
from agent.providers.calling import Answered
from agent.sessions import runs
from agent.turn.model_call import CallStopped
from agent.turn.refresh import read_anew
from agent.turn.run import Run
from agent.turn.states import States

MOST_CALLS = 3  # read anew and without what was recalled; without what no model has accepted yet; without any history

log = logging.getLogger("tieline.turn")


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
    if run.healed or not (state.own or run.recall):
        raise error
    run.healed = True
    run.recall = ""  # what was recalled may be the culprit as well, and the answer can do without it
    log.warning("%s; the history is read anew, nothing is recalled", error, extra={"run": run.id})
    await _read_anew(run, states)
    try:
        return await call()
    except RequestInvalid as again:
        error = again
    session = run.session
    unproven = await states.runtime.database.read(lambda conn: runs.unproven_from(conn, session))
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
        run.quarantined = count
        log.warning("%d messages of the history are set aside", count, extra={"run": run.id})
        return answered
    raise error


async def _read_anew(run: Run, states: States) -> None:
    run.speech.retract()
    await read_anew(run, states)
