"""Servers that speak Anthropic's Messages in their own way (DeepSeek, Kimi, z.ai, MiniMax, proxies)."""

import json
from collections.abc import Mapping
from typing import Any

from agent.core.errors import ContextTooLong, KeyRefused, ProviderBusy, QuotaUsedUp
from tests.dialects.quirk import OSLO, Fails, Got, Plays, Quirk, pick, refuses


def messages(*events: Mapping[str, Any]) -> Plays:
    """A stream of the Messages API."""
    pieces = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events]
    return Plays(200, pieces, {"content-type": "text/event-stream"})


MESSAGE: dict[str, Any] = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "content": [],
    "model": "x",
    "usage": {"input_tokens": 9, "output_tokens": 0},
}
BEGIN = {"type": "message_start", "message": MESSAGE}
OPEN = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
SAY = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Fine."}}
CLOSE = {"type": "content_block_stop", "index": 0}
ENDS = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}
OVER = {"type": "message_stop"}
SPOKEN = messages(BEGIN, OPEN, SAY, CLOSE, ENDS, OVER)


def of(server: str, says: str, does: str, *answers: Plays, gets: Got | Fails = Got(), **more: Any) -> Quirk:  # noqa: B008
    return Quirk(server=server, says=says, does=does, answers=answers, gets=gets, protocol="anthropic", **more)


def bare(*events: Mapping[str, Any]) -> Plays:
    """The same without the lines that name the events."""
    return Plays(
        200, [f"data: {json.dumps(one)}\n\n".encode() for one in events], {"content-type": "text/event-stream"}
    )


USING: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}}
USE = {"type": "content_block_start", "index": 0, "content_block": USING}
CALLED = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}}
THINK = {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}
ERROR = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "request_id": "req_1"}


def written(text: str, index: int = 0) -> Mapping[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": text}}


ROWS = (
    of("Anthropic", "start, blocks, end", "read", SPOKEN, gets=Got(usage=(9, 2, 0), stop="end_turn")),
    of("Anthropic", "pings between the events", "ignored", messages(BEGIN, {"type": "ping"}, OPEN, {"type": "ping"}, SAY, CLOSE, ENDS, OVER)),
    of("a proxy", "no lines that name the events", "read", bare(BEGIN, OPEN, SAY, CLOSE, ENDS, OVER)),
    of("z.ai", "input_tokens only at the end", "counted", messages({**BEGIN, "message": {**MESSAGE, "usage": {"input_tokens": 0, "output_tokens": 0}}}, OPEN, SAY, CLOSE, {**ENDS, "usage": {"input_tokens": 9, "output_tokens": 2}}, OVER), gets=Got(usage=(9, 2, 0))),
    of("a proxy", "no usage at all", "not counted", messages({**BEGIN, "message": {"id": "m", "role": "assistant", "content": []}}, OPEN, SAY, CLOSE, {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, OVER)),
    of("Anthropic", "an event nobody knows", "ignored, noted", messages(BEGIN, {"type": "weather_report", "sun": True}, OPEN, SAY, CLOSE, ENDS, OVER)),
    of("Anthropic", "overloaded before a word", "asked again", messages(ERROR), SPOKEN, waits=[1.0]),
    of("Anthropic", "overloaded in the middle", "asked again", messages(BEGIN, OPEN, SAY, ERROR), SPOKEN, waits=[0.5]),
    of("a proxy", "cut before message_stop", "asked again", messages(BEGIN, OPEN, SAY), SPOKEN, waits=[0.5]),
    of("Anthropic", "529 overloaded", "asked again", refuses(529, json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})), SPOKEN, waits=[1.0]),
    of("Anthropic", "429 with retry-after", "that long is waited, then asked again", refuses(429, json.dumps({"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down."}}), retry_after="7"), SPOKEN, waits=[7.0]),
    of("Anthropic", "'prompt is too long'", "summarised and asked again", refuses(400, json.dumps({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 213462 tokens > 200000 maximum"}})), gets=Fails(ContextTooLong)),
    of("Anthropic", "400 without credit", "told to the operator, with the fix", refuses(400, json.dumps({"type": "error", "error": {"type": "invalid_request_error", "message": "Your credit balance is too low to access the Anthropic API."}})), gets=Fails(QuotaUsedUp, ["no credit left"])),
    of("Anthropic", "a request id in the error", "stands in the log, to be quoted to the service", refuses(401, json.dumps({"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}, "request_id": "req_011C"})), gets=Fails(KeyRefused, ["the API key was refused", "[request req_011C]"])),
    of("Anthropic", "only errors in streams", "asked again, then told", *[messages(ERROR)] * 4, gets=Fails(ProviderBusy, ["overloaded"])),
    of("DeepSeek", "thoughts with an empty signature", "kept apart from the answer", messages(BEGIN, THINK, {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm"}}, CLOSE, {**OPEN, "index": 1}, {**SAY, "index": 1}, {**CLOSE, "index": 1}, ENDS, OVER), gets=Got(thought="Hm")),
    of("Kimi", "the arguments of a call whole, in its first event", "read", messages(BEGIN, {**USE, "content_block": {**USING, "input": {"city": "Oslo"}}}, CLOSE, CALLED, OVER), SPOKEN, asks="tool", gets=Got(calls=[OSLO])),
    of("Anthropic", "the arguments of a call in pieces", "joined", messages(BEGIN, USE, written(""), written('{"city"'), written(':"Oslo"}'), CLOSE, CALLED, OVER), SPOKEN, asks="tool", gets=Got(calls=[OSLO]), sent={1: lambda body: pick(body, "messages", 2, "content", 0, "type") == "tool_result"}),
)  # fmt: skip
