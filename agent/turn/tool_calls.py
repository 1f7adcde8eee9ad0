"""The tool calls of one reply: recorded before and after, run in groups, results in call order."""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import anyio
from sqlalchemy import Connection

from agent.core.cancellation import first_error
from agent.core.events import Event, MemoryWritten, PermissionDenied, ToolEnded, ToolOutputCompressed, ToolStarted
from agent.core.failpoints import failpoint
from agent.core.files.safe import Tree
from agent.core.ids import CallId
from agent.core.messages import FilePart, Message, TacoCompressed, ToolResult, ToolUse
from agent.core.outbox import Answer, Question
from agent.core.tools import Asker, ToolContext
from agent.core.untrusted_text import beginning_of, framed, harmless
from agent.definitions import allows
from agent.memory.records import reaches_others
from agent.memory.tools import MemoryToolset
from agent.providers.encoding import IMAGES
from agent.providers.replies import Reply
from agent.run.features import AskingFeature, Permitted
from agent.run.run import SHUTDOWN, LeftForLater, Run, Step, note_tool_time
from agent.run.settings import Settings
from agent.sessions.runs import Checkpoint
from agent.sessions.transcript_search import Recollection
from agent.storage import approval_rows
from agent.storage.approval_rows import Approval
from agent.storage.audit_rows import Record
from agent.storage.database import check_epoch
from agent.storage.timestamps import to_timestamp
from agent.tools.approvals import Rules, canonical, covers_of, gate_for
from agent.tools.deferred_tools import SEARCH
from agent.tools.executor import Cleared, Limits, Outcome, batches_of
from agent.tools.files.edit import put
from agent.tools.files.paths import shown
from agent.tools.taco import compressed, is_eligible
from agent.tools.tasks import SessionTasks
from agent.turn.commit import save_progress
from agent.turn.decision import parts_with
from agent.turn.interim_text import commit_before_question
from agent.turn.model_call import SideCalls
from agent.turn.requests import rights_to, scope_of, visible_of
from agent.turn.states import States, announce, waiting_for_approval
from agent.turn.workspace import pull_workspace, push_workspace, uses_workspace

# Shortening: a model shortens long output before it enters the conversation; the raw output is kept (Z-98).

NOTICE = '\n[shortened from {tokens} tokens; read_output has all of it: output "{name}"]'


async def shortened(result: ToolResult, tool: str, run: Run, states: States, *, confirmed: bool) -> ToolResult:
    """The result as it is stored: shorter where that was asked for and worked, else the very same (Z-98, Z-106)."""
    settings, executor = run.settings.tools.taco, states.tool.executor
    found = executor.toolbox.get(tool)
    if not settings.enabled or found is None:
        return result
    tokens = states.metrics.estimator.text(result.content)
    category = found.spec.category
    if not is_eligible(tokens, tool, category, settings, confirmed=confirmed, is_error=result.is_error):
        return result
    text = None
    with run.interrupts.scope():
        text = await compressed(result.content, settings, SideCalls(states))
    if text is None:
        return result
    conversation = states.session.conversation
    name = await executor.outputs.keep(conversation, result.content)
    if name is not None:
        text += NOTICE.format(tokens=tokens, name=name)
    taco = TacoCompressed(tool_name=tool, original_tokens=tokens, compressed_tokens=states.metrics.estimator.text(text))
    if taco.compressed_tokens >= tokens:
        return result
    announce(
        states,
        ToolOutputCompressed(
            conversation=conversation,
            run=run.id,
            tool_name=tool,
            tool_call_id=result.tool_use_id,
            original_tokens=tokens,
            compressed_tokens=taco.compressed_tokens,
            raw_output=name or "",
        ),
    )
    return replace(result, content=text, taco=taco)


# Context of a tool call: what it may know of its run, and how long it may take (Z-110).

ATTACHED = "from-tools"  # the folder of the workspace for files that tools gave


