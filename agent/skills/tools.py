"""The tool with which a model calls up a skill; it gives allowed skills only, and exists only where there are any."""

from typing import Annotated

from pydantic import Field

from agent.core.errors import ToolError
from agent.core.function_tools import tool
from agent.core.tools import ToolContext
from agent.skills.catalogue import LOAD


@tool(name=LOAD, category="info", core=True, risk="safe", touches="own", effects=[], retryable=True)
async def load_skill(context: ToolContext, *, name: Annotated[str, Field(min_length=1, max_length=100)]) -> str:
    """Brings the text of one of the skills that are listed; follow it where it fits what was asked."""
    if context.skill is None:
        raise ToolError("there are no skills here")
    return context.skill(name)
