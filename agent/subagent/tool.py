"""The tool by which a model hands a task to a sub-agent."""

from typing import Annotated

from pydantic import Field

from agent.core.errors import ToolError
from agent.core.function_tools import tool
from agent.core.tools import AGENT, SubagentTask, ToolContext

NESTED = "a sub-agent cannot begin another one; do the task yourself"
LONGEST_TASK = 16_000  # characters


@tool(
    name=AGENT, category="exec", risk="safe", touches="own", effects=["spend"], untrusted=True
)  # its answer may repeat what strangers wrote
async def agent_tool(
    context: ToolContext,
    *,
    task: Annotated[
        str,
        Field(
            description="All it needs to know: what to do or find out, and what to give back.",
            min_length=1,
            max_length=LONGEST_TASK,
        ),
    ],
    tools: Annotated[list[str] | None, Field(description="The only tools it may call. Left out: all of yours.")] = None,
    agent: Annotated[str | None, Field(description="The name of a defined sub-agent. Left out: a general one.")] = None,
) -> str:
    """Hands a task to a sub-agent that begins without any history and gives back its answer only. For work whose
    details need not stay in this conversation; several may work side by side."""
    if context.subagents is None:
        raise ToolError(NESTED)
    only = frozenset(tools) if tools is not None else None
    subagent_task = SubagentTask(text=task, tools=only, agent=agent or "")
    finding = await context.subagents.run(subagent_task, request=f"{context.run}-sub", cancel=context.cancel)
    if finding.is_error:
        raise ToolError(finding.text)
    return finding.text
