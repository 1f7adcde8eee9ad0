"""Reading Messages streams."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.errors import AgentError, ContextTooLong, ProviderBusy, ProviderRefused
from agent.providers.anthropic.stream import Reading
from agent.providers.provider import (
    Chunk,
    Done,
    RedactedThinkingDone,
    ThinkingDelta,
    ThinkingDone,
    ToolCallDelta,
    ToolCallDone,
    ToolCallStart,
    Unknown,
    Usage,
)

START = {"type": "message_start", "message": {"usage": {"input_tokens": 10, "output_tokens": 1}}}
STOP = {"type": "message_stop"}


def block(index: int, **content: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": content}


def delta(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def end(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def read(*events: Any) -> list[Chunk]:
    reading = Reading("main")
    return [chunk for event in events for chunk in reading.event(json.dumps(event).encode())]


@pytest.mark.requirement("Z-19")
def test_thinking_and_signature_are_whole_and_unchanged() -> None:
    chunks = read(
        block(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking=" I  need\n"),
        delta(0, "thinking_delta", thinking="ä"),
        delta(0, "signature_delta", signature="AB"),
        delta(0, "signature_delta", signature="C=="),
        end(0),
        block(1, type="redacted_thinking", data="XYZ"),
        end(1),
    )
    assert chunks == [
        ThinkingDelta(" I  need\n"),
        ThinkingDelta("ä"),
        ThinkingDone(" I  need\nä", "ABC=="),
        RedactedThinkingDone("XYZ"),
    ]


@pytest.mark.requirement("R-14")
def test_interleaved_calls_keep_their_pieces_apart() -> None:
    chunks = read(
        block(1, type="tool_use", id="a", name="f", input={}),
        block(2, type="tool_use", id="b", name="g", input={}),
        delta(1, "input_json_delta", partial_json='{"x":'),
        delta(2, "input_json_delta", partial_json="{}"),
        delta(1, "input_json_delta", partial_json="1}"),
        end(1),
        end(2),
    )
    assert [c for c in chunks if getattr(c, "index", None) == 0] == [
        ToolCallStart(0, "a", "f"),
        ToolCallDelta(0, '{"x":'),
        ToolCallDelta(0, "1}"),
        ToolCallDone(0),
    ]
    assert ToolCallDelta(1, "{}") in chunks


def test_arguments_given_whole_at_the_start_are_not_lost() -> None:
    chunks = read(block(0, type="tool_use", id="a", name="f", input={"x": 1}), end(0))
    assert chunks == [ToolCallStart(0, "a", "f"), ToolCallDelta(0, '{"x": 1}'), ToolCallDone(0)]


@pytest.mark.requirement("R-15")
def test_counts_are_totals_and_cache_tiers_stand_apart() -> None:
    reading = Reading("main")
    first = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 300,
        "cache_read_input_tokens": 4000,
        "cache_creation": {"ephemeral_5m_input_tokens": 300},
        "output_tokens": 1,
    }
    last = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 25}}
    for event in ({"type": "message_start", "message": {"usage": first}}, last, STOP):
        reading.event(json.dumps(event).encode())
    assert reading.end() == [Usage(prompt=10, output=25, cache_creation=300, cache_read=4000), Done("end_turn")]


@pytest.mark.requirement("W-42")
def test_only_the_closing_event_closes() -> None:
    reading = Reading("main")
    reading.event(json.dumps({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}).encode())
    assert not reading.complete
    reading.event(json.dumps(STOP).encode())
    assert reading.complete


@pytest.mark.requirement("G-34")
@pytest.mark.parametrize(
    "event",
    [
        {"type": "moon_phase"},
        {},
        [],
        block(0, type="server_tool_use", id="x"),
        delta(0, "citations_delta", citation={}),
        delta(7, "thinking_delta", thinking="of a block that never began"),
    ],
)
def test_what_is_not_known_is_said_and_passed_over(event: Any) -> None:
    assert [type(chunk) for chunk in read(event)] == [Unknown]


@pytest.mark.parametrize(
    ("kind", "message", "error"),
    [
        pytest.param("overloaded_error", "Overloaded", ProviderBusy, id="overload inside a stream with status 200"),
        pytest.param("api_error", "Internal", ProviderBusy, id="their own trouble"),
        pytest.param("rate_limit_error", "slow down", ProviderBusy, id="rate limit"),
        pytest.param("new_kind_of_error", "?", ProviderBusy, id="a kind nobody knows"),
        pytest.param("invalid_request_error", "no", ProviderRefused, id="our fault"),
        pytest.param("invalid_request_error", "prompt is too long: 9 tokens > 8", ContextTooLong, id="too long"),
    ],
)
def test_an_error_in_the_stream_ends_it(kind: str, message: str, error: type[AgentError]) -> None:
    with pytest.raises(error):
        read({"type": "error", "error": {"type": kind, "message": message}})


KEYS = st.sampled_from(
    [
        "type",
        "index",
        "delta",
        "content_block",
        "message",
        "usage",
        "input_tokens",
        "text",
        "thinking",
        "data",
        "stop_reason",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)
KINDS = st.sampled_from(
    [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "text",
        "thinking",
        "tool_use",
        "text_delta",
        "thinking_delta",
        "signature_delta",
        "input_json_delta",
    ]
)


@pytest.mark.requirement("G-34")
@given(st.lists(st.dictionaries(KEYS, JSON, max_size=4) | JSON, max_size=4), KINDS, KINDS)
def test_no_json_whatsoever_breaks_the_reader(events: list[Any], kind: str, inner: str) -> None:
    reading = Reading("main")
    for event in events:
        typed = (
            {**event, "type": kind, "delta": {"type": inner}, "content_block": event}
            if isinstance(event, dict)
            else event
        )
        reading.event(json.dumps(typed).encode())
    assert isinstance(reading.end()[-1], Done)
