"""The loop of one sub-agent task: ask the model, run what it calls for, ask again.

It has a history of its own, which nothing stores; calls of tools go the way of every call: hooks, gate, time, audit.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import anyio
from sqlalchemy import Connection

from agent.compaction.selection import CLEARED
from agent.core.cancellation import first_error
from agent.core.errors import AgentError, ContextTooLong, Refused
from agent.core.messages import Message, ToolResult, ToolUse, text_message
from agent.core.tools import AGENT, Finding
from agent.providers.provider import Provider, Request, SystemPrompt, ToolSchema
from agent.providers.registry import LazyProvider
from agent.providers.replies import Reply
from agent.providers.routing import Answered, Attempt
from agent.run.guards import ceiling, halt_before_call
from agent.run.run import Run, total_cost
from agent.subagent.profiles import schema_for
from agent.subagent.tool import NESTED
from agent.subagent.wording import (
    BLOCKED,
    FORGOTTEN,
    LAST_STEP,
    NO_ANSWER,
    NO_MODEL,
    NO_QUESTIONS,
    NO_ROOM,
    failed,
    halted,
)
from agent.tools.executor import batches_of
from agent.turn.agent_loop import step_done
from agent.turn.commit import save_records
from agent.turn.context import drop_stale_recall
from agent.turn.decision import ASK_USER, Ask, Calls, Fail, Final, decide, parts_with, with_unique_ids
from agent.turn.model_call import CallStopped, call_model, dump_reply, dump_request, tried_again
from agent.turn.requests import cache_tier_for, facts_of, routing_hint_for, stable_prompt, volatile_prompt
from agent.turn.states import States
from agent.turn.tool_calls import (
    Ready,
    not_run,
    record,
    refused,
    run_call,
    searched,
    stopped,
    through_approval_gate,
    unrunnable,
)

NOTED_WITHIN_S = 5.0  # the record of what ran, when the sub-agent task is cut off

log = logging.getLogger("tieline.subagent")


async def work(task: str, run: Run, states: States) -> Finding | None:
    """Run it to its end; None where its token was fired. Raises Fenced or StorageTrouble."""
    run.messages.append(text_message("user", task, created_at=states.runtime.services.clock.now()))
    said = ""
    forgotten, conversation = states.runtime.memory.forgotten, states.session.conversation
    since = forgotten.words(conversation)
    try:
        while not run.token.fired:
            if (found := _halted(run, said)) is not None:
                return found
            if forgotten.words(conversation) != since:  # its messages are stored nowhere: they cannot be read anew
                return _failed(FORGOTTEN, run)
            drop_stale_recall(run, states)
            advice = [await before_step(run) for before_step in states.runtime.features.before_step]
            for one in advice:
                if one.blocked:
                    log.warning("sub-agent task ended: %s", one.blocked, extra={"run": run.id})
                    return _failed(BLOCKED, run)
            context = "\n".join(one.context for one in advice if one.context)
            hint = "\n".join(filter(None, (context, *await _before_the_prompt(run, states, context))))
            try:
                reply = await _ask(schema_for(run, states), run, states, hint)
            except CallStopped:
                continue
            except AgentError as error:
                log.warning("sub-agent task ended: %s", error, extra={"run": run.id})
                return _failed(_told(error), run)
            said = reply.text or said
            if (found := await _follow(reply, run, states)) is not None:
                return found
        return None
    finally:
        with anyio.move_on_after(NOTED_WITHIN_S, shield=True):
            await save_records(run, states)


def _halted(run: Run, said: str) -> Finding | None:
    """The obstacle to another step: its own limits, or those of the run it works for."""
    assert run.parent is not None
    spent = run.parent.progress
    progress = replace(
        run.progress,
        tokens_in=spent.tokens_in,
        tokens_out=spent.tokens_out,
        cost_usd=spent.cost_usd,
        tool_ms=spent.tool_ms,
    )
    halt = halt_before_call(progress, run.settings.agent, run.settings.budget)
    return _failed(halted(halt, said), run) if halt is not None else None


async def _before_the_prompt(run: Run, states: States, hint: str) -> list[str]:
    """Words of features on the request as it is assembled, told the same as in a turn (W-40)."""

    def facts() -> Mapping[str, str]:
        provider = states.provider.slot.current()
        with suppress(ContextTooLong):  # the request itself will fail below, and say so
            built = _request(schema_for(run, states), run, states, provider, hint)
            return facts_of(built.request, built.raw_tokens, provider, states)
        return {}

    return [await say(run, facts) for say in states.runtime.features.before_request]


async def _ask(tools: ToolSchema, run: Run, states: States, hint: str) -> Reply:
    """The model's reply; `hint` is what features say. Raises CallStopped, or the AgentError that ended the call."""

    raw = 0

    def attempt(provider: Provider) -> Attempt:
        nonlocal raw
        built = _request(tools, run, states, provider, hint)
        dump_request(built.request, states)
        raw = built.raw_tokens
        return built

    try:
        answered = await call_model(attempt, run, states, previewed=False)
    except AgentError as first:
        tokens = states.metrics.estimator.scaled(raw)
        repeat = partial(call_model, attempt, run, states, previewed=False, once=True)
        settled = await tried_again(first, tokens, repeat, run, states)
        if isinstance(settled, Answered):
            answered = settled
        else:
            error, proven = settled
            if not await _is_too_long(error, tokens, run, states, proven=proven):
                raise error from None
            # With less, as the window is known to be.
            answered = await call_model(attempt, run, states, previewed=False)
    dump_reply(answered.reply, states)
    run.progress.model_calls += 1
    taken = {use.id for message in run.messages for use in message.tool_uses}
    return with_unique_ids(answered.reply, taken, states.runtime.services.new_id)


