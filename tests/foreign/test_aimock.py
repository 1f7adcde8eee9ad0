"""Every way to a model against a mock that others wrote: what we misread in both of our own ends shows here.

`make foreign` installs the mock (npm's @copilotkit/aimock) below `.foreign`; without npm these tests are skipped.
"""

import json
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import SecretStr

from agent.core.clock import SystemClock
from agent.core.errors import AgentError, ContextTooLong, ProviderBusy, ProviderRefused, RequestInvalid
from agent.core.messages import FilePart, Message, Part, TextPart, Thinking, ToolResult, ToolUse
from agent.providers.provider import Usage
from agent.providers.registry import LazyProvider, ProviderDeps
from agent.providers.settings import ProviderSettings
from tests.contracts.provider_contract import PNG, TOOLS, asks, hear

MOCK = Path(__file__).parents[2] / ".foreign" / "node_modules" / ".bin" / "llmock"
pytestmark = pytest.mark.skipif(not MOCK.exists(), reason="the foreign mock is not installed: `make foreign` needs npm")

OSLO = {"name": "get_weather", "arguments": json.dumps({"city": "Oslo"})}
ROME = {"name": "get_weather", "arguments": json.dumps({"city": "Rome"})}
LONG = "word " * 100
USED = {"input_tokens": 12, "output_tokens": 3, "prompt_tokens": 12, "completion_tokens": 3}
FIXTURES: list[dict[str, Any]] = [
    {"match": {"userMessage": "text"}, "response": {"content": "Hello, ä 👩‍🚀.", "usage": USED}},
    {"match": {"userMessage": "tool", "hasToolResult": False}, "response": {"toolCalls": [OSLO]}},
    {"match": {"userMessage": "both", "hasToolResult": False}, "response": {"toolCalls": [OSLO, ROME]}},
    {
        "match": {"userMessage": "think", "hasToolResult": False},
        "response": {"content": "Let me look.", "toolCalls": [OSLO], "reasoning": "I need the weather."},
    },
    {"match": {"hasToolResult": True}, "response": {"content": "Sunny."}},
    {"match": {"userMessage": "picture"}, "response": {"content": "A picture."}},
    {"match": {"userMessage": "short"}, "response": {"content": "Once upon", "finishReason": "length"}},
    {"match": {"userMessage": "cut"}, "response": {"content": LONG}, "truncateAfterChunks": 3},
    {"match": {"userMessage": "stall"}, "response": {"content": LONG}, "latency": 5000},
    {
        "match": {"userMessage": "limit"},
        "response": {"error": {"message": "slow down", "type": "rate_limit_error"}, "status": 429, "retryAfter": 7},
    },
    *(
        {"match": {"userMessage": words}, "response": {"error": {"message": message, "type": kind}, "status": status}}
        for words, status, kind, message in (
            ("overloaded", 529, "overloaded_error", "Overloaded"),
            ("broken", 500, "server_error", "Internal error"),
            ("bad", 400, "invalid_request_error", "no such field"),
            ("key", 401, "authentication_error", "invalid key"),
            ("long", 400, "invalid_request_error", "prompt is too long: 300000 tokens > 200000 maximum"),
        )
    ),
]

KINDS = {
    "openai": ("gpt-4o", "/v1"),
    "anthropic": ("claude-sonnet-4-5", ""),
    "litellm/openai": ("openai/gpt-4o", "/v1"),
    "litellm/anthropic": ("anthropic/claude-sonnet-4-5", ""),
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    fixtures = tmp_path_factory.mktemp("aimock") / "fixtures.json"
    fixtures.write_text(json.dumps({"fixtures": FIXTURES}))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(MOCK), "--port", str(port), "--fixtures", str(fixtures), "--log-level", "silent"]
    with subprocess.Popen(command) as mock:
        try:
            until = time.monotonic() + 30
            while not _listens(port):
                assert time.monotonic() < until, "the foreign mock does not listen"
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            mock.terminate()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


Made = Callable[..., LazyProvider]


