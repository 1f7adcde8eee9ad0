"""One turn: intake → context → agent loop → commit, within events, stop and time limit."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import anyio

from agent.core.cancellation import CancelToken, TimeLimit
from agent.core.errors import AgentError, Fenced
from agent.core.events import LoopEnded, LoopFailed, LoopStarted
from agent.core.ids import RunId, SessionId
from agent.core.outbox import Audience
from agent.core.tools import STEPS, ExecutionContext
from agent.definitions import Definition
from agent.inbox import Work
from agent.run.messages import reminder_for
from agent.run.run import SHUTDOWN, Executed, Interrupts, Notice, Persisted, Run, Speech, StagedChanges
from agent.run.settings import Settings
from agent.sessions import store
from agent.storage.errors import StorageTrouble
from agent.turn.agent_loop import execute, keep_partial
from agent.turn.commit import persist, save_place
from agent.turn.context import prepare
from agent.turn.context_budget import prepare_next
from agent.turn.intake import OpenedRun, hear, ingest, land, read_documents
from agent.turn.requests import recall_uses
from agent.turn.states import States

LEAVING_S = 10.0  # for what the channel must tidy up at the end of a run

log = logging.getLogger("tieline.turn")


async def turn(
    work: Work, definition: Definition, states: States, staged: StagedChanges, answer: "Answer | None" = None
) -> Executed:
    """Run one piece of work from its first to its last byte on disk. `answer` takes the place of context and execute.

    Raises Fenced (another owner has the conversation) and StorageTrouble (the work stays in the inbox); after either,
    and after a verdict "suspended", the caller takes no further work.
    """
    run = await begin(work, definition, states, staged)
    async with _announced(run, states) as outcome:
        await hear(run, states)
        await read_documents(run, states)
        await land(run, states)
        taken = await ingest(run, states)
        if taken.refused is None:
            states.lifecycle.placed_for = run.session
            for ingested in states.runtime.features.ingested:
                await ingested(run)
            await save_place(run, states)
            run.execution = _execution_context(states, run.session)  # with what they have set; from here on it stays
        executed = taken.refused or await _bounded(run, states, answer or partial(_answer, states=states))
        for closing in states.runtime.features.closing:
            await closing(run, executed)
        with anyio.CancelScope(shield=True):  # whoever cancels now comes too late: it is done and will be stored
            outcome.persisted = await persist(executed, run, states)
        for ended in states.runtime.features.ended:
            await ended(run, executed)
        prepare_next(run, states)
        for left_alone in states.runtime.features.left_alone:
            left_alone(run, executed)
        outcome.executed = executed
    return executed


Answer = Callable[[Run], Awaitable[Executed]]


async def _answer(run: Run, states: States) -> Executed:
    await _servers_come(run, states)
    for begun in states.runtime.features.begun:
        executed = await begun(run)
        if executed is not None:
            return executed
    await recall_uses(run, states)
    prepared = await prepare(run, states)
    return prepared.ended or await execute(prepared, run, states)


async def _servers_come(run: Run, states: States) -> None:
    """Wait a while for MCP servers that are being connected for the first time: the model should see their tools."""
    if states.tool.executor.toolbox.awaits_first:
        with anyio.move_on_after(run.settings.mcp.start_wait_s), run.interrupts.scope():
            await states.tool.executor.toolbox.all_tried()


async def begin(work: Work, definition: Definition, states: States, staged: StagedChanges) -> Run:
    """A run with its own token; which session it is in is asked of the store on the first turn after waking."""
    runtime, services, session = states.runtime, states.runtime.services, states.session
    opened = work.opened if isinstance(work.opened, OpenedRun) else None
    if not session.known:
        conversation = session.conversation
        session.id = await services.database.read(lambda conn: store.current(conn, conversation))
        session.known = True
    current = staged.session if staged.switch_session else session.id
    incoming = work.incoming
    reply_to = incoming.message_ref if incoming.chat_type != "direct" else None
    token, effective = CancelToken(), _effective(runtime.settings, definition, work)
    return Run(
        id=opened.run if opened else RunId(services.new_id()),
        work=work,
        conversation=session.conversation,
        session=opened.session if opened else current or SessionId(services.new_id()),
        fresh=current is None,
        settings=effective,
        definition=definition,
        token=token,
        interrupts=Interrupts(token),
        time=TimeLimit(effective.agent.execution_timeout_ms / 1000),
        execution=_execution_context(states, current),
        audience=Audience(
            person=incoming.person,
            message=incoming.message_ref,
            reply_to=reply_to,
            interaction=incoming.interaction,
            language=incoming.language,
            inbox_id=work.inbox_id,
            silent=incoming.may_be_silent or incoming.wake_up is not None,
        ),
        reminder=reminder_for(services.clock.now(), work, hint=_hint(states)),
        speech=Speech(runtime.outbox),
        staged=staged,
        goal=incoming.wake_up.goal if incoming.wake_up is not None else None,
    )


@dataclass(slots=True)
class _Outcome:
    """The result of a turn for those who hear of it."""

    executed: Executed | None = None
    persisted: Persisted = field(default_factory=Persisted)


@asynccontextmanager
async def _announced(run: Run, states: States) -> AsyncIterator[_Outcome]:
    """Publish loop:start and exactly one of loop:end and loop:error, and leave the channel tidy, always (B-92)."""
    runtime, services, lifecycle = states.runtime, states.runtime.services, states.lifecycle
    conversation = states.session.conversation
    lifecycle.begin(run.id, run.token, at=services.clock.now(), said_at=run.work.incoming.received_at, goal=run.goal)
    lifecycle.language = run.audience.language
    runtime.outbox.begin(run.audience)
    waited_s = (services.clock.now() - run.work.incoming.received_at).total_seconds()
    started = LoopStarted(
        conversation=conversation,
        run=run.id,
        session=run.session,
        inbox_id=run.work.inbox_id,
        person=run.work.incoming.person,
        attempt=run.work.attempt,
        waited_ms=max(0, round(waited_s * 1000)),
        agent=run.definition.name,
        traceparent=run.work.incoming.traceparent,
    )
    services.bus.publish(started)
    outcome, began, error = _Outcome(), services.clock.monotonic(), ""
    try:
        yield outcome
        assert outcome.executed is not None
        error = outcome.executed.error
    except BaseException as raised:  # a cancellation too: what is in memory may not be what is stored
        states.message.forget()
        error = str(raised) if isinstance(raised, AgentError) else type(raised).__name__
        raise
    finally:
        lifecycle.end(services.clock.now())
        persisted, executed = outcome.persisted, outcome.executed
        if error:
            failed = LoopFailed(
                conversation=conversation,
                run=run.id,
                error=error,
                verdict=executed.verdict if executed is not None else "broken",
                messages=persisted.messages,
            )
            services.bus.publish(failed)
        else:
            event = LoopEnded(
                conversation=conversation,
                run=run.id,
                success=executed is not None and executed.success,
                duration_ms=round((services.clock.monotonic() - began) * 1000),
                transcript_updated=persisted.transcript_updated,
                session_updated=persisted.session_updated,
                memory_updated=persisted.memory_updated,
                verdict=executed.verdict if executed is not None else "broken",
                messages=persisted.messages,
            )
            services.bus.publish(event)
        with anyio.move_on_after(LEAVING_S, shield=True):
            await runtime.outbox.end()


async def _bounded(run: Run, states: States, answer: Answer) -> Executed:
    """Context and execute within the run's time; a stop that is not obeyed in time is enforced."""
    limit_s = run.settings.agent.execution_timeout_ms / 1000
    executed = None
    with run.time.running(), run.token.telling(partial(_enforce_stop, run)):
        executed = await _caught(run, states, answer)
    if executed is None:
        keep_partial(run, states)
        if run.token.fired:
            executed = Executed(verdict="cancelled", text=run.speech.text, notice=Notice("stopped"))
        else:
            seconds = Notice("execution_timeout", {"seconds": f"{limit_s:g}"})
            executed = Executed(verdict="failed", text=run.speech.text, notice=seconds, error="execution timeout")
    if executed.verdict == "cancelled" and run.token.reason == SHUTDOWN:
        return Executed(verdict="suspended", error="shut down; resumed by the next owner")
    return executed