def tool_context(use: ToolUse, run: Run, states: States) -> ToolContext:
    """A call is known by its number among those of the work; one that is in no transcript by its own id."""
    runtime, services, incoming = states.runtime, states.runtime.services, run.work.incoming
    numbered = enumerate(use.id for message in run.messages for use in message.tool_uses)
    number = next((str(number) for number, id in numbered if id == use.id), use.id)
    alone = run.parent is None
    # Where nobody has spoken, nobody is there to be asked.
    asking = runtime.features.asking if incoming.granted_tools is None else None
    return ToolContext(
        conversation=states.session.conversation,
        run=run.id,
        call=CallId(use.id),
        person=incoming.person,
        idempotency_key=f"{run.work.inbox_id}:{number}" if alone else f"{run.work.inbox_id}:{run.id}:{number}",
        cancel=run.token,
        asker=Asker(
            display=incoming.display,
            language=incoming.language,
            role=incoming.role,
            roles=incoming.roles,
            chat_type=incoming.chat_type,
            zone=incoming.zone,
        ),
        recall=Recollection(services.database, run.session, states.metrics.estimator.text),
        focus=states.message.compaction.focus if run.settings.memory.focus.enabled else None,
        memory=_memory(run, states),
        skill=states.tool.load_skill(run),
        execution=run.execution,
        progress=runtime.outbox.status,
        elicit=partial(_elicit, asking, use=use, run=run, states=states) if alone and asking is not None else None,
        phrase=partial(services.phrases, language=run.audience.language),
        attach=partial(_attach, use.id, run, states),
        move=states.lifecycle.move if alone else run.move,
        planning=partial(states.tool.plan, run.session),
        tasks=SessionTasks(
            database=services.database,
            clock=services.clock,
            conversation=states.session.conversation,
            session=run.session,
        ),
        subagents=states.tool.subagent_runner.of(run) if alone else None,
        read_chat=run.group.read,
        payer=run.attribution(),
    )


async def _elicit(asking: AskingFeature, question: Question, use: ToolUse, run: Run, states: States) -> Answer:
    """Ask people. The text that leads up to the question stands above it, as with an approval."""
    conversation, epoch = states.session.conversation, run.work.epoch

    async def write(also: Callable[[Connection], None]) -> None:
        def fenced(conn: Connection) -> None:
            check_epoch(conn, conversation, epoch)
            also(conn)

        await states.runtime.services.database.write(fenced)

    await commit_before_question(run, states, write)
    return await asking.elicit(run, use, question)


async def _attach(call: str, run: Run, states: States, name: str, mime_type: str, data: bytes) -> str:
    """Keep what a tool gave beside its words in the conversation's workspace; a picture is shown to the model.

    Raises ToolError where there is no room for it.
    """
    workspace = run.execution.workspace
    run.calls.kept_files.add(call)
    names = (ATTACHED, f"{hashlib.blake2b(data, digest_size=6).hexdigest()}-{name}")
    await anyio.to_thread.run_sync(partial(workspace.mkdir, parents=True, exist_ok=True, mode=0o700))
    await anyio.to_thread.run_sync(put, Tree(workspace, shown), names, data, run.settings.tools.files)
    if mime_type in IMAGES and (path := workspace.joinpath(*names)).is_relative_to(states.tool.home):
        path = path.relative_to(states.tool.home)
        part = FilePart(path=str(path), mime_type=mime_type, name=name, size=len(data))
        run.calls.attached.setdefault(call, []).append(part)
    return shown(names)


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


def _memory(run: Run, states: States) -> MemoryToolset | None:
    if run.memory.scope is None:
        return None
    return MemoryToolset(
        memory=states.runtime.memory,
        scope=run.memory.scope,
        others_too=reaches_others(run.work.incoming.chat_type, run.work.incoming.role),
        attribution=run.attribution(),
        inbox_id=run.work.inbox_id,
        run=run.id,
        notes=states.instruction.notes.path,
        clock=states.runtime.services.clock,
        tell=partial(_tell, run, states),
    )


def _tell(run: Run, states: States, event: Event) -> None:
    """Publish what a tool of the memory has done; the run's end tells whether anything was kept (B-51)."""
    run.memory.written = run.memory.written or isinstance(event, MemoryWritten)
    announce(states, event)


# One call from request to result: checked, hooked, approved, run, framed, recorded.

