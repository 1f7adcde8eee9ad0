"""The web server over a real socket: what strangers reach, what signed-in people may do, how it starts and stops."""

import re
import socket
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import get_args

import anyio
import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from agent.core.clock import SystemClock
from gateway.access.settings import DASHBOARD_RIGHTS
from gateway.channels.adapter import Health, State
from gateway.config.sections import WebSettings
from gateway.dashboard.frame.rendering import render
from gateway.dashboard.now.overview import KINDS
from gateway.telemetry.trouble import Kind, Troubles
from gateway.web.health import Reason, not_ready
from gateway.web.server import WebError, WebServer
from tests.adapters.web.visitor import Visitor, visiting
from tests.e2e.site import FakeOverview, Site, dashboard, running_site
from tests.fakes.channel import FakeAdapter
from tests.fakes.clock import FakeClock
from tests.fakes.running import running
from tests.fakes.sign_ins import sign_ins_at


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with running_site(tmp_path) as site:
        yield site


@pytest.fixture
async def stranger(site: Site) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=site.url, trust_env=False, timeout=60) as client:
        yield client


@pytest.fixture
async def visitor(site: Site) -> AsyncIterator[Visitor]:
    async with visiting(site.server) as visitor:
        yield visitor


# -- starting


@pytest.mark.requirement("G-30")
async def test_it_is_alive_before_anything_is_mounted(tmp_path: Path) -> None:
    server = WebServer(WebSettings(port=0), home=tmp_path, clock=SystemClock())
    server.bind()
    async with running(server.run), httpx2.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as client:
        assert (await client.get("/healthz")).json() == {"alive": True}
        ready = await client.get("/readyz")
        assert ready.status_code == 503
        assert ready.json()["reasons"] == [{"subject": "tieline", "text": "starting"}]
        assert (await client.get("/chat/")).status_code == 503
        assert (await client.get("/metrics")).status_code == 503
        server.watch(lambda: ())
        assert (await client.get("/readyz")).status_code == 200
        assert (await client.get("/chat/")).status_code == 404


async def test_what_accounts_serve_is_awaited_until_they_are_open(tmp_path: Path) -> None:
    """A page and a platform send again after a 503, and take a 404 for the end."""
    server = WebServer(WebSettings(port=0), home=tmp_path, clock=SystemClock())
    server.bind()
    server.expect({"web": "sign_in", "slack": "platform", "console": "control"})
    server.watch(lambda: ())
    slack, web = FakeAdapter("slack"), FakeAdapter("web")
    slack.routes = web.routes = [Route("/heard", lambda request: PlainTextResponse("heard"))]
    async with running(server.run), httpx2.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as client:

        async def found(*paths: str) -> list[int]:
            return [(await client.get(path)).status_code for path in paths]

        assert await found("/chat/", "/channels/slack/heard", "/") == [503, 503, 503]
        server.mount_adapter(slack, "platform")
        assert await found("/channels/slack/heard", "/chat/") == [200, 503]
        server.mount_adapter(web, "sign_in")
        server.mount_dashboard(partial(dashboard, FakeOverview(Troubles(SystemClock()))))
        assert await found("/chat/heard", "/", "/nowhere", "/sign-in") == [503, 503, 404, 503], "no database yet"
        async with sign_ins_at(tmp_path, SystemClock()) as sign_ins:
            server.let_in(sign_ins)
            assert await found("/chat/heard", "/", "/nowhere", "/sign-in") == [401, 401, 404, 200]


def test_an_occupied_port_is_named_with_the_fix(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = WebServer(WebSettings(port=port), home=tmp_path, clock=SystemClock())
        with pytest.raises(WebError, match=rf"port {port} on 127\.0\.0\.1 is taken.*set port = {port + 1}"):
            server.bind()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        pytest.param(WebSettings(host="0.0.0.0", port=0), "allow_remote", id="open to others without saying so"),
        pytest.param(WebSettings(host="192.0.2.1", port=0, allow_remote=True), "of this machine", id="foreign"),
        pytest.param(WebSettings(host="no.such.invalid", port=0, allow_remote=True), "no address", id="unknown name"),
    ],
)
def test_a_host_it_cannot_or_should_not_take_is_refused(tmp_path: Path, settings: WebSettings, words: str) -> None:
    with pytest.raises(WebError, match=words):
        WebServer(settings, home=tmp_path, clock=SystemClock()).bind()


