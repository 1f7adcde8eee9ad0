"""The tools of one conversation: what its model sees of them, what decides that, and what its session has loaded."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from agent.core.ids import RunId, SessionId
from agent.core.subagents import Subagents
from agent.providers.provider import ToolSchema
from agent.tools.executor import Executor
from agent.turn.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What decides which tools a model sees: those it may call, pseudo-tools, its window, what it has loaded, which
    of many MCP tools fit, and how often the lent ones have changed."""

    scope: frozenset[str]
    pseudo: tuple[str, ...]
    window: int
    loaded: frozenset[str]
    fitting: tuple[str, ...] = ()
    inventory: int = 0


class SubagentPort(Protocol):
    """Who runs sub-agent tasks for a conversation; `agent.subagent.runner.Crew` keeps this promise."""

    def of(self, run: Run, *, most: int | None = None) -> Subagents:
        """Those that work for that run, on its account and within its limits; with `most` so many at once."""


@dataclass(slots=True, kw_only=True)
class ToolState:
    """The executor all agents share (Z-03), the data directory and this conversation's folder in it, what its model
    sees of its tools.

    `loaded` are those that `tool_search` brought in, in the session `loaded_for`; `planned` is the session that is in
    plan mode; `shown` is what the frozen schema was made for (R-03). `subagent_runner` needs the agent and is set
    right after it is built.
    """

    executor: Executor
    home: Path
    workspace: Path
    loaded: frozenset[str] = frozenset()
    loaded_for: SessionId | None = None
    recent: Mapping[str, int] = field(default_factory=dict)  # calls of each tool lately, for what fits
    fitting: tuple[str, ...] = ()  # MCP tools, in the order they came, for the turn, session and inventory …
    fitting_for: tuple[RunId, SessionId, int] | None = None  # … of these
    planned: SessionId | None = None
    shown: Shown | None = None
    schema: ToolSchema = ToolSchema()  # noqa: RUF009 - frozen
    subagent_runner: SubagentPort = field(init=False)

    def plan(self, session: SessionId, on: bool) -> None:
        """Plan mode, from the model's next step on (SPEC §12.5)."""
        self.planned = session if on else None

    def loaded_in(self, session: SessionId) -> frozenset[str]:
        """What was loaded in that session."""
        return self.loaded if self.loaded_for == session else frozenset()

    def load(self, session: SessionId, names: frozenset[str]) -> None:
        """They stay for the session, whatever is forgotten of its history."""
        self.loaded, self.loaded_for = self.loaded_in(session) | names, session
