"""One call from the model's wish to its result: looked at, hooked, gated, run, framed, recorded (SPEC §12)."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

import anyio
from sqlalchemy import Connection

from agent.core.events import ToolEnded, ToolStarted
from agent.core.failpoints import failpoint
from agent.core.framing import framed, harmless
from agent.core.gate_events import PermissionDenied
from agent.core.groups import first_error
from agent.core.long_texts import beginning_of
from agent.core.messages import ToolResult, ToolUse
from agent.core.tools import ToolContext
from agent.definitions import allows
from agent.storage import approval_rows
from agent.storage.approval_rows import Approval
from agent.storage.audit_rows import Record
from agent.storage.timestamps import to_timestamp
from agent.tools.executor import Cleared, Outcome
from agent.tools.gate import Rules, canonical, covers_of, gate_for
from agent.turn.accounting import note_tool_time
from agent.turn.approving import LeftForLater, ask_person, still_the_same
from agent.turn.hooking import file_changed, fire, fire_soon, of_call
from agent.turn.interim_text import commit_before_question
from agent.turn.requests import scope_of
from agent.turn.run import SHUTDOWN, Run
from agent.turn.shortening import shortened
from agent.turn.states import States, announce
from agent.turn.surroundings import limits_of, tool_context
from agent.turn.waiting import waiting_for_approval

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
    """What became of a group of calls at the gate."""

    ready: list[Ready] = field(default_factory=list)
    results: dict[str, ToolResult] = field(default_factory=dict)


async def through_approval_gate(
    batch: Sequence[ToolUse],
    run: Run,
    states: States,
    note: Callable[[Callable[[Connection], None]], Awaitable[None]],
) -> Passed:
    """Which of the calls may run. `note` puts on disk where the loop goes on, before anybody is asked, and with it the
    text that leads up to the question.

    Those that need a person are asked about all at once; a sub-agent's are refused, because an approval waits with a
    loop that is stored, across restarts, and its loop is not. Raises LeftForLater, Fenced or StorageTrouble.
    """
    passed, asking = Passed(), []
    await _come(batch, run, states)
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
        use, reason = cleared.call, cleared.appraisal.reason
        answer = await ask_person(cleared, reason, run, states)
        if isinstance(answer, Approval):
            call = replace(use, input=cleared.appraisal.arguments)
            again = await still_the_same(answer, call, context, run, states)
            if isinstance(again, Cleared):
                passed.ready.append(Ready(use=use, cleared=again, context=context, approval=answer))
                return
            answer = again
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
    files = tuple(run.attached.pop(use.id, ()))
    result = ToolResult(tool_use_id=use.id, content=outcome.content, is_error=outcome.is_error, files=files)
    result = await shortened(result, use.name, run, states, confirmed=outcome.confirmed)
    if result.taco is not None:  # what the model reads is not what stands in the record: it says so
        taco = result.taco
        changed = replace(written, original_tokens=taco.original_tokens, shortened_tokens=taco.compressed_tokens)
        run.records[run.records.index(written)] = changed
    told = of_call(use, outcome.content, is_error=outcome.is_error)
    fire_soon("post_tool_use", run, states, told, tool=use.name)
    spec, path = ready.cleared.tool.spec, ready.cleared.appraisal.arguments.get("path")
    if spec.category == "edit" and spec.risk == "write" and isinstance(path, str) and not outcome.is_error:
        file_changed(path, run, states)
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
        fire_soon("permission_denied", run, states, of_call(use, outcome.content, is_error=True), tool=use.name)
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
    if run.within is not None and use.name in scope_of(run, states) and not allows(run.within, use.name):
        return refused(OUTSIDE_THE_SKILL.format(name=use.name, tools=", ".join(sorted(run.within)) or "none"))
    found = await states.tool.executor.look(use, context, allowed=scope_of(run, states))
    if isinstance(found, Outcome):
        return found
    fired = await fire("pre_tool_use", run, states, of_call(use), tool=use.name)
    if fired.blocked:
        content = DENIED.format(name=use.name, reason=fired.blocked)
        return Outcome(content=content, is_error=True, verdict="denied")
    conversation, name = states.session.conversation, use.name
    spec, covers = found.tool.spec, covers_of(found.appraisal)
    ruled = await states.runtime.database.read(lambda conn: approval_rows.verdict(conn, conversation, name, covers))
    if ruled == "deny":
        content = DENIED.format(name=name, reason=BY_CHAT)
        return Outcome(content=content, is_error=True, verdict="denied")
    gate = gate_for(spec, found.appraisal, rules_of(run), allowed_for_good=ruled == "allow")
    match gate:
        case "allow":
            return Ready(use=use, cleared=found, context=context)
        case "ask":
            return found
        case "deny":
            content = DENIED.format(name=use.name, reason=found.appraisal.reason or BY_POLICY)
            return Outcome(content=content, is_error=True, verdict="denied")


def rules_of(run: Run) -> Rules:
    """The operator's, as this run found them."""
    approvals = run.settings.approvals
    return Rules(auto_approve=approvals.auto_approve, force=approvals.force, ask=approvals.ask, deny=approvals.deny)


def _announce_end(use: ToolUse, outcome: Outcome, run: Run, states: States) -> None:
    ended = ToolEnded(
        conversation=states.session.conversation,
        run=run.id,
        tool_name=use.name,
        tool_call_id=use.id,
        elapsed_ms=outcome.elapsed_ms,
        is_error=outcome.is_error,
        result_summary=" ".join(outcome.content.split())[:LONGEST_SUMMARY],
        exists=states.tool.executor.toolbox.get(use.name) is not None,
    )
    announce(states, ended)


def record(use: ToolUse, outcome: Outcome, run: Run, states: States, approval: Approval | None = None) -> Record:
    """For the audit; stored together with the result, so that a model never reads what is not recorded."""
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
        at=to_timestamp(states.runtime.clock.now()),
    )
    run.records.append(written)
    return written
