"""Runs the tool calls of one reply: recorded before and after, in groups, results in call order (SPEC §12.2)."""

import json
from collections.abc import Mapping, Sequence

import anyio

from agent.core.crash_points import passing
from agent.core.events import ToolEnded, ToolStarted
from agent.core.groups import first_error
from agent.core.ids import CallId
from agent.core.messages import Message, ToolResult, ToolUse
from agent.core.tools import Asker, ToolContext
from agent.memory.desk import MemoryDesk
from agent.providers.replies import Reply
from agent.sessions.recollection import Recollection
from agent.sessions.runs import Checkpoint
from agent.tools.batches import batches_of
from agent.tools.deferring import SEARCH
from agent.tools.executor import Limits, Outcome
from agent.turn.calling import bill_of
from agent.turn.decision import parts_with
from agent.turn.requests import scope_of
from agent.turn.run import Run, Step
from agent.turn.saving import save_progress
from agent.turn.settings import Settings
from agent.turn.shortening import shortened
from agent.turn.states import States, announce

LONGEST_SUMMARY = 200
STOPPED = "Not finished: the person stopped this run."
INTERRUPTED = "Interrupted by a restart; it is not known whether this call took effect. Check before repeating it."
REPEATED = (
    "Not run: this is call number {count} of {name} with the same arguments in this task, and the result would be "
    "the same. Use the results above, or change the arguments."
)


async def run_calls(calls: tuple[ToolUse, ...], reply: Reply, run: Run, states: States) -> None:
    """Run the calls of a reply and add both messages to the run. Raises Fenced or StorageTrouble."""
    run.messages.append(
        Message(role="assistant", parts=parts_with(reply, calls), created_at=states.runtime.clock.now())
    )
    known = {use.id: _error(use, f"{use.name} was not run: {reply.malformed[use.id]}") for use in calls
             if use.id in reply.malformed}  # fmt: skip
    known |= _repeated(calls, run) | _searched(calls, run, states)
    await _answer(calls, known, run, states)


async def finish_calls(run: Run, states: States) -> None:
    """Take up the calls that a crash cut off: finished results are reused, unfinished ones are not run again unless
    their tool allows it (DESIGN §4.4)."""
    calls = run.messages[-1].tool_uses
    executor = states.tool.executor
    known = dict(run.checkpoint.results)
    for use in calls:
        begun = use.id in run.checkpoint.started and use.id not in known
        if begun and not executor.is_retryable(use.name):
            known[use.id] = _error(use, INTERRUPTED)
    known |= _searched(calls, run, states)
    await _answer(calls, known, run, states)


def open_calls(run: Run) -> tuple[ToolUse, ...]:
    """Calls of the newest message that nothing has answered."""
    newest = run.messages[-1] if run.messages else None
    return newest.tool_uses if newest is not None and newest.role == "assistant" else ()


async def _answer(calls: Sequence[ToolUse], known: Mapping[str, ToolResult], run: Run, states: States) -> None:
    results = dict(known)
    started = set(run.checkpoint.started)
    writing = anyio.Lock()  # a later note must not be overtaken by an earlier one
    waiting = [use for use in calls if use.id not in results]
    executor = states.tool.executor
    batches = batches_of(waiting, lambda use: executor.is_safe(use.name), run.settings.tools.max_parallel)

    async def note() -> None:
        async with writing:
            await save_progress(run, states, Checkpoint(started=frozenset(started), results=dict(results)))

    async def one(use: ToolUse) -> None:
        results[use.id] = await _run_one(use, run, states)
        if len(results) < len(calls):  # the last is recorded with the message of all results
            await note()

    for batch in batches:
        if run.token.fired:
            results |= {use.id: _error(use, STOPPED) for use in batch}
            continue
        started |= {use.id for use in batch}
        await note()  # the first time this stores the assistant's message as well: recorded before it runs
        if len(batch) == 1:
            await one(batch[0])
            continue
        with first_error():
            async with anyio.create_task_group() as group:
                for use in batch:
                    group.start_soon(one, use)
    parts = tuple(results[use.id] for use in calls)
    run.messages.append(Message(role="user", parts=parts, created_at=states.runtime.clock.now()))
    failures = sum(part.is_error for part in parts)
    run.progress.tool_rounds += 1
    run.progress.tool_failures += failures
    run.steps.append(Step(index=run.progress.steps, tool_calls=tuple(use.name for use in calls), failures=failures))
    await save_progress(run, states, Checkpoint())


