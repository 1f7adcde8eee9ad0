"""Logins at MCP servers from the browser, against a real authorization server on loopback."""

import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import cast
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from agent.core.clock import SystemClock
from agent.tools.mcp.servers import Servers
from agent.tools.mcp.settings import ServerSettings
from gateway.running.mcp.logins import LoginRefused, McpLogins, _Flow, redirect_for
from tests.adapters.web.visitor import visiting
from tests.fakes.waiting import until
from tests.gateway.dashboard.conftest import Browsing, browsing
from tests.gateway.dashboard.looking import looking
from tests.gateway.world import World
from tests.program.doubles import free_port

SERVER = Path(__file__).parents[2] / "fakes" / "oauth_mcp_server.py"


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[str]:
    """Its address."""
    port = free_port()
    with subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, str(SERVER), str(port), "600", str(tmp_path / "given")], stderr=subprocess.DEVNULL
    ) as process:
        try:
            async with httpx2.AsyncClient() as client:
                await until(lambda: _answers(client, port), longest_s=120)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


async def _answers(client: httpx2.AsyncClient, port: int) -> bool:
    try:
        return (await client.get(f"http://127.0.0.1:{port}/mcp")).status_code == 401
    except httpx2.HTTPError:
        return False


def entry(url: str) -> str:
    return f'[[mcp.servers]]\nname = "guarded"\nurl = "{url}"\n'


@pytest.fixture
async def there(world_of: Callable[..., World], guarded: str) -> AsyncIterator[Browsing]:
    world = world_of(config=entry(guarded))
    async with world.process(), browsing(world) as owner:
        yield owner


async def begun(owner: Browsing, **form: str) -> str:
    """The address that the browser is sent to."""
    answer = await owner.post("/mcp-server/login/guarded", **form)
    assert answer.status_code == 200, answer.text
    go: str = answer.headers["hx-trigger"].partition('"go": "')[2].partition('"')[0]
    return go


async def granted(address: str) -> str:
    """The way back, after the person has said yes there."""
    async with httpx2.AsyncClient() as browser:
        answer = await browser.get(address)
    assert answer.status_code == 302, answer.text
    back = urlsplit(answer.headers["location"])
    return f"{back.path}?{back.query}"


@pytest.mark.requirement("G-101")
async def test_a_person_logs_in_and_the_server_is_connected(there: Browsing) -> None:
    owner, world = there, there.world
    server = world.services.servers.named("guarded")
    assert server is not None
    await until(lambda: server.wants_login, longest_s=120)
    assert "Log in" in await owner.page("/mcp/guarded")
    address = await begun(owner)
    asked = parse_qs(urlsplit(address).query)
    assert asked["code_challenge_method"] == ["S256"]
    origin = str(owner.visitor.client.base_url).rstrip("/")
    assert asked["redirect_uri"] == [f"{origin}/mcp-login"]
    back = await granted(address)
    async with httpx2.AsyncClient(base_url=owner.visitor.client.base_url) as stranger:
        headers = {"accept": "text/html", "sec-fetch-site": "cross-site"}
        bounced = await stranger.get(back, headers=headers)
    assert 'http-equiv="refresh"' in bounced.text, "a browser sends our cookie once it comes from our own page"
    answer = await owner.visitor.client.get(back)
    assert (answer.status_code, answer.headers["location"]) == (303, "/mcp/guarded")
    await until(lambda: server.is_connected, longest_s=60)
    kept = world.home / "secrets" / "mcp-guarded.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    again = await owner.visitor.client.get(back)
    assert again.status_code == 404, "an answer counts once"
    done = [(one.action, one.subject, one.detail) for one in await owner.actions()]
    begun_at = f"begun at {urlsplit(address).netloc}"
    assert begun_at.startswith("begun at 127.0.0.1:"), "with its port: another program may listen beside it"
    assert done == [("mcp.login", "guarded", begun_at), ("mcp.login", "guarded", "done")]


@pytest.mark.requirement("G-101")
async def test_an_answer_counts_in_the_sign_in_that_began_it_alone(there: Browsing) -> None:
    owner = there
    back = await granted(await begun(owner))
    async with visiting(owner.server) as other:
        assert (await other.client.get(back)).status_code == 404
    assert not (owner.world.home / "secrets" / "mcp-guarded.json").exists()
    state = parse_qs(urlsplit(back).query)["state"][0]
    assert (await owner.visitor.client.get(f"/mcp-login?code=x&state={state}x")).status_code == 404
    assert (await owner.visitor.client.get(back)).status_code == 303, "the one it belongs to can still end it"


