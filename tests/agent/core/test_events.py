"""The names under which others hear of things: Brain's for the loop, Roku's in snake case beside them."""

from importlib import import_module
from pkgutil import iter_modules

import pytest

from agent import core
from agent.core.events import Event

BRAINS = {
    "loop:start", "loop:context", "loop:execute", "loop:persist", "loop:end", "loop:error",
    "tool:start", "tool:end", "stream:delta",
}  # fmt: skip
# What Brain has a name for goes under that one.
ROKUS = {
    "ToolStart": "tool:start",
    "ToolEnd": "tool:end",
    "LlmTextDelta": "stream:delta",
    "LlmDecisionComplete": "llm_decision_complete",
    "StepComplete": "step_complete",
    "TokenUsage": "token_usage",
    "MicrocompactRan": "microcompact_ran",
    "MidCompactLayer1Ran": "mid_compact_layer1_ran",
    "MidCompactLayer2Ran": "mid_compact_layer2_ran",
    "CompactTriggered": "compact_triggered",
    "CompactComplete": "compact_complete",
    "ReactiveCompactTriggered": "reactive_compact_triggered",
    "CacheBreakDetected": "cache_break_detected",
    "OutputSlotEscalated": "output_slot_escalated",
    "AutoCompactCircuitBreakerTripped": "auto_compact_circuit_breaker_tripped",
}
ROOMS = [import_module(f"agent.core.{found.name}") for found in iter_modules(core.__path__) if "events" in found.name]
KINDS = {kind for room in ROOMS for kind in vars(room).values() if isinstance(kind, type) and issubclass(kind, Event)}


@pytest.mark.requirement("R-45")
@pytest.mark.parametrize("name", sorted(BRAINS | set(ROKUS.values())))
def test_it_exists(name: str) -> None:
    assert [kind.name for kind in KINDS].count(name) == 1


def test_no_two_share_a_name() -> None:
    names = [kind.name for kind in KINDS]
    assert len(names) == len(set(names))
