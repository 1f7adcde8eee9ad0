"""Sign-in by an identity provider, against one that is wrong in each way that matters."""

import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from pydantic import SecretStr

from agent.core.clock import SystemClock
from gateway.config.sections import OidcSettings, WebSettings
from gateway.web.sign_in.identity_provider import IdentityProvider
from gateway.web.sign_in.oidc import DID_NOT, Asked, Identity, NotSignedIn, account_of
from tests.e2e.site import Site, running_site
from tests.fakes.oidc_server import CLIENT, SECRET, OidcServer, Wrong, new_key, serving_oidc

HTML = {"accept": "text/html"}


@pytest.fixture
async def provider() -> AsyncIterator[OidcServer]:
    async with serving_oidc() as provider:
        yield provider


def settings_for(
    provider: OidcServer,
    *,
    people: dict[str, str] | None = None,
    allow: tuple[str, ...] = (),
    claim: Literal["email", "sub", "preferred_username"] = "email",
) -> WebSettings:
    """Sign-in by that provider."""
    oidc = OidcSettings(
        issuer=provider.url,
        client_id=CLIENT,
        client_secret=SecretStr(SECRET),
        claim=claim,
        people=people if people is not None else {"anna@example.org": "anna"},
        allow=allow,
        label="Sign in with Example",
    )
    return WebSettings(port=0, oidc=oidc)


@asynccontextmanager
async def visiting(home: Path, settings: WebSettings) -> AsyncIterator[tuple[Site, httpx2.AsyncClient]]:
    async with (
        running_site(home, settings) as site,
        httpx2.AsyncClient(base_url=site.url, trust_env=False, timeout=60) as client,
    ):
        await site.sign_ins.add("anna", "Anna")
        yield site, client


async def returned(client: httpx2.AsyncClient, **headers: str) -> httpx2.Response:
    """To the provider and back, as a browser goes; the answer to the way back."""
    begun = await client.get("/sign-in/oidc", headers=headers)
    assert begun.status_code == 303, begun.text
    there = await client.get(begun.headers["location"])
    assert there.status_code in (302, 307)
    return await client.get(there.headers["location"], headers={**HTML, "sec-fetch-site": "cross-site"})


@pytest.mark.requirement("G-73")
async def test_who_has_signed_in_there_is_signed_in_here(tmp_path: Path, provider: OidcServer) -> None:
    async with visiting(tmp_path, settings_for(provider)) as (site, client):
        assert 'href="/sign-in/oidc">Sign in with Example' in (await client.get("/sign-in")).text
        answer = await returned(client)
        assert (answer.status_code, answer.headers["location"]) == (303, "/chat/")
        session, brief = answer.headers.get_list("set-cookie")
        assert "SameSite=Strict" in session
        assert "Max-Age=0" in brief, "what bound the browser is used up"
        # The browser brings no Strict cookie along on this way; the page loads once more, and has it.
        bounced = await client.get("/chat/", headers={**HTML, "sec-fetch-site": "cross-site", "cookie": ""})
        assert 'http-equiv="refresh"' in bounced.text
        assert (await client.get("/chat/", headers=HTML)).status_code == 200
        (signed_in,) = await site.sign_ins.list_all()
        assert (signed_in.person, signed_in.method) == ("anna", "oidc")
        assert (provider.exchanged[0]["grant_type"], "client_secret" in provider.exchanged[0]) == (
            "authorization_code",
            False,
        )


@pytest.mark.requirement("G-73")
async def test_the_way_there_is_bound_to_the_browser(tmp_path: Path, provider: OidcServer) -> None:
    async with visiting(tmp_path, settings_for(provider)) as (site, client):
        begun = await client.get("/sign-in/oidc")
        cookie = begun.headers["set-cookie"]
        assert all(part in cookie for part in ("HttpOnly", "SameSite=Lax", "Path=/sign-in/oidc", "Max-Age=600"))
        query = parse_qs(urlsplit(begun.headers["location"]).query)
        assert query["redirect_uri"] == [f"{site.url}/sign-in/oidc/callback"]
        assert query["code_challenge_method"] == ["S256"]
        assert query["scope"] == ["openid email profile"]
        for secret in (*query["nonce"], *query["code_challenge"]):
            assert secret not in cookie


