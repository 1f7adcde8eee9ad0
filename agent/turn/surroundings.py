"""What a tool call may know of the run it belongs to, and how long it may take (SPEC §2.9, §12.2)."""

import hashlib
from functools import partial

import anyio

from agent.core.context_events import MemoryWritten
from agent.core.events import Event
from agent.core.ids import CallId
from agent.core.messages import FilePart, ToolUse
from agent.core.tools import Asker, ToolContext
from agent.core.tree import Tree
from agent.memory.rights import reaches_others
from agent.memory.toolset import MemoryToolset
from agent.providers.attachments import IMAGES
from agent.sessions.recollection import Recollection
from agent.tools.executor import Limits
from agent.tools.files.paths import shown
from agent.tools.files.write import put
from agent.tools.tasks import SessionTasks
from agent.turn.eliciting import elicit
from agent.turn.model_call import attribution_of
from agent.turn.run import Run
from agent.turn.settings import Settings
from agent.turn.skills import load_skill
from agent.turn.states import States, announce

ATTACHED = "from-tools"  # the folder of the workspace for files that tools gave


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
        phrase=partial(runtime.phrases, language=run.audience.language),
        attach=partial(_attach, use.id, run, states),
        move=states.lifecycle.move if alone else run.move,
        planning=partial(states.tool.plan, run.session),
        tasks=SessionTasks(
            database=runtime.database,
            clock=runtime.clock,
            conversation=states.session.conversation,
            session=run.session,
        ),
        subagents=states.tool.subagent_runner.of(run) if alone else None,
    )


async def _attach(call: str, run: Run, states: States, name: str, mime_type: str, data: bytes) -> str:
    """Keep what a tool gave beside its words in the conversation's workspace; a picture is shown to the model.

    Raises ToolError where there is no room for it.
    """
    workspace = run.execution.workspace
    names = (ATTACHED, f"{hashlib.blake2b(data, digest_size=6).hexdigest()}-{name}")
    await anyio.to_thread.run_sync(partial(workspace.mkdir, parents=True, exist_ok=True, mode=0o700))
    await anyio.to_thread.run_sync(put, Tree(workspace, shown), names, data, run.settings.tools.files)
    if mime_type in IMAGES and (path := workspace.joinpath(*names)).is_relative_to(states.tool.home):
        path = path.relative_to(states.tool.home)
        part = FilePart(path=str(path), mime_type=mime_type, name=name, size=len(data))
        run.attached.setdefault(call, []).append(part)
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
    if run.memory is None:
        return None
    return MemoryToolset(
        memory=states.runtime.memory,
        scope=run.memory,
        others_too=reaches_others(run.work.incoming.chat_type, run.work.incoming.role),
        attribution=attribution_of(run, states),
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
