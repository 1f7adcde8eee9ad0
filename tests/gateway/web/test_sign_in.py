"""Ways to sign in, what a cookie is good for, and the rights behind it, over a real socket."""

import base64
import hmac
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr
from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from agent.core.clock import SystemClock
from agent.storage.database import Database, Dialect
from agent.storage.errors import StorageTrouble
from gateway.access.settings import DashboardRight
from gateway.channels.adapter import SignedIn
from gateway.channels.keys import UserId
from gateway.config.sections import OidcSettings, WebSettings
from gateway.operations.sign_ins import SignIns
from gateway.storage.repair import open_database
from gateway.web.sessions import Sessions, Visit
from gateway.web.sign_in.routes import WRONG, limits_of, network_of
from tests.adapters.web.visitor import Visitor, visiting
from tests.e2e.site import Site, running_site
from tests.fakes.clock import FakeClock
from tests.fakes.mortal import MortalDatabase

PASSWORD = "correct horse battery"
HTML = {"accept": "text/html"}
ANNA = SignedIn(id=UserId("anna"), display="Anna")


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with running_site(tmp_path) as site:
        await site.sign_ins.add("anna", "Anna")
        yield site


@pytest.fixture
async def stranger(site: Site) -> AsyncIterator[httpx2.AsyncClient]:
    async with browser(site.url) as client:
        yield client


@asynccontextmanager
async def browser(url: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=url, trust_env=False, timeout=60) as client:
        yield client


@asynccontextmanager
async def as_anna(site: Site) -> AsyncIterator[Visitor]:
    async with visiting(site.server, await site.server.sign_in_link(ANNA)) as anna:
        yield anna


async def enters(client: httpx2.AsyncClient, person: str, password: str, **headers: str) -> httpx2.Response:
    origin = str(client.base_url).rstrip("/")
    form = {"person": person, "password": password}
    return await client.post("/sign-in", data=form, headers={"origin": origin, **headers})


# -- passwords


@pytest.mark.requirement("G-70")
async def test_the_form_is_there_once_somebody_has_a_password(site: Site, stranger: httpx2.AsyncClient) -> None:
    assert "<form" not in (await stranger.get("/sign-in")).text
    await site.sign_ins.set_password("anna", PASSWORD)
    page = await stranger.get("/sign-in")
    assert 'name="password" type="password"' in page.text
    assert page.headers["referrer-policy"] == "same-origin", "else browsers post it with Origin: null"
    assert "<form" in (await stranger.get("/chat/", headers=HTML)).text
    style = await stranger.get("/static/sign-in.css")
    assert style.headers["content-type"].startswith("text/css")


@pytest.mark.requirement("G-70")
async def test_a_password_signs_in(site: Site, stranger: httpx2.AsyncClient) -> None:
    await site.sign_ins.set_password("anna", PASSWORD)
    entered = await enters(stranger, " Anna ", PASSWORD)
    assert (entered.status_code, entered.headers["location"]) == (303, "/chat/")
    assert "SameSite=Strict" in entered.headers["set-cookie"]
    assert (await stranger.get("/chat/conversations")).status_code == 200
    (signed_in,) = await site.sign_ins.list_all()
    assert (signed_in.person, signed_in.method, signed_in.address) == ("anna", "password", "127.0.0.1")


@pytest.mark.requirement("G-70")
@pytest.mark.parametrize(
    ("person", "password"),
    [
        pytest.param("anna", "a wrong password", id="a wrong password"),
        pytest.param("zoe", PASSWORD, id="nobody"),
        pytest.param("bob", PASSWORD, id="a disabled person"),
        pytest.param("operator", PASSWORD, id="the owner"),
        pytest.param("", "", id="nothing"),
        pytest.param("anna", "x" * 2000, id="far too long"),
        pytest.param('"><script>', PASSWORD, id="a tag"),
    ],
)
async def test_whatever_is_wrong_is_told_alike(
    site: Site, stranger: httpx2.AsyncClient, person: str, password: str
) -> None:
    await site.sign_ins.add("bob")
    for one in ("anna", "bob"):
        await site.sign_ins.set_password(one, PASSWORD)
    await site.sign_ins.disable("bob")
    entered = await enters(stranger, person, password)
    assert entered.status_code == 403
    assert "set-cookie" not in entered.headers
    (problem,) = re.findall(r'role="alert">([^<]+)<', entered.text)
    assert problem == WRONG
    assert "<script>&" not in entered.text
    assert '"><script>' not in entered.text
    assert password == "" or password not in entered.text
    assert await site.sign_ins.list_all() == []


