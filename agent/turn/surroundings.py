"""What a tool call may know of the run it belongs to, and how long it may take (SPEC §2.9, §12.2)."""

from functools import partial

from agent.core.context_events import MemoryWritten
from agent.core.events import Event
from agent.core.ids import CallId
from agent.core.messages import ToolUse
from agent.core.tools import Asker, ToolContext
from agent.memory.desk import MemoryDesk
from agent.memory.rights import reaches_others
from agent.sessions.recollection import Recollection
from agent.tools.executor import Limits
from agent.tools.tasks import SessionTasks
from agent.turn.calling import bill_of
from agent.turn.eliciting import elicit
from agent.turn.run import Run
from agent.turn.settings import Settings
from agent.turn.skills import load_skill
from agent.turn.states import States, announce


def tool_context(use: ToolUse, run: Run, states: States) -> ToolContext:
    """A call is known by its number among those of the work; one that is in no transcript by its own id."""
    runtime, incoming = states.runtime, run.work.incoming
    numbered = enumerate(use.id for message in run.messages for use in message.tool_uses)
    number = next((str(number) for number, id in numbered if id == use.id), use.id)
    alone = run.parent is None
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
            chat_type=incoming.chat_type,
            zone=incoming.zone,
        ),
        recall=Recollection(runtime.database, run.session, states.metrics.estimator.text),
        focus=states.message.compaction.focus if run.settings.memory.focus.enabled else None,
        memory=_memory(run, states),
        skill=partial(load_skill, run, states) if states.skill.snapshot.offered else None,
        execution=run.execution,
        progress=runtime.outbox.status,
        elicit=partial(elicit, use=use, run=run, states=states) if alone else None,
        move=states.lifecycle.move if alone else run.move,
        planning=partial(states.tool.plan, run.session),
        tasks=SessionTasks(
            database=runtime.database,
            clock=runtime.clock,
            conversation=states.session.conversation,
            session=run.session,
        ),
        subagents=states.tool.crew.of(run) if alone else None,
    )


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


def _memory(run: Run, states: States) -> MemoryDesk | None:
    if run.memory is None:
        return None
    return MemoryDesk(
        memory=states.runtime.memory,
        scope=run.memory,
        others_too=reaches_others(run.work.incoming.chat_type, run.work.incoming.role),
        bill=bill_of(run, states),
        inbox_id=run.work.inbox_id,
        run=run.id,
        notes=states.memory.path,
        clock=states.runtime.clock,
        tell=partial(_tell, run, states),
    )


def _tell(run: Run, states: States, event: Event) -> None:
    """Publish what a tool of the memory has done; the run's end tells whether anything was kept (B-51)."""
    run.notes_written = run.notes_written or isinstance(event, MemoryWritten)
    announce(states, event)
