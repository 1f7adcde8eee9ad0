"""Tools that do what a test tells them and note that they were called."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import anyio

from agent.core.tools import ToolContext, ToolSpec

ECHO = ToolSpec(
    name="echo",
    description="Gives back its text.",
    schema={
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    },
    category="info",
    risk="safe",
    core=True,  # always shown: above some tokens of tools a model is only told the names of others
)


@dataclass(kw_only=True)
class FakeTool:
    """Gives back `text`, after `gate` was opened if there is one; raises the next of `errors` first."""

    spec: ToolSpec = ECHO
    gate: anyio.Event | None = None
    errors: list[Exception] = field(default_factory=list)
    calls: list[tuple[Mapping[str, Any], ToolContext]] = field(default_factory=list)
    running: int = 0
    most_running: int = 0

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        self.calls.append((arguments, context))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            if self.gate is not None:
                await self.gate.wait()
            await anyio.lowlevel.checkpoint()
            if self.errors:
                raise self.errors.pop(0)
            return str(arguments.get("text", "done"))
        finally:
            self.running -= 1


def named(name: str, **changes: Any) -> ToolSpec:
    """`ECHO` under another name."""
    return replace(ECHO, name=name, **changes)
