"""Asks the model once in an iteration, and again where that heals what came back (steps 14 to 17 of SPEC §2.4).

A request too long for the model is made shorter, also where only its size tells that it was too long; for one that the
provider finds wrong the history is mended; an answer cut at the usual length is asked for at the model's limit.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from agent.compaction.state import ContextUsage
from agent.core.errors import AgentError, ContextTooLong, RequestInvalid
from agent.core.failpoints import failpoint
from agent.core.messages import FilePart
from agent.core.provider_events import OutputSlotEscalated
from agent.providers.calling import Answered, Attempt
from agent.providers.opening import LazyProvider, answered_by, may_be_too_long
from agent.providers.provider import Provider
from agent.providers.replies import Reply
from agent.turn.caching import note_cache
from agent.turn.context_budget import load_of, make_room, make_room_after_refusal, sync_window
from agent.turn.dumping import dump_request
from agent.turn.history_recovery import heal
from agent.turn.hooking import context_of, fire
from agent.turn.model_call import CallStopped, call_model
from agent.turn.refresh import renewed
from agent.turn.requests import DoesNotFit, build_request, fixed_of, need_of
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
    context = "\n".join(filter(None, (context, await _before_the_prompt(prepared, run, states, context))))
    answered = await _answered(call, prepared, run, states)
    answered = await _escalated(answered, prepared, run, states, context)
    if _cut_in_a_call(answered.reply) and not run.told_to_keep_short:
        run.told_to_keep_short = True
        run.speech.retract()
        answered = await _call(prepared, run, states, hint="\n".join(filter(None, (context, KEEP_SHORT))))
    return answered.reply


async def _before_the_prompt(prepared: Prepared, run: Run, states: States, context: str) -> str:
    """What hooks have to say of the request as it is assembled (W-40): once for an iteration, not for each repeat."""
    if not states.runtime.hooks.wants("pre_prompt"):
        return ""
    provider, told = states.provider.slot.current(), {}
    with suppress(DoesNotFit):  # what does not fit is made shorter below, and is told nothing of
        built = build_request(run, states, provider, prepared.memory, hint=context)
        told = {
            "model": provider.model,
            "messages": str(len(built.request.messages)),
            "tokens": str(states.metrics.estimator.scaled(built.raw_tokens)),
            "routing": built.request.routing_hint,
        }
    return context_of(await fire("pre_prompt", run, states, told))


async def _answered(call: Callable[[], Awaitable[Answered]], prepared: Prepared, run: Run, states: States) -> Answered:
    """The answer to a request of a length and with a history that the provider takes; `call` makes the request anew."""
    again, fitted, shortened = call, False, False
    while True:
        try:
            return await again()
        except DoesNotFit as poison_message:  # another provider answers now, with a smaller window
            if fitted:
                raise
            fitted, again = True, call
            await make_room(_load(prepared, run, states, poison_message.provider), run, states)
        except AgentError as error:
            if await _made_shorter(error, prepared, run, states, repeated=shortened):
                shortened = True
                log.warning("%s; trying again with less of the conversation", error, extra={"run": run.id})
                run.speech.retract()
                again = call
            elif isinstance(error, RequestInvalid) and again is call:
                again = partial(heal, error, call, run, states)
            else:
                raise


async def _made_shorter(error: AgentError, prepared: Prepared, run: Run, states: States, *, repeated: bool) -> bool:
    """Whether the length of the request was at fault, as far as can be told, and less of the conversation is left.

    `repeated`: it was made shorter before in this iteration; then only a window found to be smaller still is a reason.
    """
    provider = states.provider.slot.current()
    if run.context_retries >= CONTEXT_RETRIES or not (isinstance(error, ContextTooLong) or may_be_too_long(error)):
        return False
    window, tokens, too_long = provider.context_window, states.metrics.context_tokens, isinstance(error, ContextTooLong)
    if isinstance(provider, LazyProvider) and not _holds_files(run):
        with run.interrupts.scope():
            too_long = await provider.finds_too_long(error, tokens)
        if run.token.fired:
            raise CallStopped
    smaller = provider.context_window < window
    if not too_long or (repeated and not smaller):
        return False
    load = _load(prepared, run, states)
    below = answered_by(provider) if smaller else None
    if not await make_room_after_refusal(load, run, states, below=below):
        return False
    run.context_retries += 1
    return True


def _holds_files(run: Run) -> bool:
    """Their tokens are guessed: what fails with them shows nothing of the window."""
    return any(isinstance(part, FilePart) for message in run.messages for part in message.parts)


def _load(prepared: Prepared, run: Run, states: States, provider: Provider | None = None) -> ContextUsage:
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
        failpoint("model.before")
        return Attempt(built.request, built.raw_tokens)

    answered = await call_model(attempt, run, states, previewed=previewed, need=need_of(run, states))
    note_cache(answered, run, states)
    return answered


def _cut_in_a_call(reply: Reply) -> bool:
    calls = reply.calls
    return reply.stop_reason == "max_tokens" and bool(calls) and calls[-1].id in reply.malformed
