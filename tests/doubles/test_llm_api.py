"""The model double holds a reply until it is released, sends nothing in one piece, and refuses what services refuse."""

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import anyio
import pytest
from aiohttp import web

from tests.doubles.llm_api import LlmDouble

HELD = {"match": {"contains": "hold"}, "reply": {"text": "one two three", "hold": "gate", "hold_after": 2}}


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    runner = web.AppRunner(LlmDouble([HELD]).app(), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    headers = {"Authorization": "Bearer key", "anthropic-version": "2023-06-01"}
    async with aiohttp.ClientSession(f"http://127.0.0.1:{runner.addresses[0][1]}", headers=headers) as session:
        yield session
    await runner.cleanup()


async def last_call(client: aiohttp.ClientSession) -> dict[str, Any]:
    async with client.get("/_control/calls") as answer:
        found: dict[str, Any] = (await answer.json())["calls"][-1]
    return found


async def release(client: aiohttp.ClientSession, name: str) -> None:
    async with client.post("/_control/release", json={"name": name}) as answer:
        assert answer.ok


def question(stream: bool) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 50, "stream": stream, "messages": [{"role": "user", "content": "please hold"}]}


async def sent(client: aiohttp.ClientSession, count: int) -> None:
    with anyio.fail_after(30):
        while (await last_call(client)).get("tokens_sent", 0) < count:
            await anyio.sleep(0.005)


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
async def test_a_stream_waits_after_so_many_tokens_and_a_whole_reply_before_it_begins(
    client: aiohttp.ClientSession, path: str
) -> None:
    async with client.post(path, json=question(stream=True)) as answer:
        await sent(client, 2)
        await anyio.sleep(0.05)
        assert (await last_call(client))["tokens_sent"] == 2
        await release(client, "another")
        assert not (await last_call(client))["finished"]
        async with anyio.create_task_group() as tasks:
            whole: list[str] = []

            async def ask() -> None:
                async with client.post(path, json=question(stream=False)) as reply:
                    whole.append(await reply.text())

            tasks.start_soon(ask)
            await anyio.sleep(0.05)
            assert not whole
            await release(client, "gate")
        assert "three" in await answer.text()
        assert "one two three" in whole[0]


async def test_who_is_held_and_goes_away_is_noticed_and_a_reset_lets_go(client: aiohttp.ClientSession) -> None:
    async with client.post("/v1/messages", json=question(stream=True)) as answer:
        await sent(client, 2)
        answer.close()
        with anyio.fail_after(30):
            while "client_closed" not in await last_call(client):
                await anyio.sleep(0.005)
    async with client.post("/v1/messages", json=question(stream=True)) as answer:
        await sent(client, 2)
        async with client.post("/_control/reset"):
            pass
        assert "three" in await answer.text()


async def test_a_stream_may_wait_at_several_places(client: aiohttp.ClientSession) -> None:
    holds = {"match": {}, "reply": {"text": "one two three four", "hold": {"early": 1, "late": 3}}}
    async with client.post("/_control/script", json=[holds]):
        pass
    async with client.post("/v1/messages", json=question(stream=True)) as answer:
        await sent(client, 1)
        await release(client, "early")
        await sent(client, 3)
        assert not (await last_call(client))["finished"]
        await release(client, "late")
        assert "four" in await answer.text()


async def pieces_of(answer: aiohttp.ClientResponse) -> list[bytes]:
    """The body as it came: what one read found."""
    pieces = []
    while piece := await answer.content.readany():
        pieces.append(piece)
    return pieces


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
async def test_events_are_cut_inside_lines_and_characters(client: aiohttp.ClientSession, path: str) -> None:
    async with client.post("/_control/script", json=[{"match": {}, "reply": {"text": "Grüße an Jürgen 👩‍🚀 und Österreich " * 9}}]):
        pass
    body = {**question(stream=True), "max_tokens": 500}
    async with client.post(path, json=body) as answer:
        pieces = await pieces_of(answer)
    assert any(piece.endswith((b"\ndat", b"\neve")) for piece in pieces), "inside a line's name"
    torn = [piece for piece in pieces if piece[-1] >= 0x80 and not decodes(piece)]
    assert torn, "inside a character"
    whole = b"".join(pieces).decode()
    assert whole.count("Österreich") == 9


def decodes(piece: bytes) -> bool:
    """Whether it ends with a whole character."""
    return piece[-4:].decode("utf-8", "replace")[-1:] != "\ufffd"


async def test_vectors_have_the_service_s_width_and_come_in_flights(client: aiohttp.ClientSession) -> None:
    texts = [f"text number {number}" for number in range(32)]
    async with client.post("/v1/embeddings", json={"model": "e", "input": texts}) as answer:
        pieces = await pieces_of(answer)
    assert len(pieces) > 30
    rows = json.loads(b"".join(pieces))["data"]
    assert [len(row["embedding"]) for row in rows] == [1536] * 32
    async with client.post("/v1/embeddings", json={"model": "e", "input": "a", "dimensions": 256}) as answer:
        assert len((await answer.json())["data"][0]["embedding"]) == 256


@pytest.mark.parametrize("stream", [False, None])
async def test_bodies_and_refusals_come_in_flights(client: aiohttp.ClientSession, stream: bool | None) -> None:
    body = {**question(stream=False), "messages": []} if stream is None else {**question(stream=False), "messages": [{"role": "user", "content": "hi"}]}
    async with client.post("/v1/chat/completions", json=body) as answer:
        assert len(await pieces_of(answer)) > 1


