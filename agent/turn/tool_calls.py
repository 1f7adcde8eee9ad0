"""Runs the tool calls of one reply: recorded before and after, in groups, results in call order (SPEC §12.2)."""

import json
from collections.abc import Callable, Mapping, Sequence

import anyio
from sqlalchemy import Connection

from agent.core.failpoints import failpoint
from agent.core.groups import first_error
from agent.core.messages import Message, ToolResult, ToolUse
from agent.providers.replies import Reply
from agent.sessions.runs import Checkpoint
from agent.storage import approval_rows
from agent.tools.batches import batches_of
from agent.tools.deferring import SEARCH
from agent.tools.executor import Outcome
from agent.turn.approving import LeftForLater
from agent.turn.decision import parts_with
from agent.turn.eliciting import cut_off
from agent.turn.requests import visible_of
from agent.turn.run import SHUTDOWN, Run, Step
from agent.turn.saving import save_progress
from agent.turn.states import States
from agent.turn.tool_call import Ready, interrupted, not_run, record, refused, run_call, stopped, through_approval_gate

SERVERS_COME_WITHIN_S = 30.0  # after a start; until then their tools are unknown

REPEATED = (
    "Not run: this is call number {count} of {name} with the same arguments, and nothing was done in between that "
    "could change the result. Use the results above, or change the arguments."
)


async def run_calls(calls: tuple[ToolUse, ...], reply: Reply, run: Run, states: States) -> int:
    """Run the calls of a reply and add both messages to the run; returns how many failed.

    Raises Fenced or StorageTrouble.
    """
    run.messages.append(
        Message(role="assistant", parts=parts_with(reply, calls), created_at=states.runtime.clock.now())
    )
    known = unrunnable(calls, reply, run, states) | searched(calls, run, states)
    return await _answer(calls, known, run, states)


async def finish_calls(run: Run, states: States) -> None:
    """Take up the calls that a crash cut off: finished results are reused, unfinished ones are not run again unless
    their tool allows it (DESIGN §4.4). Raises LeftForLater, Fenced or StorageTrouble."""
    calls = run.messages[-1].tool_uses
    executor = states.tool.executor
    known = dict(run.checkpoint.results)
    inbox_id = run.work.inbox_id
    executed = await states.runtime.database.read(lambda conn: approval_rows.executed_calls(conn, inbox_id))
    with anyio.move_on_after(SERVERS_COME_WITHIN_S), run.interrupts.scope():
        for use in calls:
            await executor.toolbox.arrived(use.name)
    for use in calls:
        begun = use.id in run.checkpoint.started and use.id not in known
        if begun and (use.id in executed or not executor.is_retryable(use.name)):
            known[use.id] = not_run(use, interrupted(await cut_off(use, run, states)), run, states)
    known |= searched(calls, run, states)
    failures = await _answer(calls, known, run, states)
    names, cwd = tuple(use.name for use in calls), states.lifecycle.cwd or run.execution.cwd
    run.steps.append(Step(index=run.progress.steps, tool_calls=names, failures=failures, cwd=cwd))  # counted already


def open_calls(run: Run) -> tuple[ToolUse, ...]:
    """Calls of the newest message that nothing has answered."""
    newest = run.messages[-1] if run.messages else None
    return newest.tool_uses if newest is not None and newest.role == "assistant" else ()


