"""The call that tests hand to one tool: a workspace of its own and nothing that waits."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.core.cancellation import CancelToken
from agent.core.ids import CallId, ConversationId, RunId
from agent.core.tools import ExecutionContext, Tool, ToolContext


def call_in(
    workspace: Path,
    *,
    cwd: str = "",
    env: Mapping[str, str] | None = None,
    skills: Mapping[str, Path] | None = None,
    at_hand: Sequence[str] = (),
    **more: Any,
) -> ToolContext:
    """A call whose conversation has this folder; `cwd` lies in it."""
    where = ExecutionContext(
        workspace=workspace,
        cwd=workspace / cwd if cwd else workspace,
        env=env or {},
        skills=skills or {},
        at_hand=tuple(at_hand),
    )
    known: dict[str, Any] = {
        "conversation": ConversationId("telegram:77"),
        "run": RunId("r"),
        "call": CallId("c"),
        "person": None,
        "idempotency_key": "1:c",
        "cancel": CancelToken(),
        "execution": where,
    }
    return ToolContext(**{**known, **more})


def mistakes(tool: Tool, arguments: Mapping[str, Any]) -> list[str]:
    """The tool's appraisal, without a call."""
    assert tool.spec.check is not None
    return tool.spec.check(arguments)


async def called(tool: Tool, context: ToolContext, **arguments: Any) -> str:
    """The call's result, after the appraisal that the dispatcher makes."""
    if tool.spec.appraise is not None:
        arguments = dict((await tool.spec.appraise(arguments, context)).arguments)
    return await tool.run(arguments, context)