@pytest.mark.requirement("G-70")
@pytest.mark.parametrize("origin", ["http://evil.example", "null"])
async def test_a_form_of_another_site_signs_nobody_in(site: Site, stranger: httpx2.AsyncClient, origin: str) -> None:
    await site.sign_ins.set_password("anna", PASSWORD)
    entered = await enters(stranger, "anna", PASSWORD, origin=origin)
    assert entered.status_code == 403
    assert "set-cookie" not in entered.headers


@pytest.mark.requirement("G-70")
async def test_guessing_a_password_is_slowed_down(site: Site, stranger: httpx2.AsyncClient) -> None:
    await site.sign_ins.set_password("anna", PASSWORD)
    for _ in range(9):
        assert (await enters(stranger, "zoe", "a wrong password")).status_code == 403
    assert (await enters(stranger, "anna", PASSWORD)).status_code == 303, "a right one is no try"
    assert (await enters(stranger, "anna", "a wrong password")).status_code == 403
    refused = await enters(stranger, "anna", PASSWORD)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "900")


@pytest.mark.requirement("G-70")
async def test_tries_from_other_addresses_count_for_the_person(site: Site, stranger: httpx2.AsyncClient) -> None:
    await site.sign_ins.set_password("anna", PASSWORD)
    for number in range(10):
        assert await site.sign_ins.count_try(limits_of(f"192.0.2.{number}", "anna")) is not None
    assert (await enters(stranger, "anna", PASSWORD)).status_code == 429
    assert (await enters(stranger, "zoe", "a wrong password")).status_code == 403


@pytest.mark.requirement("G-70")
@pytest.mark.slow  # seven seconds of hashes
async def test_guesses_from_many_addresses_meet_the_limit_of_the_person(tmp_path: Path) -> None:
    settings = WebSettings(port=0, trusted_proxies=("127.0.0.1",))
    async with running_site(tmp_path, settings) as site, browser(site.url) as client:
        await site.sign_ins.add("anna")
        await site.sign_ins.set_password("anna", PASSWORD)

        async def guesses(person: str, number: int) -> int:
            answer = await enters(client, person, "a wrong password", **{"x-forwarded-for": f"192.0.2.{number}"})
            return answer.status_code

        assert [await guesses("anna", number) for number in range(11)] == [403] * 10 + [429]
        assert [await guesses("zoe", number) for number in range(100, 111)] == [403] * 10 + [429], "nor is that told"


@pytest.mark.parametrize("proxy", ["127.0.0.1", "127.0.0.0/8", "127.0.0.1/8"])
async def test_the_address_that_a_proxy_tells_is_the_visitors(tmp_path: Path, proxy: str) -> None:
    async with (
        running_site(tmp_path, WebSettings(port=0, trusted_proxies=(proxy,))) as site,
        browser(site.url) as client,
    ):
        link = await site.server.sign_in_link()
        assert (await client.get(link, headers={"x-forwarded-for": "192.0.2.7"})).status_code == 303
        assert [one.address for one in await site.sign_ins.list_all()] == ["192.0.2.7"]


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("", ""),
        ("x" * 100, "x" * 64),
    ],
)
def test_whose_an_address_is(address: str, network: str) -> None:
    assert network_of(address) == network
    assert all(limit.name == f"address {network}" for limit in limits_of(address))


async def test_a_name_that_no_database_takes_is_a_wrong_one(
    site: Site, stranger: httpx2.AsyncClient, database: Database
) -> None:
    site.server.let_in(SignIns(database, SystemClock()))
    entered = await enters(stranger, "an\0na", PASSWORD)
    assert (entered.status_code, WRONG in entered.text) == (403, True)