def test_a_home_it_cannot_write_is_named(tmp_path: Path) -> None:
    (tmp_path / "web").write_text("in the way")
    with pytest.raises(WebError, match="cannot write"):
        WebServer(WebSettings(port=0), home=tmp_path, clock=SystemClock()).bind()


@pytest.mark.requirement("G-27")
async def test_stopping_ends_open_streams_in_order(tmp_path: Path) -> None:
    ended = False
    async with running_site(tmp_path) as site, visiting(site.server) as visitor, visitor.events() as events:
        await anext(events)
        site.server.closing.set()
        async for _ in events:  # no reset connection, no half line
            pass
        ended = True
    assert ended


# -- strangers


@pytest.mark.parametrize(
    "path", ["/", "/chat/", "/chat/c/main/events", "/chat/files/x", "/live", "/sign-out", "/usage.csv"]
)
async def test_strangers_see_only_the_way_in(stranger: httpx2.AsyncClient, path: str) -> None:
    response = await stranger.get(path, headers={"accept": "text/html"})
    assert response.status_code == 401
    assert "tieline sign-in</code>" in response.text
    plain = (await stranger.get(path)).json()
    assert plain["error"] == "not signed in"
    assert "sign-in` prints" in plain["fix"]
    assert (await stranger.post(path)).status_code == 401


async def test_a_wrong_address_is_a_page_for_browsers_and_a_line_for_programs(stranger: httpx2.AsyncClient) -> None:
    page = await stranger.get("/nowhere", headers={"accept": "text/html"})
    assert page.status_code == 404
    assert "There is nothing here</h1>" in page.text
    assert (await stranger.get("/nowhere")).text == "There is nothing here.\n"


@pytest.mark.requirement("G-30")
async def test_behind_a_proxy_nobody_counts_as_being_on_this_machine(tmp_path: Path) -> None:
    # As nginx does without further settings: no header tells of it, and `Host` is our own address.
    settings = WebSettings(port=0, public_url="https://chat.example.org", metrics_token=SecretStr("let-me-scrape"))
    async with running_site(tmp_path, settings) as site:
        address = f"http://127.0.0.1:{site.server.port}"
        async with httpx2.AsyncClient(base_url=address, trust_env=False, timeout=60) as client:
            assert (await client.get("/metrics")).status_code == 403
            assert "reasons" not in (await client.get("/readyz")).json()
            token = {"authorization": "Bearer let-me-scrape"}
            assert (await client.get("/metrics", headers=token)).status_code == 200


async def test_another_name_is_refused_except_for_probes(stranger: httpx2.AsyncClient) -> None:
    rebound = {"host": "evil.example"}
    assert (await stranger.get("/sign-in", headers=rebound)).status_code == 421
    assert (await stranger.get("/static/frame.css", headers=rebound)).status_code == 421
    assert (await stranger.get("/healthz", headers=rebound)).status_code == 200
    assert (await stranger.get("/readyz", headers=rebound)).status_code == 503


async def test_every_answer_carries_the_headers(stranger: httpx2.AsyncClient) -> None:
    for path in ("/healthz", "/sign-in", "/nowhere", "/static/frame.js"):
        headers = (await stranger.get(path)).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "server" not in headers


# -- signing in


async def test_a_link_works_once(site: Site, stranger: httpx2.AsyncClient) -> None:
    link = await site.server.sign_in_link()
    first = await stranger.get(link)
    assert (first.status_code, first.headers["location"]) == (303, "/chat/")
    cookie = first.headers["set-cookie"]
    assert all(part in cookie for part in ("HttpOnly", "SameSite=Strict", "Path=/"))
    assert "Secure" not in cookie  # plain http on this machine
    stranger.cookies.clear()
    second = await stranger.get(link)
    assert second.status_code == 403
    assert "used already" in second.text
    assert "set-cookie" not in second.headers


async def test_opening_the_used_link_again_while_signed_in_is_fine(site: Site, stranger: httpx2.AsyncClient) -> None:
    link = await site.server.sign_in_link()
    await stranger.get(link)
    assert (await stranger.get(link)).headers["location"] == "/chat/"


