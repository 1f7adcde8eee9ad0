"""Tools on the session: plan mode, focus, and the search of what left the window."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from agent.core.errors import ToolError
from agent.core.function_tools import tool
from agent.core.tools import Appraisal, Bracketing, ToolContext

ENTER, EXIT = "EnterPlanMode", "ExitPlanMode"
LONGEST_PLAN = 16_000  # characters
REVIEW = "This is the plan. Once it is approved, I begin."
INSTRUCTIONS = """\
## Plan mode

You are in plan mode. Understand the task first: read, search, look things up. Then design what to do and write it \
down as a plan of steps. Change nothing: only tools that look are there. When it is ready, call ExitPlanMode with \
it; a person reviews it, and only when they approve it the other tools come back."""


@tool(name=ENTER, risk="safe", touches="own", effects=["write"], concurrency_safe=False)
async def enter_plan_mode(context: ToolContext) -> str:
    """Begin plan mode before a task with several steps or with consequences: you look and plan, a person reviews the
    plan, then you carry it out."""
    context.planning(True)
    return "Plan mode is on: only tools that look are there now."


async def _reviewed(arguments: Mapping[str, Any], context: ToolContext) -> Appraisal:
    """A person reads the plan itself, each time."""
    return Appraisal(arguments=arguments, gate="ask", reason=REVIEW, shown=str(arguments["plan"]), covers=None)


@tool(name=EXIT, risk="write", touches="own", effects=["write"], core=True, concurrency_safe=False, appraise=_reviewed)
async def exit_plan_mode(
    context: ToolContext,
    *,
    plan: Annotated[
        str,
        Field(
            description="The steps, in order, with what each changes.",
            min_length=1,
            max_length=LONGEST_PLAN,
        ),
    ],
) -> str:
    """Show the finished plan to a person for review. Approved, plan mode ends and you carry it out; otherwise you stay
    in plan mode."""
    if not plan.strip():
        raise ToolError("the plan is empty; write down its steps")
    context.planning(False)
    return "The plan is approved and plan mode is over: carry it out step by step."


# Focus tools: the model brackets a piece of work and keeps its findings alone.

LONGEST_SCOPE, LONGEST_SUMMARY = 200, 4_000


@tool(category="info", risk="safe", touches="own", effects=["write"], core=True, concurrency_safe=False)
async def start_focus(
    context: ToolContext,
    *,
    scope: Annotated[
        str, Field(description="What is to be found out or done.", min_length=1, max_length=LONGEST_SCOPE)
    ],
) -> str:
    """Opens a focus: a longer piece of work with one purpose. When it is closed with complete_focus, only what you
    found stays in your context; the steps in between leave it."""
    return _focus(context).start(scope)


@tool(category="info", risk="safe", touches="own", effects=["write"], core=True, concurrency_safe=False)
async def complete_focus(
    context: ToolContext,
    *,
    summary: Annotated[
        str,
        Field(
            description="Findings, with names, numbers and identifiers as written.",
            min_length=1,
            max_length=LONGEST_SUMMARY,
        ),
    ],
) -> str:
    """Closes the focus. Put everything into the summary that is needed later: it is all that stays."""
    return _focus(context).complete(summary)


FOCUS_TOOLS = frozenset({start_focus.spec.name, complete_focus.spec.name})


def _focus(context: ToolContext) -> Bracketing:
    if context.focus is None:
        raise ToolError("Focus is switched off here ([memory.focus] enabled)")
    return context.focus


# Tool that finds what left the window: searched by words, read back by the message's number.


@tool(
    category="info", risk="safe", touches="own", effects=[], retryable=True, untrusted=True
)  # what stands there may be a stranger's
async def recall_transcript(
    context: ToolContext,
    *,
    query: Annotated[str | None, Field(description="Words to look for.", min_length=1, max_length=500)] = None,
    message: Annotated[int | None, Field(description="The number of a message.", ge=1)] = None,
    from_char: Annotated[int | None, Field(description="Where to read on in it, from 0.", ge=0)] = None,
) -> str:
    """Finds what was said or found out earlier in this conversation and is no longer shown: summarised messages,
    cleared tool results. Give `query` with names, numbers or other words that stood there; or `message`, the number of
    a passage that was found, to read all of it."""
    if context.recall is None:
        raise ToolError("nothing has left the window of this conversation")
    if message is not None:
        return await context.recall.read(message, from_char or 0)
    if query is None:
        raise ToolError("give query or message")
    return await context.recall.search(query)


SESSION_FUNCTIONS = (recall_transcript, start_focus, complete_focus, enter_plan_mode, exit_plan_mode)
