"""The long form of `tests/scenarios/turns/test_transcripts.py`: hundreds of conversations to which anything happens."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.agent.conversations import Conversation

THOROUGH = settings(
    max_examples=300, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck), database=None
)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.requirement("Z-80", "Z-82", "W-39", "B-89", "B-90")
def test_any_history_is_taken_in_both_forms(sqlite_template: Path) -> None:
    conversations = type("Conversations", (Conversation,), {"template": sqlite_template})
    run_state_machine_as_test(conversations, settings=THOROUGH)
