"""Lets in who is signed in, and takes a change of state only from a page of ours."""

from functools import partial

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent.core.program import program_as_typed
from gateway.web.guard import SAFE_METHODS, origin_allowed
from gateway.web.pages.loading import sign_in_page
from gateway.web.sessions import SESSION_LIFE, Session, Sessions

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
