"""EXECUTE: ask the model, run what it calls for, ask again, until it is done (steps 7 to 18 of SPEC §2.4).

Never raises for a model's or a tool's sake: every end is an `Executed`. Fenced and StorageTrouble pass.
"""

import logging
from dataclasses import replace

from agent.core.errors import AgentError, ContextTooLong, NoProviders, ProviderBusy, ProviderRefused, RequestFiltered
from agent.core.events import ExecuteStarted
from agent.core.framing import unframed
from agent.core.messages import Message, TextPart, ToolUse
from agent.ledger.spending import OverBudget, Unpriced, amount
from agent.ledger.spending_caps import CapReached
from agent.providers.calling import ModelTooSlow
from agent.providers.replies import Reply, ReplyTooLarge
from agent.turn.approving import LeftForLater
from agent.turn.decision import Ask, Calls, Ending, Fail, Final, decide, parts_ending, with_unique_ids
from agent.turn.dumping import dump_reply
from agent.turn.goals import sentence_of
from agent.turn.guards import halt_before_call
from agent.turn.hooking import context_of, fire
from agent.turn.model_call import CallStopped
from agent.turn.model_request import ask
from agent.turn.requests import DoesNotFit, schema_of
from agent.turn.run import Executed, Notice, Prepared, Run
from agent.turn.speech import BETWEEN
from agent.turn.states import States
from agent.turn.step_accounting import step_done
from agent.turn.tool_calls import finish_calls, open_calls, run_calls

log = logging.getLogger("tieline.turn")


async def execute(prepared: Prepared, run: Run, states: States) -> Executed:
    """Run the loop to its end."""
    runtime = states.runtime
    tools = schema_of(run, states)
    runtime.bus.publish(
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
        if run.token.fired:  # step 7
            return Executed(verdict="cancelled", text=run.speech.text, notice=Notice("stopped"))
        halt = halt_before_call(run.progress, run.settings.agent, run.settings.budget)  # step 8
        if halt is not None:
            notice = Notice(halt.phrase, halt.values)
            return Executed(verdict="failed", text=run.speech.text, notice=notice, error=halt.phrase)
        if states.goal.preemptible and run.progress.model_calls:
            run.preempted = True
            return Executed(verdict="answered", text=run.speech.text)
        began = await fire("on_turn_start", run, states)
        if began.blocked:
            log.warning("the turn ends: %s", began.blocked, extra={"run": run.id})
            return Executed(verdict="failed", text=run.speech.text, notice=Notice("hook_blocked"), error=began.blocked)
        ended = await _iteration(prepared, run, states, context_of(began))
        if ended is not None:
            return ended


async def _by_hand(call: ToolUse, run: Run, states: States) -> Executed:
    """A person has made the call with a command: what it gives is the answer, and no model is asked about it.

    After a crash there is no such call any more: the model goes on from what is stored, like after any other.
    """
    use = replace(call, id=states.runtime.new_id())
    failures = await run_calls((use,), Reply(parts=(use,)), run, states)
    step_done(run, states, (use,), failures)
    if run.token.fired:
        return Executed(verdict="cancelled", text=run.speech.text, notice=Notice("stopped"))
    (result,) = run.messages[-1].tool_results
    text = unframed(result.content, use.name)
    return _end(Fail(text) if result.is_error else Final(text), Reply(), run, states)


async def _iteration(prepared: Prepared, run: Run, states: States, context: str) -> Executed | None:
    """One request and what it leads to; None to go on. `context` is what hooks have to say."""
    try:
        given = await ask(prepared, run, states, context)
    except CallStopped:
        keep_partial(run, states)
        return Executed(verdict="cancelled", text=run.speech.text, notice=Notice("stopped"))
    except DoesNotFit as poison_message:
        return Executed(
            verdict="failed", text=run.speech.text, notice=poison_message.notice, error=poison_message.notice.phrase
        )
    except NoProviders as error:
        return await _wait_for_providers(error, run, states)
    except ProviderBusy as error:
        if not run.speech.unfinished:  # what has begun to answer is there
            await _back_off(run, states)
        return _failed(error, run, states)
    except AgentError as error:
        return _failed(error, run, states)
    dump_reply(given, states)
    reply = with_unique_ids(given, _ids_of(run), states.runtime.new_id)
    run.progress.model_calls += 1
    decision = decide(reply)
    if isinstance(decision, Calls):
        run.speech.end_round(reply.text)
        failures = await run_calls(decision.calls, reply, run, states)  # step 18
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
        run.messages.append(Message(role="assistant", parts=parts, created_at=states.runtime.clock.now()))
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
    """What was streamed before the call was cut off stays in the transcript (B-33, G-05)."""
    partial = run.speech.unfinished
    if partial.strip():
        run.messages.append(
            Message(role="assistant", parts=(TextPart(text=partial),), created_at=states.runtime.clock.now())
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
        case Unpriced():
            notice = Notice("unpriced", {"model": error.model})
        case _:
            notice = Notice("model_cut") if partial else Notice("provider_busy", {"provider": provider})
    return Executed(verdict="failed", text=run.speech.text, notice=notice, error=f"{type(error).__name__}: {error}")


def over_budget(error: OverBudget, run: Run, states: States) -> Notice:
    """What is used up, until when, and what an admin may press (SPEC §2.7)."""
    values: dict[str, object] = {
        "limit": amount(error.limit, error.unit),
        "left": amount(error.left, error.unit),
        "needed": amount(error.needed, error.unit),
        "until": f"{error.applied.account.ends:%Y-%m-%d %H:%M} UTC",
        "name": error.applied.account.name,
    }
    buttons = states.runtime.relief(error, run.work.incoming, states.session.conversation)
    key = f"over_budget_{error.applied.account.scope}" + ("" if error.left > 0 else "_out")
    return Notice(key, values, buttons)


async def _back_off(run: Run, states: States) -> None:
    """Note when nothing could answer and wait, so that the next message does not run into the same wall (Z-25).

    With one provider that is its own error, since nobody else was asked.
    """
    clock, wait_s = states.runtime.clock, run.settings.timeouts.no_providers_backoff
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