LONGEST_SUMMARY = 200
LONGEST_RECORDED = 2_000  # characters of arguments and of a result in the audit
STOPPED = "Not finished: the person stopped this run."
INTERRUPTED = "Interrupted by a restart; it is not known whether this call took effect. Check before repeating it."
DENIED = "{name} was denied and was not run: {reason}"
OUTSIDE_THE_SKILL = "{name} was not run: the skill that was called up works with other tools alone: {tools}"
UNASKED = (
    "{name} was not run: it needs a person's approval, and a sub-agent cannot ask for one. Go on without it; if it is "
    "needed, put the exact call into your answer, so that whoever gave you the task can make it."
)
BY_POLICY = "the rules of the gateway do not allow it"
NOBODY_ASKS = "it needs a person's approval, and nobody is asked for it here"
BY_CHAT = "an admin of this chat has ruled that it never runs here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A call that may run now. `approval` was given for exactly this one."""

    use: ToolUse
    cleared: Cleared
    context: ToolContext
    approval: Approval | None = None


@dataclass(slots=True)
class Passed:
    """The gate's result for a group of calls."""

    ready: list[Ready] = field(default_factory=list)
    results: dict[str, ToolResult] = field(default_factory=dict)


async def through_approval_gate(
    batch: Sequence[ToolUse],
    run: Run,
    states: States,
    note: Callable[[Callable[[Connection], None]], Awaitable[None]],
) -> Passed:
    """The calls that may run. `note` puts on disk where the loop goes on, before anybody is asked, and with it the text
    that leads up to the question.

    Those that need a person are asked about all at once; a sub-agent's are refused, because an approval waits with a
    loop that is stored, across restarts, and its loop is not. Raises LeftForLater, Fenced or StorageTrouble.
    """
    passed, asking = Passed(), []
    await _come(batch, run, states)
    await pull_workspace((use.name for use in batch), run, states)
    for use in batch:
        context = tool_context(use, run, states)
        found = await looked_at(use, context, run, states)
        if isinstance(found, Outcome):
            passed.results[use.id] = not_run(use, found, run, states)
        elif isinstance(found, Ready):
            passed.ready.append(found)
        elif run.parent is not None:
            why = Outcome(content=UNASKED.format(name=use.name), is_error=True, verdict="denied")
            passed.results[use.id] = not_run(use, why, run, states)
        else:
            asking.append((found, context))
    if not asking:
        return passed
    await commit_before_question(run, states, note)

    async def ask(cleared: Cleared, context: ToolContext) -> None:
        use, asking_feature = cleared.call, states.runtime.features.asking
        answer: Permitted | Outcome = _denied(use, NOBODY_ASKS)
        if asking_feature is not None:
            look = partial(states.tool.executor.look, context=context, allowed=scope_of(run, states))
            answer = await asking_feature.permit(run, cleared, cleared.appraisal.reason, look)
        if isinstance(answer, Permitted):
            ready = Ready(use=use, cleared=answer.cleared, context=context, approval=answer.approval)
            passed.ready.append(ready)
        else:
            passed.results[use.id] = not_run(use, answer, run, states, by="person")

    with first_error():
        async with waiting_for_approval(run, states), anyio.create_task_group() as group:
            for cleared, context in asking:
                group.start_soon(ask, cleared, context)
    return passed


async def _come(batch: Sequence[ToolUse], run: Run, states: States) -> None:
    """Wait a while for tools whose MCP server has not been connected yet."""
    toolbox = states.tool.executor.toolbox
    late = [use.name for use in batch if toolbox.is_expected(use.name)]
    if late:
        with anyio.move_on_after(run.settings.mcp.call_wait_s), run.interrupts.scope():
            for name in late:
                await toolbox.arrived(name)


