"""The model double holds a reply until it is released."""

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
