"""The agent loop: ask the model, run its tool calls, ask again, until it is done.

Never raises for a model's or a tool's sake: every end is an `Executed`. Fenced and StorageTrouble pass.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from agent.compaction.state import ContextUsage
from agent.core.errors import (
    AgentError,
    ContextTooLong,
    NoModelAllowed,
    NoProviders,
    ProviderBusy,
    ProviderRefused,
    RequestFiltered,
    RequestInvalid,
)
from agent.core.events import ExecuteStarted, OutputSlotEscalated, StepCompleted
from agent.core.failpoints import failpoint
from agent.core.messages import FilePart, Message, TextPart, ToolUse
from agent.core.untrusted_text import unframed
from agent.ledger.spending import CapReached, OverBudget, Unpriced, amount, sentence_of
from agent.providers.provider import Provider
from agent.providers.registry import LazyProvider, answered_by, may_be_too_long
from agent.providers.replies import Reply, ReplyTooLarge
from agent.providers.routing import Answered, Attempt, ModelTooSlow
from agent.run.guards import halt_before_call
from agent.run.run import BETWEEN, Executed, LeftForLater, Notice, Prepared, Run, Step
from agent.turn.context import heal, renewed
from agent.turn.context_budget import load_of, make_room, make_room_after_refusal, sync_window
from agent.turn.decision import Ask, Calls, Ending, Fail, Final, decide, parts_ending, with_unique_ids
from agent.turn.model_call import CallStopped, call_model, dump_reply, dump_request, note_cache, tried_again
from agent.turn.requests import DoesNotFit, build_request, facts_of, fixed_of, need_of
from agent.turn.states import States, announce
from agent.turn.tool_calls import finish_calls, open_calls, run_calls

# One iteration: asks the model, and once more where that repairs the answer.

LEAST_TALK = 500  # tokens beside instructions and tools, without which no conversation is possible
CONTEXT_RETRIES = 2  # in one run; one in each iteration
KEEP_SHORT = (
    "<reminder>\nYour last answer was cut in the middle of a tool call, so nothing was run. Write less at a time, "
    "or split the work into several smaller calls.\n</reminder>"
)

log = logging.getLogger("tieline.turn")


async def ask(prepared: Prepared, run: Run, states: States, context: str = "") -> Reply:
    """Ask the model for its reply. `context` stands in its requests alone.

    Raises CallStopped, DoesNotFit, or the AgentError that ended the call.
    """

    async def call(*, once: bool = False) -> Answered:
        return await _call(prepared, run, states, hint=context, once=once)

    prepared = await renewed(prepared, run, states)
    sync_window(run, states)
    await make_room(_load(prepared, run, states), run, states)
    context = "\n".join(filter(None, (context, await _before_the_prompt(prepared, run, states, context))))
    answered = await _answered(call, prepared, run, states)
    answered = await _escalated(answered, prepared, run, states, context)
    if _cut_in_a_call(answered.reply) and not run.requests.told_to_keep_short:
        run.requests.told_to_keep_short = True
        run.speech.retract()
        answered = await _call(prepared, run, states, hint="\n".join(filter(None, (context, KEEP_SHORT))))
    return answered.reply


async def _before_the_prompt(prepared: Prepared, run: Run, states: States, context: str) -> str:
    """Words of features on the request as it is assembled (W-40): once for an iteration, not for each repeat."""

    def facts() -> Mapping[str, str]:
        provider = states.provider.slot.current()
        with suppress(DoesNotFit):  # what does not fit is made shorter below, and is told nothing of
            built = build_request(run, states, provider, prepared.memory, hint=context)
            return facts_of(built.request, built.raw_tokens, provider, states)
        return {}

    return "\n".join(filter(None, [await say(run, facts) for say in states.runtime.features.before_request]))


async def _answered(call: Callable[..., Awaitable[Answered]], prepared: Prepared, run: Run, states: States) -> Answered:
    """The answer to a request of a length and with a history that the provider takes; `call` makes the request anew."""
    again: Callable[[], Awaitable[Answered]] = call
    fitted, shortened = False, False
    while True:
        try:
            return await again()
        except DoesNotFit as misfit:  # another provider answers now, with a smaller window
            if fitted and not _forgets_guess(misfit.provider):
                raise
            fitted, again = True, call
            await make_room(_load(prepared, run, states, misfit.provider), run, states)
        except AgentError as first:
            error, proven = first, False
            if not _holds_files(run):
                tokens, repeat = states.metrics.context_tokens, partial(call, once=True)
                settled = await tried_again(first, tokens, repeat, run, states)
                if isinstance(settled, Answered):
                    return settled
                error, proven = settled
            if await _made_shorter(error, prepared, run, states, repeated=shortened, proven=proven):
                shortened = True
                log.warning("%s; trying again with less of the conversation", error, extra={"run": run.id})
                run.speech.retract()
                again = call
            elif isinstance(error, RequestInvalid) and again is call:
                again = partial(heal, error, call, run, states)
            else:
                raise error from None


async def _made_shorter(
    error: AgentError, prepared: Prepared, run: Run, states: States, *, repeated: bool, proven: bool
) -> bool:
    """Whether the length of the request was at fault, as far as can be told, and less of the conversation is left.

    `repeated`: it was made shorter before in this iteration; then only a window found to be smaller still is a reason.
    `proven`: a short request was answered meanwhile, and this one failed again.
    """
    provider = states.provider.slot.current()
    if run.requests.shortened >= CONTEXT_RETRIES or not (isinstance(error, ContextTooLong) or may_be_too_long(error)):
        return False
    window, tokens, too_long = provider.context_window, states.metrics.context_tokens, isinstance(error, ContextTooLong)
    if isinstance(provider, LazyProvider) and not _holds_files(run):
        with run.interrupts.scope():
            too_long = await provider.finds_too_long(error, tokens, proven=proven)
        if run.token.fired:
            raise CallStopped
    smaller = provider.context_window < window
    if not too_long or (repeated and not smaller):
        return False
    load = _load(prepared, run, states)
    below = answered_by(provider) if smaller else None
    if not await make_room_after_refusal(load, run, states, below=below):
        return False
    run.requests.shortened += 1
    return True


def _holds_files(run: Run) -> bool:
    """Their tokens are guessed: what fails with them shows nothing of the window."""
    return any(isinstance(part, FilePart) for message in run.messages for part in message.parts)


def _load(prepared: Prepared, run: Run, states: States, provider: Provider | None = None) -> ContextUsage:
    provider = provider or states.provider.slot.current()
    fixed = fixed_of(run, states, provider, prepared.memory)
    load = load_of(fixed, provider, states, run.settings, first=not run.progress.model_calls)
    # No compaction helps where instructions and tools alone are too long: rather doubt the guess than answer nobody,
    # unless the model has answered them together with some talk.
    heavy = load.fixed * load.scale
    if heavy > load.room and heavy + LEAST_TALK > answered_by(provider) and _forgets_guess(provider):
        return _load(prepared, run, states, provider)
    return load


def _forgets_guess(provider: Provider) -> bool:
    """Whether its window was only a guess, which is dropped now."""
    return isinstance(provider, LazyProvider) and provider.forget_guess()


async def _escalated(answered: Answered, prepared: Prepared, run: Run, states: States, context: str) -> Answered:
    """The whole answer in place of one that was cut at a length of ours (R-22).

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
    once: bool = False,
) -> Answered:
    def attempt(provider: Provider) -> Attempt:
        built = build_request(run, states, provider, prepared.memory, hint=hint, max_tokens=max_tokens)
        dump_request(built.request, states)
        run.requests.prefix = built.prefix
        failpoint("model.before")
        return Attempt(built.request, built.raw_tokens)

    answered = await call_model(attempt, run, states, previewed=previewed, need=need_of(run, states), once=once)
    note_cache(answered, run, states)
    return answered


