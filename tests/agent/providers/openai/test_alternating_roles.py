"""User and assistant in turn: what is joined, what stays the same object, and what a strict server says to it."""

import gc
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from agent.core.clock import SystemClock
from agent.core.messages import Message, Part, TextPart, Thinking, ToolResult, ToolUse, text_message
from agent.core.tools import ToolSpec
from agent.providers.openai.requests import HEARD, Alternation, Dialect, Encoder
from agent.providers.provider import Request, SystemPrompt, ToolSchema
from agent.providers.registry import LazyProvider, ProviderDeps
from agent.providers.settings import ProviderSettings
from tests.agent.providers.openai.test_client import odd_server, provider_at, says
from tests.contracts.provider_contract import KEY, hear
from tests.doubles.llm_api import check_turns
from tests.fakes.llm_server import LlmServer, serving_llm

TOOLS = ToolSchema((ToolSpec(name="f", description="does f", schema={"type": "object", "properties": {}}),))
SIGNED = Thinking(thinking="hm", signature="S", family="another")


def user(*parts: Part) -> Message:
    return Message(role="user", parts=parts)


def words(text: str) -> TextPart:
    return TextPart(text=text)


def reply(*parts: Part) -> Message:
    return Message(role="assistant", parts=parts)


def use(id: str = "c1") -> ToolUse:
    return ToolUse(id=id, name="f", input={})


def result(id: str = "c1") -> ToolResult:
    return ToolResult(tool_use_id=id, content="done")


def shown(messages: Any) -> list[str]:
    return [f"{message.role[0]}: {message.content}" for message in messages]


@pytest.mark.parametrize(
    ("messages", "apart", "joined"),
    [
        pytest.param(
            [user(words("a")), user(words("b")), reply(words("c")), reply(words("d"))],
            ["u: a\nb", "a: c\nd"], ["u: a\nb", "a: c\nd"], id="neighbours become one",
        ),
        pytest.param(
            [user(words("a")), reply(SIGNED), user(words("b"))],
            ["u: a\nb"], ["u: a\nb"], id="what lies between them is never sent",
        ),
        pytest.param(
            [user(words("a")), reply(words("so")), reply(use()), user(result()), reply(words("c"))],
            ["u: a", "a: so\n[tool_use: f(c1)]", "u: [tool_result: c1]\ndone", "a: c"],
            ["u: a", "a: so\n[tool_use: f(c1)]", "u: [tool_result: c1]\ndone", "a: c"],
            id="words and calls",
        ),
        pytest.param(
            [user(words("a")), reply(use()), user(result()), user(words("b"))],
            ["u: a", "a: [tool_use: f(c1)]", "u: [tool_result: c1]\ndone", f"a: {HEARD}", "u: b"],
            ["u: a", "a: [tool_use: f(c1)]", "u: [tool_result: c1]\ndone\nb"],
            id="a person goes on after results",
        ),
        pytest.param(
            [user(words("a")), reply(use()), user(result(), words("b"))],
            ["u: a", "a: [tool_use: f(c1)]", "u: [tool_result: c1]\ndone", f"a: {HEARD}", "u: b"],
            ["u: a", "a: [tool_use: f(c1)]", "u: [tool_result: c1]\ndone\nb"],
            id="in the message of the results",
        ),
    ],
)  # fmt: skip
def test_joining(messages: list[Message], apart: list[str], joined: list[str]) -> None:
    assert shown(Alternation(results_apart=True).of(messages)) == apart
    assert shown(Alternation(results_apart=False).of(messages)) == joined


def test_what_needs_no_joining_stays_itself_and_what_was_joined_is_kept_as_long_as_it_lives() -> None:
    turns = Alternation(results_apart=True)
    history = [user(words("a")), user(words("b")), reply(words("c")), user(words("d"))]
    first = turns.of(history)
    assert list(first[1:]) == history[2:]
    again = turns.of([*history, reply(words("e"))])
    assert list(again[:3]) == list(first), "so that its encoding is kept too"
    alive = [ref(message) for message in (*history, *again)]
    del history, first, again
    gc.collect()
    assert not any(message() for message in alive)


STEPS = st.lists(st.sampled_from(["words", "reply", "tools", "tools and words", "nothing"]), max_size=9)


@given(STEPS)
def test_whatever_the_history_a_strict_template_takes_it(steps: list[str]) -> None:
    messages = [user(words("begin"))]
    for number, step in enumerate(steps):
        said = words(f"{step} {number}")
        match step:
            case "words":
                messages.append(user(said))
            case "reply":
                messages.append(reply(said))
            case "nothing":
                messages.append(reply(SIGNED))
            case _:
                more = (said,) if step != "tools" else ()
                messages += [reply(use(f"c{number}")), user(result(f"c{number}"), *more)]
    messages.append(user(words("end")))
    owner = Alternation(results_apart=True)  # any object that lives on: the beginning is sealed then
    asked = Request(system=SystemPrompt("s"), messages=messages, tools=TOOLS, reminder="It is noon.")
    for request in (asked, replace(asked, owner=owner)):
        body = json.loads(Encoder("openai").body(request, model="m", dialect=Dialect(repeats=False)))
        check_turns(body["messages"])
        sent = "\n".join(str(message["content"]) for message in body["messages"])
        assert all(part.text in sent for message in messages for part in message.parts if isinstance(part, TextPart))
        assert sent.count("It is noon.") == 1


# -- on the wire


@pytest.fixture
async def server() -> AsyncIterator[LlmServer]:
    async with serving_llm() as running:
        running.double.settings["strict_alternation"] = True
        yield running


COMPACTED = (
    text_message("user", "So far: tea."),
    text_message("user", "Pinned: green."),
    reply(use()),
    user(result(), words("and hot")),
    text_message("user", "please"),
)


@pytest.mark.parametrize(
    ("type_", "model", "path"),
    [
        ("openai", "gpt-double", "/v1"),
        ("litellm", "openai/gpt-double", "/v1"),
        ("anthropic", "claude-double", ""),
    ],
)
async def test_a_strict_server_is_given_what_it_wants_from_then_on(
    server: LlmServer, tmp_path: Path, type_: Any, model: str, path: str
) -> None:
    settings = ProviderSettings(
        name="main", type=type_, model=model, base_url=server.url + path, api_key=SecretStr(KEY)
    )
    provider = LazyProvider(settings, ProviderDeps(home=tmp_path, clock=SystemClock()))
    asked = Request(system=SystemPrompt("s"), messages=COMPACTED, tools=TOOLS)
    for calls in (2, 3):
        heard = await hear(provider, asked)
        assert heard.error is None
        assert len(server.calls) == calls, "refused once, then in turn"
    assert all(text in json.dumps(server.bodies[-1]) for text in ("So far: tea.", "Pinned: green.", "and hot"))
    await provider.aclose()


async def test_a_template_that_fails_with_a_500_is_understood_as_well(tmp_path: Path) -> None:
    """As llama.cpp answers."""
    trouble = "Jinja Exception: Conversation roles must alternate user/assistant/user/assistant/..."
    refusal = says(500, json.dumps({"error": {"code": 500, "message": trouble, "type": "server_error"}}))
    async with odd_server(refusal) as odd, provider_at(odd.url, tmp_path) as provider:
        await hear(provider, Request(system=SystemPrompt(""), messages=COMPACTED, tools=TOOLS))
        roles = [[message["role"] for message in body["messages"]] for body in odd.bodies]
        assert roles[0] == ["user", "user", "assistant", "tool", "user", "user"]
        assert roles[1:] == [["user", "assistant", "tool", "assistant", "user"]]