@pytest.mark.requirement("G-73")
async def test_another_browsers_answer_signs_nobody_in(tmp_path: Path, provider: OidcServer) -> None:
    async with visiting(tmp_path, settings_for(provider)) as (site, client):
        begun = await client.get("/sign-in/oidc")
        back = (await client.get(begun.headers["location"])).headers["location"]
        async with httpx2.AsyncClient(base_url=site.url, trust_env=False, timeout=60) as victim:
            assert (await victim.get(back, headers=HTML)).status_code == 403, "without a cookie"
            await victim.get("/sign-in/oidc")
            assert (await victim.get(back, headers=HTML)).status_code == 403, "with the cookie of another way"
            ((name, _),) = client.cookies.items()
            victim.cookies.set(name, "e30.e30", path="/sign-in/oidc")
            assert (await victim.get(back, headers={"cookie": f"{name}=e30.e30"})).status_code == 403, (
                "with a forged one"
            )
        assert provider.exchanged == [], "the code is not even used"
        assert (await client.get(back)).status_code == 303
        assert (await client.get(back)).status_code == 403, "and works once"


WRONGS = [wrong for wrong in get_args(Wrong) if wrong]


@pytest.mark.requirement("G-73")
@pytest.mark.parametrize("wrong", [one for one in WRONGS if one not in ("huge", "no json", "plain http elsewhere")])
async def test_whatever_is_wrong_lets_nobody_in(
    tmp_path: Path, provider: OidcServer, wrong: Wrong, caplog: pytest.LogCaptureFixture
) -> None:
    async with visiting(tmp_path, settings_for(provider)) as (site, client):
        provider.wrong = wrong
        with caplog.at_level(logging.WARNING, "tieline.web"):
            if wrong == "another issuer in the configuration":
                answer = await client.get("/sign-in/oidc")
                assert answer.status_code == 502
            else:
                answer = await returned(client)
                assert answer.status_code == 403
        assert DID_NOT in answer.text
        assert 'href="/sign-in/oidc"' in answer.text, "the way to try again"
        assert not any("SameSite=Strict" in cookie for cookie in answer.headers.get_list("set-cookie"))
        assert await site.sign_ins.list_all() == []
        (line,) = [record.getMessage() for record in caplog.records if record.name == "tieline.web"]
        assert line.startswith("sign-in by the identity provider: ")
        assert SECRET not in line
        assert "anna@example.org" not in line
        provider.wrong = ""
        assert (await returned(client)).status_code == 303, "and the next try works"


@pytest.mark.requirement("G-73")
@pytest.mark.parametrize("wrong", ["huge", "no json", "plain http elsewhere"])
async def test_a_configuration_that_cannot_be_taken(tmp_path: Path, provider: OidcServer, wrong: Wrong) -> None:
    async with visiting(tmp_path, settings_for(provider)) as (_, client):
        provider.wrong = wrong
        answer = await client.get("/sign-in/oidc")
        assert (answer.status_code, DID_NOT in answer.text) == (502, True)


async def test_a_provider_that_is_away_is_told(tmp_path: Path) -> None:
    async with serving_oidc() as provider:
        settings = settings_for(provider)
    async with visiting(tmp_path, settings) as (_, client):
        assert (await client.get("/sign-in/oidc")).status_code == 502


@pytest.mark.requirement("G-73")
async def test_new_keys_of_the_provider_are_read_once_they_are_needed(tmp_path: Path, provider: OidcServer) -> None:
    async with visiting(tmp_path, settings_for(provider)) as (_, client):
        assert (await returned(client)).status_code == 303
        assert (await returned(client)).status_code == 303
        assert provider.key_reads == 1
        provider.key = new_key("second")
        client.cookies.clear()
        assert (await returned(client)).status_code == 403, "read within the minute: a stranger asks for no more"
        assert provider.key_reads == 1


