"""Tools on the session: plan mode, focus, and the search of what left the window."""

from collections.abc import Mapping
from typing import Any

from agent.core.errors import ToolError
from agent.core.tools import Appraisal, Bracketing, ToolContext, ToolSpec

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


# Focus tools: the model brackets a piece of work and keeps its findings alone.

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


# Tool that finds what left the window: searched by words, read back by the message's number.


class RecallTranscript:
    """`recall_transcript(query?, message?, from_char?)`: passages that fit the words, or one message in full."""

    spec = ToolSpec(
        name="recall_transcript",
        description=(
            "Finds what was said or found out earlier in this conversation and is no longer shown: summarised "
            "messages, cleared tool results. Give `query` with names, numbers or other words that stood there; or "
            "`message`, the number of a passage that was found, to read all of it."
        ),
        schema={
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "Words to look for.", "minLength": 1, "maxLength": 500},
                "message": {"type": "integer", "description": "The number of a message.", "minimum": 1},
                "from_char": {"type": "integer", "description": "Where to read on in it, from 0.", "minimum": 0},
            },
            "additionalProperties": False,
        },
        retryable=True,
        untrusted=True,  # what stands there may be a stranger's
        category="info",
        risk="safe",
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        if context.recall is None:
            raise ToolError("nothing has left the window of this conversation")
        if "message" in arguments:
            return await context.recall.read(int(arguments["message"]), int(arguments.get("from_char", 0)))
        if "query" not in arguments:
            raise ToolError("give query or message")
        return await context.recall.search(arguments["query"])