def _cut_in_a_call(reply: Reply) -> bool:
    calls = reply.calls
    return reply.stop_reason == "max_tokens" and bool(calls) and calls[-1].id in reply.malformed


# End of a step: one reply of the model and its results. Stores nothing itself.


def step_done(run: Run, states: States, calls: Sequence[ToolUse] = (), failures: int = 0) -> None:
    """Note the step, count it, take it off the budget, go on where it has moved to, and say so.

    A turn keeps its folder to the end, and the next one begins where it was told to (Z-113); a sub-agent has no next
    one and goes on there at once.
    """
    if run.parent is None:
        cwd = states.lifecycle.cwd or run.execution.cwd
    else:
        cwd = run.moved or run.execution.cwd
        run.execution = replace(run.execution, cwd=cwd)
    names = tuple(use.name for use in calls)
    run.steps.append(Step(index=run.progress.steps, tool_calls=names, failures=failures, cwd=cwd))
    run.progress.steps += 1
    states.runtime.services.bus.publish(
        StepCompleted(
            conversation=states.session.conversation,
            run=run.id,
            step_index=run.progress.steps,
            remaining_steps=max(0, run.settings.agent.step_budget - run.progress.steps),
        )
    )


async def execute(prepared: Prepared, run: Run, states: States) -> Executed:
    """Run the loop to its end."""
    tools = states.tool.schema  # as its context was counted
    states.runtime.services.bus.publish(
        ExecuteStarted(conversation=states.session.conversation, run=run.id, tool_count=len(tools.specs))
    )
    try:
        if open_calls(run):
            await finish_calls(run, states)
        elif run.work.by_hand is not None and not run.resumed:
            return await _by_hand(run.work.by_hand, run, states)
        return await _loop(prepared, run, states)
    except LeftForLater:
        return Executed(verdict="cancelled", text=run.speech.text)