@pytest.fixture(params=KINDS)
async def made(request: pytest.FixtureRequest, url: str, tmp_path: Path) -> AsyncIterator[Made]:
    kind: str = request.param
    model, path = KINDS[kind]
    opened: list[LazyProvider] = []

    def make(**more: Any) -> LazyProvider:
        settings = ProviderSettings(
            name="main",
            type=kind.partition("/")[0],  # type: ignore[arg-type]
            model=model,
            base_url=url + path,
            api_key=SecretStr("mock"),
            **more,
        )
        opened.append(LazyProvider(settings, ProviderDeps(home=tmp_path, clock=SystemClock())))
        return opened[-1]

    yield make
    for provider in opened:
        await provider.aclose()


async def test_words(made: Made) -> None:
    heard = await hear(made(), asks("text"))
    assert (heard.error, heard.text, heard.stop) == (None, "Hello, ä 👩‍🚀.", "end_turn")
    assert heard.usage == [Usage(prompt=12, output=3)]


@pytest.mark.parametrize(("words", "cities"), [("tool", ["Oslo"]), ("both", ["Oslo", "Rome"])])
async def test_tools_and_their_results(made: Made, words: str, cities: list[str]) -> None:
    provider, question = made(), asks(words, tools=TOOLS)
    heard = await hear(provider, question)
    assert heard.stop == "tool_use"
    assert [arguments["city"] for _, _, arguments in heard.calls] == cities
    uses = tuple(ToolUse(id=id, name=name, input=arguments) for id, name, arguments in heard.calls)
    results = tuple(ToolResult(tool_use_id=use.id, content="sunny") for use in uses)
    loop = [Message(role="assistant", parts=uses), Message(role="user", parts=results)]
    after = await hear(provider, replace(question, messages=[*question.messages, *loop]))
    assert (after.error, after.text) == (None, "Sunny.")


async def test_thinking_goes_along_through_a_tool_loop(made: Made) -> None:
    provider, question = made(thinking=1024), asks("think", tools=TOOLS)
    heard = await hear(provider, question)
    assert heard.error is None
    assert "".join(block.thinking for block in heard.thinking) == "I need the weather."
    ((id, name, arguments),) = heard.calls
    parts: tuple[Part, ...] = (
        *(Thinking(thinking=one.thinking, signature=one.signature, family=provider.family) for one in heard.thinking),
        TextPart(text=heard.text),
        ToolUse(id=id, name=name, input=arguments),
    )
    loop = [
        Message(role="assistant", parts=parts),
        Message(role="user", parts=(ToolResult(tool_use_id=id, content="sunny"),)),
    ]
    after = await hear(provider, replace(question, messages=[*question.messages, *loop]))
    assert (after.error, after.text) == (None, "Sunny.")


async def test_a_picture(made: Made, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    picture = FilePart(path="a.png", mime_type="image/png", name="a.png", size=len(PNG))
    message = Message(role="user", parts=(picture, TextPart(text="picture")))
    heard = await hear(made(takes=("image/png",)), replace(asks(""), messages=[message]))
    assert (heard.error, heard.text) == (None, "A picture.")


async def test_an_answer_at_its_limit(made: Made) -> None:
    heard = await hear(made(), asks("short"))
    assert (heard.text, heard.stop) == ("Once upon", "max_tokens")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("limit", ProviderBusy),
        ("overloaded", ProviderBusy),
        ("broken", ProviderBusy),
        ("bad", RequestInvalid),
        ("key", ProviderRefused),
        ("long", ContextTooLong),
    ],
)
async def test_errors_say_what_to_do_next(made: Made, words: str, error: type[AgentError]) -> None:
    heard = await hear(made(), asks(words))
    assert type(heard.error) is error
    if words == "limit":
        assert isinstance(heard.error, ProviderBusy)
        assert (heard.error.limited, heard.error.after_s) == (True, 7)
    if isinstance(heard.error, ProviderRefused):
        assert heard.error.any_request == (words == "key")


async def test_a_cut_stream_is_a_failed_attempt(made: Made) -> None:
    heard = await hear(made(), asks("cut"))
    assert isinstance(heard.error, ProviderBusy)
    assert heard.stop is None


async def test_a_stall_ends_at_the_time_limit(made: Made) -> None:
    with anyio.fail_after(10):
        heard = await hear(made(timeout_s=0.5), asks("stall"))
    assert isinstance(heard.error, ProviderBusy)
