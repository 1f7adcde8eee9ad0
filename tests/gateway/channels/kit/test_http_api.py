"""A call is one attempt, counts against its limit, and fails in the gateway's words."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiohttp import web

from agent.core.clock import SystemClock
from gateway.channels.adapter import AdapterContext
from gateway.channels.errors import ChannelBusy, ChannelError, ChannelGone, ChannelRejected, ChannelUnsure
from gateway.channels.kit.http_api import HttpApi, may_be_gone
from gateway.channels.kit.rate_limits import Rate
from gateway.testing.platform_double import PlatformDouble


class Notes(PlatformDouble):
    def __init__(self) -> None:
        super().__init__()
        self.got: list[Any] = []

    def routes(self) -> Iterable[web.AbstractRouteDef]:
        return [web.route("*", "/notes{rest:.*}", self.note)]

    async def note(self, request: web.Request) -> web.StreamResponse:
        self.got.append((request.headers.get("Authorization"), await request.text(), dict(request.query)))
        match request.match_info["rest"]:
            case "/none":
                return web.Response(status=204)
            case "/empty":
                return web.Response()
            case "/deep":
                return web.Response(text="[" * 200_000)
            case "/archived":
                return web.json_response({"id": "note.archived"}, status=400)
            case "/gone":
                raise web.HTTPNotFound
            case "/file":
                return web.Response(body=b"x" * 100)
        return web.json_response({"ok": True})


def judged(status: int, answer: Any) -> ChannelError | None:
    return ChannelGone("it is archived") if (answer or {}).get("id") == "note.archived" else None


async def no_places(channel_type: str) -> tuple[()]:
    return ()


@asynccontextmanager
async def served(home: Path, rate: Rate | None = None) -> AsyncIterator[tuple[Notes, HttpApi]]:
    notes = Notes()
    async with notes.served():
        context = AdapterContext(clock=SystemClock(), home=home, known_places=no_places)
        api = HttpApi(context, "Notes", f"{notes.url}/", headers={"Authorization": "Bearer t"}, judge=judged, rate=rate)
        yield notes, api
        await api.aclose()


async def test_a_call_gives_the_answer(tmp_path: Path) -> None:
    async with served(tmp_path) as (notes, api):
        assert await api.call("POST", "/notes", {"a": 1}, query={"q": "x y"}) == {"ok": True}
        assert notes.got == [("Bearer t", '{"a": 1}', {"q": "x y"})]


@pytest.mark.parametrize("path", ["/notes/none", "/notes/empty"])
async def test_an_empty_answer_is_none(tmp_path: Path, path: str) -> None:
    async with served(tmp_path) as (_, api):
        assert await api.call("DELETE", path) is None


async def test_what_an_answer_says_goes_before_its_status(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, api):
        with pytest.raises(ChannelGone, match="archived"):
            await api.call("GET", "/notes/archived")
        with pytest.raises(ChannelRejected, match="HTTP 404"):
            await api.call("GET", "/notes/gone")


async def test_a_post_that_may_be_done_is_unsure_and_anything_else_is_done_again(tmp_path: Path) -> None:
    async with served(tmp_path) as (notes, api):
        for method in ("POST", "PATCH", "POST"):
            notes.fail(method, "/notes", "cut_after")
        with pytest.raises(ChannelUnsure):
            await api.call("POST", "/notes")
        with pytest.raises(ChannelBusy):
            await api.call("PATCH", "/notes")
        with pytest.raises(ChannelBusy):
            await api.call("POST", "/notes", creates=False)


async def test_an_answer_nested_too_deep_is_no_answer(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, api):
        with pytest.raises(ChannelBusy, match="no JSON"):
            await api.call("GET", "/notes/deep")


async def test_a_frame_leaves_the_reserve_and_what_is_over_the_limit_asks_nobody(tmp_path: Path) -> None:
    async with served(tmp_path, Rate(per_s=0.01, burst=2, reserve=1)) as (notes, api):
        await api.call("POST", "/notes", key="room", frame=True)
        with pytest.raises(ChannelBusy):
            await api.call("POST", "/notes", key="room", frame=True)
        await api.call("POST", "/notes", key="room")
        with pytest.raises(ChannelBusy):
            await api.call("POST", "/notes", key="room")
        await api.call("POST", "/notes", key="another")
        await api.call("GET", "/notes")
        assert len(notes.calls) == 4


async def test_a_429_closes_its_key_alone(tmp_path: Path) -> None:
    async with served(tmp_path, Rate(per_s=100, burst=100)) as (notes, api):
        notes.fail("POST", "/notes", "busy", after_s=30)
        for _ in range(2):
            with pytest.raises(ChannelBusy) as raised:
                await api.call("POST", "/notes", key="room")
            assert 25 < raised.value.after_s <= 30
        await api.call("POST", "/notes", key="another")
        assert len(notes.calls) == 2


async def test_a_download_is_whole_or_not_there(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, api):
        assert await api.download("/notes/file", tmp_path / "a", limit=100) == 100
        with pytest.raises(ChannelRejected, match="more than 99 bytes"):
            await api.download("/notes/file", tmp_path / "b", limit=99)
        with pytest.raises(ChannelRejected):
            await api.download("/notes/gone", tmp_path / "c", limit=99)
        assert [await anyio.Path(tmp_path / name).exists() for name in "abc"] == [True, False, False]


def test_what_is_gone_already_is_fine_and_a_closed_place_is_not() -> None:
    with may_be_gone():
        raise ChannelRejected("no such message")
    with pytest.raises(ChannelGone), may_be_gone():
        raise ChannelGone("the room is closed")
