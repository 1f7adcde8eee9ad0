"""The way in: `/sign-in?code=…` with a one-time code that the terminal printed, and out again."""

from collections import OrderedDict
from collections.abc import Sequence
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from agent.core.clock import Clock
from gateway.channels.adapter import SignedIn
from gateway.web.gate import Cookies, session_of
from gateway.web.pages.loading import sign_in_page
from gateway.web.sessions import Sessions

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