class LaterClock(SystemClock):
    """The machine's time, with more of it gone by for whoever measures."""

    later_s = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.later_s


@pytest.mark.requirement("G-73")
async def test_new_keys_are_read_a_minute_after_the_last_ones(provider: OidcServer) -> None:
    clock = LaterClock()
    there = IdentityProvider(settings_for(provider).oidc, clock, proxy=None)
    asked = Asked(redirect_uri="http://127.0.0.1:1/back", state="s", nonce="n", verifier="v" * 43)

    async def identity() -> Identity:
        async with httpx2.AsyncClient(trust_env=False) as client:
            back = (await client.get(await there.address(asked))).headers["location"]
        return await there.identity(parse_qs(urlsplit(back).query)["code"][0], asked)

    assert (await identity()).value == "anna@example.org"
    provider.key = new_key("second")
    with pytest.raises(NotSignedIn):
        await identity()
    clock.later_s = 61
    assert (await identity()).value == "anna@example.org"
    assert provider.key_reads == 2


@pytest.mark.parametrize("methods", [["client_secret_basic"], ["client_secret_post"], []])
async def test_the_secret_goes_where_the_provider_takes_it(
    tmp_path: Path, provider: OidcServer, methods: list[str]
) -> None:
    provider.auth_methods = methods
    async with visiting(tmp_path, settings_for(provider)) as (_, client):
        assert (await returned(client)).status_code == 303
        assert ("client_secret" in provider.exchanged[0]) is (methods == ["client_secret_post"])


@pytest.mark.requirement("G-73")
@pytest.mark.parametrize(
    ("people", "allow", "claims", "found"),
    [
        pytest.param({"ANNA@example.org": "anna"}, (), {}, "anna", id="an address in other letters"),
        pytest.param({"bob@example.org": "anna"}, (), {}, "", id="somebody else is named"),
        pytest.param({"anna@example.org": "zoe"}, (), {}, "", id="without an account here"),
        pytest.param({}, ("@example.org",), {}, "anna-", id="by the domain"),
        pytest.param({}, ("@example.com",), {}, "", id="of another domain"),
        pytest.param({}, ("@example.org",), {"email": "anna@sub.example.org"}, "", id="of a domain below"),
        pytest.param({}, ("@example.org",), {"email": "anna@evil.example@example.org"}, "", id="two signs"),
        pytest.param({}, ("@example.org",), {"email": "@example.org"}, "", id="no name"),
        pytest.param({}, ("@example.org",), {"email": "operator@example.org"}, "operator-", id="called so"),
        pytest.param({}, ("@example.org",), {"email": 7}, "", id="no text"),
        pytest.param({}, ("@STRASSE.example",), {"email": "eve@strasse.example"}, "eve-", id="other letters"),
        pytest.param({}, ("@strasse.example",), {"email": "eve@stra\u00dfe.example"}, "", id="a domain like it"),
        pytest.param({"weiss@x.example": "anna"}, (), {"email": "wei\u00df@x.example"}, "", id="a name like it"),
        pytest.param({"kim@x.example": "anna"}, (), {"email": "\u212aim@x.example"}, "", id="a letter like it"),
    ],
)
async def test_whose_account_it_is(
    tmp_path: Path,
    provider: OidcServer,
    people: dict[str, str],
    allow: tuple[str, ...],
    claims: dict[str, object],
    found: str,
) -> None:
    provider.claims = claims
    async with visiting(tmp_path, settings_for(provider, people=people, allow=allow)) as (site, client):
        answer = await returned(client)
        signed_in = [one.person for one in await site.sign_ins.list_all()]
        assert (answer.status_code == 303) is bool(found)
        assert len(signed_in) == bool(found)
        assert all(one.startswith(found) and one != "operator" for one in signed_in)


