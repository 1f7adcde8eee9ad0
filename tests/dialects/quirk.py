"""One quirk of a server that speaks Chat Completions or Messages: what it is sent and answers, what must come of it.

A row is literal: the bytes stand in it as the server sends them. A real server on the loopback plays it to the real
client, below the same retries as in a turn; only the waits are not waited for.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from aiohttp import web
from pydantic import SecretStr

from agent.core.clock import SystemClock
from agent.core.errors import AgentError
from agent.core.ids import ConversationId, CostAttribution
from agent.core.messages import (
    FilePart,
    Message,
    RedactedThinking,
    TextPart,
    Thinking,
    ToolResult,
    ToolUse,
    text_message,
)
from agent.core.tools import ToolSpec
from agent.providers.models import KnownModels
from agent.providers.openai.requests import Opaque
from agent.providers.provider import Provider, Request, SystemPrompt, ToolSchema, Usage
from agent.providers.registry import LazyProvider, ProviderDeps
from agent.providers.replies import Reply
from agent.providers.retry_policy import RetryPolicy
from agent.providers.routing import Attempt, Call, Models
from agent.providers.settings import ProviderSettings
from agent.turn.tokens import Estimator

MODEL = "some-model"
DONE = b"data: [DONE]\n\n"
WEATHER = ToolSpec(
    name="get_weather",
    description="Tells the weather.",
    schema={"type": "object", "properties": {"city": {"type": "string"}}},
)
OSLO = ("get_weather", {"city": "Oslo"})
ROME = ("get_weather", {"city": "Rome"})
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))

Asks = Literal["words", "tool", "after a call", "picture", "twice"]
Check = Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True, slots=True)
class Plays:
    """An answer: status, headers, and the body in the pieces in which it arrives. `cut`: the connection is cut then."""

    status: int
    pieces: Sequence[bytes]
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Got:
    """Expectations on the chat: the last reply, and the calls of all replies. None: not checked."""

    text: str = "Fine."
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
    thought: str | None = None
    usage: tuple[int, int, int] | None = None  # prompt, output, read from a cache
    stop: str | None = None
    malformed: bool = False


@dataclass(frozen=True, slots=True)
class Fails:
    """The error that the turn gets; `words` stand in it, `never` do not."""

    error: type[AgentError]
    words: Sequence[str] = ()
    never: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Quirk:
    """A row. `says` and `does` are read by people, in the documentation too.

    `answers` are played one a request, in order; one more request than these is a defect. `sent` are checks of the
    requests' bodies, by their number from 0. A reply with calls is answered with their results as long as there are
    answers left. `waits` are the seconds between attempts.
    """

    server: str
    says: str
    does: str
    answers: Sequence[Plays]
    gets: Got | Fails = Got()
    asks: Asks = "words"
    sent: Mapping[int, Check] = field(default_factory=dict)
    waits: Sequence[float] | None = None
    protocol: Literal["openai", "anthropic"] = "openai"
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.server}: {self.says}"


# --- what servers send ---


def event(body: str) -> bytes:
    """One event, as nearly all servers write it."""
    return f"data: {body}\n\n".encode()


def sse(*bodies: str, end: bytes = DONE, **headers: str) -> Plays:
    """A stream of these events, each arriving by itself."""
    return Plays(200, [*map(event, bodies), *([end] if end else [])], {"content-type": "text/event-stream", **headers})


def raw(*pieces: bytes, content_type: str = "text/event-stream", status: int = 200, cut: bool = False) -> Plays:
    return Plays(status, pieces, {"content-type": content_type}, cut)


def refuses(status: int, body: str, **headers: str) -> Plays:
    """An error as JSON; `_` in the name of a header stands for `-`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Plays(status, [body.encode()], {"content-type": "application/json", **named})


HEAD = '{"id":"c1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}'
WORDS = '{"id":"c1","choices":[{"index":0,"delta":{"content":"Fine."},"finish_reason":null}]}'
STOP = '{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'
TOOLS_STOP = '{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}'
FINE = sse(HEAD, WORDS, STOP)


def delta(text: str, reason: str | None = None) -> str:
    """An event with that delta, itself JSON."""
    return f'{{"id":"c1","choices":[{{"index":0,"delta":{text},"finish_reason":{json.dumps(reason)}}}]}}'


def call(pieces: str, reason: str | None = None) -> str:
    """An event with pieces of calls."""
    return delta(f'{{"tool_calls":{pieces}}}', reason)


# --- the conversation ---


def request_of(asks: Asks, home: Path) -> Request:
    system = SystemPrompt("You are helpful.")
    hello = text_message("user", "hello")
    match asks:
        case "words":
            return Request(system=system, messages=[hello])
        case "tool":
            return Request(system=system, messages=[hello], tools=ToolSchema((WEATHER,)))
        case "picture":
            (home / "a.png").write_bytes(PNG)
            file = FilePart(path="a.png", name="a.png", mime_type="image/png", size=len(PNG))
            return Request(system=system, messages=[Message(role="user", parts=(TextPart(text="look"), file))])
        case "twice":
            return Request(system=system, messages=[hello, text_message("user", "still there?")])
        case "after a call":
            opaque = Opaque("other/model", {"call_of_another_service": {"extra_content": {"x": "y"}}}, ({"type": "z"},))
            used = Message(
                role="assistant",
                parts=(
                    Thinking(thinking="hm", signature="reasoning_content", family="anthropic"),
                    RedactedThinking(data=opaque.written(), family="openai"),
                    ToolUse(id="call_of_another_service", name="get_weather", input={"city": "Oslo"}),
                ),
            )
            result = Message(role="user", parts=(ToolResult(tool_use_id="call_of_another_service", content="sunny"),))
            return Request(system=system, messages=[hello, used, result], tools=ToolSchema((WEATHER,)))


