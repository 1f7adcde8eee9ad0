"""The thin client against servers with their own ideas."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiohttp import web
from pydantic import SecretStr

from agent.core.clock import SystemClock
from agent.core.errors import AgentError, ProviderBusy, ProviderRefused, RequestInvalid
from agent.core.messages import FilePart, Message, TextPart, text_message
from agent.providers.provider import Request, SystemPrompt
from agent.providers.registry import LazyProvider, ProviderDeps
from agent.providers.settings import ProviderSettings
from tests.contracts.provider_contract import KEY, asks, hear

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def event(**delta: Any) -> str:
    return "data: " + json.dumps({"choices": [{"delta": delta}]}) + "\n\n"


END = 'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


@dataclass
class Odd:
    """A server that does what it is told, and what it was asked."""

    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    peers: list[Any] = field(default_factory=list)
    answers: list[Handler] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        self.peers.append(request.transport.get_extra_info("peername"))
        self.headers.append(dict(request.headers))
        self.bodies.append(await request.json())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return await answer(request)


@asynccontextmanager
async def odd_server(*answers: Handler) -> AsyncIterator[Odd]:
    odd = Odd(answers=list(answers))
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", odd.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    odd.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield odd
    finally:
        await runner.cleanup()


def sends(*pieces: str | bytes, pause_s: float = 0.0, open_s: float = 0.0) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece if isinstance(piece, bytes) else piece.encode())
            await asyncio.sleep(pause_s)
        await asyncio.sleep(open_s)
        return response

    return answer


def says(status: int, text: str, content_type: str = "application/json", **headers: str) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text=text, content_type=content_type, headers=headers)

    return answer


def refuses(message: str) -> Handler:
    return says(400, json.dumps({"error": {"message": message, "type": "invalid_request_error"}}))


@asynccontextmanager
async def provider_at(url: str, home: Path, **more: Any) -> AsyncIterator[LazyProvider]:
    settings: dict[str, Any] = {"name": "main", "type": "openai", "model": "m", "base_url": url, **more}
    provider = LazyProvider(ProviderSettings(**settings), ProviderDeps(home=home, clock=SystemClock()))
    try:
        yield provider
    finally:
        await provider.aclose()


async def test_characters_cut_in_the_middle_arrive_whole(tmp_path: Path) -> None:
    raw = (": hello\r\n\r\n" + event(content="ä👩‍🚀") + END).encode()
    pieces = [raw[i : i + 1] for i in range(60)] + [raw[60:]]
    async with odd_server(sends(*pieces, pause_s=0.001)) as odd, provider_at(odd.url, tmp_path) as provider:
        assert (await hear(provider, asks("hi"))).text == "ä👩‍🚀"


async def test_a_body_that_stays_open_after_the_end_is_not_waited_for(tmp_path: Path) -> None:
    async with (
        odd_server(sends(event(content="hi"), END, open_s=120)) as odd,
        provider_at(odd.url, tmp_path) as provider,
    ):
        with anyio.fail_after(60):
            heard = await hear(provider, asks("hi"))
        assert (heard.text, heard.stop, heard.error) == ("hi", "end_turn", None)


async def test_connections_are_used_again(tmp_path: Path) -> None:
    async with odd_server(sends(event(content="hi"), END)) as odd, provider_at(odd.url, tmp_path) as provider:
        for _ in range(3):
            await hear(provider, asks("hi"))
        assert len(set(odd.peers)) == 1


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        pytest.param(says(200, "<html>", "text/html"), ProviderRefused, "web page; check base_url", id="a web page"),
        pytest.param(says(307, "", location="/x"), ProviderRefused, "307", id="a redirection"),
        pytest.param(
            says(502, "<h1>Bad  gateway</h1>", "text/html"), ProviderBusy, "(HTTP 502): Bad gateway", id="a 502"
        ),
        pytest.param(says(400, "{broken"), RequestInvalid, "{broken", id="an error that is no JSON"),
        pytest.param(sends("data: {}\n"), ProviderBusy, "cut", id="a stream without anything"),
        pytest.param(sends(event(content="x"), "data: {nope\n\n", END), ProviderBusy, "malformed", id="broken JSON"),
        pytest.param(sends(b"data: \xff\xff\n\n", END), ProviderBusy, "malformed", id="no UTF-8"),
        pytest.param(sends(b"data: " + b"x" * 9_000_000), ProviderBusy, "malformed", id="an event without end"),
    ],
)
async def test_odd_answers(tmp_path: Path, answer: Handler, kind: type[AgentError], words: str) -> None:
    async with odd_server(answer) as odd, provider_at(odd.url, tmp_path) as provider:
        heard = await hear(provider, asks("hi"))
        assert type(heard.error) is kind
        assert words in str(heard.error)


async def test_a_server_without_tls_is_a_mistake_of_the_configuration(tmp_path: Path) -> None:
    url = "https://127.0.0.1"
    async with (
        odd_server(sends(END)) as odd,
        provider_at(odd.url.replace("http://127.0.0.1", url), tmp_path) as provider,
    ):
        heard = await hear(provider, asks("hi"))
        assert isinstance(heard.error, ProviderRefused)
        assert "certificate" in str(heard.error)


async def test_what_a_server_does_not_understand_it_is_spared_from_then_on(tmp_path: Path) -> None:
    answers = [refuses("stream_options: Extra inputs are not permitted"), sends(event(content="hi"), END)]
    async with odd_server(*answers) as odd, provider_at(odd.url, tmp_path) as provider:
        assert (await hear(provider, asks("hi"))).text == "hi"
        assert (await hear(provider, asks("hi"))).text == "hi"
        assert ["stream_options" in body for body in odd.bodies] == [True, False, False]


@pytest.mark.parametrize(("quoted", "what"), [(False, "file"), (True, "quoted file")])
async def test_a_model_that_cannot_see_is_told_of_pictures_in_words(tmp_path: Path, quoted: bool, what: str) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG")
    picture = FilePart(path="a.png", mime_type="image/png", name="a.png", size=4, quoted=quoted)
    request = Request(system=SystemPrompt(""), messages=[Message(role="user", parts=(TextPart(text="look"), picture))])
    answers = [refuses("image input is not supported"), sends(event(content="hi"), END)]
    async with odd_server(*answers) as odd, provider_at(odd.url, tmp_path) as provider:
        assert (await hear(provider, request)).error is None
        assert odd.bodies[0]["messages"][0]["content"][1]["type"] == "image_url"
        assert odd.bodies[1]["messages"][0]["content"] == f"look\n\n[{what}: a.png, image/png, 4 bytes]"


async def test_a_server_that_refuses_everything_is_not_asked_for_ever(tmp_path: Path) -> None:
    refusal = refuses("stream_options max_completion_tokens temperature image")
    async with odd_server(refusal) as odd, provider_at(odd.url, tmp_path, temperature=0.5) as provider:
        heard = await hear(provider, asks("hi"))
        assert isinstance(heard.error, ProviderRefused)
        assert len(odd.bodies) <= 6


async def test_keys_and_headers(tmp_path: Path) -> None:
    extra = {"X-Title": SecretStr("tieline")}
    async with odd_server(sends(END)) as odd:
        async with provider_at(odd.url, tmp_path, api_key=SecretStr(KEY), extra_headers=extra) as provider:
            await hear(provider, asks("hi"))
        async with provider_at(odd.url, tmp_path) as provider:
            await hear(provider, asks("hi"))
        assert odd.headers[0]["Authorization"] == f"Bearer {KEY}"
        assert odd.headers[0]["X-Title"] == "tieline"
        assert "Authorization" not in odd.headers[1]


async def test_a_large_request_arrives_whole(tmp_path: Path) -> None:
    messages = [text_message("user", f"{number} " + "ä" * 2000) for number in range(1000)]
    request = Request(system=SystemPrompt("s"), messages=messages)
    async with odd_server(sends(END)) as odd, provider_at(odd.url, tmp_path) as provider:
        assert (await hear(provider, request)).error is None
        assert odd.bodies[0]["messages"][-1]["content"] == messages[-1].content
        assert len(odd.bodies[0]["messages"]) == 1001
        assert "Content-Length" in odd.headers[0]


@pytest.mark.requirement("B-33")
async def test_usage_that_was_told_before_the_cut_is_not_lost(tmp_path: Path) -> None:
    counted = 'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}\n\n'
    async with odd_server(sends(counted, event(content="hi"))) as odd, provider_at(odd.url, tmp_path) as provider:
        heard = await hear(provider, asks("hi"))
        assert isinstance(heard.error, ProviderBusy)
        assert [usage.prompt for usage in heard.usage] == [9]
