"""What the agent has set itself to do in this session: /tasks."""

from agent.core.tasks import STATUSES
from agent.goals.ticks import short
from gateway.commands.command import Call, Command, Reply

MOST_SHOWN = 50
_MARKS = {"pending": "○", "in_progress": "▸", "completed": "✓", "failed": "✗"}


async def tasks(call: Call) -> Reply:
    """Its list, the oldest first; of a long one the newest."""
    phrase, language = call.deps.phrase, call.incoming.language
    found = await call.agent.tasks()
    if not found:
        return Reply(text=phrase("tasks_none", language), private=True)
    counts = {status: sum(one.status == status for one in found) for status in STATUSES}
    lines = [phrase("tasks_title", language, **counts), ""]
    if len(found) > MOST_SHOWN:
        lines.append(phrase("tasks_more", language, count=len(found) - MOST_SHOWN))
    for one in found[-MOST_SHOWN:]:
        lines.append(f"{_MARKS[one.status]} {one.id} · {short(one.description)}")
        if one.output:
            lines.append(f"   {short(one.output)}")
    return Reply(text="\n".join(lines), private=True, verbatim=True)


TASKS = Command(name="tasks", run=tasks, group="later", immediate=True)
