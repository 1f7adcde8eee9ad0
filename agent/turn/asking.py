"""Asks the model once in an iteration, and again where that heals what came back (steps 14 to 17 of SPEC §2.4).

A request too long for the model is made shorter; for one that the provider finds wrong the history is mended; an answer
cut at the usual length is asked for at the model's limit.
"""

import logging

from agent.compaction.state import Load
from agent.core.crash_points import passing
from agent.core.errors import AgentError, ContextTooLong, RequestInvalid
from agent.core.provider_events import OutputSlotEscalated
from agent.providers.calling import Answered, Attempt
from agent.providers.provider import Provider
from agent.providers.replies import Reply
from agent.turn.caching import note_cache
from agent.turn.calling import call_model
from agent.turn.dumping import dump_request
from agent.turn.healing import heal
from agent.turn.hooking import context_of, fire
from agent.turn.renewing import renewed
from agent.turn.requests import DoesNotFit, build_request, fixed_of
from agent.turn.room import load_of, make_room, make_room_after_refusal, sync_window
from agent.turn.run import Prepared, Run
from agent.turn.states import States, announce

CONTEXT_RETRIES = 2  # in one run; one in each iteration (SPEC §21.9)
KEEP_SHORT = (
    "<reminder>\nYour last answer was cut in the middle of a tool call, so nothing was run. Write less at a time, "
    "or split the work into several smaller calls.\n</reminder>"
)

log = logging.getLogger("tieline.turn")


async def ask(prepared: Prepared, run: Run, states: States, context: str = "") -> Reply:
    """Steps 11 to 17: the model's reply. `context` stands in its requests alone.

    Raises CallStopped, DoesNotFit, or the AgentError that ended the call.
    """

    async def call() -> Answered:
        return await _call(prepared, run, states, hint=context)

    prepared = await renewed(prepared, run, states)
    sync_window(run, states)
    await make_room(_load(prepared, run, states), run, states)
    context = "\n".join(filter(None, (context, context_of(await fire("pre_prompt", run, states)))))  # W-40
    try:
        try:
            answered = await call()
        except DoesNotFit as misfit:  # another provider answers now, with a smaller window
            await make_room(_load(prepared, run, states, misfit.provider), run, states)
            answered = await call()
        except RequestInvalid as error:
            answered = await heal(error, call, run, states)
    except ContextTooLong as error:
        load = _load(prepared, run, states)
        if run.context_retries >= CONTEXT_RETRIES or not await make_room_after_refusal(load, run, states):
            raise
        run.context_retries += 1
        log.warning("%s; trying again with less of the conversation", error, extra={"run": run.id})
        run.speech.retract()
        answered = await call()
    answered = await _escalated(answered, prepared, run, states, context)
    if _cut_in_a_call(answered.reply) and not run.told_to_keep_short:
        run.told_to_keep_short = True
        run.speech.retract()
        answered = await _call(prepared, run, states, hint="\n".join(filter(None, (context, KEEP_SHORT))))
    return answered.reply


def _load(prepared: Prepared, run: Run, states: States, provider: Provider | None = None) -> Load:
    provider = provider or states.provider.slot.current()
    fixed = fixed_of(run, states, provider, prepared.memory)
    return load_of(fixed, provider, states, run.settings, first=not run.progress.model_calls)


async def _escalated(answered: Answered, prepared: Prepared, run: Run, states: States, context: str) -> Answered:
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
        whole = await _call(prepared, run, states, hint=context, max_tokens=ceiling, previewed=False)
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
    def attempt(provider: Provider) -> Attempt:
        built = build_request(run, states, provider, prepared.memory, hint=hint, max_tokens=max_tokens)
        dump_request(built.request, states)
        run.prefix = built.prefix
        passing("model.before")
        return Attempt(built.request, built.raw_tokens)

    answered = await call_model(attempt, run, states, previewed=previewed)
    note_cache(answered, run, states)
    return answered


def _cut_in_a_call(reply: Reply) -> bool:
    calls = reply.calls
    return reply.stop_reason == "max_tokens" and bool(calls) and calls[-1].id in reply.malformed
