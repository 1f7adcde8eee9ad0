"""Plan mode: a stretch in which the model only looks, ended by a plan that a person has read (SPEC §12.5)."""

from collections.abc import Mapping
from typing import Any

from agent.core.errors import ToolError
from agent.core.tools import Appraisal, ToolContext, ToolSpec

ENTER, EXIT = "EnterPlanMode", "ExitPlanMode"
LONGEST_PLAN = 16_000  # characters
REVIEW = "This is the plan. Once it is approved, I begin."
INSTRUCTIONS = """\
## Plan mode

You are in plan mode. Understand the task first: read, search, look things up. Then design what to do and write it \
down as a plan of steps. Change nothing: only tools that look are there. When it is ready, call ExitPlanMode with \
it; a person reviews it, and only when they approve it the other tools come back."""


class EnterPlanMode:
    """`EnterPlanMode()`: only tools that look, until a plan is approved."""

    spec = ToolSpec(
        name=ENTER,
        description="Begin plan mode before a task with several steps or with consequences: you look and plan, a "
        "person reviews the plan, then you carry it out.",
        schema={"type": "object", "properties": {}, "additionalProperties": False},
        concurrency_safe=False,
        risk="safe",
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        context.planning(True)
        return "Plan mode is on: only tools that look are there now."


async def _reviewed(arguments: Mapping[str, Any], context: ToolContext) -> Appraisal:
    """A person reads the plan itself, each time."""
    return Appraisal(arguments=arguments, gate="ask", reason=REVIEW, shown=str(arguments["plan"]), covers=None)


class ExitPlanMode:
    """`ExitPlanMode(plan)`: show the plan; approved, the other tools come back."""

    spec = ToolSpec(
        name=EXIT,
        description="Show the finished plan to a person for review. Approved, plan mode ends and you carry it out; "
        "otherwise you stay in plan mode.",
        schema={
            "type": "object",
            "properties": {
                "plan": {
                    "type": "string",
                    "description": "The steps, in order, with what each changes.",
                    "minLength": 1,
                    "maxLength": LONGEST_PLAN,
                }
            },
            "required": ["plan"],
            "additionalProperties": False,
        },
        core=True,
        concurrency_safe=False,
        risk="write",
        appraise=_reviewed,
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        if not str(arguments["plan"]).strip():
            raise ToolError("the plan is empty; write down its steps")
        context.planning(False)
        return "The plan is approved and plan mode is over: carry it out step by step."