@pytest.mark.requirement("G-73")
async def test_an_address_that_passes_to_another_person_is_another_account(
    tmp_path: Path, provider: OidcServer
) -> None:
    async with visiting(tmp_path, settings_for(provider, people={}, allow=("@example.org",))) as (site, client):
        await returned(client)
        await returned(client)
        provider.claims = {"sub": "2"}
        await returned(client)
        people = [one for one in await site.sign_ins.persons() if one.by_provider]
        assert [one.display for one in people] == ["Anna Example", "Anna Example"]
        (now,) = await site.sign_ins.list_all()
        await site.sign_ins.disable(now.person)
        assert (await returned(client)).status_code == 403, "whom the operator has disabled stays out"


@pytest.mark.parametrize("claim", ["sub", "preferred_username"])
async def test_another_claim_names_the_person(
    tmp_path: Path, provider: OidcServer, claim: Literal["sub", "preferred_username"]
) -> None:
    provider.claims = {"sub": "anna-there", "preferred_username": "anna-there", "email_verified": False}
    settings = settings_for(provider, people={"anna-there": "anna"}, claim=claim)
    async with visiting(tmp_path, settings) as (_, client):
        assert (await returned(client)).status_code == 303


def test_ids_of_accounts_are_apart() -> None:
    settings = OidcSettings(issuer="https://id.example", allow=("@a.example", "@b.example"))
    addresses = ["anna.b@a.example", "anna-b@a.example", "anna-b@b.example", "ä@a.example"]
    found = [account_of(Identity(subject=one, value=one, display=one), settings) for one in addresses]
    ids = [one[0] for one in found if one is not None]
    assert len(set(ids)) == 4
    assert all(len(id) <= 32 for id in ids)


async def test_a_sign_in_ends_the_browsers_former_one(tmp_path: Path, provider: OidcServer) -> None:
    async with visiting(tmp_path, settings_for(provider)) as (site, client):
        assert (await client.get(await site.server.sign_in_link())).status_code == 303
        assert (await returned(client)).status_code == 303
        assert [one.person for one in await site.sign_ins.list_all()] == ["anna"]


async def test_failed_ways_back_are_counted(tmp_path: Path, provider: OidcServer) -> None:
    async with visiting(tmp_path, settings_for(provider)) as (_, client):
        statuses = [(await client.get("/sign-in/oidc/callback?code=x&state=y")).status_code for _ in range(11)]
        assert statuses == [403] * 10 + [429]


SOUND = OidcSettings(
    issuer="https://id.example", client_id="x", client_secret=SecretStr("y"), people={"a@example.org": "anna"}
)


@pytest.mark.requirement("G-73")
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        pytest.param(replace(SOUND, issuer="http://id.example"), "https://", id="without TLS"),
        pytest.param(replace(SOUND, issuer="https://id.example/?x"), "neither", id="with a query"),
        pytest.param(replace(SOUND, issuer=""), "issuer: is missing", id="no issuer"),
        pytest.param(replace(SOUND, client_id=""), "client_id: is missing", id="no client"),
        pytest.param(replace(SOUND, client_secret=None), "client_secret: is missing", id="no secret"),
        pytest.param(replace(SOUND, people={}), "nobody may sign in", id="nobody"),
        pytest.param(replace(SOUND, people={"a@example.org": "operator"}), "is the owner", id="the owner"),
        pytest.param(replace(SOUND, people={"a@example.org": "Anna B"}), "no id", id="no id"),
        pytest.param(replace(SOUND, allow=("example.org",)), "no domain", id="no domain"),
        pytest.param(replace(SOUND, allow=("@example.org",), claim="sub"), 'claim = "email"', id="another claim"),
        pytest.param(replace(SOUND, label=" "), "label", id="no label"),
    ],
)
def test_a_section_that_cannot_work_is_refused(settings: OidcSettings, words: str) -> None:
    assert SOUND.mistakes() == []
    (mistake,) = settings.mistakes()
    assert words in mistake
