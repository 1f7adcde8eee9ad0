"""Claude through its SDK: what only this provider has."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from agent.core.clock import SystemClock
from agent.core.errors import ProviderBusy, ProviderRefused, QuotaUsedUp
from agent.core.messages import Message, RedactedThinking, TextPart, Thinking, text_message
from agent.providers.provider import CacheTier, Done, RedactedThinkingDone, Request, SystemPrompt, Usage
from agent.providers.registry import LazyProvider, ProviderDeps
from agent.providers.settings import ProviderSettings
from tests.contracts.provider_contract import KEY, asks, hear
from tests.fakes.llm_server import LlmServer, serving_llm
from tests.fakes.piecewise import Piecewise, serving


@pytest.fixture
async def server() -> AsyncIterator[LlmServer]:
    async with serving_llm() as running:
        yield running


def provider_at(url: str, home: Path, **more: Any) -> LazyProvider:
    settings: dict[str, Any] = {
        "name": "main",
        "type": "anthropic",
        "model": "claude-double",
        "base_url": url,
        "api_key": SecretStr(KEY),
        **more,
    }
    return LazyProvider(ProviderSettings(**settings), ProviderDeps(home=home, clock=SystemClock()))


async def test_the_sdk_signs_the_call_and_never_repeats_it(server: LlmServer, tmp_path: Path) -> None:
    server.double.settings["api_key"] = KEY
    provider = provider_at(server.url, tmp_path, extra_headers={"anthropic-beta": SecretStr("x-1")})
    assert (await hear(provider, asks("hi"))).error is None
    headers = server.calls[0]["headers"]
    assert headers["anthropic-version"]
    assert headers["anthropic-beta"] == "x-1"
    assert headers["content-type"] == "application/json"
    await provider.aclose()


@pytest.mark.requirement("W-36")
@pytest.mark.parametrize(
    ("configured", "asked", "sent"),
    [
        ("auto", "1h", "1h"),
        ("auto", "5m", "5m"),
        ("auto", "none", None),
        ("5m", "1h", "5m"),
        ("1h", "5m", "1h"),
        ("1h", "none", None),
        ("none", "1h", None),
    ],
)
async def test_the_cache_tier(
    server: LlmServer, tmp_path: Path, configured: str, asked: CacheTier, sent: str | None
) -> None:
    provider = provider_at(server.url, tmp_path, prompt_cache_ttl=configured)
    await hear(provider, asks("hi", cache_tier=asked))
    block = server.bodies[0]["messages"][0]["content"][0]
    marker = block.get("cache_control")
    assert (marker.get("ttl", "5m") if marker else None) == sent, "five minutes are what it is without being told"
    await provider.aclose()


@pytest.mark.parametrize(
    ("complaint", "headers", "spared"),
    [
        ("Unexpected value(s) `x-1` for the `anthropic-beta` header", {"anthropic-beta": "x-1", "x-team": "t"}, "beta"),
        ("system.0.cache_control.ephemeral.ttl: Extra inputs are not permitted", {}, "ttl"),
    ],
)
async def test_what_the_server_does_not_know_it_is_spared_from_then_on(
    server: LlmServer, tmp_path: Path, complaint: str, headers: dict[str, str], spared: str
) -> None:
    server.replies({"error": {"status": 400, "message": complaint}})
    secret = {name: SecretStr(value) for name, value in headers.items()}
    provider = provider_at(server.url, tmp_path, extra_headers=secret)
    for _ in range(2):
        assert (await hear(provider, asks("hi", cache_tier="1h"))).error is None
    assert len(server.calls) == 3, "one repetition, and none the next time"
    sent = [json.dumps(call["body"]) + json.dumps(dict(call["headers"])) for call in server.calls]
    assert [spared in text for text in sent] == [True, False, False]
    assert all(("x-team" in text) == bool(headers) for text in sent)
    await provider.aclose()


async def test_a_complaint_of_something_else_is_passed_on(server: LlmServer, tmp_path: Path) -> None:
    server.double.script = [{"match": {}, "reply": {"error": {"status": 400, "message": "ttl: bad, and beta too"}}}]
    provider = provider_at(server.url, tmp_path)
    for calls in (2, 3):
        assert isinstance((await hear(provider, asks("hi", cache_tier="1h"))).error, ProviderRefused)
        assert len(server.calls) == calls, "what was spared already is not blamed again"
    await provider.aclose()


async def test_what_the_cache_cost_is_told_apart(server: LlmServer, tmp_path: Path) -> None:
    counted = {"input_tokens": 5, "cache_creation_input_tokens": 60, "cache_read_input_tokens": 700}
    server.replies({"text": "hi there", "usage": counted})
    provider = provider_at(server.url, tmp_path)
    heard = await hear(provider, asks("hi"))
    assert heard.usage == [Usage(prompt=5, output=2, cache_creation=60, cache_read=700)]
    await provider.aclose()


@pytest.mark.requirement("Z-19")
async def test_redacted_thinking_goes_back_as_it_came(server: LlmServer, tmp_path: Path) -> None:
    blocks = [{"type": "thinking", "thinking": "hm"}, {"type": "redacted_thinking"}, {"type": "text", "text": "So."}]
    server.replies({"blocks": blocks}, {"text": "Yes."})
    provider = provider_at(server.url, tmp_path, thinking=1024)
    heard = await hear(provider, asks("hi"))
    (redacted,) = [chunk for chunk in heard.chunks if isinstance(chunk, RedactedThinkingDone)]
    thinking = heard.thinking[0]
    parts = (
        Thinking(thinking=thinking.thinking, signature=thinking.signature, family="anthropic"),
        RedactedThinking(data=redacted.data, family="anthropic"),
        TextPart(text=heard.text),
    )
    history = [text_message("user", "hi"), Message(role="assistant", parts=parts), text_message("user", "sure?")]
    again = await hear(provider, Request(system=SystemPrompt("s"), messages=history))
    assert again.error is None  # the double refuses what it has not signed
    assert redacted.data in json.dumps(server.bodies[1])
    await provider.aclose()


@pytest.mark.requirement("B-33")
async def test_what_a_cut_stream_had_counted_is_told(server: LlmServer, tmp_path: Path) -> None:
    server.replies({"text": "one two three", "fault": {"kind": "truncate", "after_tokens": 1}})
    provider = provider_at(server.url, tmp_path)
    heard = await hear(provider, asks("hi"))
    assert isinstance(heard.error, ProviderBusy)
    assert len(heard.usage) == 1
    assert heard.usage[0].prompt > 0
    await provider.aclose()


@pytest.mark.requirement("G-34")
async def test_a_stream_with_pieces_that_nobody_knows_is_heard_to_its_end(tmp_path: Path) -> None:
    def words(text: str) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}

    events = (
        {"type": "message_start", "message": {"usage": {"input_tokens": 10, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "moon_phase", "phase": "full"},
        words("Good "),
        words("morning"),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "moonset"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    )
    stream = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    async with serving(Piecewise(body=stream.encode(), content_type="text/event-stream", pieces=6)) as server:
        provider = provider_at(server.url, tmp_path)
        heard = await hear(provider, asks("hi"))
        await provider.aclose()
    assert heard.error is None
    assert heard.text == "Good morning"
    assert heard.chunks[-1] == Done("other")


async def test_a_server_without_tls_is_a_mistake_of_the_configuration(server: LlmServer, tmp_path: Path) -> None:
    provider = provider_at(server.url.replace("http:", "https:"), tmp_path)
    heard = await hear(provider, asks("hi"))
    assert isinstance(heard.error, ProviderRefused)
    assert "certificate" in str(heard.error)
    await provider.aclose()


async def test_without_a_limit_the_model_decides_how_long_an_answer_may_be(server: LlmServer, tmp_path: Path) -> None:
    unknown = provider_at(server.url, tmp_path)
    known = provider_at(server.url, tmp_path, model="claude-sonnet-4-5")
    chosen = provider_at(server.url, tmp_path, max_tokens=100)
    for provider in (unknown, known, chosen):
        await hear(provider, asks("hi"))
        await provider.aclose()
    assert [body["max_tokens"] for body in server.bodies] == [8192, 16384, 100]
    assert [unknown.max_tokens, known.max_tokens, chosen.max_tokens] == [8192, 16384, 100], "as is set aside for it"
    assert (unknown.context_window, known.context_window) == (128_000, 200_000)
    assert known.prices is not None
    assert unknown.prices is None


@pytest.mark.parametrize("configured", [None, 2048, 40_000])
async def test_what_is_set_aside_for_an_answer_is_what_is_asked_for(
    server: LlmServer, tmp_path: Path, configured: int | None
) -> None:
    provider = provider_at(server.url, tmp_path, thinking=32_000, max_tokens=configured)
    await hear(provider, asks("hi"))
    assert server.bodies[-1]["max_tokens"] == provider.max_tokens == max(configured or 0, 33_024)
    await provider.aclose()


async def test_an_account_without_credit_is_nothing_that_the_request_did(server: LlmServer, tmp_path: Path) -> None:
    credit = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing."
    server.replies({"error": {"status": 400, "message": credit}})
    provider = provider_at(server.url, tmp_path)
    error = (await hear(provider, asks("hi"))).error
    assert type(error) is QuotaUsedUp
    assert error.any_request
    await provider.aclose()


async def test_an_error_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    """The SDK reads the body of an error whole, whatever its size."""
    body = b'{"error": {"message": "' + b"x" * (40 * 1024 * 1024) + b'"}}'
    async with serving(Piecewise(body=body, status=400, pieces=80)) as server:
        provider = provider_at(server.url, tmp_path)
        heard = await hear(provider, asks("hi"))
        await provider.aclose()
        assert isinstance(heard.error, ProviderBusy)
        assert server.sent < len(body) * 3 // 4
