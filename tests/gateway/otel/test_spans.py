"""Turns become spans of OTLP, by the words of the GenAI semantic conventions."""

from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from agent.core.ids import RunId
from gateway.otel.spans import spans_of
from gateway.traces.trace import EndedTurn, Span
from tests.gateway.otel.examples import ended
from tests.gateway.traces.examples import trace


def made(turn: EndedTurn) -> list[OtlpSpan]:
    return [OtlpSpan(**fields) for fields in spans_of(turn, most=100, redact=str)]


def told(span: OtlpSpan) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value") or "") for one in span.attributes}


def test_moments_are_those_of_the_trace() -> None:
    whole, queue, model, _ = made(ended(trace(started_at=5_000_000, elapsed_ms=1000)))
    assert (whole.start_time_unix_nano, whole.end_time_unix_nano) == (5_000_000_000, 6_000_000_000)
    assert (queue.start_time_unix_nano, queue.end_time_unix_nano) == (4_960_000_000, 5_000_000_000)
    assert (model.start_time_unix_nano, model.end_time_unix_nano) == (5_005_000_000, 5_905_000_000)


@pytest.mark.requirement("G-124")
@pytest.mark.parametrize(
    ("outcome", "failed"), [("answered", False), ("cancelled", False), ("failed", True), ("broken", True)]
)
def test_a_turn_that_failed_has_the_status_of_an_error(outcome: str, failed: bool) -> None:
    whole = made(ended(trace(outcome=outcome)))[0]
    assert (whole.status.code == Status.STATUS_CODE_ERROR) is failed
    assert told(whole).get("error.type", "") == (outcome if failed else "")


@pytest.mark.parametrize(
    ("span", "name", "attributes"),
    [
        pytest.param(
            Span(kind="retry", start_ms=0, ms=1, name="main", outcome="ProviderBusy"),
            "retry",
            {"gen_ai.provider.name": "main", "error.type": "ProviderBusy"},
            id="a retry tells the error",
        ),
        pytest.param(
            Span(kind="compaction", start_ms=0, ms=1, name="hard", size=900),
            "compaction",
            {"tieline.compaction.stage": "hard", "tieline.tokens_freed": 900},
            id="a compaction tells its stage",
        ),
        pytest.param(
            Span(kind="approval", start_ms=0, ms=1, outcome="approved"),
            "approval",
            {"tieline.outcome": "approved"},
            id="an approval tells its end",
        ),
        pytest.param(
            Span(kind="model", start_ms=0, ms=1, name="main", model="e5", purpose="embeddings", tokens_in=7),
            "embeddings e5",
            {"gen_ai.operation.name": "embeddings", "gen_ai.usage.input_tokens": 7},
            id="vectors are an operation of their own",
        ),
        pytest.param(
            Span(kind="model", start_ms=0, ms=1, name="main", model="m", purpose="judge", cost_usd=0.5),
            "chat m",
            {"gen_ai.operation.name": "chat", "tieline.purpose": "judge", "tieline.cost_usd": 0.5},
            id="a judge chats",
        ),
        pytest.param(
            Span(kind="tool", start_ms=0, ms=1, name="half \ud83d", size=3),
            "execute_tool half \ud83d".encode(errors="replace").decode(),
            {"gen_ai.tool.name": "half ?"},
            id="half a character does not break the batch",
        ),
    ],
)
def test_each_part_has_its_name_and_attributes(span: Span, name: str, attributes: dict[str, Any]) -> None:
    _, part = made(ended(trace(spans=(span,))))
    assert part.name == name
    assert told(part).items() >= attributes.items()


def test_what_a_sub_agent_without_a_span_did_stands_below_the_turn() -> None:
    """It was cut off: its own part is told at its end alone."""
    whole, part = made(ended(trace(spans=(Span(kind="tool", start_ms=0, ms=1, name="read"),)), runs=(RunId("inner"),)))
    assert part.parent_span_id == whole.span_id
