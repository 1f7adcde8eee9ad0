"""One attempt of a request: what is surely not done, what nobody knows, and what is refused."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import anyio
import pytest
from aiohttp import web

from gateway.channels.errors import ChannelBusy, ChannelError, ChannelRejected, ChannelUnsure
from gateway.channels.kit.http import AFTER_S, LARGEST_ANSWER, json_body, one_attempt, refusal, save

SECRET = "bot123-secret"
LIMIT = 1000


async def answer(request: web.Request) -> web.StreamResponse:
    match request.match_info["what"]:
        case "cut":
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        case "loop":
            raise web.HTTPTemporaryRedirect(str(request.url))
        case "never":
            await anyio.sleep_forever()
            raise AssertionError("unreachable")
        case "half":
            response = web.StreamResponse(headers={"Content-Length": "500"})
            await response.prepare(request)
            await response.write(b"x" * 100)
            assert request.transport is not None
            request.transport.close()
            return response
        case "json":
            return web.Response(text=request.query["body"])
        case "bytes":
            return web.Response(body=b"x" * int(request.query["size"]))
        case "untold":
            response = web.StreamResponse()
            response.enable_chunked_encoding()
            await response.prepare(request)
            await response.write(b"x" * int(request.query["size"]))
            return response
        case status:
            headers = {"Retry-After": after} if (after := request.query.get("after")) else {}
            return web.Response(status=int(status), headers=headers)


@asynccontextmanager
async def platform() -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    app = web.Application()
    app.router.add_route("*", f"/{SECRET}/{{what}}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with aiohttp.ClientSession() as session:
            yield session, f"http://127.0.0.1:{runner.addresses[0][1]}/{SECRET}"
    finally:
        await runner.cleanup()


async def attempt(path: str, *, creates: bool = False, within_s: float = 30.0) -> ChannelError | None:
    async with platform() as (session, url):
        with one_attempt("Folders", "post", creates=creates):
            async with session.post(f"{url}/{path}", timeout=aiohttp.ClientTimeout(total=within_s)) as response:
                return refusal(response, "Folders", "post", creates=creates)
    raise AssertionError("unreachable")


@pytest.mark.requirement("Z-06")
@pytest.mark.parametrize(
    ("creates", "kind"),
    [
        pytest.param(False, ChannelBusy, id="what may be done again"),
        pytest.param(True, ChannelUnsure, id="what would show twice"),
    ],
)
async def test_a_request_whose_answer_never_comes(creates: bool, kind: type[ChannelError]) -> None:
    with pytest.raises(kind, match="no answer from Folders to post") as raised:
        await attempt("cut", creates=creates)
    assert SECRET not in str(raised.value)
    with pytest.raises(kind, match="no answer from Folders to post"):
        await attempt("never", creates=creates, within_s=0.05)


async def test_no_error_holds_the_address_of_the_request() -> None:
    with pytest.raises(ChannelBusy, match="no answer from Folders") as raised:
        await attempt("loop")
    assert SECRET not in str(raised.value)


async def test_an_operator_reads_which_host_cannot_be_reached() -> None:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(ChannelBusy, match=r"127\.0\.0\.1:9"), one_attempt("Folders", "post"):
            await session.post(f"http://127.0.0.1:9/{SECRET}")


async def test_what_was_never_sent_is_surely_not_done() -> None:
    async with aiohttp.ClientSession() as session:
        for url in (f"http://127.0.0.1:9/{SECRET}", f"http:///{SECRET}"):
            expected = pytest.raises(ChannelBusy, match="cannot reach Folders for post")
            with expected as raised, one_attempt("Folders", "post", creates=True):
                await session.post(url)
            assert SECRET not in str(raised.value)


@pytest.mark.requirement("Z-06")
@pytest.mark.parametrize(
    ("path", "creates", "kind", "after_s"),
    [
        pytest.param("429?after=7", True, ChannelBusy, 7.0, id="a rate limit that says how long"),
        pytest.param("429", True, ChannelBusy, AFTER_S, id="a rate limit that does not"),
        pytest.param("503?after=30", True, ChannelBusy, 30.0, id="a server that asks to wait"),
        pytest.param("502", True, ChannelUnsure, None, id="an outage while something is created"),
        pytest.param("502", False, ChannelBusy, AFTER_S, id="an outage otherwise"),
        pytest.param("408", True, ChannelUnsure, None, id="too slow"),
        pytest.param("400", True, ChannelRejected, None, id="refused"),
        pytest.param("404", False, ChannelRejected, None, id="not there"),
    ],
)
async def test_a_status_says_what_may_be_done_next(
    path: str, creates: bool, kind: type[ChannelError], after_s: float | None
) -> None:
    error = await attempt(path, creates=creates)
    assert type(error) is kind
    assert getattr(error, "after_s", None) == after_s
    assert path[:3] in str(error)


async def test_a_good_answer_is_no_error() -> None:
    assert await attempt("204") is None


@pytest.mark.parametrize(
    ("path", "kind", "words"),
    [
        pytest.param(f"bytes?size={LIMIT + 1}", ChannelRejected, "larger than agreed", id="too large"),
        pytest.param(
            f"untold?size={LIMIT + 1}", ChannelRejected, "larger than agreed", id="too large, and does not tell"
        ),
        pytest.param("half", ChannelBusy, "no answer from Folders", id="cut off"),
    ],
)
async def test_half_a_file_is_not_kept(tmp_path: Path, path: str, kind: type[ChannelError], words: str) -> None:
    async with platform() as (session, url):
        with pytest.raises(kind, match=words), one_attempt("Folders", "a file"):
            async with session.get(f"{url}/{path}") as response:
                await save(response, tmp_path / "file", limit=LIMIT, too_large="larger than agreed")
    assert not (tmp_path / "file").exists()


async def test_a_whole_file_is_kept(tmp_path: Path) -> None:
    async with platform() as (session, url), session.get(f"{url}/bytes?size={LIMIT}") as response:
        assert await save(response, tmp_path / "file", limit=LIMIT, too_large="larger than agreed") == LIMIT
    assert (tmp_path / "file").read_bytes() == b"x" * LIMIT


async def read(path: str, *, creates: bool = False) -> object:
    async with platform() as (session, url), session.post(f"{url}/{path}") as response:
        return await json_body(response, "Folders", "post", creates=creates)


async def test_json_is_read() -> None:
    assert await read('json?body={"id": 7}') == {"id": 7}


@pytest.mark.parametrize("path", ["json?body={", f"bytes?size={LARGEST_ANSWER + 1}"])
async def test_an_answer_that_cannot_be_read_tells_not_what_became_of_the_request(path: str) -> None:
    with pytest.raises(ChannelUnsure):
        await read(path, creates=True)
    with pytest.raises(ChannelBusy):
        await read(path)