class Waits(SystemClock):
    """Nobody waits; how long they would have is noted."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 3))


class Silent:
    """Nobody watches the call."""

    def begins(self, provider: Provider) -> None: ...
    def answers(self, provider: Provider) -> None: ...
    def delta(self, text: str) -> None: ...
    def void(self) -> None: ...
    def passes(self, provider: Provider, error: AgentError) -> None: ...
    def waits(self, provider: Provider, error: AgentError, failures: int, delay_s: float) -> None: ...
    def spent(self, spent: Any) -> None: ...


@dataclass(kw_only=True)
class Played:
    """The outcome of a row."""

    replies: list[Reply] = field(default_factory=list)
    error: AgentError | None = None
    bodies: list[dict[str, Any]] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)


@asynccontextmanager
async def serving(
    answers: Sequence[Plays], bodies: list[dict[str, Any]], models: Sequence[str] = ()
) -> AsyncIterator[str]:
    """The server's address. Each POST gets the next answer; what was asked goes into `bodies`. `models` are listed."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/models") and models:
            return web.json_response({"data": [{"id": name} for name in models]})
        if request.method != "POST" or not request.path.endswith(("/chat/completions", "/messages")):
            return web.Response(status=404)
        bodies.append(await request.json())
        if len(bodies) > len(answers):
            return web.Response(status=418, text=f"request {len(bodies)} was one too many")
        plays = answers[len(bodies) - 1]
        response = web.StreamResponse(status=plays.status, headers=dict(plays.headers))
        await response.prepare(request)
        for piece in plays.pieces:
            await response.write(piece)
        if plays.cut:
            assert request.transport is not None
            request.transport.abort()
        return response

    app = web.Application(client_max_size=32 * 1024 * 1024)
    app.router.add_route("*", "/{rest:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.05, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


async def play(quirk: Quirk, home: Path) -> Played:
    """The row, from the first request to the last answer or the error."""
    played, clock = Played(), Waits()
    async with serving(quirk.answers, played.bodies) as url:
        settings = ProviderSettings(
            name="main",
            type=quirk.protocol,
            base_url=f"{url}/v1" if quirk.protocol == "openai" else url,
            api_key=SecretStr("secret-of-ours"),
            **{"model": MODEL, "context_window": 8_192, **quirk.settings},
        )
        provider = LazyProvider(settings, ProviderDeps(home=home, clock=clock, models=KnownModels()))
        models = Models(clock, policy=lambda: RetryPolicy(jitter=0.0))
        request = request_of(quirk.asks, home)
        try:
            while True:
                answered = await models.ask(_call(provider, request), Silent())
                played.replies.append(answered.reply)
                if not answered.reply.calls or len(played.bodies) >= len(quirk.answers):
                    break
                results = [ToolResult(tool_use_id=use.id, content="sunny") for use in answered.reply.calls]
                said = Message(role="assistant", parts=answered.reply.parts)
                again = [*request.messages, said, Message(role="user", parts=tuple(results))]
                request = replace(request, messages=again)
        except AgentError as error:
            played.error = error
        finally:
            await provider.aclose()
    played.waits = clock.slept
    return played


def _call(provider: LazyProvider, request: Request) -> Call:
    return Call(
        route=lambda: [provider],
        prepare=lambda _: Attempt(request, 10),
        attribution=CostAttribution(purpose="turn", conversation=ConversationId("web:1")),
        counting=Estimator(),
        silence_s=10.0,
        stream_s=20.0,
        seed="s",
    )


def check(quirk: Quirk, played: Played) -> None:
    """Everything that the row says must hold."""
    assert len(played.bodies) == len(quirk.answers), f"{len(played.bodies)} requests, {played.error}"
    for number, holds in quirk.sent.items():
        assert holds(played.bodies[number]), (number, played.bodies[number])
    if quirk.waits is not None:
        assert played.waits == list(quirk.waits)
    if isinstance(quirk.gets, Fails):
        _check_failure(quirk.gets, played)
        return
    assert played.error is None, played.error
    got, last = quirk.gets, played.replies[-1]
    assert last.text == got.text
    calls = [(use.name, dict(use.input)) for reply in played.replies for use in reply.calls]
    assert calls == [(name, dict(arguments)) for name, arguments in got.calls]
    assert any(reply.malformed for reply in played.replies) is got.malformed
    if got.thought is not None:
        assert "".join(reply.thought for reply in played.replies) == got.thought
    if got.usage is not None:
        usage = last.usage or Usage()
        assert (usage.prompt, usage.output, usage.cache_read) == got.usage
    if got.stop is not None:
        assert last.stop_reason == got.stop
    ids = [use.id for reply in played.replies for use in reply.calls]
    assert len(set(ids)) == len(ids), "ids are unique"


def _check_failure(fails: Fails, played: Played) -> None:
    assert type(played.error) is fails.error, played.error
    said = str(played.error)
    for words in fails.words:
        assert words in said, said
    for words in fails.never:
        assert words not in said, said
    assert said.isprintable(), "it can go to a log and a terminal as it is"


def pick(body: Mapping[str, Any], *path: str | int) -> Any:
    """The value at that place of a request; None where there is none."""
    found: Any = body
    for name in path:
        try:
            found = found[name]
        except (KeyError, IndexError, TypeError):
            return None
    return found
