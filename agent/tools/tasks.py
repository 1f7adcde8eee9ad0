"""The tools with which a model keeps a list of tasks, and the list itself.

It belongs to the session: nobody else sees it, it outlives restarts, and /new begins an empty one. Nothing is read or
written unless one of the tools is called.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field
from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.errors import ToolError
from agent.core.ids import ConversationId, SessionId
from agent.core.tools import (
    LONGEST_DESCRIPTION,
    LONGEST_OUTPUT,
    MOST_TASKS,
    Task,
    Tasks,
    TaskStatus,
    ToolContext,
    ToolSpec,
)
from agent.storage import task_rows
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp
from agent.tools.arguments import Arguments, parsed, schema_from

NO_SESSION = "there is no session whose tasks could be kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTasks:
    """Keeps the promise of `agent.core.tools.Tasks` for one session."""

    database: Database
    clock: Clock
    conversation: ConversationId
    session: SessionId

    async def create(self, description: str, status: TaskStatus, *, call: str) -> Task:
        def work(conn: Connection) -> Task:
            if task_rows.count(conn, self.session) >= MOST_TASKS:
                raise ToolError(f"the list holds {MOST_TASKS} tasks, the most there may be; go on with those")
            added = {"dedup": call, "description": description, "status": status, "at": to_timestamp(self.clock.now())}
            return task_rows.add(conn, self.session, self.conversation, **added)  # type: ignore[arg-type]

        return await self.database.write(work)

    async def update(self, id: int, *, status: TaskStatus | None, output: str | None) -> Task:
        at = to_timestamp(self.clock.now())
        return _there(
            await self.database.write(
                lambda conn: task_rows.change(conn, self.session, id, status=status, output=output, at=at)
            ),
            id,
        )

    async def find(self, id: int) -> Task:
        return _there(await self.database.read(lambda conn: task_rows.find(conn, self.session, id)), id)

    async def all(self) -> tuple[Task, ...]:
        return await self.database.read(lambda conn: task_rows.all_of(conn, self.session))


class _New(Arguments):
    description: str = Field(description="What is to be done.", min_length=1, max_length=LONGEST_DESCRIPTION)
    status: TaskStatus = "pending"


class _Change(Arguments):
    task_id: int
    status: TaskStatus | None = None
    output: str | None = Field(default=None, description="What it came to.", max_length=LONGEST_OUTPUT)


class _One(Arguments):
    task_id: int


class _Nothing(Arguments):
    pass


class TaskCreate:
    """`task_create(description, status?)`."""

    spec = ToolSpec(
        name="task_create",
        description="Puts a task on the list of this session, for work of several steps. Returns its number.",
        schema=schema_from(_New),
        concurrency_safe=False,
        retryable=True,
        risk="safe",
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        wanted = parsed(_New, arguments)
        made = await _tasks(context).create(wanted.description, wanted.status, call=context.idempotency_key)
        return f"Task {made.id} is on the list, {made.status}."


class TaskUpdate:
    """`task_update(task_id, status?, output?)`."""

    spec = ToolSpec(
        name="task_update",
        description="Sets the status of a task, or what it came to.",
        schema=schema_from(_Change),
        concurrency_safe=False,
        retryable=True,
        risk="safe",
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        wanted = parsed(_Change, arguments)
        if wanted.status is None and wanted.output is None:
            raise ToolError("give the new status, the output, or both")
        changed = await _tasks(context).update(wanted.task_id, status=wanted.status, output=wanted.output)
        return f"Task {changed.id} is {changed.status}."


class TaskList:
    """`task_list()`."""

    spec = ToolSpec(
        name="task_list",
        description="Lists the tasks of this session with number and status.",
        schema=schema_from(_Nothing),
        retryable=True,
        category="info",
        risk="safe",
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        found = await _tasks(context).all()
        return "\n".join(f"{one.id} [{one.status}] {one.description}" for one in found) or "There are no tasks."


class TaskGet:
    """`task_get(task_id)`."""

    spec = ToolSpec(
        name="task_get",
        description="Shows one task with its output.",
        schema=schema_from(_One),
        retryable=True,
        category="info",
        risk="safe",
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        one = await _tasks(context).find(parsed(_One, arguments).task_id)
        return "\n".join(filter(None, (f"{one.id} [{one.status}] {one.description}", one.output)))


def task_tools() -> tuple[TaskCreate, TaskUpdate, TaskList, TaskGet]:
    return TaskCreate(), TaskUpdate(), TaskList(), TaskGet()


TASK_TOOLS = frozenset(tool.spec.name for tool in task_tools())


def _tasks(context: ToolContext) -> Tasks:
    if context.tasks is None:
        raise ToolError(NO_SESSION)
    return context.tasks


def _there(found: Task | None, id: int) -> Task:
    if found is None:
        raise ToolError(f"there is no task {id} in this session; task_list shows those there are")
    return found