@pytest.mark.requirement("G-101")
async def test_a_login_from_behind_a_proxy_comes_back_to_its_address(
    world_of: Callable[..., World], guarded: str
) -> None:
    world = world_of(config=f'{entry(guarded)}[web]\npublic_url = "https://chat.example.org"\n')
    async with world.process(), browsing(world) as owner:
        asked = parse_qs(urlsplit(await begun(owner)).query)
        assert asked["redirect_uri"] == ["https://chat.example.org/mcp-login"]


@pytest.mark.requirement("G-101")
async def test_a_no_of_the_server_is_told(there: Browsing) -> None:
    owner = there
    state = parse_qs(urlsplit(await begun(owner)).query)["state"][0]
    said = "error=access_denied&error_description=%3Cscript%3Ealert(1)%3C/script%3E"
    answer = await owner.visitor.client.get(f"/mcp-login?state={state}&{said}", headers={"accept": "text/html"})
    assert answer.status_code == 409
    assert "There is no login at guarded: the server says: &lt;script&gt;alert(1)&lt;/script&gt;." in answer.text
    first = await granted(await begun(owner))
    assert await begun(owner)
    assert (await owner.visitor.client.get(first)).status_code == 404, "the newer login takes its place"
    forged = parse_qs(urlsplit(await begun(owner)).query)["state"][0]
    wrong = await owner.visitor.client.get(f"/mcp-login?state={forged}&code=forged")
    assert wrong.status_code == 409
    assert not (owner.world.home / "secrets" / "mcp-guarded.json").exists()


async def test_who_may_not_configure_logs_in_nowhere(there: Browsing) -> None:
    async with looking(there.world, ("view", "operate")) as client:
        assert "Log in" not in (await client.get("/mcp/guarded")).text
        assert (await client.post("/mcp-server/login/guarded")).status_code == 403
        assert (await client.get("/mcp-login?state=x&code=y")).status_code == 403


async def test_a_server_without_an_answer_and_one_with_a_header_of_its_own(world_of: Callable[..., World]) -> None:
    more = (
        '[[mcp.servers]]\nname = "own"\nurl = "http://127.0.0.1:9/mcp"\nheaders = { Authorization = "Bearer abcdef" }\n'
    )
    world = world_of(config=entry("http://127.0.0.1:9/mcp") + more)
    async with world.process(), browsing(world) as owner:
        refused = await owner.post("/mcp-server/login/guarded")
        assert refused.status_code == 409
        assert refused.json()["error"].startswith("There is no login at guarded: ")
        own = await owner.post("/mcp-server/login/own")
        assert own.json()["error"].startswith("Own takes no login by a person.")


@pytest.mark.parametrize(
    ("public_url", "host", "redirect"),
    [
        ("https://chat.example.org/", "10.0.0.5:8080", "https://chat.example.org/mcp-login"),
        (None, "127.0.0.1:8080", "http://127.0.0.1:8080/mcp-login"),
        (None, "localhost:8080", "http://localhost:8080/mcp-login"),
        (None, "[::1]:8080", "http://[::1]:8080/mcp-login"),
        (None, "10.0.0.5:8080", None),
        (None, "", None),
    ],
)
def test_the_way_back(public_url: str | None, host: str, redirect: str | None) -> None:
    if redirect is None:
        with pytest.raises(LoginRefused, match="public_url"):
            redirect_for("/mcp-login", public_url, "http", host)
    else:
        assert redirect_for("/mcp-login", public_url, "http", host) == redirect


async def test_a_login_that_was_cut_off_is_none() -> None:
    server = ServerSettings(name="notes", url="http://127.0.0.1:9/mcp")
    logins = McpLogins(cast(Servers, None), SystemClock(), Path("/nowhere"))
    flow = _Flow(server=server, session="s", redirect="http://127.0.0.1/x", registered=None)
    flow.scope.cancel()
    await logins.follow(flow)
    assert flow.over.is_set()
    assert "took too long" in flow.mistake