def tool(**changes: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}, **changes}}


USER = {"role": "user", "content": "hi"}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
REFUSED_BY_OPENAI: dict[str, dict[str, Any]] = {
    "array too long": {"tools": [tool(name=f"f{number}") for number in range(129)]},
    "string too long": {"tools": [tool(description="d" * 1025)]},
    "does not match pattern": {"tools": [tool(name="a.b")]},
    "array schema missing items": {"tools": [tool(parameters={"type": "object", "properties": {"x": {"type": "array"}}})]},
    "must be a JSON Schema": {"tools": [tool(parameters={"type": "array", "items": {}})]},
    "Unrecognized request argument": {"top_k": 3},
    "Use 'max_completion_tokens'": {"model": "gpt-5-mini"},
    "Only the default (1)": {"model": "o3", "max_tokens": None, "max_completion_tokens": 9, "temperature": 0.5},
    "must be a response": {"messages": [USER, {"role": "tool", "tool_call_id": "c", "content": "1"}]},
    "did not have response messages": {"messages": [USER, {"role": "assistant", "tool_calls": [CALL]}, USER]},
    "Missing required parameter": {"messages": [USER, {"role": "assistant", "tool_calls": [{**CALL, "id": ""}]}]},
    "Supported values are: 'function'": {"messages": [USER, {"role": "assistant", "tool_calls": [{**CALL, "type": None}]}]},
    "got null": {"messages": [{"role": "user", "content": None}]},
    "'document'": {"messages": [{"role": "user", "content": [{"type": "document"}]}]},
    "Only text is supported": {"messages": [{"role": "system", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
    "Supported values are: 'wav'": {"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"format": "ogg"}}]}]},
}


@pytest.mark.parametrize("words", REFUSED_BY_OPENAI)
async def test_what_openai_refuses(client: aiohttp.ClientSession, words: str) -> None:
    body = {**question(stream=False), "messages": [USER], **REFUSED_BY_OPENAI[words]}
    async with client.post("/v1/chat/completions", json=body) as answer:
        assert (answer.status, words in (await answer.json())["error"]["message"]) == (400, True)


USES = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "c", "content": "1"}


def loop(use: dict[str, Any] = USES, result: dict[str, Any] = RESULT) -> list[dict[str, Any]]:
    return [USER, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]


def schema(**changes: Any) -> list[dict[str, Any]]:
    return [{"name": "f", "input_schema": {"type": "object", **changes}}]


LASTS = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
SHORT = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
REFUSED_BY_ANTHROPIC: dict[str, dict[str, Any]] = {
    "content cannot be empty if": {"tools": schema(), "messages": loop(result={**RESULT, "is_error": True, "content": ""})},
    "tool_use.name": {"tools": schema(), "messages": loop(use={**USES, "name": "a.b"})},
    "without `tool_result`": {"tools": schema(), "messages": loop()[:2]},
    "unexpected `tool_use_id`": {"tools": schema(), "messages": loop()[2:]},
    "at the top level": {"tools": schema(anyOf=[{"required": ["a"]}])},
    "Property keys": {"tools": schema(properties={"a b": {}})},
    "must not come after": {"system": [SHORT], "messages": [{"role": "user", "content": [LASTS]}]},
    "max_tokens: Field required": {"max_tokens": None},
    "range: 0..1": {"temperature": 1.5},
    "non-whitespace": {"stop_sequences": ["\n"]},
    'first message must use the "user" role': {"messages": [{"role": "assistant", "content": "hi"}, USER]},
}


@pytest.mark.parametrize("words", REFUSED_BY_ANTHROPIC)
async def test_what_anthropic_refuses(client: aiohttp.ClientSession, words: str) -> None:
    body = {**question(stream=False), "messages": [USER], **REFUSED_BY_ANTHROPIC[words]}
    if body["max_tokens"] is None:
        del body["max_tokens"]
    async with client.post("/v1/messages", json=body) as answer:
        assert (answer.status, words in (await answer.json())["error"]["message"]) == (400, True)


async def test_these_are_taken(client: aiohttp.ClientSession) -> None:
    tools = {"tools": schema(), "messages": loop()}
    async with client.post("/v1/messages", json={**question(stream=False), **tools}) as answer:
        assert answer.status == 200, await answer.text()
    messages = [USER, {"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "c", "content": ""}]
    asked = {**question(stream=False), "tools": [tool()], "messages": messages}
    async with client.post("/v1/chat/completions", json=asked) as answer:
        assert answer.status == 200, await answer.text()


@pytest.mark.parametrize(("path", "offered"), [("/v1/messages", schema()), ("/v1/chat/completions", [tool()])])
async def test_a_script_calls_only_what_is_offered_if_told_so(
    client: aiohttp.ClientSession, path: str, offered: list[dict[str, Any]]
) -> None:
    async with client.post("/_control/settings", json={"offered_only": True}):
        pass
    for name, status in (("g", 400), ("f", 200)):
        rule = {"match": {}, "reply": {"blocks": [{"type": "tool_use", "name": name, "input": {}}]}}
        async with client.post("/_control/script", json=[rule]):
            pass
        body = {**question(stream=False), "messages": [USER], "tools": offered}
        async with client.post(path, json=body) as answer:
            assert answer.status == status, await answer.text()
