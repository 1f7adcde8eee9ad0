"""Events become numbers, and numbers what a scraper reads."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agent.core.events import (
    CacheBreakDetected,
    CallBilled,
    CompactComplete,
    ContextBuilt,
    DecisionCompleted,
    Event,
    EventBus,
    LookedUpAgain,
    LoopEnded,
    LoopFailed,
    LoopStarted,
    OutputSlotEscalated,
    PersistStarted,
    ProviderFailedOver,
    ProviderSwitched,
    Published,
    RetryScheduled,
    StreamDelta,
    SummaryProbed,
    ToolEnded,
)
from agent.core.ids import ConversationId, RunId, SessionId
from gateway.telemetry.exposition import exposition
from gateway.telemetry.metrics import (
    CONVERSATIONS_KEPT,
    COST,
    TOKENS,
    TURNS_ENDED,
    UNPRICED,
    Gauges,
    Histogram,
    Metrics,
)

A, B = ConversationId("telegram:1"), ConversationId("web:operator:main")
RUN = RunId("r")


def billed(conversation: ConversationId, **more: Any) -> CallBilled:
    values: dict[str, Any] = {
        "purpose": "turn", "provider": "main", "model": "gpt-x", "prompt": 1, "output": 1, "cache_creation": 0,
        "cache_read": 0, "cost_usd": 0.0, "estimated": False,
    }  # fmt: skip
    return CallBilled(conversation=conversation, run=RUN, **values | more)


def a_turn(conversation: ConversationId, *, success: bool = True) -> list[Event]:
    return [
        LoopStarted(conversation=conversation, run=RUN, session=SessionId("s")),
        ContextBuilt(conversation=conversation, run=RUN, token_estimate=900, window=200_000),
        RetryScheduled(conversation=conversation, run=RUN, provider="main", attempt=1, after_s=0.5, reason="429"),
        StreamDelta(conversation=conversation, run=RUN, content="hi"),
        DecisionCompleted(
            conversation=conversation, run=RUN, provider="main", model="gpt-x", stop_reason="end", tool_calls=1,
            elapsed_ms=1200, first_token_ms=300,
        ),
        ToolEnded(
            conversation=conversation, run=RUN, tool_name="calculate", tool_call_id="c", elapsed_ms=2, is_error=True,
            result_summary="x",
        ),
        billed(conversation, prompt=900, output=50, cache_creation=10, cache_read=700, cost_usd=0.002),
        PersistStarted(conversation=conversation, run=RUN),
        LoopEnded(conversation=conversation, run=RUN, success=success, duration_ms=1500),
    ]  # fmt: skip


def hard(conversation: ConversationId, stage: str = "hard") -> CompactComplete:
    return CompactComplete(
        conversation=conversation, stage=stage, messages=9, tokens_before=9, tokens_after=1, mechanical=False, at_ms=1
    )


def counted(*events: Event) -> Metrics:
    metrics = Metrics()
    for number, event in enumerate(events):
        metrics.listen(Published(number, event))
    return metrics


@pytest.mark.requirement("B-92")
def test_turns_of_all_conversations_are_counted() -> None:
    metrics = counted(*a_turn(A), *a_turn(B), *a_turn(B, success=False))
    assert (metrics.sum(TURNS_ENDED), metrics.sum(TURNS_ENDED, outcome="error")) == (3, 1)
    kinds = ("input", "output", "cache_creation", "cache_read")
    assert [metrics.sum(TOKENS, gen_ai_token_type=kind) for kind in kinds] == [2700, 150, 30, 2100]
    assert metrics.sum(COST) == pytest.approx(0.006)
    assert metrics.sum("tieline_tool_calls", outcome="error") == 3
    assert metrics.sum("tieline_llm_retries") == 3
    assert metrics.newest["tieline_context_tokens"] == 900


def test_a_crashed_run_is_a_failed_turn() -> None:
    assert counted(LoopFailed(conversation=A, run=RUN, error="x")).sum(TURNS_ENDED, outcome="error") == 1


def test_an_unknown_price_and_guessed_tokens_are_counted_apart() -> None:
    metrics = counted(billed(A, cost_usd=None, estimated=True))
    assert (metrics.sum(COST), metrics.sum(UNPRICED), metrics.sum("tieline_estimated_calls")) == (0.0, 1, 1)


def test_a_switch_of_provider_brings_its_window() -> None:
    switched = ProviderSwitched(conversation=A, provider="b", model="m", context_max_tokens=128_000)
    assert counted(switched).newest["tieline_context_max_tokens"] == 128_000


def test_names_that_a_model_made_up_are_one_label() -> None:
    ended = ToolEnded(
        conversation=A, run=RUN, tool_name="", tool_call_id="c", elapsed_ms=0, is_error=True, result_summary="no tool",
        exists=False,
    )  # fmt: skip
    metrics = counted(*(replace(ended, tool_name=f"a{number}") for number in range(50)))
    assert metrics.counts["tieline_tool_calls"] == {("unknown", "error"): 50}


def test_turns_between_two_hard_compactions_are_counted_by_conversation() -> None:
    apart = (*a_turn(A), *a_turn(B), hard(B), *a_turn(A), hard(A, "mid"), *a_turn(A))
    metrics = counted(*a_turn(A), hard(A), *apart, hard(A))
    apart_by = metrics.histograms["tieline_turns_after_hard_compaction"][()]
    assert (apart_by.count, apart_by.total) == (1, 3.0)
    assert metrics.sum("tieline_hard_compactions") == 3


def test_what_is_remembered_of_conversations_is_bounded() -> None:
    conversations = [ConversationId(f"t:{number}") for number in range(CONVERSATIONS_KEPT + 10)]
    events = (hard(conversation) for conversation in (*conversations, conversations[0], conversations[-1]))
    metrics = counted(*events)
    assert metrics.histograms["tieline_turns_after_hard_compaction"][()].count == 1, "the first was forgotten"
    assert metrics.sum("tieline_hard_compactions") == CONVERSATIONS_KEPT + 12


def test_what_sweeps_of_the_memory_took_is_counted() -> None:
    metrics = counted()
    metrics.swept(100)
    metrics.swept(7)
    assert "tieline_memory_evicted_total 107.0" in exposition(metrics, Gauges()).decode()


def test_what_summaries_knew_and_what_was_looked_up_again_is_counted() -> None:
    probed = SummaryProbed(conversation=A, stage="high", asked=7, answered=5, put_back=2)
    metrics = counted(probed, probed, LookedUpAgain(conversation=A, tool="read", again=True, turns=1))
    text = exposition(metrics, Gauges()).decode()
    assert "tieline_summary_questions_total 14.0" in text
    assert "tieline_summary_questions_answered_total 10.0" in text
    assert "tieline_summary_facts_put_back_total 4.0" in text
    assert "tieline_looked_up_again_total 1.0" in text


@pytest.mark.requirement("R-46")
def test_a_listener_that_fails_costs_neither_the_turn_nor_the_others() -> None:
    metrics = Metrics()
    bus = EventBus(on_error=metrics.listener_failed)

    def broken(published: Published) -> None:
        raise RuntimeError("the trace is broken")

    bus.listen(broken)
    bus.listen(metrics.listen)
    for event in a_turn(A):
        bus.publish(event)
    assert metrics.sum(TURNS_ENDED) == 1
    assert metrics.sum("tieline_event_listener_failures") == len(a_turn(A))


def test_a_histogram_counts_up_to_and_including_its_bounds() -> None:
    histogram = Histogram(bounds=(1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 9.0):
        histogram.observe(value)
    assert (histogram.counts, histogram.count, histogram.total) == ([2, 2, 1], 5, 14.0)


@pytest.mark.requirement("G-30")
def test_the_exposition_is_what_a_scraper_reads() -> None:
    gauges = Gauges(version="0.1.0", ready=True, queue_depth=3, outbox_dead=1, adapters={"telegram@b": False},
                    budgets={("person", "day"): 0.9})  # fmt: skip
    attributions = (
        billed(A, purpose="compaction", prompt=100, cost_usd=0.001),
        billed(A, purpose="transcription", cost_usd=None),
    )
    text = exposition(counted(*a_turn(A), *attributions), gauges).decode()
    found = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    of_model = (("gen_ai_operation_name", "chat"), ("gen_ai_provider_name", "main"), ("gen_ai_request_model", "gpt-x"))
    assert found["gen_ai_client_token_usage_tokens_total", *of_model, ("gen_ai_token_type", "input")] == 1000
    assert found["gen_ai_client_token_usage_tokens_total", *of_model, ("gen_ai_token_type", "cache_read")] == 700
    assert found["tieline_cost_usd_total", *of_model, ("tieline_purpose", "compaction")] == 0.001
    assert found["tieline_unpriced_calls_total", ("gen_ai_operation_name", "transcription"), *of_model[1:]] == 1
    assert found["tieline_budget_used_ratio", ("per", "day"), ("scope", "person")] == 0.9
    assert found["gen_ai_client_operation_duration_seconds_sum", *of_model] == pytest.approx(1.2)
    assert found["gen_ai_client_operation_duration_seconds_bucket", *of_model, ("le", "1.28")] == 1
    assert found["gen_ai_client_operation_time_to_first_chunk_seconds_count", *of_model] == 1
    assert found["tieline_turns_total", ("outcome", "success")] == 1
    assert found["tieline_tool_calls_total", ("outcome", "error"), ("tool", "calculate")] == 1
    assert found["tieline_llm_retries_total", ("gen_ai_provider_name", "main")] == 1
    assert found["tieline_queue_depth",] == 3
    assert found["tieline_outbox_dead",] == 1
    assert found["tieline_adapter_up", ("channel_type", "telegram@b")] == 0
    assert found["tieline_build_info", ("version", "0.1.0")] == 1


@pytest.mark.requirement("R-11", "R-22")
def test_failovers_cache_breaks_and_long_answers_are_counted() -> None:
    metrics = Metrics()
    for event in (
        ProviderFailedOver(conversation=A, provider="b", model="m", instead_of="a"),
        CacheBreakDetected(conversation=A, causes=("tools", "notes"), tokens_before=9000, tokens_after=0),
        CacheBreakDetected(conversation=A, causes=(), tokens_before=9000, tokens_after=0),
        OutputSlotEscalated(conversation=A, provider="a", model="m", max_tokens=64_000),
    ):
        metrics.listen(Published(1, event))
    assert metrics.counts["tieline_failovers"] == {("a", "b"): 1}
    assert metrics.counts["tieline_cache_breaks"] == {("tools",): 1, ("notes",): 1, ("unknown",): 1}
    assert metrics.counts["tieline_escalated_answers"] == {("a",): 1}
    scraped = exposition(metrics, Gauges()).decode()
    assert 'tieline_failovers_total{fallback="b",gen_ai_provider_name="a"} 1.0' in scraped
    assert 'tieline_cache_breaks_total{cause="unknown"} 1.0' in scraped


def test_every_metric_is_explained_to_operators() -> None:
    told = (Path(__file__).parents[3] / "docs" / "monitoring.md").read_text()
    shorthand = {"tieline_event_loop_lag_worst_seconds", "tieline_compaction_last_after_tokens",
                 "tieline_compaction_last_timestamp_ms", "tieline_outbox_dead"}  # fmt: skip
    families = text_string_to_metric_families(exposition(Metrics(), Gauges()).decode())
    names = {family.name for family in families if family.name.startswith("tieline_")} - shorthand
    assert {name for name in names if name not in told} == set()
