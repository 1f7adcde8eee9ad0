"""The tool with which a model reads on in what was said in a group without addressing it."""

from typing import Annotated

from pydantic import Field

from agent.core.errors import ToolError
from agent.core.function_tools import tool
from agent.core.tools import ToolContext
from agent.group_context.settings import MOST_HOURS


@tool(category="info", risk="safe", touches="place", effects=[], core=True, untrusted=True, retryable=True)
async def read_chat(
    context: ToolContext,
    *,
    hours: Annotated[float, Field(description="How far back to read.", gt=0, le=MOST_HOURS)] = 24,
) -> str:
    """Reads what people said in this group or thread without addressing you, as far as it is kept; the newest last."""
    if context.read_chat is None:
        raise ToolError("nothing is kept here of what does not address you")
    return await context.read_chat(hours)


GROUP_FUNCTIONS = (read_chat,)
GROUP_TOOLS = frozenset(one.spec.name for one in GROUP_FUNCTIONS)