async def test_a_form_of_very_many_fields_is_a_wrong_one(
    stranger: httpx2.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    form = {f"field{number}": "x" for number in range(100)}
    entered = await stranger.post("/sign-in", data=form, headers={"origin": str(stranger.base_url).rstrip("/")})
    assert (entered.status_code, WRONG in entered.text) == (403, True)
    assert [record for record in caplog.records if record.exc_info] == []


# -- while the database fails


class AwayDatabase:
    """One whose disk or server is gone."""

    dialect: Dialect = "sqlite"

    async def read(self, work: Callable[[Connection], Any]) -> Any:
        raise StorageTrouble("the disk is gone")

    async def write(self, work: Callable[[Connection], Any]) -> Any:
        raise StorageTrouble("the disk is gone")

    async def aclose(self) -> None: ...


@pytest.mark.parametrize(
    "path", ["/chat/", "/", "/sign-in", "/sign-in?code=x", "/sign-in/oidc", "/sign-in/oidc/callback"]
)
async def test_a_stranger_is_told_to_wait_while_the_database_fails(
    tmp_path: Path, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    oidc = OidcSettings(issuer="http://127.0.0.1:1", client_id="x", client_secret=SecretStr("y"), allow=("@a.example",))
    async with running_site(tmp_path, WebSettings(port=0, oidc=oidc)) as site, browser(site.url) as client:
        site.server.let_in(SignIns(AwayDatabase(), SystemClock()))
        answer = await client.get(path, headers=HTML)
        assert (answer.status_code, answer.text) == (503, "The database cannot be used now.\n")
    assert [record for record in caplog.records if record.exc_info] == []


async def test_a_sign_out_that_cannot_be_noted_is_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running_site(tmp_path) as site:
        database = await open_database("sqlite:///other.db", tmp_path)
        full = MortalDatabase(database)
        site.server.let_in(SignIns(full, SystemClock()))
        async with visiting(site.server) as owner:
            full.full_after = 0
            refused = await owner.post("/sign-out", {})
            assert (refused.status_code, "set-cookie" in refused.headers) == (503, False)
            full.full_after = None
            assert (await owner.client.get("/chat/conversations")).status_code == 200
            assert (await owner.post("/sign-out", {})).status_code == 204
        await database.aclose()
    assert [record for record in caplog.records if record.exc_info] == []


# -- cookies


@dataclass(frozen=True)
class Signed:
    """A site on which anna has signed in, her cookie and its name."""

    site: Site
    name: str
    cookie: str


def changed(cookie: str) -> str:
    """The cookie with another person in it, and the former signature."""
    payload = json.loads(base64.urlsafe_b64decode(cookie.split(".")[0] + "==="))
    payload[1] = "operator"
    text = base64.urlsafe_b64encode(json.dumps(payload).encode()).rstrip(b"=").decode()
    return f"{text}.{cookie.split('.')[1]}"


async def forged(signed: Signed) -> dict[str, str]:
    return {signed.name: changed(signed.cookie)}


async def of_another_key(signed: Signed) -> dict[str, str]:
    clock = FakeClock()
    foreign = Sessions(signed.site.home / "elsewhere", clock)
    foreign.open(signed.site.sign_ins)
    session = await foreign.begin(ANNA.id, "password", Visit(address="", agent=""))
    assert session is not None
    return {signed.name: foreign.cookie(session)}


async def of_another_port(signed: Signed) -> dict[str, str]:
    return {f"{signed.name}9": signed.cookie}


async def of_a_former_version(signed: Signed) -> dict[str, str]:
    """Signed with today's key, as versions did that kept no sign-ins in the database."""
    key = (signed.site.home / "web" / "session.key").read_bytes()
    payload = json.dumps(["id", "operator", "Operator", 4_000_000_000]).encode()
    parts = (payload, hmac.digest(key, payload, "sha256"))
    return {signed.name: ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)}


async def of_before_the_sign_out(signed: Signed) -> dict[str, str]:
    async with browser(signed.site.url) as client:
        client.cookies.set(signed.name, signed.cookie)
        page = (await client.get("/chat/", headers=HTML)).text
        (token,) = re.findall(r'name="csrf" content="([^"]+)"', page)
        assert (await client.post("/sign-out", headers={"x-csrf-token": token})).status_code == 204
    return {signed.name: signed.cookie}


async def revoked(signed: Signed) -> dict[str, str]:
    for one in await signed.site.sign_ins.list_all():
        await signed.site.sign_ins.revoke(one.id)
    return {signed.name: signed.cookie}


async def of_a_disabled_person(signed: Signed) -> dict[str, str]:
    await signed.site.sign_ins.disable("anna")
    return {signed.name: signed.cookie}


async def of_before_a_new_sign_in(signed: Signed) -> dict[str, str]:
    async with browser(signed.site.url) as client:
        link = await signed.site.server.sign_in_link(ANNA)
        answer = await client.get(link, headers={"cookie": f"{signed.name}={signed.cookie}"})
        assert answer.status_code == 303
        assert signed.cookie not in answer.headers["set-cookie"]
    return {signed.name: signed.cookie}


async def chosen_by_somebody_else(signed: Signed) -> dict[str, str]:
    """Fixation: what was in the browser before the sign-in is no session after it."""
    async with browser(signed.site.url) as client:
        client.cookies.set(signed.name, "planted.cookie")
        assert (await client.get(await signed.site.server.sign_in_link(ANNA))).status_code == 303
    return {signed.name: "planted.cookie"}


@pytest.mark.requirement("G-71")
@pytest.mark.parametrize(
    "cookies",
    [
        forged,
        of_another_key,
        of_another_port,
        of_a_former_version,
        of_before_the_sign_out,
        revoked,
        of_a_disabled_person,
        of_before_a_new_sign_in,
        chosen_by_somebody_else,
    ],
)
async def test_a_cookie_that_is_no_sign_in(
    site: Site, stranger: httpx2.AsyncClient, cookies: Callable[[Signed], Awaitable[dict[str, str]]]
) -> None:
    async with as_anna(site) as anna:
        ((name, cookie),) = anna.client.cookies.items()
        signed = Signed(site, name, cookie)
        stranger.cookies.set(name, cookie)
        assert (await stranger.get("/chat/conversations")).status_code == 200, "anna's own is one"
        stranger.cookies.clear()
        for key, value in (await cookies(signed)).items():
            stranger.cookies.set(key, value)
        for path in ("/chat/conversations", "/", "/usage.csv"):
            assert (await stranger.get(path)).status_code == 401
        assert "reasons" not in (await stranger.get("/readyz", headers={"x-forwarded-for": "192.0.2.9"})).json()


@pytest.mark.requirement("G-71")
async def test_the_token_of_another_session_changes_nothing(site: Site) -> None:
    async with as_anna(site) as anna, as_anna(site) as other:
        refused = await anna.post("/sign-out", {}, **{"x-csrf-token": other.token})
        assert refused.status_code == 403
        assert (await anna.client.post("/sign-out")).status_code == 403, "without any"
        assert (await anna.client.get("/chat/conversations")).status_code == 200
        assert (await anna.post("/sign-out", {})).status_code == 204


@pytest.mark.requirement("G-71")
async def test_another_persons_link_signs_the_browser_over(site: Site) -> None:
    async with visiting(site.server) as visitor:
        link = await site.server.sign_in_link(ANNA)
        answer = await visitor.client.get(link, headers={**HTML, "sec-fetch-site": "cross-site"})
        assert 'http-equiv="refresh"' in answer.text, "the cookie comes with the second visit"
        assert (await visitor.client.get(link)).status_code == 303
        assert [one.person for one in await site.sign_ins.list_all()] == ["anna"]


@pytest.mark.requirement("G-71")
async def test_an_open_page_ends_when_the_person_is_disabled(site: Site) -> None:
    async with as_anna(site) as anna, anna.events() as events:
        await anext(events)
        await site.sign_ins.disable("anna")
        site.web.channel("anna:main")
        await site.brain.answer(site.web.channel("anna:main").key, "only for who may read it")
        assert [event async for event in events] == []


# -- rights


async def told(request: Request) -> JSONResponse:
    return JSONResponse({"person": request.state.person.id, "rights": sorted(request.state.rights)})


def only(person: str, *rights: DashboardRight) -> Callable[[UserId], frozenset[DashboardRight]]:
    return lambda asked: frozenset(rights) if asked == person else frozenset()


@pytest.mark.requirement("G-68")
async def test_the_gate_tells_the_rights(site: Site) -> None:
    site.server.mount("/told", [Route("/", told)], entrance="sign_in")
    async with visiting(site.server) as owner, as_anna(site) as anna:
        all_four = ["configure", "operate", "transcripts", "view"]
        assert (await owner.client.get("/told/")).json() == {"person": "operator", "rights": all_four}
        assert (await anna.client.get("/told/")).json() == {"person": "anna", "rights": []}
        site.server.give_rights(only("anna", "view"))
        assert (await anna.client.get("/told/")).json() == {"person": "anna", "rights": ["view"]}


@pytest.mark.requirement("G-68")
@pytest.mark.parametrize(
    ("rights", "views", "operates"),
    [
        pytest.param((), 403, 403, id="none"),
        pytest.param(("transcripts", "configure"), 403, 403, id="others"),
        pytest.param(("view",), 200, 403, id="view"),
        pytest.param(("view", "operate"), 200, 200, id="operate"),
    ],
)
async def test_the_status_page_is_for_who_may_view(
    site: Site, rights: tuple[DashboardRight, ...], views: int, operates: int
) -> None:
    site.server.give_rights(only("anna", *rights))
    elsewhere = {"x-forwarded-for": "192.0.2.9"}
    async with as_anna(site) as anna:
        for path in ("/", "/usage.csv"):
            assert (await anna.client.get(path)).status_code == views
        assert (await anna.client.get("/metrics", headers=elsewhere)).status_code == views
        assert ("reasons" in (await anna.client.get("/readyz", headers=elsewhere)).json()) is (views == 200)
        assert (await anna.post("/pairings/K7QX-2M/approve", {})).status_code == operates
        assert (len(site.service.pairings) == 0) is (operates == 200)
        assert (await anna.client.get("/chat/conversations")).status_code == 200, "the chat takes no right"


# -- a header of a trusted proxy

HEADER = WebSettings(port=0, trusted_proxies=("127.0.0.0/8",), person_header="X-Forwarded-User")


async def answered(
    home: Path, settings: WebSettings, *headers: tuple[str, str], path: str = "/chat/", disabled: bool = False
) -> tuple[int, list[str]]:
    """The status for a page with these headers, and who is signed in then."""
    async with running_site(home, settings) as site, browser(site.url) as client:
        await site.sign_ins.add("anna", "Anna")
        if disabled:
            await site.sign_ins.disable("anna")
        answer = await client.get(path, headers=[("accept", "text/html"), *headers])
        return answer.status_code, [one.person for one in await site.sign_ins.list_all()]


@pytest.mark.requirement("G-72")
@pytest.mark.parametrize(
    ("settings", "headers", "found"),
    [
        pytest.param(HEADER, [("x-forwarded-user", "anna")], (200, ["anna"]), id="a known person"),
        pytest.param(HEADER, [], (401, []), id="nobody is named"),
        pytest.param(HEADER, [("x-forwarded-user", "")], (401, []), id="with nothing in it"),
        pytest.param(HEADER, [("x-forwarded-user", "zoe")], (401, []), id="somebody unknown"),
        pytest.param(HEADER, [("x-forwarded-user", "operator")], (401, []), id="the owner"),
        pytest.param(
            HEADER, [("x-forwarded-user", "anna"), ("x-forwarded-user", "anna")], (401, []), id="it comes twice"
        ),
        pytest.param(HEADER, [("x-remote-user", "anna")], (401, []), id="another header"),
        pytest.param(
            replace(HEADER, trusted_proxies=("192.0.2.1",)),
            [("x-forwarded-user", "anna")],
            (401, []),
            id="from somebody else",
        ),
        pytest.param(
            replace(HEADER, trusted_proxies=("192.0.2.1",)),
            [("x-forwarded-user", "anna"), ("x-forwarded-for", "192.0.2.1")],
            (401, []),
            id="from somebody who says that they are the proxy",
        ),
        pytest.param(
            HEADER,
            [("x-forwarded-user", "anna"), ("x-forwarded-for", "192.0.2.7")],
            (200, ["anna"]),
            id="through the proxy from elsewhere",
        ),
        pytest.param(
            WebSettings(port=0, trusted_proxies=("127.0.0.1",)),
            [("x-forwarded-user", "anna")],
            (401, []),
            id="without the setting",
        ),
        pytest.param(
            replace(HEADER, header_people={"a@example.org": "anna"}),
            [("x-forwarded-user", "a@example.org")],
            (200, ["anna"]),
            id="by the map",
        ),
        pytest.param(
            replace(HEADER, header_people={"a@example.org": "anna"}),
            [("x-forwarded-user", "anna")],
            (401, []),
            id="with a map only by the map",
        ),
    ],
)
async def test_a_header_that_names_somebody(
    tmp_path: Path, settings: WebSettings, headers: list[tuple[str, str]], found: tuple[int, list[str]]
) -> None:
    assert await answered(tmp_path, settings, *headers) == found


@pytest.mark.requirement("G-72")
async def test_a_header_lets_no_disabled_person_in(tmp_path: Path) -> None:
    assert await answered(tmp_path, HEADER, ("x-forwarded-user", "anna"), disabled=True) == (401, [])


@pytest.mark.requirement("G-72")
async def test_a_sign_in_by_header_ends_with_the_proxys_word(tmp_path: Path) -> None:
    async with running_site(tmp_path, HEADER) as site, browser(site.url) as client:
        for one in ("anna", "bob"):
            await site.sign_ins.add(one)
        as_her, as_him = {"x-forwarded-user": "anna"}, {"x-forwarded-user": "bob"}
        assert (await client.get("/chat/conversations", headers=as_her)).status_code == 401, "only a page signs in"
        assert (await client.get("/chat/", headers={**HTML, **as_her})).status_code == 200
        (signed_in,) = await site.sign_ins.list_all()
        assert signed_in.method == "proxy"
        assert (await client.get("/chat/conversations", headers=as_her)).status_code == 200
        assert len(await site.sign_ins.list_all()) == 1
        assert (await client.get("/chat/conversations")).status_code == 401, "the header is gone"
        assert (await client.get("/chat/conversations", headers=as_him)).status_code == 401, "or names another"
        await site.sign_ins.disable("anna")
        assert (await client.get("/chat/conversations", headers=as_her)).status_code == 401


@pytest.mark.requirement("G-72")
async def test_a_visit_from_another_site_leaves_the_open_pages_of_the_proxys_person_alone(tmp_path: Path) -> None:
    as_her = {**HTML, "x-forwarded-user": "anna"}
    async with running_site(tmp_path, HEADER) as site, browser(site.url) as client:
        await site.sign_ins.add("anna")
        assert (await client.get("/chat/", headers=as_her)).status_code == 200
        (before,) = await site.sign_ins.list_all()
        # A browser sends no Strict cookie on this way.
        visit = await client.get("/chat/", headers={**as_her, "sec-fetch-site": "cross-site", "cookie": ""})
        assert 'http-equiv="refresh"' in visit.text, "the cookie comes with the second visit"
        assert "set-cookie" not in visit.headers, "the token of the page that is open would be worth nothing"
        assert (await client.get("/chat/", headers=as_her)).status_code == 200
        assert [one.id for one in await site.sign_ins.list_all()] == [before.id]


@pytest.mark.requirement("G-71", "G-72")
async def test_the_next_person_of_the_proxy_ends_the_browsers_former_sign_in(tmp_path: Path) -> None:
    async with running_site(tmp_path, HEADER) as site, browser(site.url) as client:
        for one in ("anna", "bob"):
            await site.sign_ins.add(one)
            assert (await client.get("/chat/", headers={**HTML, "x-forwarded-user": one})).status_code == 200
            assert [each.person for each in await site.sign_ins.list_all()] == [one]


async def test_the_owners_link_works_behind_such_a_proxy(tmp_path: Path) -> None:
    async with running_site(tmp_path, HEADER) as site, visiting(site.server) as owner:
        await site.sign_ins.add("anna")
        assert (await owner.client.get("/", headers={"x-forwarded-user": "anna"})).status_code == 200


@pytest.mark.requirement("G-72")
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        pytest.param(replace(HEADER, trusted_proxies=()), "anybody could send it", id="no proxy"),
        pytest.param(replace(HEADER, person_header="Cookie"), "cannot be it", id="a header with a meaning"),
        pytest.param(replace(HEADER, person_header="X User"), "cannot be it", id="no header"),
        pytest.param(replace(HEADER, header_people={"x": "operator"}), "is the owner", id="the owner"),
        pytest.param(replace(HEADER, header_people={"x": "Anna B"}), "no id of a person", id="no id"),
        pytest.param(WebSettings(header_people={"x": "anna"}), "without person_header", id="a map alone"),
    ],
)
def test_such_a_header_is_refused_in_the_configuration(settings: WebSettings, words: str) -> None:
    (mistake,) = settings.mistakes()
    assert words in mistake