async def _loop(prepared: Prepared, run: Run, states: States) -> Executed:
    while True:
        if run.token.fired:
            return Executed(verdict="cancelled", text=run.speech.text, notice=Notice("stopped"))
        halt = halt_before_call(run.progress, run.settings.agent, run.settings.budget)
        if halt is not None:
            notice = Notice(halt.phrase, halt.values)
            return Executed(verdict="failed", text=run.speech.text, notice=notice, error=halt.phrase)
        if states.lifecycle.preemptible and run.progress.model_calls:
            run.ending.preempted = True
            return Executed(verdict="answered", text=run.speech.text)
        advice = [await before_step(run) for before_step in states.runtime.features.before_step]
        blocked = next((one.blocked for one in advice if one.blocked), "")
        if blocked:
            log.warning("the turn ends: %s", blocked, extra={"run": run.id})
            return Executed(verdict="failed", text=run.speech.text, notice=Notice("hook_blocked"), error=blocked)
        ended = await _iteration(prepared, run, states, "\n".join(one.context for one in advice if one.context))
        if ended is not None:
            return ended


async def _by_hand(call: ToolUse, run: Run, states: States) -> Executed:
    """A person has made the call with a command: what it gives is the answer, and no model is asked about it.

    After a crash there is no such call any more: the model goes on from what is stored, like after any other.
    """
    use = replace(call, id=states.runtime.services.new_id())
    failures = await run_calls((use,), Reply(parts=(use,)), run, states)
    step_done(run, states, (use,), failures)
    if run.token.fired:
        return Executed(verdict="cancelled", text=run.speech.text, notice=Notice("stopped"))
    (result,) = run.messages[-1].tool_results
    text = unframed(result.content, use.name)
    return _end(Fail(text) if result.is_error else Final(text), Reply(), run, states)


async def _iteration(prepared: Prepared, run: Run, states: States, context: str) -> Executed | None:
    """One request and what it leads to; None to go on. `context` is what features have to say."""
    try:
        given = await ask(prepared, run, states, context)
    except CallStopped:
        keep_partial(run, states)
        return Executed(verdict="cancelled", text=run.speech.text, notice=Notice("stopped"))
    except DoesNotFit as misfit:
        return Executed(verdict="failed", text=run.speech.text, notice=misfit.notice, error=misfit.notice.phrase)
    except NoProviders as error:
        return await _wait_for_providers(error, run, states)
    except ProviderBusy as error:
        if not run.speech.unfinished:  # what has begun to answer is there
            await _back_off(run, states)
        return _failed(error, run, states)
    except AgentError as error:
        return _failed(error, run, states)
    dump_reply(given, states)
    reply = with_unique_ids(given, _ids_of(run), states.runtime.services.new_id)
    run.progress.model_calls += 1
    decision = decide(reply)
    if isinstance(decision, Calls):
        run.speech.end_round(reply.text)
        failures = await run_calls(decision.calls, reply, run, states)
        step_done(run, states, decision.calls, failures)
        if decision.then is None:
            return None
        return _end(decision.then, Reply(), run, states)
    step_done(run, states)
    return _end(decision, reply, run, states)


