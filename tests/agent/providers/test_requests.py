"""Building requests: what is encoded once stays so, what may change stands last, what is refused is not sent."""

import gc
import json
import re
from typing import Any
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.messages import (
    FilePart,
    Message,
    Part,
    RedactedThinking,
    SummaryPart,
    TextPart,
    Thinking,
    ToolResult,
    ToolUse,
    text_message,
)
from agent.core.tools import ToolSpec
from agent.providers.anthropic import requests as anthropic_requests
from agent.providers.encoding import NO_IDS, Ids, SchemaBytes, loop_start, reminder_target, unique, wire_id, wire_name
from agent.providers.openai import requests as openai_requests
from agent.providers.openai.requests import Dialect, conceded, dialect_for
from agent.providers.provider import CacheTier, Request, SystemPrompt, ToolSchema

SPEC = ToolSpec(name="f", description="does f", schema={"type": "object", "properties": {"x": {"type": "number"}}})
TOOLS = ToolSchema((SPEC,))


def user(*parts: Part) -> Message:
    return Message(role="user", parts=parts)


def assistant(*parts: Part) -> Message:
    return Message(role="assistant", parts=parts)


def use(id: str = "c1") -> Message:
    return assistant(ToolUse(id=id, name="f", input={"x": 1}))


def result(id: str = "c1") -> Message:
    return user(ToolResult(tool_use_id=id, content="done"))


def thought(text: str = "hm", family: str = "anthropic", signature: str = "S") -> Thinking:
    return Thinking(thinking=text, signature=signature, family=family)


def request(*messages: Message, tools: ToolSchema = TOOLS, **more: Any) -> Request:
    return Request(system=SystemPrompt("stable", "volatile"), messages=messages, tools=tools, **more)


def to_anthropic(asked: Request, **more: Any) -> dict[str, Any]:
    encoder = anthropic_requests.Encoder("anthropic")
    body: dict[str, Any] = json.loads(encoder.body(asked, **{"model": "m", "max_tokens": 4096, **more}))
    return body


def to_openai(asked: Request, **more: Any) -> dict[str, Any]:
    encoder = openai_requests.Encoder("openai")
    body: dict[str, Any] = json.loads(encoder.body(asked, **{"model": "m", "dialect": Dialect(), **more}))
    return body


# --- both ---


@pytest.mark.parametrize("module", [anthropic_requests, openai_requests])
def test_a_message_is_encoded_once_and_forgotten_with_it(module: Any) -> None:
    encoder = module.Encoder("x")
    messages = [text_message("user", "one"), text_message("assistant", "two")]
    kept = [encoder.encoded(message) for message in messages]
    assert [encoder.encoded(message) for message in messages] == kept
    assert all(encoder.encoded(message) is once for message, once in zip(messages, kept, strict=True))
    alive = [ref(message) for message in messages]
    del messages
    gc.collect()
    assert [message() for message in alive] == [None, None]


@pytest.mark.requirement("R-03")
def test_tools_are_the_same_bytes_for_the_same_schema_object() -> None:
    made: list[ToolSchema] = []

    def encode(schema: ToolSchema) -> bytes:
        made.append(schema)
        return repr(schema).encode()

    schemas = SchemaBytes(encode)
    first = schemas.of(TOOLS)
    assert schemas.of(TOOLS) is first
    assert schemas.of(ToolSchema((SPEC,))) == first
    assert len(made) == 2
    for _ in range(100):
        schemas.of(ToolSchema((SPEC,)))
    assert schemas.of(TOOLS) == first
    assert made[-1] is TOOLS, "a hundred others took its place"


def test_the_reminder_goes_to_the_newest_words_of_a_person() -> None:
    loop = [text_message("user", "old"), text_message("assistant", "a"), text_message("user", "new"), use(), result()]
    assert reminder_target(loop) == 2
    assert loop_start(loop) == 3
    both = user(ToolResult(tool_use_id="c1", content="done"), TextPart(text="and also"))
    assert reminder_target([*loop[:4], both]) == 4
    assert reminder_target([result()]) == 0


NAMES = st.sampled_from(["a", "b", "c d", "x" * 60])


@given(st.lists(st.lists(NAMES, max_size=3), max_size=6))
def test_call_ids_become_unique_and_their_results_follow(turns: list[list[str]]) -> None:
    messages: list[Ids | None] = []
    for ids in turns:
        wired = tuple(wire_id(id) for id in ids)
        messages += [Ids(uses=wired) if ids else None, Ids(results=wired) if ids else None]
    changed = unique(messages)
    sent = [changed.get(position, ids or NO_IDS) for position, ids in enumerate(messages)]
    uses = [id for ids in sent for id in ids.uses]
    assert len(uses) == len(set(uses))
    assert all(len(id) <= 40 for id in uses)
    for asked, answered in zip(sent[::2], sent[1::2], strict=True):
        assert asked.uses == answered.results


@given(st.text(max_size=100))
def test_every_api_accepts_a_wire_id(id: str) -> None:
    made = wire_id(id)
    assert made == wire_id(id)
    assert 0 < len(made) <= 40
    assert made.replace("_", "a").replace("-", "a").isalnum()
    assert made.isascii()


