"""`/sign-in/oidc`: the way to the identity provider and back, bound to one browser by a brief signed cookie."""

import hashlib
import hmac
import json
import logging
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from agent.core.clock import Clock
from agent.core.untrusted_text import one_line
from agent.storage.errors import StorageError
from gateway.channels.keys import UserId
from gateway.config.sections import OidcSettings
from gateway.web.sessions import Cookies, Session, Sessions, SignInSource, session_of, visit_of
from gateway.web.sign_in.routes import PATH, SignIn, as_html, limits_of, unreadable

AWAY_S = 600  # for signing in at the provider
PURPOSE = "oidc"
HERE = f"{PATH}/oidc"
CALLBACK = f"{HERE}/callback"

DID_NOT = "Signing in there did not work. Try again, or ask who runs Tieline."

_log = logging.getLogger("tieline.web")


class NotSignedIn(Exception):
    """Nobody is let in; the text is for the log alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One way to the provider: the values that its answer must belong to."""

    redirect_uri: str
    state: str
    nonce: str
    verifier: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A person as the provider knows them: `value` is of the claim that the settings name."""

    subject: str
    value: str
    display: str


class Provider(Protocol):
    """The identity provider. Everything raises NotSignedIn."""

    async def address(self, asked: Asked) -> str: ...
    async def identity(self, code: str, asked: Asked) -> Identity: ...


def account_of(identity: Identity, settings: OidcSettings) -> tuple[str, str] | None:
    """The person whom the settings name for an identity; else a new account's id and subject; None for nobody.

    The id is the person's alone: addresses of two domains may begin alike, and one may pass to another person.
    """
    value = _in_small(identity.value) if settings.claim == "email" else identity.value
    for name, person in settings.people.items():
        if value == (_in_small(name) if settings.claim == "email" else name):
            return person, ""
    local, at, domain = value.rpartition("@")
    if not at or not local or "@" in local or f"@{domain}" not in {_in_small(one) for one in settings.allow}:
        return None
    subject = f"{settings.issuer.rstrip('/')} {identity.subject}"
    plain = re.sub(r"[^a-z0-9]+", "-", local).strip("-")[:19].strip("-") or "p"
    return f"{plain}-{hashlib.sha256(subject.encode()).hexdigest()[:12]}", subject


def _in_small(address: str) -> str:
    """The address with small ASCII letters. Whole Unicode would make ß, ſ and the Kelvin sign those of other people."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in address)


class Oidc:
    """The routes. The provider's library is loaded when somebody goes there first."""

    def __init__(
        self,
        settings: OidcSettings,
        *,
        sign_in: SignIn,
        sessions: Sessions,
        cookies: Cookies,
        clock: Clock,
        base_url: str,
        proxy: str | None,
    ) -> None:
        self._settings = settings
        self._sign_in = sign_in
        self._sessions = sessions
        self._cookies = cookies
        self._clock = clock
        self._redirect_uri = f"{base_url}{CALLBACK}"
        self._proxy = proxy
        self._provider: Provider | None = None
        self._source: SignInSource | None = None

    def open(self, source: SignInSource) -> None:
        """The database is open."""
        self._source = source

    @property
    def routes(self) -> Sequence[BaseRoute]:
        return [Route(HERE, self._begin, methods=["GET"]), Route(CALLBACK, self._return, methods=["GET"])]

    async def _begin(self, request: Request) -> Response:
        if self._source is None or request.method == "HEAD":
            return _not_now()
        state = secrets.token_urlsafe(24)
        try:
            former = await session_of(request, self._sessions, self._cookies)
            try:
                address = await (await self._loaded()).address(self._asked(state))
            except NotSignedIn as error:
                _log.warning("sign-in by the identity provider: %s", error)
                return as_html(await self._sign_in.page(DID_NOT), status=502)
        except StorageError:
            return unreadable()
        until = int(self._clock.now().timestamp()) + AWAY_S
        payload = json.dumps([state, until, former.hash if former else None]).encode()
        return self._with_cookie(
            RedirectResponse(address, status_code=303), self._sessions.signed(payload, PURPOSE), request
        )

    async def _return(self, request: Request) -> Response:
        source = self._source
        if source is None or request.method == "HEAD":
            return _not_now()
        try:
            tries = await source.count_try(limits_of(visit_of(request).address))
            if tries is None:
                too_many = await self._sign_in.page("Too many tries. Wait a minute.")
                return as_html(too_many, status=429, headers={"retry-after": "60"})
            try:
                session = await self._signed_in(request, source)
            except NotSignedIn as error:
                _log.warning("sign-in by the identity provider: %s", error)
                failed = as_html(await self._sign_in.page(DID_NOT), status=403)
                return self._with_cookie(failed, "", request)
            await source.forgive(tries)
        except StorageError:
            return unreadable()
        return self._with_cookie(self._sign_in.let_in(request, session), "", request)

    async def _signed_in(self, request: Request, source: SignInSource) -> Session:
        """Raises NotSignedIn and StorageError."""
        query = request.query_params
        cookie = self._sessions.verified(request.cookies.get(f"{self._cookies.name}_{PURPOSE}", ""), PURPOSE)
        if cookie is None:
            raise NotSignedIn("the browser did not begin here, or took another name of this server")
        state, until, former = json.loads(cookie)  # ours: the signature says so
        if self._clock.now().timestamp() >= until:
            raise NotSignedIn(f"it took longer than {AWAY_S} s")
        if not hmac.compare_digest(query.get("state", "").encode(), state.encode()):
            raise NotSignedIn("the answer belongs to another sign-in (state)")
        if query.get("iss", self._settings.issuer).rstrip("/") != self._settings.issuer.rstrip("/"):
            raise NotSignedIn("the answer is of another issuer (iss)")
        if "error" in query:
            raise NotSignedIn(f"the provider refused: {one_line(query['error'], 80)}")
        if not query.get("code"):
            raise NotSignedIn("the answer has no code")
        identity = await (await self._loaded()).identity(query["code"], self._asked(state))
        found = account_of(identity, self._settings)
        if found is None:
            raise NotSignedIn("the person is in neither people nor allow of [web.oidc]")
        id, subject = found
        try:
            person = await source.person_of(subject, id, identity.display) if subject else UserId(id)
        except ValueError as error:
            raise NotSignedIn(str(error)) from error
        session = await self._sessions.begin(person, "oidc", visit_of(request), former=former)
        if session is None:
            raise NotSignedIn(f"{person!r} has no account here, or is disabled")
        return session

    def _asked(self, state: str) -> Asked:
        """The nonce and the PKCE verifier follow from the state: the browser holds neither."""
        return Asked(
            redirect_uri=self._redirect_uri,
            state=state,
            nonce=self._sessions.derived(f"oidc-nonce:{state}"),
            verifier=self._sessions.derived(f"oidc-verifier:{state}"),
        )

    async def _loaded(self) -> Provider:
        if self._provider is None:
            module = await to_thread.run_sync(import_module, "gateway.web.sign_in.identity_provider")
            self._provider = self._provider or module.IdentityProvider(self._settings, self._clock, proxy=self._proxy)
        return self._provider

    def _with_cookie(self, response: Response, value: str, request: Request) -> Response:
        scheme = request.url.scheme
        cookie = self._cookies.brief_header(PURPOSE, value, path=HERE, age_s=AWAY_S, scheme=scheme)
        response.headers.append("set-cookie", cookie)
        return response


def _not_now() -> Response:
    return PlainTextResponse("not now\n", status_code=503, headers={"retry-after": "1"})
