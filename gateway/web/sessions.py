"""Sign-in to the web server: one-time links, signed session cookies, their tokens, and the routes.

The cookie carries its session under a signature; the key lies in the data directory with mode 0600. Signing out is
remembered until the session would have ended by itself.
"""

import base64
import binascii
import hashlib
import hmac
import json
import os
import secrets
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent.core.clock import Clock
from agent.core.phrases import program_as_typed
from gateway.channels.adapter import SignedIn
from gateway.channels.keys import UserId
from gateway.web.pages.templates import sign_in_page
from gateway.web.request_checks import SAFE_METHODS, origin_allowed

CODE_LIFE = timedelta(minutes=10)
SESSION_LIFE = timedelta(days=30)
RENEW_AFTER = timedelta(days=1)
OPEN_CODES = 20  # more than that are not open at once; the oldest goes

OPERATOR = SignedIn(id=UserId("operator"), display="Operator")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    id: str
    person: SignedIn
    ends_at: datetime


class Sessions:
    """Gives out codes and cookies and checks them."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        """Keeps its key and the list of ended sessions in `folder`. Raises OSError when it cannot."""
        self._clock = clock
        self._ended_file = folder / "signed-out.json"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._key = _read_or_make_key(folder / "session.key")
        self._codes: dict[str, tuple[SignedIn, datetime]] = {}
        self._ended = _read_ended(self._ended_file)

    def new_code(self, person: SignedIn) -> str:
        """A code for one sign-in within ten minutes. Only its hash is kept."""
        code = secrets.token_urlsafe(24)
        self._codes[_hashed(code)] = (person, self._clock.now() + CODE_LIFE)
        while len(self._codes) > OPEN_CODES:
            del self._codes[next(iter(self._codes))]
        return code

    def redeem(self, code: str) -> Session | None:
        """The session a code opens; None when it is unknown, used or too old."""
        person, until = self._codes.pop(_hashed(code), (None, None))
        if person is None or until is None or self._clock.now() >= until:
            return None
        return Session(id=secrets.token_urlsafe(18), person=person, ends_at=self._clock.now() + SESSION_LIFE)

    def cookie(self, session: Session) -> str:
        """The browser's cookie."""
        payload = json.dumps(
            [session.id, session.person.id, session.person.display, int(session.ends_at.timestamp())]
        ).encode()
        return f"{_encoded(payload)}.{_encoded(self._signature(payload))}"

    def read(self, cookie: str) -> Session | None:
        """The session in a cookie; None when it is not ours, has ended or was signed out."""
        payload_text, _, signature_text = cookie.partition(".")
        try:
            payload, signature = _decoded(payload_text), _decoded(signature_text)
        except (binascii.Error, ValueError):
            return None
        if not hmac.compare_digest(signature, self._signature(payload)):
            return None
        session_id, person, display, ends = json.loads(payload)  # ours: the signature says so
        ends_at = datetime.fromtimestamp(ends, self._clock.now().tzinfo)
        session = Session(id=session_id, person=SignedIn(id=UserId(person), display=display), ends_at=ends_at)
        return None if self.is_over(session) else session

    def is_over(self, session: Session) -> bool:
        """Signed out since, or too old: for what lasts longer than a request."""
        return session.id in self._ended or session.ends_at <= self._clock.now()

    def renewed(self, session: Session) -> Session | None:
        """The session with its full life again, when a day of it is used up; None when that is not due."""
        ends_at = self._clock.now() + SESSION_LIFE
        if ends_at - session.ends_at < RENEW_AFTER:
            return None
        return Session(id=session.id, person=session.person, ends_at=ends_at)

    def token(self, session: Session) -> str:
        """The token that a page must send back with everything that changes state (CSRF)."""
        return _encoded(self._signature(b"csrf:" + session.id.encode()))

    def token_matches(self, session: Session, token: str) -> bool:
        return hmac.compare_digest(self.token(session).encode(), token.encode())

    def sign_out(self, session: Session) -> None:
        """End it, in this browser and in any copy of its cookie."""
        now = self._clock.now().timestamp()
        # A renewed cookie of the same session may live longer than the one at hand.
        self._ended[session.id] = now + SESSION_LIFE.total_seconds()
        self._ended = {id: until for id, until in self._ended.items() if until > now}
        _write_private(self._ended_file, json.dumps(self._ended).encode())

    def _signature(self, payload: bytes) -> bytes:
        return hmac.digest(self._key, payload, "sha256")


