"""Reading Chat Completions streams: the many dialects of servers, and whatever else may come."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.errors import AgentError, ContextTooLong, ProviderBusy, ProviderRefused
from agent.providers.openai.stream import Reading
from agent.providers.provider import (
    Chunk,
    Done,
    RedactedThinkingDone,
    TextDelta,
    ThinkingDelta,
    ThinkingDone,
    ToolCallDelta,
    ToolCallDone,
    ToolCallStart,
    Unknown,
    Usage,
)
from agent.providers.replies import Accumulator


def delta(reason: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "choices": [{"index": 0, "delta": fields, "finish_reason": reason}]}


def read(*events: Any) -> list[Chunk]:
    reading = Reading("main")
    found = [chunk for event in events for chunk in reading.events([json.dumps(event).encode()])]
    assert reading.complete
    return found + reading.end()


def call(name: str | None = None, arguments: Any = None, **fields: Any) -> dict[str, Any]:
    return {**fields, "function": {"name": name, "arguments": arguments}}


@pytest.mark.requirement("R-14", "Z-13")
@pytest.mark.parametrize(
    ("events", "chunks"),
    [
        pytest.param(
            [delta(content="Hi"), delta("length", content="!")],
            [TextDelta("Hi"), TextDelta("!"), Done("max_tokens")],
            id="the reason may come with the last text",
        ),
        pytest.param(
            [delta(reasoning_content="hm"), delta(reasoning_content="m"), delta("stop", content="Hi")],
            [
                ThinkingDelta("hm"),
                ThinkingDelta("m"),
                ThinkingDone("hmm", "reasoning_content"),
                TextDelta("Hi"),
                Done("end_turn"),
            ],
            id="reasoning in its usual field",
        ),
        pytest.param(
            [delta("stop", reasoning="hm", content="Hi")],
            [ThinkingDelta("hm"), ThinkingDone("hm", "reasoning"), TextDelta("Hi"), Done("end_turn")],
            id="reasoning in the other field",
        ),
        pytest.param(
            [delta("stop", content=[{"type": "text", "text": "Hi"}, {"type": "image", "image": ""}])],
            [TextDelta("Hi"), Unknown("a part of the content that is no text"), Done("end_turn")],
            id="content as a list of parts",
        ),
        pytest.param(
            [delta("stop", refusal="I will not.")],
            [TextDelta("I will not."), Done("refusal")],
            id="a refusal in words",
        ),
        pytest.param(
            [delta("stop", tool_calls=[call("f", "{}", id="a")])],
            [ToolCallStart(0, "a", "f"), ToolCallDelta(0, "{}"), ToolCallDone(0), Done("tool_use")],
            id="a call in one piece, without an index, that ends with stop",
        ),
        pytest.param(
            [delta("tool_calls", tool_calls=[call("f", "1", id="a", index=0), call("g", "2", id="b", index=0)])],
            [
                ToolCallStart(0, "a", "f"),
                ToolCallDelta(0, "1"),
                ToolCallStart(1, "b", "g"),
                ToolCallDelta(1, "2"),
                ToolCallDone(0),
                ToolCallDone(1),
                Done("tool_use"),
            ],
            id="every call numbered 0",
        ),
        pytest.param(
            [delta(tool_calls=[call("f", index=0)]), delta("tool_calls", tool_calls=[call("f", index=1)])],
            [
                ToolCallStart(0, "call_chatcmpl-1_0", "f"),
                ToolCallStart(1, "call_chatcmpl-1_1", "f"),
                ToolCallDone(0),
                ToolCallDone(1),
                Done("tool_use"),
            ],
            id="calls without an id",
        ),
        pytest.param(
            [delta("tool_calls", tool_calls=[call("f", index=0, id="a"), call("f", index=1, id="a")])],
            [
                ToolCallStart(0, "a", "f"),
                ToolCallStart(1, "a_2", "f"),
                ToolCallDone(0),
                ToolCallDone(1),
                Done("tool_use"),
            ],
            id="two calls with one id",
        ),
        pytest.param(
            [
                delta(function_call={"name": "f", "arguments": ""}),
                delta("function_call", function_call={"arguments": "{}"}),
            ],
            [ToolCallStart(0, "call_chatcmpl-1_0", "f"), ToolCallDelta(0, "{}"), ToolCallDone(0), Done("tool_use")],
            id="the form before tools",
        ),
        pytest.param(
            [delta("stop", tool_calls=[call("f", '{"x": 1}', index=0), call("f", '{"x": 2}', index=0)])],
            [
                ToolCallStart(0, "call_chatcmpl-1_0", "f"),
                ToolCallDelta(0, '{"x": 1}'),
                ToolCallStart(1, "call_chatcmpl-1_1", "f"),
                ToolCallDelta(1, '{"x": 2}'),
                ToolCallDone(0),
                ToolCallDone(1),
                Done("tool_use"),
            ],
            id="one tool twice, every call numbered 0 and without an id",
        ),
        pytest.param(
            [delta(tool_calls=[call("f", '{"x"', index=0)]), delta("stop", tool_calls=[call("f", ": 1}", index=0)])],
            [
                ToolCallStart(0, "call_chatcmpl-1_0", "f"),
                ToolCallDelta(0, '{"x"'),
                ToolCallDelta(0, ": 1}"),
                ToolCallDone(0),
                Done("tool_use"),
            ],
            id="the name in each piece",
        ),
        pytest.param(
            [delta(tool_calls=[call("f", "{", id="a")]), delta("stop", tool_calls=[call(None, "}", id="a")])],
            [
                ToolCallStart(0, "a", "f"),
                ToolCallDelta(0, "{"),
                ToolCallDelta(0, "}"),
                ToolCallDone(0),
                Done("tool_use"),
            ],
            id="the id in each piece, and no index",
        ),
        pytest.param(
            [{"id": "chatcmpl-1", "choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]}],
            [TextDelta("Hi"), Done("end_turn")],
            id="a message in place of a delta",
        ),
        pytest.param(
            [
                delta(content="Hi"),
                {"choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]},
            ],
            [TextDelta("Hi"), Done("end_turn")],
            id="the whole message once more at the end",
        ),
        pytest.param(
            [delta("content_filter: PROHIBITED_CONTENT")],
            [Done("refusal")],
            id="a filter that says which",
        ),
        pytest.param(
            [delta("tool_calls", tool_calls=[call("f", {"x": 1}, index=0, id="a")])],
            [ToolCallStart(0, "a", "f"), ToolCallDelta(0, '{"x": 1}'), ToolCallDone(0), Done("tool_use")],
            id="arguments as an object",
        ),
        pytest.param(
            [
                {**delta(content="Hi"), "usage": {"prompt_tokens": 10, "completion_tokens": 1}},
                {
                    **delta("stop"),
                    "usage": {
                        "prompt_tokens": 10,
                        "completion_tokens": 3,
                        "prompt_tokens_details": {"cached_tokens": 4},
                    },
                },
            ],
            [TextDelta("Hi"), Usage(prompt=6, output=3, cache_read=4), Done("end_turn")],
            id="usage in every event: the last one counts, cached tokens apart",
        ),
        pytest.param(
            [
                delta("stop", content="Hi"),
                {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 1, "prompt_cache_hit_tokens": 9}},
            ],
            [TextDelta("Hi"), Usage(prompt=1, output=1, cache_read=9), Done("end_turn")],
            id="cached tokens as another server counts them",
        ),
    ],
)
def test_dialects(events: list[dict[str, Any]], chunks: list[Chunk]) -> None:
    assert read(*events) == chunks


HEADS = [call("write", "", index=0, id="a"), call("read", "", index=1, id="b")]


@pytest.mark.requirement("R-14", "Z-13")
@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([HEADS[0], (0, '{"x"'), (0, ": 1}"), HEADS[1], (1, '{"y": 2}')], id="one after the other"),
        pytest.param([*HEADS, (0, '{"x"'), (0, ": 1}"), (1, '{"y": 2}')], id="the heads first"),
        pytest.param([*HEADS, (1, '{"y"'), (0, '{"x"'), (1, ": 2}"), (0, ": 1}")], id="piece by piece"),
    ],
)
def test_calls_at_once_keep_their_arguments_in_whatever_order_they_come(pieces: list[Any]) -> None:
    events = [piece if isinstance(piece, dict) else call(None, piece[1], index=piece[0]) for piece in pieces]
    taker = Accumulator("openai")
    for chunk in read(*(delta(tool_calls=[event]) for event in events), delta("tool_calls")):
        taker.take(chunk)
    assert [(one.name, one.input) for one in taker.reply().calls] == [("write", {"x": 1}), ("read", {"y": 2})]
    assert taker.unknown == []


def test_done_without_a_reason_is_an_end() -> None:
    reading = Reading("main")
    assert list(reading.events([json.dumps(delta(content="Hi")).encode()])) == [TextDelta("Hi")]
    assert not reading.complete
    assert list(reading.events([b" [DONE] "])) == []
    assert reading.closed
    assert reading.complete
    assert reading.end() == [Done("end_turn")]


@pytest.mark.requirement("G-34")
@pytest.mark.parametrize(
    "event",
    [
        pytest.param("ping", id="a string"),
        pytest.param({"object": "heartbeat"}, id="another object"),
        pytest.param({"choices": ["x"]}, id="a choice that is no object"),
        pytest.param(delta(tool_calls=[call(None, "{}", index=3)]), id="a piece of nothing"),
        pytest.param({"choices": [{"delta": "text"}]}, id="a delta that is no object"),
    ],
)
def test_what_is_not_known_is_said_and_passed_over(event: Any) -> None:
    chunks = list(Reading("main").events([json.dumps(event).encode()]))
    assert [type(chunk) for chunk in chunks] == [Unknown]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "Overloaded", "type": "overloaded_error"}, ProviderBusy),
        ({"message": "upstream", "code": 502}, ProviderBusy),
        ({"message": "no", "code": 400}, ProviderRefused),
        ({"message": "no", "type": "invalid_request_error"}, ProviderRefused),
        ({"message": "no", "type": "insufficient_quota"}, ProviderRefused),
        ({"message": "x", "code": "context_length_exceeded"}, ContextTooLong),
        ({"message": "This model's maximum context length is 10 tokens."}, ContextTooLong),
        ("just words", ProviderBusy),
    ],
)
def test_an_error_in_the_stream_ends_it(error: Any, kind: type[AgentError]) -> None:
    with pytest.raises(kind):
        list(Reading("main").events([json.dumps({"error": error}).encode()]))


@pytest.mark.parametrize("data", [b"{", b'{"choices": [', b"\xff\xfe", b"nonsense"])
def test_what_is_no_json_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - any of its kinds
        list(Reading("main").events([data]))


def test_an_event_that_is_an_error_ends_it() -> None:
    event = {"object": "error", "message": "EngineCore died.", "type": "InternalServerError", "code": 500}
    with pytest.raises(ProviderBusy, match="EngineCore died"):
        list(Reading("main").events([json.dumps(event).encode()]))


@pytest.mark.requirement("Z-19")
def test_what_only_its_endpoint_can_read_is_kept_for_it() -> None:
    signed = {**call("f", "{}", index=0, id="a"), "extra_content": {"google": {"thought_signature": "s"}}}
    details = [
        {"type": "reasoning.text", "text": "So", "index": 0},
        {"type": "reasoning.text", "text": " be it", "signature": "t", "index": 0},
        {"type": "reasoning.encrypted", "data": "opaque", "index": 1},
    ]
    events = [delta(reasoning_details=details[:1]), delta("stop", reasoning_details=details[1:], tool_calls=[signed])]
    kept = {}
    for origin in ("main/gemini-3", ""):
        reading = Reading("main", origin=origin)
        for event in events:
            list(reading.events([json.dumps(event).encode()]))
        kept[origin] = [json.loads(chunk.data) for chunk in reading.end() if isinstance(chunk, RedactedThinkingDone)]
    assert kept == {
        "": [],
        "main/gemini-3": [
            {
                "origin": "main/gemini-3",
                "calls": {"a": {"extra_content": {"google": {"thought_signature": "s"}}}},
                "details": [{"type": "reasoning.text", "text": "So be it", "signature": "t", "index": 0}, details[2]],
            }
        ],
    }


KEYS = st.sampled_from(
    [
        "id",
        "choices",
        "delta",
        "content",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "index",
        "finish_reason",
        "usage",
        "reasoning_content",
        "refusal",
        "message",
        "object",
        "function_call",
        "extra_content",
        "reasoning_details",
        "prompt_tokens",
        "prompt_tokens_details",
        "cached_tokens",
        "completion_tokens",
        "type",
        "text",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.requirement("G-34")
@given(st.lists(st.dictionaries(KEYS, JSON, max_size=5) | JSON, max_size=5))
def test_no_json_whatsoever_breaks_the_reader(events: list[Any]) -> None:
    reading = Reading("main")
    for event in events:
        list(reading.events([json.dumps(event).encode()]))
    assert isinstance(reading.end()[-1], Done)


def test_words_that_arrive_together_are_one_text_and_come_before_what_breaks() -> None:
    reading = Reading("main")
    written = [json.dumps(delta(content=words)).encode() for words in ("Good ", "mor", "ning")]
    assert list(reading.events(written[:1])) == [TextDelta("Good ")]  # the first brings the id of the reply as well
    found = reading.events([*written, b"{", *written])
    assert next(found) == TextDelta("Good morning")
    with pytest.raises(ValueError, match="Expecting"):
        next(found)


@pytest.mark.requirement("B-30")
def test_calls_that_come_in_one_piece_with_text_are_read() -> None:
    wire = {"index": 0, "id": "c1"} | call("echo", '{"text": "a"}')
    assert read(delta("tool_calls", content="Let me see.", tool_calls=[wire])) == [
        TextDelta("Let me see."),
        ToolCallStart(0, "c1", "echo"),
        ToolCallDelta(0, '{"text": "a"}'),
        ToolCallDone(0),
        Done("tool_use"),
    ]
