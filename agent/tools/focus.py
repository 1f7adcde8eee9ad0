"""Tools with which the model brackets a piece of work and keeps only what it found (SPEC §8.15)."""

from collections.abc import Mapping
from typing import Any

from agent.core.errors import ToolError
from agent.core.tools import Bracketing, ToolContext, ToolSpec

LONGEST_SCOPE, LONGEST_SUMMARY = 200, 4_000


class StartFocus:
    """`start_focus(scope)`: what follows is for one purpose."""

    spec = ToolSpec(
        core=True,
        name="start_focus",
        description=(
            "Opens a focus: a longer piece of work with one purpose. When it is closed with complete_focus, only what "
            "you found stays in your context; the steps in between leave it."
        ),
        schema={
            "type": "object",
            "properties": {
                "scope": {
                    "type": "string",
                    "description": "What is to be found out or done.",
                    "minLength": 1,
                    "maxLength": LONGEST_SCOPE,
                }
            },
            "required": ["scope"],
            "additionalProperties": False,
        },
        concurrency_safe=False,
        category="info",
        risk="safe",
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        return _focus(context).start(arguments["scope"])


class CompleteFocus:
    """`complete_focus(summary)`: only the summary stays."""

    spec = ToolSpec(
        core=True,
        name="complete_focus",
        description="Closes the focus. Put everything into the summary that is needed later: it is all that stays.",
        schema={
            "type": "object",
            "properties": {
                "summary": {
                    "type": "string",
                    "description": "Findings, with names, numbers and identifiers as written.",
                    "minLength": 1,
                    "maxLength": LONGEST_SUMMARY,
                }
            },
            "required": ["summary"],
            "additionalProperties": False,
        },
        concurrency_safe=False,
        category="info",
        risk="safe",
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        return _focus(context).complete(arguments["summary"])


FOCUS_TOOLS = frozenset({StartFocus.spec.name, CompleteFocus.spec.name})


def _focus(context: ToolContext) -> Bracketing:
    if context.focus is None:
        raise ToolError("Focus is switched off here ([memory.focus] enabled)")
    return context.focus
