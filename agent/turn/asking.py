"""Asks the model once in an iteration, and again where that heals what came back (steps 14 to 17 of SPEC §2.4).

A request too long for the model is made shorter; for one that the provider finds wrong the history is mended; an answer
cut at the usual length is asked for at the model's limit.
"""

import logging

from agent.core.crash_points import passing
from agent.core.errors import AgentError, ContextTooLong, RequestInvalid
from agent.core.events import OutputSlotEscalated
from agent.providers.calling import Answered, Attempt
from agent.providers.provider import Provider
from agent.providers.replies import Reply
from agent.turn.caching import note_cache
from agent.turn.calling import call_model
from agent.turn.healing import heal
from agent.turn.requests import build_request
from agent.turn.run import Prepared, Run
from agent.turn.states import States, announce

CONTEXT_RETRIES = 2  # in one run; one in each iteration (SPEC §21.9)
KEEP_SHORT = (
    "<reminder>\nYour last answer was cut in the middle of a tool call, so nothing was run. Write less at a time, "
    "or split the work into several smaller calls.\n</reminder>"
)

log = logging.getLogger("tieline.turn")


async def ask(prepared: Prepared, run: Run, states: States) -> Reply:
    """The model's reply. Raises CallStopped, DoesNotFit, or the AgentError that ended the call."""

    async def call() -> Answered:
        return await _call(prepared, run, states)

    try:
        try:
            answered = await call()
        except RequestInvalid as error:
            answered = await heal(error, call, run, states)
    except ContextTooLong as error:
        if run.context_retries >= CONTEXT_RETRIES or not await states.message.make_room(states):
            raise
        run.context_retries += 1
        log.warning("%s; trying again with a shorter history", error, extra={"run": run.id})
        run.speech.retract()
        answered = await call()
    answered = await _escalated(answered, prepared, run, states)
    if _cut_in_a_call(answered.reply) and not run.told_to_keep_short:
        run.told_to_keep_short = True
        run.speech.retract()
        answered = await _call(prepared, run, states, hint=KEEP_SHORT)
    return answered.reply


async def _escalated(answered: Answered, prepared: Prepared, run: Run, states: States) -> Answered:
    """The whole answer in place of one that was cut at a length of ours (SPEC §6.8).

    It is not shown while it grows: the cut text stays until the whole one is there, and for good if it does not come.
    """
    provider = answered.provider
    ceiling = provider.output_ceiling
    if answered.reply.stop_reason != "max_tokens" or ceiling is None or answered.request.max_tokens is not None:
        return answered
    announce(
        states,
        OutputSlotEscalated(
            conversation=states.session.conversation,
            run=run.id,
            provider=provider.name,
            model=provider.model,
            max_tokens=ceiling,
        ),
    )
    try:
        whole = await _call(prepared, run, states, max_tokens=ceiling, previewed=False)
    except AgentError as error:
        log.warning("the answer stays cut: %s", error, extra={"run": run.id})
        return answered
    run.speech.retract()
    run.speech.delta(whole.reply.text)
    return whole


async def _call(
    prepared: Prepared,
    run: Run,
    states: States,
    *,
    hint: str = "",
    max_tokens: int | None = None,
    previewed: bool = True,
) -> Answered:
    state = states.message

    def attempt(provider: Provider) -> Attempt:
        view = state.view_start, state.view_tokens
        built = build_request(run, states, provider, prepared.memory, hint=hint, max_tokens=max_tokens)
        if provider.name != states.provider.slot.current().name:
            # The smaller window of one that stands in must not cost the history afterwards.
            state.view_start, state.view_tokens = view
        run.prefix = built.prefix
        passing("model.before")
        return Attempt(built.request, built.raw_tokens)

    answered = await call_model(attempt, run, states, previewed=previewed)
    note_cache(answered, run, states)
    return answered


def _cut_in_a_call(reply: Reply) -> bool:
    calls = reply.calls
    return reply.stop_reason == "max_tokens" and bool(calls) and calls[-1].id in reply.malformed