async def _is_too_long(error: AgentError, tokens: int, run: Run, states: States, *, proven: bool) -> bool:
    """Whether a request of `tokens` has shown the window to be smaller than it was thought to be."""
    provider = states.provider.slot.current()
    if not isinstance(provider, LazyProvider):
        return False
    window = provider.context_window
    with run.interrupts.scope():
        await provider.finds_too_long(error, tokens, proven=proven)
    return provider.context_window < window and not run.token.fired


async def _follow(reply: Reply, run: Run, states: States) -> Finding | None:
    """Do what the reply asks for; its answer, or None to go on."""
    then: object = decide(reply)
    if isinstance(then, Calls | Ask):
        calls = then.calls if isinstance(then, Calls) else tuple(one for one in reply.calls if one.name == ASK_USER)
        failures = await _run_calls(calls, reply, run, states)
        step_done(run, states, calls, failures)
        then = then.then if isinstance(then, Calls) else None
    else:
        step_done(run, states)
    match then:
        case Final(text=text) if text.strip():
            return Finding(text=text, steps=run.progress.steps, cost=total_cost(run.usage))
        case Final():
            return _failed(NO_ANSWER, run)
        case Fail(reason=reason):
            return _failed(reason or NO_ANSWER, run)
        case _:
            return None


async def _run_calls(calls: tuple[ToolUse, ...], reply: Reply, run: Run, states: States) -> int:
    """Run the calls and add both messages; returns how many failed."""
    now = states.runtime.services.clock.now
    run.messages.append(Message(role="assistant", parts=parts_with(reply, calls), created_at=now()))
    results = unrunnable(calls, reply, run, states) | _forbidden(calls, run, states)
    results |= searched(calls, run, states)
    waiting = [use for use in calls if use.id not in results]
    try:
        for batch in batches_of(waiting, states.tool.executor.is_safe, run.settings.tools.max_parallel):
            await _run_batch(batch, results, run, states)
            await save_records(run, states)
    except anyio.get_cancelled_exc_class():
        for use in calls:
            if use.id not in results:
                record(use, stopped(), run, states)  # it may have begun
        raise
    parts = tuple(results[use.id] for use in calls)
    run.messages.append(Message(role="user", parts=parts, created_at=now()))
    failures = sum(part.is_error for part in parts)
    run.progress.tool_rounds += 1
    run.progress.tool_failures += failures
    return failures


