"""The platform double and the proxy fail as they say."""

from collections.abc import AsyncIterator, Iterable

import aiohttp
import anyio
import pytest
from aiohttp import web

from gateway.testing.failing_proxy import FailingProxy
from gateway.testing.harness import Fault, eventually
from gateway.testing.platform_double import PlatformDouble


class Counter(PlatformDouble):
    """A platform that counts what it has carried out."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def routes(self) -> Iterable[web.AbstractRouteDef]:
        return [web.post("/count/{name}", self.raised)]

    async def raised(self, request: web.Request) -> web.Response:
        self.count += 1
        return web.json_response({"count": self.count})


@pytest.fixture
async def platform() -> AsyncIterator[Counter]:
    platform = Counter()
    async with platform.served():
        yield platform


async def status_of(url: str) -> int:
    async with aiohttp.ClientSession() as http, http.post(url) as response:
        return response.status


@pytest.mark.parametrize(("fault", "status"), [("busy", 429), ("server_error", 502), ("refuse", 400), ("gone", 403)])
async def test_a_fault_is_met_once_and_nothing_is_carried_out(platform: Counter, fault: Fault, status: int) -> None:
    platform.fail("POST", "/count/*", fault)
    assert await status_of(f"{platform.url}/count/a") == status
    assert platform.count == 0
    assert await status_of(f"{platform.url}/count/a") == 200
    assert [(call.status, call.fault) for call in platform.calls] == [(status, fault), (200, None)]


async def test_busy_says_how_long_and_other_paths_are_well(platform: Counter) -> None:
    platform.fail("POST", "/count/a", "busy", after_s=7)
    assert await status_of(f"{platform.url}/count/b") == 200
    async with aiohttp.ClientSession() as http, http.post(f"{platform.url}/count/a") as response:
        assert response.headers["Retry-After"] == "7"


async def test_an_answer_is_lost_after_the_work_was_done(platform: Counter) -> None:
    platform.fail("POST", "/count/*", "cut_after")
    with pytest.raises(aiohttp.ClientError):
        await status_of(f"{platform.url}/count/a")
    assert platform.count == 1


async def test_a_proxy_that_is_down_lets_nobody_through_and_one_that_is_up_does(platform: Counter) -> None:
    proxy = FailingProxy(int(platform.url.rpartition(":")[2]))
    async with proxy.served():
        assert await status_of(f"{proxy.url}/count/a") == 200
        proxy.down = True
        with pytest.raises(aiohttp.ClientError):
            await status_of(f"{proxy.url}/count/a")
        proxy.down = False
        assert await status_of(f"{proxy.url}/count/a") == 200
    assert platform.count == 2


async def test_a_deaf_proxy_holds_answers_back_until_it_hears_or_is_cut(platform: Counter) -> None:
    proxy = FailingProxy(int(platform.url.rpartition(":")[2]))
    statuses: list[int] = []

    async def ask() -> None:
        try:
            statuses.append(await status_of(f"{proxy.url}/count/a"))
        except aiohttp.ClientError:
            statuses.append(0)

    async with proxy.served(), anyio.create_task_group() as group:
        for end in ("heard", "cut"):
            proxy.deaf = True
            group.start_soon(ask)
            seen, answered = len(platform.calls), len(statuses)
            await eventually(lambda seen=seen: len(platform.calls) > seen)  # type: ignore[misc]
            await anyio.wait_all_tasks_blocked()
            assert len(statuses) == answered
            if end == "cut":
                await proxy.cut()
            proxy.deaf = False
            await eventually(lambda answered=answered: len(statuses) > answered)  # type: ignore[misc]
    assert statuses == [200, 0]