def _end(ending: Ending, reply: Reply, run: Run, states: States) -> Executed:
    """The loop is over: keep the model's words and say how it went."""
    match ending:
        case Final():
            text = ending.text
        case Ask():
            text = ending.question
        case Fail():
            text = ending.reason
    parts = parts_ending(reply, text)
    if any(isinstance(part, TextPart) and part.text.strip() for part in parts):
        run.messages.append(Message(role="assistant", parts=parts, created_at=states.runtime.services.clock.now()))
        run.speech.end_round(BETWEEN.join(dict.fromkeys(filter(None, (reply.text, text)))))
    said = run.speech.text
    match ending:
        case Final(declined=True):
            return Executed(verdict="answered", text=said, notice=Notice("model_declined"))
        case _ if not text.strip():
            return Executed(verdict="failed", text=said, notice=Notice("empty_answer"), error="empty answer")
        case Final():
            return Executed(verdict="answered", text=said, notice=Notice("answer_cut") if ending.cut else None)
        case Ask():
            return Executed(verdict="waiting", text=said)
        case Fail():
            return Executed(verdict="failed", text=said, error="the model gave up")


def keep_partial(run: Run, states: States) -> None:
    """Keep the text streamed before the call was cut off in the transcript (B-33, G-05)."""
    partial = run.speech.unfinished
    if partial.strip():
        run.messages.append(
            Message(role="assistant", parts=(TextPart(text=partial),), created_at=states.runtime.services.clock.now())
        )
        run.speech.end_round(partial)


def _failed(error: AgentError, run: Run, states: States) -> Executed:
    """The person gets what was said so far and one sentence; the reason stands in the log (Z-33, B-33)."""
    log.error("run failed: %s", error, extra={"run": run.id, "conversation": states.session.conversation})
    partial = bool(run.speech.unfinished)
    keep_partial(run, states)
    provider = states.provider.slot.current().name
    match error:
        case ModelTooSlow():
            notice = Notice("model_slow")
        case ContextTooLong():
            notice = Notice("context_too_long")
        case RequestFiltered():
            notice = Notice("model_filtered", {"provider": provider})
        case ProviderRefused():
            notice = Notice("provider_refused", {"provider": provider})
        case ReplyTooLarge():
            notice = Notice("reply_too_large")
        case OverBudget():
            notice = over_budget(error, run, states)
        case CapReached():
            notice = Notice(*sentence_of(error))
        case NoModelAllowed():
            notice = Notice("no_model_allowed", {"models": ", ".join(error.patterns)})
        case Unpriced():
            notice = Notice("unpriced", {"model": error.model})
        case _:
            notice = Notice("model_cut") if partial else Notice("provider_busy", {"provider": provider})
    return Executed(verdict="failed", text=run.speech.text, notice=notice, error=f"{type(error).__name__}: {error}")


def over_budget(error: OverBudget, run: Run, states: States) -> Notice:
    """The limit that is used up, until when, and the buttons that an admin may press."""
    values: dict[str, object] = {
        "limit": amount(error.limit, error.unit),
        "left": amount(error.left, error.unit),
        "needed": amount(error.needed, error.unit),
        "until": f"{error.applied.account.ends:%Y-%m-%d %H:%M} UTC",
        "name": error.applied.account.name,
    }
    buttons = states.runtime.services.relief(error, run.work.incoming, states.session.conversation)
    key = f"over_budget_{error.applied.account.scope}" + ("" if error.left > 0 else "_out")
    return Notice(key, values, buttons)


async def _back_off(run: Run, states: States) -> None:
    """Note when nothing could answer and wait, so that the next message does not run into the same wall (Z-25).

    With one provider that is its own error, since nobody else was asked.
    """
    clock, wait_s = states.runtime.services.clock, run.settings.timeouts.no_providers_backoff
    states.provider.none_at = clock.monotonic()
    log.info("nobody answers, waiting %g s", wait_s, extra={"run": run.id})
    with run.interrupts.scope():
        await clock.sleep(wait_s)


async def _wait_for_providers(error: NoProviders, run: Run, states: States) -> Executed:
    log.error("no provider can answer: %s", error, extra={"run": run.id})
    await _back_off(run, states)
    return Executed(
        verdict="failed",
        text=run.speech.text,
        notice=Notice("no_providers_refused" if isinstance(error.chosen, ProviderRefused) else "no_providers"),
        error=f"NoProviders: {error}",
    )


def _ids_of(run: Run) -> set[str]:
    return {use.id for message in run.messages for use in message.tool_uses}
