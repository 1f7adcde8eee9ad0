"""What sub-agents do: facts for dashboards and dumps (SPEC §13.1). `run` is the one they work for."""

from dataclasses import dataclass
from typing import ClassVar

from agent.core.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentStarted(Event):
    """`request` is the id that its own calls go by, `agent` its definition ("": none)."""

    name: ClassVar[str] = "subagent_start"
    request: str
    agent: str
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentEnded(Event):
    """`steps` are those it took; the others are given back."""

    name: ClassVar[str] = "subagent_end"
    request: str
    steps: int
    elapsed_ms: int
    is_error: bool
