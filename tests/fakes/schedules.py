"""Schedules in memory, for agents without a gateway: they are kept and listed, and never fire."""

from collections.abc import Mapping
from typing import Any

from agent.core.errors import ToolError
from agent.core.ids import ConversationId
from agent.core.tools import ToolContext


class FakeSchedules:
    """`agent.tools.schedules.Schedules`; `kept` has what was set, by conversation and name."""

    def __init__(self) -> None:
        self.kept: dict[tuple[ConversationId, str], str] = {}

    async def periodic(self, name: str, cron: str, kind: str, config: Mapping[str, Any], context: ToolContext) -> str:
        return self._keep(name, f"{kind} {cron} {config.get('text', name)}", context)

    async def deferred(
        self, name: str, run_at: str, kind: str, task: str, zone: str | None, context: ToolContext
    ) -> str:
        return self._keep(name, f"{kind} {run_at} {task}", context)

    async def listed(self, context: ToolContext) -> str:
        return "\n".join(line for (place, _), line in self.kept.items() if place == context.conversation)

    async def cancel(self, name: str, context: ToolContext) -> str:
        if self.kept.pop((context.conversation, name), None) is None:
            raise ToolError(f"there is no {name}")
        return f"Removed: {name}"

    def _keep(self, name: str, line: str, context: ToolContext) -> str:
        self.kept[context.conversation, name] = line
        return f"Set. {line}"