async def _run_one(use: ToolUse, run: Run, states: States) -> ToolResult:
    conversation = states.session.conversation
    started = ToolStarted(conversation=conversation, run=run.id, tool_name=use.name, tool_call_id=use.id)
    announce(states, started)
    context = tool_context(use, run, states)
    outcome = Outcome(content=STOPPED, is_error=True)
    passing("tool.started")
    with run.interrupts.scope():
        outcome = await states.tool.executor.run(
            use, context, allowed=scope_of(run, states), limits=limits_of(run.settings)
        )
    passing("tool.ended")
    ended = ToolEnded(
        conversation=conversation,
        run=run.id,
        tool_name=use.name,
        tool_call_id=use.id,
        elapsed_ms=outcome.elapsed_ms,
        is_error=outcome.is_error,
        result_summary=" ".join(outcome.content.split())[:LONGEST_SUMMARY],
    )
    announce(states, ended)
    if states.context.dumps.on:
        states.context.dumps.write(f"tool-{use.name}.txt", outcome.content)
    result = ToolResult(tool_use_id=use.id, content=outcome.content, is_error=outcome.is_error)
    return await shortened(result, use.name, run, states, confirmed=outcome.confirmed)


def tool_context(use: ToolUse, run: Run, states: States) -> ToolContext:
    """What a call of this run may know of its surroundings."""
    return ToolContext(
        conversation=states.session.conversation,
        run=run.id,
        call=CallId(use.id),
        person=run.work.incoming.person,
        idempotency_key=f"{run.work.inbox_id}:{use.id}",
        cancel=run.token,
        asker=_asker(run),
        recall=Recollection(states.runtime.database, run.session, states.metrics.estimator.text),
        focus=states.message.compaction.focus if run.settings.memory.focus.enabled else None,
        memory=_memory(run, states),
    )


def _memory(run: Run, states: States) -> MemoryDesk | None:
    if run.memory is None:
        return None
    bill = bill_of(run, states)
    return MemoryDesk(
        memory=states.runtime.memory,
        scope=run.memory,
        bill=bill,
        inbox_id=run.work.inbox_id,
        notes=states.memory.path,
        clock=states.runtime.clock,
    )


def _asker(run: Run) -> Asker:
    incoming = run.work.incoming
    return Asker(
        display=incoming.display,
        language=incoming.language,
        role=incoming.role,
        chat_type=incoming.chat_type,
        zone=incoming.zone,
    )


def _repeated(calls: Sequence[ToolUse], run: Run) -> dict[str, ToolResult]:
    """A warning instead of a result for each call made too often with the same arguments."""
    warned = {}
    for use in calls:
        key = f"{use.name} {json.dumps(dict(use.input), sort_keys=True)}"
        count = run.repeats[key] = run.repeats.get(key, 0) + 1
        if count > run.settings.tools.repeat_threshold:
            warned[use.id] = _error(use, REPEATED.format(count=count, name=use.name))
    return warned


def _searched(calls: Sequence[ToolUse], run: Run, states: States) -> dict[str, ToolResult]:
    """Tools that the model wants to see: shown from its next step on, for the rest of the session (SPEC §6.5)."""
    found = {}
    toolbox, scope = states.tool.executor.toolbox, scope_of(run, states)
    for use in calls:
        if use.name != SEARCH or SEARCH in scope:
            continue
        name = str(use.input.get("tool_name", ""))
        tool = toolbox.get(name) if name in scope else None
        if tool is None:
            found[use.id] = _error(use, f"there is no tool {name!r}; {toolbox.nearest(name, scope)}")
        else:
            states.tool.load(run.session, frozenset({name}))
            found[use.id] = ToolResult(tool_use_id=use.id, content=f"{name} is loaded: {tool.spec.description}")
    return found


def _error(use: ToolUse, why: str) -> ToolResult:
    return ToolResult(tool_use_id=use.id, content=why, is_error=True)


def limits_of(settings: Settings) -> Limits:
    """How long a call of each category may take here."""
    timeouts = settings.timeouts
    return Limits(
        timeouts={
            "exec": timeouts.tool_exec,
            "mcp": timeouts.tool_mcp,
            "info": timeouts.tool_info,
            "edit": timeouts.tool_edit,
        },
        max_retries=settings.tools.max_retries,
        max_retry_duration_s=settings.tools.max_retry_duration_secs,
    )
