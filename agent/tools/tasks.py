"""The tools with which a model keeps a list of tasks, and the list itself.

It belongs to the session: nobody else sees it, it outlives restarts, and /new begins an empty one. Nothing is read or
written unless one of the tools is called.
"""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.errors import ToolError
from agent.core.function_tools import tool
from agent.core.ids import ConversationId, SessionId
from agent.core.tools import (
    LONGEST_DESCRIPTION,
    LONGEST_OUTPUT,
    MOST_TASKS,
    Task,
    Tasks,
    TaskStatus,
    ToolContext,
)
from agent.storage import task_rows
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp

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


@tool(risk="safe", touches="own", effects=["write"], concurrency_safe=False, retryable=True)
async def task_create(
    context: ToolContext,
    *,
    description: Annotated[str, Field(description="What is to be done.", min_length=1, max_length=LONGEST_DESCRIPTION)],
    status: TaskStatus = "pending",
) -> str:
    """Puts a task on the list of this session, for work of several steps. Returns its number."""
    made = await _tasks(context).create(description, status, call=context.idempotency_key)
    return f"Task {made.id} is on the list, {made.status}."


@tool(risk="safe", touches="own", effects=["write"], concurrency_safe=False, retryable=True)
async def task_update(
    context: ToolContext,
    *,
    task_id: int,
    status: TaskStatus | None = None,
    output: Annotated[str | None, Field(description="What it came to.", max_length=LONGEST_OUTPUT)] = None,
) -> str:
    """Sets the status of a task, or what it came to."""
    if status is None and output is None:
        raise ToolError("give the new status, the output, or both")
    changed = await _tasks(context).update(task_id, status=status, output=output)
    return f"Task {changed.id} is {changed.status}."


@tool(category="info", risk="safe", touches="own", effects=[], retryable=True)
async def task_list(context: ToolContext) -> str:
    """Lists the tasks of this session with number and status."""
    found = await _tasks(context).all()
    return "\n".join(f"{one.id} [{one.status}] {one.description}" for one in found) or "There are no tasks."


@tool(category="info", risk="safe", touches="own", effects=[], retryable=True)
async def task_get(context: ToolContext, *, task_id: int) -> str:
    """Shows one task with its output."""
    one = await _tasks(context).find(task_id)
    return "\n".join(filter(None, (f"{one.id} [{one.status}] {one.description}", one.output)))


TASK_FUNCTIONS = (task_create, task_update, task_list, task_get)
TASK_TOOLS = frozenset(one.spec.name for one in TASK_FUNCTIONS)


def _tasks(context: ToolContext) -> Tasks:
    if context.tasks is None:
        raise ToolError(NO_SESSION)
    return context.tasks


def _there(found: Task | None, id: int) -> Task:
    if found is None:
        raise ToolError(f"there is no task {id} in this session; task_list shows those there are")
    return found
