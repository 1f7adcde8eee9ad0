"""A server that asks for OAuth: the program says so, a person logs in from a second shell, the gateway stays in."""

import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import anyio
import pytest

from gateway.web.control_client import call
from tests.program.conftest import Start
from tests.program.doubles import free_port, until
from tests.program.running import Program

SERVER = Path(__file__).parents[1] / "fakes" / "oauth_mcp_server.py"


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[tuple[str, Path]]:
    """Its address, and the file that says which tokens it gave: each good for 2 s."""
    port, given = free_port(), tmp_path / "given"
    with subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, str(SERVER), str(port), "2", str(given)], stderr=subprocess.DEVNULL
    ) as process:
        try:
            async with aiohttp.ClientSession() as browser:
                await until(lambda: _answers(browser, port))
            yield f"http://127.0.0.1:{port}/mcp", given
        finally:
            process.kill()


async def _answers(browser: aiohttp.ClientSession, port: int) -> bool:
    try:
        async with browser.get(f"http://127.0.0.1:{port}/mcp") as response:
            return response.status == 401
    except aiohttp.ClientError:
        return False


async def _trouble(tieline: Program) -> str:
    said = await anyio.to_thread.run_sync(lambda: call(tieline.home, "status"))
    return " ".join(f"{one['text']} {one['fix']}" for one in said["attention"] if one["subject"] == "mcp guarded")


@pytest.mark.slow  # three processes
@pytest.mark.parametrize("how", ["paste", "browser here"])
async def test_a_person_logs_in_and_the_gateway_stays_in(guarded: tuple[str, Path], program: Start, how: str) -> None:
    url, given = guarded
    tieline = program(f'[[mcp.servers]]\nname = "guarded"\nurl = "{url}"\n', about={"mcp"})
    async with tieline:
        await until(lambda: _has(tieline, "tieline mcp login guarded"))
        async with await anyio.open_process(
            [sys.executable, "-m", "gateway", "mcp", "login", "guarded"], env=tieline.environ
        ) as login:
            assert login.stdin
            assert login.stdout
            said = ""
            while not (found := re.search(r"^  (http://\S+)$", said, re.MULTILINE)):
                said += (await login.stdout.receive()).decode()
            async with (
                aiohttp.ClientSession() as browser,
                browser.get(found[1], allow_redirects=how != "paste") as page,
            ):
                back = page.headers.get("Location", "")
                assert page.status == (302 if how == "paste" else 200), await page.text()
            if how == "paste":
                await login.stdin.send(b"http://127.0.0.1:1/callback\n" + back.encode() + b"\n")
            while True:
                try:
                    said += (await login.stdout.receive()).decode()
                except anyio.EndOfStream:
                    break
            assert await login.wait() == 0, said
        assert "You are logged in at guarded." in said
        assert ("holds no code" in said) == (how == "paste")
        await until(lambda: _is_well(tieline))
        kept = tieline.home / "secrets" / "mcp-guarded.json"
        assert kept.stat().st_mode & 0o777 == 0o600
        assert kept.parent.stat().st_mode & 0o777 == 0o700
        await until(lambda: _is_renewed(given))
        held = kept.read_text()
    async with tieline:  # also after a restart, long after the first token has ended
        await until(lambda: _connections(tieline, 2))
        assert not await _trouble(tieline)
        gone = await tieline.cli("mcp", "logout", "guarded")
        assert gone.returncode == 0, gone.stderr
        assert not kept.exists()
        await until(lambda: _has(tieline, "tieline mcp login guarded"))
    assert given.read_text().count("by a person") == 1
    secrets = {*re.findall(r"(?:access|renewing)-[0-9a-f]{32}", held)}
    assert len(secrets) == 2
    log = tieline.log.read_text()
    assert not re.search(r"(?:access|renewing)-[0-9a-f]{32}", log + said)


async def _has(tieline: Program, words: str) -> bool:
    return words in await _trouble(tieline)


async def _is_well(tieline: Program) -> bool:
    return not await _trouble(tieline)


async def _is_renewed(given: Path) -> bool:
    return "renewed" in await anyio.Path(given).read_text()


async def _connections(tieline: Program, count: int) -> bool:
    return tieline.log.read_text().count("MCP server guarded is connected: 1 tools") >= count


@pytest.mark.slow
async def test_what_cannot_be_logged_in_at_is_said(program: Start) -> None:
    tieline = program('[[mcp.servers]]\nname = "time"\ncommand = "true"\n', about={"mcp"})
    for args, told in (
        (("time",), "a program that is started"),
        (("nobody",), "there is no [[mcp.servers]] called 'nobody'"),
        (("far", "ftp://x"), "url must begin with http"),
        (("far", "http://127.0.0.1:1/mcp"), "no login at far"),
    ):
        ended = await tieline.cli("mcp", "login", *args)
        assert ended.returncode == 1
        assert told in ended.stderr
        assert "Traceback" not in ended.stderr
