"""Sign-in to the web server: the gate before what only signed-in people may reach, and the ways through it.

`/sign-in?code=…` takes a one-time code that the terminal printed, `POST /sign-in` an id and a password; an identity
provider adds its own routes (`gateway.web.sign_in.oidc`), a trusted proxy a header.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from urllib.parse import parse_qs, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent.core.phrases import program_as_typed
from agent.storage.errors import StorageError
from gateway.access.settings import DASHBOARD_RIGHTS, DashboardRight
from gateway.channels.adapter import SignedIn
from gateway.channels.keys import UserId
from gateway.web.pages.templates import sign_in_page
from gateway.web.request_checks import SAFE_METHODS, origin_allowed
from gateway.web.sessions import (
    OPERATOR,
    Cookies,
    KnownPeople,
    Limit,
    Session,
    Sessions,
    SignInSource,
    cookie_of,
    named_by_proxy,
    session_of,
    visit_of,
)

PATH = "/sign-in"

# A visit that starts on another site comes without the cookie (SameSite=Strict); loading once more brings it.
BOUNCE = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0"><title>Tieline</title>'

Rights = Callable[[UserId], frozenset[DashboardRight]]


def owner_alone(person: UserId) -> frozenset[DashboardRight]:
    """The rights in the dashboard before anybody has read who else has some."""
    return DASHBOARD_RIGHTS if person == OPERATOR.id else frozenset()


def _starting() -> Response:
    return PlainTextResponse("Tieline is starting.\n", status_code=503, headers={"retry-after": "1"})


def unreadable() -> Response:
    """The answer while the database fails."""
    return PlainTextResponse("The database cannot be used now.\n", status_code=503, headers={"retry-after": "5"})


def as_html(page: str, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A page with a form: without this policy the browser would send its POST with `Origin: null`."""
    return HTMLResponse(page, status_code=status, headers={**(headers or {}), "referrer-policy": "same-origin"})


# The gate: lets in who is signed in, and takes a change of state only from a page of ours.


@dataclass(frozen=True, slots=True, kw_only=True)
class GateParts:
    """Things that all gates of one server share. `rights` may be told later: it is asked at each request."""

    sessions: Sessions
    cookies: Cookies
    hosts: frozenset[str]
    rights: Rights
    ask: Callable[[Scope, Headers], Awaitable[Response]]