@pytest.mark.parametrize("headers", [{"sec-purpose": "prefetch;prerender"}, {"purpose": "prefetch"}])
async def test_looking_ahead_does_not_use_the_code(
    site: Site, stranger: httpx2.AsyncClient, headers: dict[str, str]
) -> None:
    link = await site.server.sign_in_link()
    assert (await stranger.get(link, headers=headers)).status_code == 503
    assert (await stranger.head(link)).status_code in {405, 503}
    assert (await stranger.get(link)).status_code == 303


async def test_guessing_is_slowed_down(site: Site, stranger: httpx2.AsyncClient) -> None:
    statuses = [(await stranger.get("/sign-in?code=guess")).status_code for _ in range(12)]
    assert statuses == [403] * 10 + [429] * 2
    assert (await stranger.get(await site.server.sign_in_link())).status_code == 429


async def test_guessing_is_forgiven_after_a_minute(tmp_path: Path) -> None:
    clock = FakeClock()
    server = WebServer(WebSettings(port=0), home=tmp_path, clock=clock)
    server.bind()
    async with (
        sign_ins_at(tmp_path, clock) as sign_ins,
        running(server.run),
        httpx2.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as client,
    ):
        server.let_in(sign_ins)
        for _ in range(11):
            last = await client.get("/sign-in?code=guess")
        assert last.status_code == 429
        clock.advance(61)
        assert (await client.get(await server.sign_in_link())).status_code == 303


async def test_a_visit_from_another_site_loads_once_more_to_bring_the_cookie(visitor: Visitor) -> None:
    headers = {"accept": "text/html", "sec-fetch-site": "cross-site"}
    visitor.client.cookies.clear()
    response = await visitor.client.get("/chat/", headers=headers)
    assert response.status_code == 200
    assert 'http-equiv="refresh"' in response.text


async def test_signing_out_ends_the_session(visitor: Visitor) -> None:
    kept = dict(visitor.client.cookies)
    assert (await visitor.post("/sign-out", {})).status_code == 204
    visitor.client.cookies.update(kept)
    assert (await visitor.client.get("/chat/conversations")).status_code == 401


# -- changing something


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"x-csrf-token": ""}, id="no token"),
        pytest.param({"x-csrf-token": "wrong"}, id="a wrong token"),
        pytest.param({"origin": "http://evil.example"}, id="another site's page"),
        pytest.param({"origin": "null"}, id="a sandboxed page"),
    ],
)
async def test_only_a_page_of_ours_may_change_something(site: Site, visitor: Visitor, headers: dict[str, str]) -> None:
    body = {"id": "0123456789", "text": "/provider evil"}
    response = await visitor.post("/chat/c/main/messages", body, **headers)
    assert response.status_code == 403
    assert site.brain.heard == []


async def test_pairings_are_decided_on_the_status_page(site: Site, visitor: Visitor) -> None:
    page = (await visitor.client.get("/", headers={"accept": "text/html"})).text
    assert "Ann Example" in page
    assert "no hello after 30 s" in page
    assert "turn 3 of 50" in page
    assert "two pages are missing" in page
    healthy = render(
        "overview.html",
        paused=(),
        layout="fragment.html",
        rights=DASHBOARD_RIGHTS,
        navigation=(),
        overview=await site.service.overview(),
        headline="All is well",
        state="good",
        reasons=(),
        figures=(),
        plots=(),
        has_alerts=False,
        pages={},
        kinds=KINDS,
    )
    assert re.search(r"was started\s+<time", healthy), "the page makes “5 minutes ago” of it"
    assert "count since the start" in page
    assert "<strong>Channel slack</strong>" in page, "a trouble says what its subject is"
    assert "pair list" not in page, "the buttons do it"
    assert (await visitor.post("/pairings/K7QX-2M/maybe", {})).status_code == 404
    assert (await visitor.post("/pairings/K7QX-2M/approve", {})).json() == {"text": "Ann Example may talk now."}
    assert site.service.pairings == []
    assert (await visitor.post("/pairings/K7QX-2M/approve", {})).status_code == 404
    assert "Ann Example" not in (await visitor.client.get("/")).text
    (done,) = site.service.actions
    assert (done.person, done.action, done.subject) == ("web:operator", "pairings.decide", "pairing K7QX-2M")


def test_the_status_page_has_a_word_for_every_kind_of_trouble() -> None:
    assert set(KINDS) == set(get_args(Kind))