@given(st.text(max_size=100))
def test_every_api_accepts_a_wire_name(name: str) -> None:
    made = wire_name(name)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", made)


@pytest.mark.parametrize("made_up", ["functions.read", "search<|channel|>json", ""])
def test_a_name_that_a_model_made_up_is_sent_so_that_every_api_takes_it(made_up: str) -> None:
    asked = request(text_message("user", "look"), assistant(ToolUse(id="c1", name=made_up, input={})), result())
    called = to_openai(asked)["messages"][2]["tool_calls"][0]["function"]["name"]
    used = to_anthropic(asked)["messages"][1]["content"][0]["name"]
    assert called == used == wire_name(made_up)


# --- Anthropic ---


def marked(body: dict[str, Any]) -> list[str]:
    """The texts and kinds of the blocks that bear a cache marker, in order."""
    blocks = [*body["system"], *(block for message in body["messages"] for block in message["content"])]
    return [block.get("text") or block["type"] for block in blocks if "cache_control" in block]


@pytest.mark.requirement("W-36", "W-37")
@pytest.mark.parametrize(
    ("messages", "texts"),
    [
        pytest.param([text_message("user", "hi")], ["stable", "hi"], id="first words: the system prompt and the end"),
        pytest.param(
            [text_message("user", "one"), text_message("assistant", "two"), text_message("user", "three")],
            ["stable", "two", "three"],
            id="later: also what precedes the words that carry the reminder",
        ),
        pytest.param(
            [text_message("user", "one"), text_message("assistant", "two"), text_message("user", "3"), use(), result()],
            ["stable", "two", "tool_result"],
            id="in a tool loop: the end moves, the rest stays",
        ),
        pytest.param(
            [text_message("user", "one"), assistant(thought(family="other")), text_message("user", "three")],
            ["stable", "one", "three"],
            id="a message of which nothing is sent bears no marker",
        ),
    ],
)
def test_cache_markers(messages: list[Message], texts: list[str]) -> None:
    asked = request(*messages, reminder="It is noon.")
    assert marked(to_anthropic(asked, tier="1h")) == texts
    assert marked(to_anthropic(asked, tier="none")) == []
    assert '"ttl": "1h"' in json.dumps(to_anthropic(asked, tier="1h"))


def test_the_cached_prefix_survives_the_next_turn_and_another_reminder() -> None:
    encoder = anthropic_requests.Encoder("anthropic")
    turn = [text_message("user", "one"), text_message("assistant", "two"), text_message("user", "three")]
    later = [*turn, text_message("assistant", "four"), text_message("user", "five")]

    def messages(of: list[Message], reminder: str, tier: CacheTier) -> list[Any]:
        body = encoder.body(request(*of, reminder=reminder), model="m", max_tokens=9, tier=tier)
        sent = json.loads(body)["messages"]
        for message in sent:
            for block in message["content"]:
                block.pop("cache_control", None)
        return list(sent)

    first, second = messages(turn, "It is noon.", "1h"), messages(later, "It is one.", "1h")
    assert second[:2] == first[:2]  # up to the marker before the newest words
    assert second[2]["content"] == [{"type": "text", "text": "three"}]


@pytest.mark.requirement("Z-19")
def test_thinking_keeps_its_place_and_its_bytes() -> None:
    parts = (thought("a  b\n"), RedactedThinking(data="XYZ", family="anthropic"), TextPart(text="so"), *use().parts)
    body = to_anthropic(request(text_message("user", "go"), assistant(*parts), result()), thinking=2048)
    assert body["messages"][1]["content"][:2] == [
        {"type": "thinking", "thinking": "a  b\n", "signature": "S"},
        {"type": "redacted_thinking", "data": "XYZ"},
    ]
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 2048}


@pytest.mark.parametrize(
    ("messages", "max_tokens", "sent"),
    [
        pytest.param([text_message("user", "go")], None, True, id="usually"),
        pytest.param([text_message("user", "go"), use(), result()], None, False, id="not in a loop begun without"),
        pytest.param(
            [text_message("user", "go"), assistant(thought(family="openai"), *use().parts), result()],
            None,
            False,
            id="nor in one that somebody else began",
        ),
        pytest.param(
            [text_message("user", "go"), assistant(thought(), *use().parts), result(), use("c2"), result("c2")],
            None,
            True,
            id="the beginning of the loop decides",
        ),
        pytest.param([text_message("user", "go")], 500, False, id="nor when there is no room for it"),
    ],
)
def test_thinking_is_asked_for_where_it_is_allowed(messages: list[Message], max_tokens: int | None, sent: bool) -> None:
    body = to_anthropic(request(*messages, max_tokens=max_tokens), thinking=2048, temperature=0.5)
    assert ("thinking" in body) is sent
    assert ("temperature" in body) is not sent


def test_the_answer_has_room_beside_the_thinking() -> None:
    assert to_anthropic(request(text_message("user", "go")), thinking=8000)["max_tokens"] == 9024
    assert to_anthropic(request(text_message("user", "go")), thinking="adaptive")["thinking"] == {"type": "adaptive"}