async def run_call(ready: Ready, run: Run, states: States) -> ToolResult:
    """Run it, and give what the model reads of it. Raises LeftForLater where the end of the process cuts it off."""
    use, conversation = ready.use, states.session.conversation
    announce(states, ToolStarted(conversation=conversation, run=run.id, tool_name=use.name, tool_call_id=use.id))
    outcome = stopped()
    failpoint("tool.started")
    with run.interrupts.scope():
        outcome = await states.tool.executor.perform(
            ready.cleared, ready.context, limits_of(run.settings), confirmed=ready.approval is not None
        )
    if outcome.verdict == "stopped" and run.token.reason == SHUTDOWN:
        raise LeftForLater
    failpoint("tool.ended")
    note_tool_time(outcome.elapsed_ms, run)
    _announce_end(use, outcome, run, states)
    if states.context.dumps.on:
        states.context.dumps.write(f"tool-{use.name}.txt", outcome.content)
    written = record(use, outcome, run, states, ready.approval)
    if uses_workspace(use.name) or use.id in run.calls.kept_files:
        await push_workspace(run, states)
    files = tuple(run.calls.attached.pop(use.id, ()))
    result = ToolResult(tool_use_id=use.id, content=outcome.content, is_error=outcome.is_error, files=files)
    result = await shortened(result, use.name, run, states, confirmed=outcome.confirmed)
    if result.taco is not None:  # what the model reads is not what stands in the record: it says so
        taco = result.taco
        changed = replace(written, original_tokens=taco.original_tokens, shortened_tokens=taco.compressed_tokens)
        run.calls.records[run.calls.records.index(written)] = changed
    spec, path = ready.cleared.tool.spec, ready.cleared.appraisal.arguments.get("path")
    has_written = spec.category == "edit" and spec.risk == "write" and not outcome.is_error
    for after_tool in states.runtime.features.after_tool:
        after_tool(run, use, outcome, wrote=path if has_written and isinstance(path, str) else "")
    if spec.untrusted:
        return replace(result, content=framed(result.content, use.name))
    return replace(result, content=harmless(result.content))


def not_run(use: ToolUse, outcome: Outcome, run: Run, states: States, *, by: str = "policy") -> ToolResult:
    """The result of a call that something kept from running; it is told and recorded like every other."""
    conversation = states.session.conversation
    started = ToolStarted(
        conversation=conversation, run=run.id, tool_name=use.name, tool_call_id=use.id, runs=False
    )  # fmt: skip
    announce(states, started)
    if outcome.verdict == "denied":
        denied = PermissionDenied(
            conversation=conversation, run=run.id, tool_name=use.name, tool_call_id=use.id, by=by
        )  # fmt: skip
        announce(states, denied)
        for told in states.runtime.features.denied:
            told(run, use, outcome)
    _announce_end(use, outcome, run, states)
    record(use, outcome, run, states)
    return ToolResult(tool_use_id=use.id, content=harmless(outcome.content), is_error=outcome.is_error)


def stopped() -> Outcome:
    return Outcome(content=STOPPED, is_error=True, verdict="stopped")


def interrupted(why: str | None = None) -> Outcome:
    return Outcome(content=why or INTERRUPTED, is_error=True, verdict="interrupted")


def refused(why: str) -> Outcome:
    """It was no call: the model must mend it."""
    return Outcome(content=why, is_error=True, verdict="refused")


async def looked_at(use: ToolUse, context: ToolContext, run: Run, states: States) -> Ready | Cleared | Outcome:
    """Ready to run, or a person must be asked about what was cleared, or it does not run."""
    if run.calls.within is not None and use.name in scope_of(run, states) and not allows(run.calls.within, use.name):
        return refused(OUTSIDE_THE_SKILL.format(name=use.name, tools=", ".join(sorted(run.calls.within)) or "none"))
    found = await states.tool.executor.look(use, context, allowed=scope_of(run, states))
    if isinstance(found, Outcome):
        return found
    if (rights := rights_to(found.tool.spec, run)).gate == "deny":
        return _denied(use, rights.rule)
    for before_tool in states.runtime.features.before_tool:
        if why := await before_tool(run, use):
            return _denied(use, why)
    conversation, name = states.session.conversation, use.name
    spec, covers = found.tool.spec, covers_of(found.appraisal)
    ruled = await states.runtime.services.database.read(
        lambda conn: approval_rows.verdict(conn, conversation, name, covers)
    )
    if ruled == "deny":
        return _denied(use, BY_CHAT)
    gate = gate_for(spec, found.appraisal, rules_of(run), allowed_for_good=ruled == "allow")
    match gate:
        case "allow":
            return Ready(use=use, cleared=found, context=context)
        case "ask":
            return found
        case "deny":
            return _denied(use, found.appraisal.reason or BY_POLICY)