def _hashed(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _read_or_make_key(path: Path) -> bytes:
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        key = b""
    if len(key) >= 32:
        path.chmod(0o600)
        return key
    key = secrets.token_bytes(32)
    _write_private(path, key)
    return key


def _read_ended(path: Path) -> dict[str, float]:
    try:
        ended = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return ended if isinstance(ended, dict) else {}


def _write_private(path: Path, content: bytes) -> None:
    """Replace the file in one step, readable by its owner alone from the first byte."""
    new = path.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


# Sign-in check: lets in who is signed in, and takes a change of state only from a page of ours.

# A visit that starts on another site comes without the cookie (SameSite=Strict); loading once more brings it.
BOUNCE = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0"><title>Tieline</title>'


class Cookies:
    """The session's cookie. Its name carries the port: cookies of one host are shared by all its ports."""

    def __init__(self, *, port: int, secure: bool) -> None:
        self.name = f"tieline_{port}"
        self._secure = secure

    def header(self, value: str, *, scheme: str) -> str:
        """A `Set-Cookie` value; "" takes the cookie away."""
        age = int(SESSION_LIFE.total_seconds()) if value else 0
        secure = "; Secure" if self._secure or scheme == "https" else ""
        return f"{self.name}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}"


class Gate:
    """Wraps what only signed-in people may reach; sets `request.state.person`, `.csrf`, `.session` and `.is_over`.

    The last is asked by what goes on after the request was let in.
    """

    def __init__(self, app: ASGIApp, *, sessions: Sessions, cookies: Cookies, hosts: frozenset[str]) -> None:
        self._app = app
        self._sessions = sessions
        self._cookies = cookies
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = HTTPConnection(scope)
        session = session_of(connection, self._sessions, self._cookies)
        if session is None:
            await (await _ask_to_sign_in(scope, connection.headers))(scope, receive, send)
            return
        if scope["method"] not in SAFE_METHODS:
            refusal = self._refusal(session, connection.headers)
            if refusal:
                await JSONResponse({"error": refusal}, status_code=403)(scope, receive, send)
                return
        state = scope.setdefault("state", {})
        state["person"], state["csrf"], state["session"] = session.person, self._sessions.token(session), session
        state["rights"] = frozenset({"view", "operate", "transcripts", "configure"})  # the only person there is
        state["is_over"] = partial(self._sessions.is_over, session)
        renewed = self._sessions.renewed(session)

        async def send_renewed(message: Message) -> None:
            if renewed is not None and message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if "set-cookie" not in headers:
                    cookie = self._cookies.header(self._sessions.cookie(renewed), scheme=scope["scheme"])
                    headers.append("set-cookie", cookie)
            await send(message)

        await self._app(scope, receive, send_renewed)

    def _refusal(self, session: Session, headers: Headers) -> str:
        same = origin_allowed(
            origin=headers.get("origin"),
            fetch_site=headers.get("sec-fetch-site"),
            host=headers.get("host", ""),
            hosts=self._hosts,
        )
        if not same:
            return "this request came from another site"
        if not self._sessions.token_matches(session, headers.get("x-csrf-token", "")):
            return "this page is out of date; load it again"
        return ""


async def _ask_to_sign_in(scope: Scope, headers: Headers) -> Response:
    if scope["method"] != "GET" or "text/html" not in headers.get("accept", ""):
        fix = f"open the one-time link that `{program_as_typed(to_unpaired=True)} sign-in` prints in a browser"
        return JSONResponse({"error": "not signed in", "fix": fix}, status_code=401)
    if headers.get("sec-fetch-site") == "cross-site":
        return HTMLResponse(BOUNCE)
    return HTMLResponse(await sign_in_page(), status_code=401)


def session_of(connection: HTTPConnection, sessions: Sessions, cookies: Cookies) -> Session | None:
    """The session a request carries, if it is valid."""
    cookie = connection.cookies.get(cookies.name)
    return sessions.read(cookie) if cookie else None


# Sign-in and sign-out: `/sign-in?code=…` with a one-time code that the terminal printed.

TRIES = 10  # wrong codes per address and minute
WINDOW_S = 60.0
ADDRESSES = 1_000


class SignIn:
    """Routes reachable by anybody, so every wrong code is counted."""

    def __init__(self, sessions: Sessions, cookies: Cookies, clock: Clock, *, start: str = "/") -> None:
        """`start` is where a new session begins."""
        self._sessions = sessions
        self._cookies = cookies
        self._clock = clock
        self._wrong: OrderedDict[str, list[float]] = OrderedDict()
        self.start = start

    def link(self, base_url: str, person: SignedIn) -> str:
        """A new one-time link, good for ten minutes."""
        return f"{base_url}/sign-in?{urlencode({'code': self._sessions.new_code(person)})}"

    @property
    def routes(self) -> Sequence[BaseRoute]:
        return [Route("/sign-in", self._sign_in, methods=["GET"])]

    async def sign_out(self, request: Request) -> Response:
        """Mounted behind the gate."""
        self._sessions.sign_out(request.state.session)
        gone = self._cookies.header("", scheme=request.url.scheme)
        return Response(status_code=204, headers={"set-cookie": gone})

    async def _sign_in(self, request: Request) -> Response:
        code = request.query_params.get("code", "")
        if session_of(request, self._sessions, self._cookies) is not None:
            return RedirectResponse(self.start, status_code=303)
        if not code:
            return HTMLResponse(await sign_in_page())
        if request.method == "HEAD" or "prefetch" in _purpose(request):
            return PlainTextResponse("not now", status_code=503)  # a look ahead must not use the code up
        address = request.client.host if request.client else ""
        if self._is_guessing(address):
            return HTMLResponse(
                await sign_in_page("Too many wrong codes. Wait a minute."),
                status_code=429,
                headers={"retry-after": "60"},
            )
        session = self._sessions.redeem(code)
        if session is None:
            self._wrong.setdefault(address, []).append(self._clock.monotonic())
            while len(self._wrong) > ADDRESSES:
                self._wrong.popitem(last=False)
            problem = "This link was used already or is older than ten minutes."
            return HTMLResponse(await sign_in_page(problem), status_code=403)
        cookie = self._cookies.header(self._sessions.cookie(session), scheme=request.url.scheme)
        return RedirectResponse(self.start, status_code=303, headers={"set-cookie": cookie})

    def _is_guessing(self, address: str) -> bool:
        since = self._clock.monotonic() - WINDOW_S
        recent = [at for at in self._wrong.get(address, ()) if at > since]
        if recent:
            self._wrong[address] = recent
        else:
            self._wrong.pop(address, None)
        return len(recent) >= TRIES


def _purpose(request: Request) -> str:
    return request.headers.get("sec-purpose", "") + request.headers.get("purpose", "")
