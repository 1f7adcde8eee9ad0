"""The tool by which a model hands a task to a sub-agent."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from agent.core.errors import ToolError
from agent.core.tools import AGENT, SubagentTask, ToolContext, ToolSpec
from agent.tools.arguments import Arguments, parsed, schema_from

NESTED = "a sub-agent cannot begin another one; do the task yourself"
LONGEST_TASK = 16_000  # characters


class _Wanted(Arguments):
    task: str = Field(
        description="All it needs to know: what to do or find out, and what to give back.",
        min_length=1,
        max_length=LONGEST_TASK,
    )
    tools: list[str] | None = Field(default=None, description="The only tools it may call. Left out: all of yours.")
    agent: str | None = Field(default=None, description="The name of a defined sub-agent. Left out: a general one.")


class Agent:
    """`Agent(task, tools?, agent?)`: its answer, and nothing of how it came to be.

    What it gives back is framed: it may repeat what strangers wrote. Not repeated after a crash, like every call that
    may have changed something.
    """

    spec = ToolSpec(
        name=AGENT,
        description="Hands a task to a sub-agent that begins without any history and gives back its answer only. For "
        "work whose details need not stay in this conversation; several may work side by side.",
        schema=schema_from(_Wanted),
        category="exec",
        risk="safe",
        untrusted=True,
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        wanted = parsed(_Wanted, arguments)
        if context.subagents is None:
            raise ToolError(NESTED)
        tools = frozenset(wanted.tools) if wanted.tools is not None else None
        subagent_task = SubagentTask(text=wanted.task, tools=tools, agent=wanted.agent or "")
        finding = await context.subagents.run(subagent_task, request=f"{context.run}-sub", cancel=context.cancel)
        if finding.is_error:
            raise ToolError(finding.text)
        return finding.text