def _denied(use: ToolUse, why: str) -> Outcome:
    return Outcome(content=DENIED.format(name=use.name, reason=why), is_error=True, verdict="denied")


def rules_of(run: Run) -> Rules:
    """The operator's, as this run found them."""
    approvals = run.settings.approvals
    return Rules(auto_approve=approvals.auto_approve, force=approvals.force, ask=approvals.ask, deny=approvals.deny)


def _announce_end(use: ToolUse, outcome: Outcome, run: Run, states: States) -> None:
    if (contents := states.runtime.services.contents) is not None:
        contents.tool_ended(run.id, use, outcome.content)
    ended = ToolEnded(
        conversation=states.session.conversation,
        run=run.id,
        tool_name=use.name,
        tool_call_id=use.id,
        elapsed_ms=outcome.elapsed_ms,
        is_error=outcome.is_error,
        result_summary=" ".join(outcome.content.split())[:LONGEST_SUMMARY],
        exists=states.tool.executor.toolbox.get(use.name) is not None,
        result_chars=len(outcome.content),
    )
    announce(states, ended)


def record(use: ToolUse, outcome: Outcome, run: Run, states: States, approval: Approval | None = None) -> Record:
    """The record for the audit; stored together with the result, so that a model never reads an unrecorded result."""
    redact = states.tool.executor.redact
    written = Record(
        conversation=states.session.conversation,
        session=run.execution.session or run.session,
        inbox_id=run.work.inbox_id,
        run=run.id,
        call=use.id if run.parent is None else f"{run.id}/{use.id}",  # unique among the calls of the work
        tool=use.name,
        arguments=beginning_of(canonical(use.input), LONGEST_RECORDED, redact),
        verdict=outcome.verdict,
        approval=approval.id if approval is not None else None,
        person=run.work.incoming.person,
        result=beginning_of(outcome.content, LONGEST_RECORDED, redact),
        elapsed_ms=outcome.elapsed_ms,
        at=to_timestamp(states.runtime.services.clock.now()),
    )
    run.calls.records.append(written)
    return written


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
        Message(role="assistant", parts=parts_with(reply, calls), created_at=states.runtime.services.clock.now())
    )
    known = unrunnable(calls, reply, run, states) | searched(calls, run, states)
    return await _answer(calls, known, run, states)


async def finish_calls(run: Run, states: States) -> None:
    """Take up the calls that a crash cut off: finished results are reused, unfinished ones are not run again unless
    their tool allows it. Raises LeftForLater, Fenced or StorageTrouble."""
    calls = run.messages[-1].tool_uses
    executor = states.tool.executor
    known = dict(run.stored.checkpoint.results)
    inbox_id = run.work.inbox_id
    executed = await states.runtime.services.database.read(lambda conn: approval_rows.executed_calls(conn, inbox_id))
    with anyio.move_on_after(SERVERS_COME_WITHIN_S), run.interrupts.scope():
        for use in calls:
            await executor.toolbox.arrived(use.name)
    for use in calls:
        begun = use.id in run.stored.checkpoint.started and use.id not in known
        if begun and (use.id in executed or not executor.is_retryable(use.name)):
            asking = states.runtime.features.asking
            asked = await asking.elicited(run, use) if asking is not None else None
            known[use.id] = not_run(use, interrupted(asked), run, states)
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
    started = set(run.stored.checkpoint.started)
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
    run.messages.append(Message(role="user", parts=(*parts, *files), created_at=states.runtime.services.clock.now()))
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
        count = run.calls.repeats[key] = run.calls.repeats.get(key, 0) + 1
        if count > run.settings.tools.repeat_threshold:
            why = REPEATED.format(count=count, name=use.name)
            warned[use.id] = not_run(use, refused(why), run, states)
        elif use.id not in warned and _may_change(use, states):
            run.calls.repeats.clear()
            run.calls.repeats[key] = count
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
    """Tools that the model wants to see: shown from its next step on, for the rest of the session; to a
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
                run.calls.named |= {name}
            content = f"{name} is loaded: {tool.spec.description}"
            record(use, Outcome(content=content), run, states)
            found[use.id] = ToolResult(tool_use_id=use.id, content=content)
    return found
