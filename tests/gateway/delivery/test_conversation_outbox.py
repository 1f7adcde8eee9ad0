"""Events that people see."""

import pytest

from agent.core.events import (
    ContextDegraded,
    DecisionCompleted,
    Event,
    LoopEnded,
    ProviderSwitched,
    RetryScheduled,
    StreamDelta,
    TokensUsed,
    ToolEnded,
    ToolOutputCompressed,
    ToolStarted,
)
from agent.core.ids import CallId, ConversationId
from gateway.delivery.conversation_outbox import line_for
from gateway.delivery.settings import Verbosity
from tests.gateway.delivery.world import phrase

HERE = ConversationId("fake:1")
CALL = CallId("c1")
NORMAL: list[Event] = [
    ToolStarted(conversation=HERE, tool_name="calculate", tool_call_id=CALL),
    RetryScheduled(conversation=HERE, provider="main", attempt=2, after_s=1.0, reason="429"),
    ContextDegraded(conversation=HERE, after_s=5.0),
    ToolOutputCompressed(
        conversation=HERE,
        tool_name="read",
        tool_call_id=CALL,
        original_tokens=6000,
        compressed_tokens=40,
        raw_output="",
    ),
]
VERBOSE: list[Event] = [
    ToolEnded(
        conversation=HERE, tool_name="calculate", tool_call_id=CALL, elapsed_ms=5, is_error=True, result_summary="no"
    ),
    ProviderSwitched(conversation=HERE, provider="b", model="m", context_max_tokens=1000),
    DecisionCompleted(
        conversation=HERE,
        provider="main",
        model="m",
        stop_reason="end_turn",
        tool_calls=0,
        elapsed_ms=1234,
        first_token_ms=100,
    ),
    TokensUsed(
        conversation=HERE, prompt=10, output=5, cache_creation=0, cache_read=0, estimated_cost_usd=None, estimated=False
    ),
]
NEVER: list[Event] = [
    ToolStarted(conversation=HERE, tool_name="shell", tool_call_id=CALL, runs=False),  # denied: nothing runs
    StreamDelta(conversation=HERE, content="x"),
    LoopEnded(conversation=HERE, success=True, duration_ms=1),
    ToolEnded(
        conversation=HERE, tool_name="calculate", tool_call_id=CALL, elapsed_ms=5, is_error=False, result_summary="4"
    ),
]


@pytest.mark.parametrize(("verbosity", "shown"), [("quiet", []), ("normal", NORMAL), ("verbose", [*NORMAL, *VERBOSE])])
def test_each_step_shows_more(verbosity: Verbosity, shown: list[Event]) -> None:
    for event in [*NORMAL, *VERBOSE, *NEVER]:
        line = line_for(event, verbosity, phrase, "en")
        assert (line is not None) == (event in shown), event


def test_the_line_speaks_the_person_s_language() -> None:
    assert line_for(NORMAL[0], "normal", phrase, "de") == "🔧 calculate …"
    assert line_for(VERBOSE[3], "verbose", phrase, "de") == "10 Token hinein, 5 heraus"
