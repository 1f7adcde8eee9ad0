"""The tool with which a model calls up a skill; it gives allowed skills only, and exists only where there are any."""

from collections.abc import Mapping
from typing import Any

from agent.core.errors import ToolError
from agent.core.tools import ToolContext, ToolSpec
from agent.skills.catalogue import LOAD


class LoadSkill:
    """`load_skill(name)`: the whole text of one skill."""

    spec = ToolSpec(
        name=LOAD,
        description="Brings the text of one of the skills that are listed; follow it where it fits what was asked.",
        schema={
            "type": "object",
            "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 100}},
            "required": ["name"],
            "additionalProperties": False,
        },
        category="info",
        core=True,
        risk="safe",
        retryable=True,
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        if context.skill is None:
            raise ToolError("there are no skills here")
        return context.skill(str(arguments["name"]))