async def _answer(calls: Sequence[ToolUse], known: Mapping[str, ToolResult], run: Run, states: States) -> int:
    results = dict(known)
    started = set(run.checkpoint.started)
    writing = anyio.Lock()  # a later note must not be overtaken by an earlier one
    waiting = [use for use in calls if use.id not in results]
    executor = states.tool.executor
    batches = batches_of(waiting, executor.is_safe, run.settings.tools.max_parallel)

    async def note(also: Callable[[Connection], None] = lambda conn: None) -> None:
        async with writing:
            checkpoint = Checkpoint(started=frozenset(started), results=dict(results))
            await save_progress(run, states, checkpoint, also)

    async def one(ready: Ready) -> None:
        use = ready.use
        results[use.id] = await run_call(ready, run, states)
        if len(results) < len(calls):  # the last is recorded with the message of all results
            await note()

    for batch in batches:
        if run.token.fired:
            if run.token.reason == SHUTDOWN:
                raise LeftForLater
            results |= {use.id: not_run(use, stopped(), run, states) for use in batch}
            continue
        passed = await through_approval_gate(batch, run, states, note)
        results |= passed.results
        if not passed.ready:
            continue
        executing = [ready.approval.id for ready in passed.ready if ready.approval is not None]
        started |= {ready.use.id for ready in passed.ready}
        begun: set[str] = set()

        def execute(conn: Connection, executing: Sequence[str] = executing, begun: set[str] = begun) -> None:
            begun |= {id for id in executing if approval_rows.execute(conn, id)}

        await note(execute)  # the first time this stores the assistant's message as well: recorded before it runs
        if executing:
            failpoint("approval.executed")
        runnable = []
        for ready in passed.ready:
            if ready.approval is None or ready.approval.id in begun:
                runnable.append(ready)
            else:  # somebody else has begun it, or it was never approved
                results[ready.use.id] = not_run(ready.use, interrupted(), run, states)
        if len(runnable) == 1:
            await one(runnable[0])
            continue
        with first_error():
            async with anyio.create_task_group() as group:
                for ready in runnable:
                    group.start_soon(one, ready)
    if run.token.fired and run.token.reason == SHUTDOWN:
        raise LeftForLater  # what was cut off is not finished, and the next owner tells the model so
    parts = tuple(results[use.id] for use in calls)
    files = tuple(file for part in parts for file in part.files)
    run.messages.append(Message(role="user", parts=(*parts, *files), created_at=states.runtime.clock.now()))
    failures = sum(part.is_error for part in parts)
    run.progress.tool_rounds += 1
    run.progress.tool_failures += failures
    await save_progress(run, states, Checkpoint())
    return failures


def unrunnable(calls: Sequence[ToolUse], reply: Reply, run: Run, states: States) -> dict[str, ToolResult]:
    """Calls that a model must write anew, and a warning for each made too often with the same arguments.

    A call that may change something makes every other one worth a new try: test, edit, test is no repetition.
    """
    warned = {}
    for use in calls:
        if use.id in reply.malformed:
            why = f"{use.name} was not run: {reply.malformed[use.id]}"
            warned[use.id] = not_run(use, refused(why), run, states)
    for use in calls:
        key = f"{use.name} {json.dumps(dict(use.input), sort_keys=True)}"
        count = run.repeats[key] = run.repeats.get(key, 0) + 1
        if count > run.settings.tools.repeat_threshold:
            why = REPEATED.format(count=count, name=use.name)
            warned[use.id] = not_run(use, refused(why), run, states)
        elif use.id not in warned and _may_change(use, states):
            run.repeats.clear()
            run.repeats[key] = count
    return warned


def _may_change(use: ToolUse, states: States) -> bool:
    """Whether a call may change what others give; a tool that is unknown runs not at all."""
    tool = states.tool.executor.toolbox.get(use.name)
    if tool is None:
        return False
    spec = tool.spec
    if spec.category == "mcp":
        return not spec.concurrency_safe  # its server says that it only reads
    return spec.category != "info" or spec.risk != "safe"


def searched(calls: Sequence[ToolUse], run: Run, states: States) -> dict[str, ToolResult]:
    """Tools that the model wants to see: shown from its next step on, for the rest of the session (SPEC §6.5); to a
    sub-agent for the rest of its work."""
    found = {}
    toolbox, scope = states.tool.executor.toolbox, visible_of(run, states)
    for use in calls:
        if use.name != SEARCH or SEARCH in scope:
            continue
        name = str(use.input.get("tool_name", ""))
        tool = toolbox.get(name) if name in scope else None
        if tool is None:
            why = f"there is no tool {name!r}; {toolbox.nearest(name, scope)}"
            found[use.id] = not_run(use, refused(why), run, states)
        else:
            if run.parent is None:
                states.tool.load(run.session, frozenset({name}))
            else:
                run.named |= {name}
            content = f"{name} is loaded: {tool.spec.description}"
            record(use, Outcome(content=content), run, states)
            found[use.id] = ToolResult(tool_use_id=use.id, content=content)
    return found