async def _run_batch(batch: Sequence[ToolUse], results: dict[str, ToolResult], run: Run, states: States) -> None:
    """Run those of the batch that may, and add what becomes of each to `results`."""
    if run.token.fired:
        results |= {use.id: not_run(use, stopped(), run, states) for use in batch}
        return
    passed = await through_approval_gate(batch, run, states, _nothing)
    results |= passed.results

    async def one(ready: Ready) -> None:
        results[ready.use.id] = await run_call(ready, run, states)

    with first_error():
        async with anyio.create_task_group() as group:
            for ready in passed.ready:
                group.start_soon(one, ready)


async def _nothing(also: Callable[[Connection], None]) -> None:
    """There is no loop on disk that could be gone on with."""


def _forbidden(calls: Sequence[ToolUse], run: Run, states: States) -> dict[str, ToolResult]:
    """Refused at once: a sub-agent of its own, and questions to people (R-37)."""
    whys = {AGENT: f"{AGENT} was not run: {NESTED}", ASK_USER: NO_QUESTIONS}
    return {use.id: not_run(use, refused(whys[use.name]), run, states) for use in calls if use.name in whys}


def _request(tools: ToolSchema, run: Run, states: States, provider: Provider, hint: str) -> Attempt:
    """Its whole history; where that does not fit, old results give way. Raises ContextTooLong."""
    notes = states.instruction.notes.text if run.memory.scope is not None else ""
    chat_type = run.work.incoming.chat_type
    system = SystemPrompt(
        stable=stable_prompt(run.definition, tools, place=run.settings.place),
        volatile=volatile_prompt(model=provider.model, chat_type=chat_type, notes=notes, environment=run.environment),
    )
    last = run.progress.steps + 1 >= run.settings.agent.step_budget
    services = "\n".join(filter(None, (run.reminder, LAST_STEP if last else "")))
    reminder = "\n".join(filter(None, (run.memory.recall, f"<reminder>\n{services}\n</reminder>", hint)))
    estimator = states.metrics.estimator
    fixed = estimator.tools(tools) + sum(map(estimator.text, (system.stable, system.volatile, reminder)))
    room = int(ceiling(provider.context_window, run.settings.context) / estimator.scale) - fixed
    if room <= 0 and isinstance(provider, LazyProvider) and provider.forget_guess():
        room = int(ceiling(provider.context_window, run.settings.context) / estimator.scale) - fixed
    _make_room(run, states, room)
    raw = fixed + estimator.messages(run.messages)
    tokens = estimator.scaled(raw)
    used = sum(len(step.tool_calls) for step in run.steps)
    request = Request(
        system=system,
        messages=tuple(run.messages),
        tools=tools,
        reminder=reminder,
        max_tokens=run.definition.max_tokens,
        cache_tier=cache_tier_for(tokens),
        routing_hint=routing_hint_for(tokens, tool_calls=used, code_ratio=0.0, vision=False),
        reasoning=run.settings.place.reasoning,
    )
    return Attempt(request, raw)


def _make_room(run: Run, states: States, room: int) -> None:
    estimator = states.metrics.estimator
    total = estimator.messages(run.messages)
    for place, message in enumerate(run.messages[:-1]):
        if total <= room:
            return
        if message.tool_results:
            shorter = replace(message, parts=tuple(_cleared(part) for part in message.tool_results))
            total += estimator.message(shorter) - estimator.message(message)
            run.messages[place] = shorter
    if total > room:
        raise ContextTooLong(f"a sub-agent task of {total} tokens does not fit {room}")


def _cleared(result: ToolResult) -> ToolResult:
    return replace(result, content=CLEARED) if len(result.content) > len(CLEARED) else result


def _told(error: AgentError) -> str:
    """The error for the model that waits, without the provider's words."""
    match error:
        case ContextTooLong():
            return NO_ROOM
        case Refused():
            return NO_MODEL.format(error="there is no budget left for it")
        case _:
            return NO_MODEL.format(error="no model answered")


def _failed(text: str, run: Run) -> Finding:
    return failed(text, steps=run.progress.steps, cost=total_cost(run.usage))