async def _caught(run: Run, states: States, answer: Answer) -> Executed:
    """The turn's error seam: a defect ends this turn in a sentence, never the conversation."""
    try:
        return await answer(run)
    except (Fenced, StorageTrouble):
        raise
    except Exception as error:  # the turn's seam
        log.exception(
            "run broke, its answer is lost", extra={"run": run.id, "conversation": states.session.conversation}
        )
        keep_partial(run, states)
        return Executed(
            verdict="failed", text=run.speech.text, notice=Notice("defect"), error=f"{type(error).__name__}: {error}"
        )


def _enforce_stop(run: Run) -> None:
    run.interrupts.fire()
    run.time.end_within(run.settings.timeouts.stop_grace)


def _execution_context(states: States, session: SessionId | None) -> ExecutionContext:
    """Where this turn's tools work, as the turn begins (Z-111)."""
    lifecycle, workspace = states.lifecycle, states.tool.workspace
    tools, mcp = states.runtime.settings.tools, states.runtime.settings.mcp
    return ExecutionContext(
        workspace=workspace,
        cwd=lifecycle.cwd or workspace,
        env=dict(lifecycle.env),
        session=session,
        settings={type(section): section for section in (tools.files, tools.shell, tools.web, mcp)},
    )


def _hint(states: States) -> str:
    """The hint to the model about its focus, now and then."""
    settings, compaction = states.runtime.settings.memory.focus, states.message.compaction
    return compaction.focus.hint(settings, compaction.window) if settings.enabled else ""


def _effective(settings: Settings, definition: Definition, work: Work) -> Settings:
    """The settings with what the definition sets for itself, and with the time that a goal's own turn has."""
    agent = settings.agent
    if definition.max_tool_iterations is not None:
        agent = replace(agent, max_tool_iterations=definition.max_tool_iterations)
    if definition.max_turns is not None:
        agent = replace(agent, max_turns=definition.max_turns)
    if work.incoming.wake_up is not None:
        limit_ms = min(agent.execution_timeout_ms, agent.goal.autonomous_turn_timeout_secs * 1000)
        agent = replace(agent, execution_timeout_ms=limit_ms)
    if work.incoming.plan is not None:  # each of its tasks has a limit of its own
        plans = settings.plans
        longest_s = plans.task_timeout_secs * (plans.max_tasks + 1) * (plans.max_retries + 1)
        steps = max(agent.step_budget, plans.max_tasks * (plans.max_retries + 1) * STEPS)
        limit_ms = max(agent.execution_timeout_ms, round(longest_s * 1000))
        agent = replace(agent, execution_timeout_ms=limit_ms, step_budget=steps)
    return settings if agent is settings.agent else replace(settings, agent=agent)