def test_results_come_before_everything_else_in_their_message() -> None:
    both = user(TextPart(text="and also"), ToolResult(tool_use_id="c1", content="done", is_error=True))
    body = to_anthropic(request(text_message("user", "go"), use(), both, reminder="It is noon."))
    assert body["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": "done", "is_error": True},
        {"type": "text", "text": "It is noon."},
        {"type": "text", "text": "and also"},
    ]


def test_volatile_text_follows_the_stable_one() -> None:
    body = to_anthropic(request(text_message("user", "go")), tier="1h")
    assert [block["text"] for block in body["system"]] == ["stable", "volatile"]
    assert list(body).index("tools") < list(body).index("system") < list(body).index("messages")


# --- OpenAI ---


@pytest.mark.requirement("W-37", "W-38")
def test_cache_tier_and_routing_hint_leave_no_trace() -> None:
    plain = request(text_message("user", "go"))
    hinted = request(text_message("user", "go"), cache_tier="1h", routing_hint="premium:tool_heavy")
    assert to_openai(plain) == to_openai(hinted)


def test_a_tool_loop_in_their_form() -> None:
    body = to_openai(request(text_message("user", "go"), use(), result(), reminder="It is noon."))
    assert body["messages"] == [
        {"role": "system", "content": "stable\n\nvolatile"},
        {"role": "user", "content": "It is noon.\n\ngo"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ]


def test_a_failed_tool_can_be_told_from_an_answer() -> None:
    failed = user(ToolResult(tool_use_id="c1", content="no such file", is_error=True))
    body = to_openai(request(text_message("user", "go"), use(), failed))
    assert body["messages"][-1]["content"] == "Error: no such file"


@pytest.mark.requirement("Z-19")
@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_goes_back_in_its_own_field_and_only_inside_its_loop(name: str) -> None:
    reasoned = assistant(thought("h  m\n", "openai", name), *use().parts)
    loop = request(text_message("user", "go"), reasoned, result())
    assert to_openai(loop)["messages"][2][name] == "h  m\n"
    later = request(*loop.messages, text_message("assistant", "so"), text_message("user", "and now?"))
    assert name not in to_openai(later)["messages"][2]


def test_what_json_cannot_say_is_made_sayable() -> None:
    odd = assistant(ToolUse(id="c1", name="f", input={"x": float("nan"), "y": "\ud800"}))
    body = to_openai(request(text_message("user", "go"), odd, result()))
    assert json.loads(body["messages"][2]["tool_calls"][0]["function"]["arguments"]) == {"x": None, "y": "?"}


@pytest.mark.parametrize(
    ("model", "base_url", "limit"),
    [
        ("gpt-4o", "", "max_completion_tokens"),
        ("o3-mini", "http://x/v1", "max_completion_tokens"),
        ("openai/gpt-5.4-mini", "http://x/v1", "max_completion_tokens"),
        ("gpt-4o", "http://x/v1", "max_tokens"),
        ("llama-3", "http://x/v1", "max_tokens"),
    ],
)
def test_the_name_of_the_limit(model: str, base_url: str, limit: str) -> None:
    body = to_openai(request(text_message("user", "go"), max_tokens=7), dialect=dialect_for(model, base_url))
    assert {key: value for key, value in body.items() if key.startswith("max_")} == {limit: 7}


@pytest.mark.parametrize(
    ("refusal", "left"),
    [
        ("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", Dialect(completion_limit=True)),
        ("body.stream_options: Extra inputs are not permitted", Dialect(usage=False)),
        ("Unsupported value: 'temperature' does not support 0.5", Dialect(temperature=False)),
        ("image input is not supported by this model", Dialect(media=False)),
        ("Conversation roles must alternate user/assistant/user/assistant/...", Dialect(repeats=False)),
        ("A conversation must alternate between user and assistant roles.", Dialect(repeats=False)),
        (
            "After the (optional) system message(s), user and assistant roles should be alternating.",
            Dialect(repeats=False),
        ),
        ("Unexpected role 'user' after role 'tool'", Dialect(repeats=False)),
        ("deepseek-reasoner does not support successive user or assistant messages", Dialect(repeats=False)),
        ("messages: first message must be of role user", None),
    ],
)
def test_what_an_endpoint_refuses_it_is_spared(refusal: str, left: Dialect | None) -> None:
    used = frozenset({"usage", "completion_limit", "temperature", "media", "repeats"})
    assert conceded(Dialect(), refusal, used) == left
    if left is not None and not left.completion_limit:
        assert conceded(left, refusal, used) is None
    assert conceded(Dialect(), refusal, frozenset()) is None


def test_summaries_and_files_of_old_are_words() -> None:
    old = FilePart(path="a.png", mime_type="image/png", name="a.png", size=7)
    body = to_openai(request(user(SummaryPart(text="So far: nothing."), old)))
    assert body["messages"][1]["content"] == "So far: nothing.\n\n[file: a.png, image/png, 7 bytes]"
