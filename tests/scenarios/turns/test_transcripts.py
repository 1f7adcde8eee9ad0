"""The next request of a conversation is one that the model services take, whatever happened to it."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.agent.conversations import Conversation

# Whoever sees it fail finds the shortest such conversation with the long form, in `make faults`.
QUICK = settings(
    max_examples=15,
    stateful_step_count=14,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    phases=[Phase.generate],
)


@pytest.fixture
def conversations(sqlite_template: Path) -> type[Conversation]:
    return type("Conversations", (Conversation,), {"template": sqlite_template})


@pytest.mark.slow
@pytest.mark.requirement("Z-80", "Z-82", "W-39", "B-89", "B-90")
def test_any_history_is_taken_in_both_forms(conversations: type[Conversation]) -> None:
    run_state_machine_as_test(conversations, settings=QUICK)