async def test_what_was_spent_is_on_the_status_page_and_in_a_table(site: Site, visitor: Visitor) -> None:
    page = (await visitor.client.get("/")).text
    assert "12.07 USD of 100.00 USD" in page
    assert "used up" in page
    table = await visitor.client.get("/usage.csv")
    assert table.headers["content-type"].startswith("text/csv")
    assert table.text.splitlines() == ["time,channel", "2026-11-22T12:00:00,telegram:77"]


async def test_what_people_are_called_is_escaped(site: Site, visitor: Visitor) -> None:
    site.service.accounts["web"] = Health(state=State.FAILED, detail="<script>alert(1)</script>")
    page = (await visitor.client.get("/")).text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


# -- health


@pytest.mark.requirement("G-30")
@pytest.mark.parametrize(
    ("health", "reasons"),
    [
        pytest.param(Health(state=State.CONNECTED), (), id="connected"),
        pytest.param(Health(state=State.PAUSED, detail="by an operator"), (), id="paused, which somebody wanted"),
        pytest.param(Health(state=State.STARTING), (Reason("x", "starting"),), id="starting"),
        pytest.param(Health(state=State.FAILED, detail="bad token"), (Reason("x", "failed: bad token"),), id="failed"),
        pytest.param(
            Health(state=State.RECONNECTING, detail="no hello"), (Reason("x", "reconnecting: no hello"),), id="deaf"
        ),
    ],
)
def test_an_adapter_that_does_not_hear_makes_it_red(health: Health, reasons: tuple[Reason, ...]) -> None:
    assert not_ready({"x": health}, ()) == reasons


async def test_readiness_tells_the_operator_why_and_strangers_nothing(site: Site, stranger: httpx2.AsyncClient) -> None:
    ready = await stranger.get("/readyz")
    assert ready.status_code == 503
    assert ready.json()["reasons"] == [{"subject": "slack", "text": "reconnecting: no hello after 30 s"}]
    through_a_proxy = await stranger.get("/readyz", headers={"x-forwarded-for": "10.0.0.7"})
    assert through_a_proxy.json() == {"ready": False}
    del site.service.accounts["slack"]
    assert (await stranger.get("/readyz")).status_code == 200


@pytest.mark.requirement("G-30")
async def test_metrics_are_for_this_machine(site: Site, stranger: httpx2.AsyncClient) -> None:
    text = (await stranger.get("/metrics")).text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert {"tieline_turns", "gen_ai_client_token_usage_tokens", "tieline_adapter_up"} <= set(families)
    assert (await stranger.get("/metrics", headers={"x-forwarded-for": "10.0.0.7"})).status_code == 403


async def test_a_scraper_elsewhere_needs_the_token(tmp_path: Path) -> None:
    settings = WebSettings(port=0, metrics_token=SecretStr("let-me-scrape"), trusted_proxies=("127.0.0.1",))
    elsewhere = {"x-forwarded-for": "10.0.0.7"}
    wrong, right = {"authorization": "Bearer x"}, {"authorization": "Bearer let-me-scrape"}
    async with (
        running_site(tmp_path, settings) as site,
        httpx2.AsyncClient(base_url=site.url, trust_env=False, timeout=60, headers=elsewhere) as client,
    ):
        assert (await client.get("/metrics")).status_code == 403
        assert (await client.get("/metrics", headers=wrong)).status_code == 403
        assert (await client.get("/metrics", headers=right)).status_code == 200


async def test_behind_a_proxy_with_tls_the_cookie_is_for_tls_alone(tmp_path: Path) -> None:
    settings = WebSettings(port=0, public_url="https://chat.example.org", trusted_proxies=("127.0.0.1",))
    headers = {"host": "chat.example.org", "x-forwarded-proto": "https", "x-forwarded-for": "203.0.113.9"}
    async with running_site(tmp_path, settings) as site:
        link = await site.server.sign_in_link()
        assert link.startswith("https://chat.example.org/sign-in?code=")
        local = link.replace("https://chat.example.org", f"http://127.0.0.1:{site.server.port}")
        async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
            response = await client.get(local, headers=headers)
    assert re.search(r"; Secure$", response.headers["set-cookie"])
    assert response.headers["strict-transport-security"]


async def test_many_pages_at_once_are_fine(site: Site) -> None:
    async with visiting(site.server) as visitor, anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(visitor.state)