class Gate:
    """Wraps what only signed-in people may reach.

    Sets `request.state.person`, `.csrf`, `.session`, `.rights` (in the dashboard, which asks them for each page) and
    `.is_over`, which is asked by what goes on after the request was let in.
    """

    def __init__(self, app: ASGIApp, parts: GateParts) -> None:
        self._app = app
        self._parts = parts
        self._sessions = parts.sessions
        self._cookies = parts.cookies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = HTTPConnection(scope)
        if not self._sessions.is_open:
            await _starting()(scope, receive, send)
            return
        try:
            session = await session_of(connection, self._sessions, self._cookies)
            fresh = await self._begun_by_proxy(connection) if session is None else None
        except StorageError:
            await unreadable()(scope, receive, send)
            return
        session = session or fresh
        if session is None:
            await (await self._parts.ask(scope, connection.headers))(scope, receive, send)
            return
        refusal = self._refusal(session, scope["method"], connection.headers)
        if refusal:
            await JSONResponse({"error": refusal}, status_code=403)(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["person"], state["csrf"], state["session"] = session.person, self._sessions.token(session), session
        state["rights"] = self._parts.rights(session.person.id)
        state["is_over"] = self._sessions.following(session)
        renewed = fresh or self._sessions.renewed(session)

        async def send_renewed(message: Message) -> None:
            if renewed is not None and message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if "set-cookie" not in headers:
                    cookie = self._cookies.header(self._sessions.cookie(renewed), scheme=scope["scheme"])
                    headers.append("set-cookie", cookie)
            await send(message)

        await self._app(scope, receive, send_renewed)

    async def _begun_by_proxy(self, connection: HTTPConnection) -> Session | None:
        """A session of the person whom a trusted proxy names; only for a page, whose browser keeps the cookie.

        A visit from another site has left its cookie behind: a new one would make worthless what other tabs hold.
        """
        named, headers = named_by_proxy(connection), connection.headers
        if named is None or not _is_page(connection.scope, headers) or _is_cross_site(headers):
            return None
        former = await cookie_of(connection, self._sessions, self._cookies)
        return await self._sessions.begin(
            UserId(named), "proxy", visit_of(connection), former=former.hash if former else None
        )

    def _refusal(self, session: Session, method: str, headers: Headers) -> str:
        if method in SAFE_METHODS:
            return ""
        same = origin_allowed(
            origin=headers.get("origin"),
            fetch_site=headers.get("sec-fetch-site"),
            host=headers.get("host", ""),
            hosts=self._parts.hosts,
        )
        if not same:
            return "this request came from another site"
        if not self._sessions.token_matches(session, headers.get("x-csrf-token", "")):
            return "this page is out of date; load it again"
        return ""


def _is_page(scope: Scope, headers: Headers) -> bool:
    """Whether a browser asks for a page to show."""
    return scope["method"] == "GET" and "text/html" in headers.get("accept", "")


def _is_cross_site(headers: Headers) -> bool:
    """Whether a link or form of another site leads here: then no cookie of ours came along."""
    return headers.get("sec-fetch-site") == "cross-site"


# Tries that are counted before they are looked at, so that many at once are no way around a limit.

PER_ADDRESS = ((10, 60.0), (100, 3600.0))  # tries within seconds
PER_PERSON = (10, 900.0)
LONGEST_NAME, LONGEST_PASSWORD = 64, 1024  # characters

WRONG = "This did not work. Check the name and the password, or ask who runs Tieline."


def limits_of(address: str, person: str | None = None) -> Sequence[Limit]:
    """The limits on a try from this address, and of this person where one is named."""
    by_address = f"address {network_of(address)}"
    found = [Limit(name=by_address, most=most, within_s=within_s) for most, within_s in PER_ADDRESS]
    if person is not None:
        found.append(Limit(name=f"person {person}", most=PER_PERSON[0], within_s=PER_PERSON[1]))
    return found


def network_of(address: str) -> str:
    """The address, or its network: of IPv6 a household or a customer has a whole /64."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address[:LONGEST_NAME]
    if not isinstance(parsed, IPv6Address):
        return address
    return str(parsed.ipv4_mapped or ip_network((parsed, 64), strict=False))


class SignIn:
    """Routes reachable by anybody, so every try is counted."""

    def __init__(self, sessions: Sessions, cookies: Cookies, hosts: frozenset[str], *, oidc_label: str = "") -> None:
        """`oidc_label` is what the identity provider's button says; "" without one."""
        self._sessions = sessions
        self._cookies = cookies
        self._hosts = hosts
        self._people: KnownPeople | None = None
        self._oidc_label = oidc_label
        self.start = "/"  # where a new session begins

    def open(self, source: SignInSource) -> None:
        """The database is open: from now on people can sign in."""
        self._people = source
        self._sessions.open(source)

    async def link(self, base_url: str, person: SignedIn) -> str:
        """A new one-time link, good for ten minutes. Raises StorageError; ValueError for who may not sign in."""
        return f"{base_url}{PATH}?{urlencode({'code': await self._sessions.new_code(person)})}"

    @property
    def routes(self) -> Sequence[BaseRoute]:
        return [Route(PATH, self._serve, methods=["GET", "POST"])]

    async def ask(self, scope: Scope, headers: Headers) -> Response:
        """The answer to a request that carries no session."""
        if not _is_page(scope, headers):
            fix = f"open the one-time link that `{program_as_typed(to_unpaired=True)} sign-in` prints in a browser"
            return JSONResponse({"error": "not signed in", "fix": fix}, status_code=401)
        if _is_cross_site(headers):
            return HTMLResponse(BOUNCE)
        try:
            return as_html(await self.page(), status=401)
        except StorageError:
            return unreadable()

    async def page(self, problem: str = "", *, person: str = "") -> str:
        """The page for people who are not signed in, with the ways that there are. Raises StorageError."""
        has_passwords = self._people is not None and await self._people.has_passwords()
        return await sign_in_page(problem, person=person, has_passwords=has_passwords, oidc_label=self._oidc_label)

    async def sign_out(self, request: Request) -> Response:
        """Mounted behind the gate."""
        try:
            await self._sessions.sign_out(request.state.session)
        except StorageError:
            return unreadable()  # with the cookie: without it nobody could try again
        gone = self._cookies.header("", scheme=request.url.scheme)
        return Response(status_code=204, headers={"set-cookie": gone})

    async def _serve(self, request: Request) -> Response:
        if self._people is None:
            return _starting()
        try:
            if request.method == "POST":
                return await self._by_password(request, self._people)
            return await self._by_link(request, self._people)
        except StorageError:
            return unreadable()

    async def _by_link(self, request: Request, people: KnownPeople) -> Response:
        code = request.query_params.get("code", "")
        former = await session_of(request, self._sessions, self._cookies)
        if not code:
            return as_html(await self.page()) if former is None else RedirectResponse(self.start, status_code=303)
        if request.method == "HEAD" or "prefetch" in _purpose(request):
            return PlainTextResponse("not now", status_code=503)  # a look ahead must not use the code up
        if _is_cross_site(request.headers) and _is_page(request.scope, request.headers):
            return HTMLResponse(BOUNCE)  # the cookie of an earlier sign-in, which this one ends, comes with the next
        tries = await people.count_try(limits_of(visit_of(request).address))
        if tries is None:
            return await self._too_many("Too many wrong codes. Wait a minute.", 60)
        session = await self._sessions.redeem(code, visit_of(request), former=former.hash if former else None)
        if session is None:
            if former is not None:  # the link that signed this browser in, opened again
                await people.forgive(tries)
                return RedirectResponse(self.start, status_code=303)
            problem = "This link was used already or is older than ten minutes."
            return as_html(await self.page(problem), status=403)
        await people.forgive(tries)
        return self.let_in(request, session)

    async def _by_password(self, request: Request, people: KnownPeople) -> Response:
        headers = request.headers
        host, origin, fetch_site = headers.get("host", ""), headers.get("origin"), headers.get("sec-fetch-site")
        if not origin_allowed(origin=origin, fetch_site=fetch_site, host=host, hosts=self._hosts):
            return as_html(await self.page("This form came from another site. Use this one."), status=403)
        fields = _fields(await request.body())
        given = fields.get("person", [""])[0].replace("\0", "")  # PostgreSQL has no place for a NUL
        person = given.strip().lower()[:LONGEST_NAME]
        password = fields.get("password", [""])[0]
        visit = visit_of(request)
        tries = await people.count_try(limits_of(visit.address, person))
        if tries is None:
            return await self._too_many("Too many tries. Wait a quarter of an hour, or use a one-time link.", 900)
        session = None
        if len(password) <= LONGEST_PASSWORD and await people.is_password(person, password):
            former = await session_of(request, self._sessions, self._cookies)
            session = await self._sessions.begin(
                UserId(person), "password", visit, former=former.hash if former else None
            )
        if session is None:
            return as_html(await self.page(WRONG, person=person), status=403)
        await people.forgive(tries)
        return self.let_in(request, session)

    def let_in(self, request: Request, session: Session) -> Response:
        """The way to the first page, with the session's cookie."""
        cookie = self._cookies.header(self._sessions.cookie(session), scheme=request.url.scheme)
        return RedirectResponse(self.start, status_code=303, headers={"set-cookie": cookie})

    async def _too_many(self, problem: str, seconds: int) -> Response:
        return as_html(await self.page(problem), status=429, headers={"retry-after": str(seconds)})


def _fields(body: bytes) -> Mapping[str, Sequence[str]]:
    """The fields of a form; none where there are more than any form of ours has."""
    try:
        return parse_qs(body.decode("utf-8", "replace"), max_num_fields=8)
    except ValueError:
        return {}


def _purpose(request: Request) -> str:
    return request.headers.get("sec-purpose", "") + request.headers.get("purpose", "")
