"""The web server: binds first and tells that it is alive; everything else is mounted into it afterwards.

Nothing is served to strangers but health, the sign-in page and what platforms sign themselves.
"""

import contextlib
import errno
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from ipaddress import ip_network
from pathlib import Path

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from agent.core.clock import Clock
from agent.storage.errors import StorageError
from gateway.channels.adapter import Adapter, Entrance, SignedIn
from gateway.config.sections import WebSettings
from gateway.telemetry.metrics import Gauges, Metrics
from gateway.web.health import STOPPING, HealthPages, Reason
from gateway.web.middleware import Doorway, PersonHeader
from gateway.web.pages.templates import page
from gateway.web.request_checks import directly_local, own_hosts
from gateway.web.sessions import OPERATOR, Cookies, Sessions, SignInSource, session_of
from gateway.web.sign_in.oidc import Oidc
from gateway.web.sign_in.routes import Gate, GateParts, Rights, SignIn, owner_alone

# A uvicorn server as one of our own tasks: stops in order when cancelled, and leaves signals alone.

DRAIN_S = 5
AT_ONCE = 1_000  # connections and running requests; more are answered 503

Links = Callable[[SignedIn], Awaitable[str]]  # a new one-time link for that person
DashboardRoutes = Callable[[Callable[[], Sequence[Reason]], str, Links], Sequence[Mount | Route]]


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, closing: anyio.Event) -> None:
        super().__init__(config)
        self._closing = closing

    async def main_loop(self) -> None:
        """Keeps the date header right; uvicorn's own loop would wake ten times a second and end a tick late."""
        while not self._closing.is_set():
            await self.on_tick(0)
            with anyio.move_on_after(1.0):
                await self._closing.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # signals belong to the composition root


class _Ending:
    """Lets answers that would go on for ever (event streams) end in order when we stop: the client seems to go."""

    def __init__(self, app: ASGIApp, closing: anyio.Event) -> None:
        self._app = app
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        whole, is_open = False, False

        async def hear() -> Message:
            nonlocal whole
            if whole:
                return await self._gone(receive)
            message = await receive()
            whole = message["type"] == "http.request" and not message.get("more_body", False)
            return message

        async def tell(message: Message) -> None:
            nonlocal is_open
            is_open = message["type"] == "http.response.start" or bool(message.get("more_body", False))
            await send(message)

        await self._app(scope, hear, tell)
        if is_open and self._closing.is_set():
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _gone(self, receive: Receive) -> Message:
        """After the body nothing comes but the end of the connection, or ours."""
        message: Message = {"type": "http.disconnect"}

        async def hear() -> None:
            nonlocal message
            message = await receive()
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(hear)
            await self._closing.wait()
            group.cancel_scope.cancel()
        return message


async def serve(app: ASGIApp, listening: socket.socket, closing: anyio.Event) -> None:
    """Serve until cancelled; then set `closing`, let running answers end for up to five seconds, and return."""
    config = uvicorn.Config(
        _Ending(app, closing),
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # decided by `trusted_proxies`, in our own stack
        server_header=False,
        limit_concurrency=AT_ONCE,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=DRAIN_S,
    )
    server = _Server(config, closing)

    async def run_to_the_end() -> None:
        with anyio.CancelScope(shield=True):
            await server.serve(sockets=[listening])

    async with anyio.create_task_group() as group:
        group.start_soon(run_to_the_end)
        try:
            await anyio.sleep_forever()
        finally:
            closing.set()
            server.should_exit = True


STATIC = Path(__file__).parent / "pages" / "static"
CHAT = "/chat"


class WebError(Exception):
    """The server cannot start; the text holds the fix."""


class WebServer:
    """`bind`, then `run` in a task, `let_in` people, then `mount…` whatever there is, then `watch`."""

    def __init__(self, settings: WebSettings, *, home: Path, clock: Clock, proxy: str | None = None) -> None:
        """`proxy` is on the way to an identity provider."""
        self._settings = settings
        self._proxy = proxy
        self._home = home
        self._clock = clock
        self.closing = anyio.Event()  # set as soon as it stops
        self._socket: socket.socket | None = None
        self._everything_mounted = False
        self._awaited: set[str] = set()
        self._upload_paths: list[str] = []
        self._rights: Rights = owner_alone

    def bind(self) -> None:
        """Take the port; from now on connections wait. Raises WebError with the fix."""
        settings = self._settings
        mistakes = settings.mistakes()
        if mistakes:
            raise WebError("; ".join(mistakes))
        self._socket = _listen(settings.host, settings.port)
        self.port: int = self._socket.getsockname()[1]
        hosts = own_hosts(settings, self.port)
        self._cookies = Cookies(port=self.port, secure=settings.scheme == "https")
        try:
            self._sessions = Sessions(self._home / "web", self._clock)
        except OSError as error:
            self._socket.close()
            raise WebError(f"cannot write {self._home / 'web'}: {error.strerror}; check its owner and mode") from error
        label = settings.oidc.label if settings.oidc.issuer else ""
        self.sign_in = SignIn(self._sessions, self._cookies, hosts, oidc_label=label)
        self._oidc = Oidc(
            settings.oidc,
            sign_in=self.sign_in,
            sessions=self._sessions,
            cookies=self._cookies,
            clock=self._clock,
            base_url=self.url,
            proxy=self._proxy,
        )
        token = settings.metrics_token.get_secret_value() if settings.metrics_token else None
        self._health = HealthPages(self._is_trusted, token)
        self._gates = GateParts(
            sessions=self._sessions,
            cookies=self._cookies,
            hosts=hosts,
            rights=lambda person: self._rights(person),
            ask=self.sign_in.ask,
        )
        self._app = Starlette(
            routes=[
                *self._health.routes,
                *self.sign_in.routes,
                *(self._oidc.routes if settings.oidc.issuer else ()),
                Mount("/static", StaticFiles(directory=STATIC)),
                Route("/favicon.ico", _favicon),
            ],
            middleware=[Middleware(Doorway, settings=settings, hosts=hosts, upload_paths=self._upload_paths)],
            exception_handlers={HTTPException: _as_json, 404: self._missing},
        )
        self._behind_sign_in([Route("/sign-out", self.sign_in.sign_out, methods=["POST"])])

    @property
    def url(self) -> str:
        """Its address for people: `public_url`, else the address it is bound to."""
        return (self._settings.public_url or self.local_url).rstrip("/")

    @property
    def local_url(self) -> str:
        """Its address for programs of this machine."""
        host = self._settings.host
        shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
        return f"http://{shown}:{self.port}"

    def let_in(self, source: SignInSource) -> None:
        """The database is open: people can sign in, and who has signed in is known again."""
        self.sign_in.open(source)
        self._oidc.open(source)

    def give_rights(self, rights: Rights) -> None:
        """From now on these are the rights in the dashboard; before, the owner alone has any."""
        self._rights = rights

    async def sign_in_link(self, person: SignedIn = OPERATOR) -> str:
        """A new one-time link, good for ten minutes. Raises StorageError; ValueError for who may not sign in."""
        return await self.sign_in.link(self.url, person)

    async def run(self) -> None:
        """Serve until cancelled; running answers get a few seconds to end."""
        assert self._socket is not None, "bind first"
        app: ASGIApp = self._app
        if self._settings.trusted_proxies:
            # uvicorn leaves out, without a word, a network that is written with an address in it ("10.0.0.2/24").
            trusted = [str(ip_network(proxy, strict=False)) for proxy in self._settings.trusted_proxies]
            app = ProxyHeadersMiddleware(app, trusted)  # type: ignore[arg-type,assignment]
        if self._settings.person_header:
            app = PersonHeader(app, self._settings)
        await serve(app, self._socket, self.closing)

    def mount(self, path: str, routes: Sequence[BaseRoute], *, entrance: Entrance) -> None:
        """Serve routes below `path`, for anybody (`platform`) or behind the sign-in."""
        mounted = Mount(path, routes=list(routes))
        match entrance:
            case "platform":
                self._app.router.routes.append(mounted)
            case "sign_in":
                self._behind_sign_in([mounted])
                self._upload_paths.append(f"{path}/")
            case "control" | "key":
                raise ValueError(f"{path}: such routes are not the web server's")

    def mount_door(self, mount: Mount, *, large: bool = False) -> None:
        """Serve a door for other programs, to anybody: it asks for a key itself. `large` bodies may hold files."""
        self._app.router.routes.append(mount)
        if large:
            self._upload_paths.append(f"{mount.path}/")

    def expect(self, entrances: Mapping[str, Entrance]) -> None:
        """Answer 503 for these accounts, by channel type, and for the pages of people, until they are mounted.

        A page or a platform tries such an answer again, and takes a 404 for the end.
        """
        served = {name: entrance for name, entrance in entrances.items() if entrance not in ("control", "key")}
        self._awaited |= {f"/channels/{name}" for name in served}
        if "sign_in" in served.values():
            self._awaited.add("/")  # the chat, and the operator's pages with it

    def mount_adapter(self, adapter: Adapter, entrance: Entrance) -> None:
        """Serve what an adapter has, below `/channels/<channel_type>`; the first web chat is `/chat` too."""
        self._awaited.discard(f"/channels/{adapter.channel_type}")
        if not adapter.routes or entrance in ("control", "key"):
            return
        self.mount(f"/channels/{adapter.channel_type}", adapter.routes, entrance=entrance)
        if entrance == "sign_in" and self.sign_in.start == "/":
            self.mount(CHAT, adapter.routes, entrance=entrance)
            self.sign_in.start = f"{CHAT}/"

    def unmount_adapter(self, channel_type: str, comes_back: bool) -> None:
        """Serve an account of a platform no longer; the platform is told to try again where it `comes_back`."""
        path = f"/channels/{channel_type}"
        routes = self._app.router.routes
        routes[:] = [route for route in routes if not (isinstance(route, Mount) and route.path == path)]
        if comes_back:
            self._awaited.add(path)
        else:
            self._awaited.discard(path)

    def mount_dashboard(self, routes: DashboardRoutes) -> None:
        """Serve the operator's pages behind the sign-in; after `mount_adapter`.

        `routes` is told who knows why the gateway is not ready, where the chat is ("": nowhere), and who makes links.
        """
        chat = self.sign_in.start if self.sign_in.start != "/" else ""
        self._behind_sign_in(routes(self._health.reasons, chat, self.sign_in_link))
        self._awaited.discard("/")

    def measure(self, metrics: Metrics, gauges: Callable[[], Awaitable[Gauges]]) -> None:
        """Give `/metrics` its numbers."""
        self._health.measure(metrics, gauges)

    def watch(self, reasons: Callable[[], Sequence[Reason]]) -> None:
        """Note that all pages are mounted that belong to no account; from now on `/readyz` asks `reasons`."""
        self._everything_mounted = True
        self._health.watch(lambda: (STOPPING,) if self.closing.is_set() else reasons())

    def _behind_sign_in(self, routes: Sequence[Mount | Route]) -> None:
        for route in routes:
            inside = route.app if isinstance(route, Mount) else Router([route])
            gate = Gate(inside, self._gates)
            kept = Mount(route.path, gate) if isinstance(route, Mount) else Route(route.path, gate)
            self._app.router.routes.append(kept)

    async def _missing(self, request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException) and error.detail != "Not Found":
            return await _as_json(request, error)  # an adapter's own words
        if not self._everything_mounted or self._is_awaited(request.url.path):
            return PlainTextResponse("Tieline is starting.\n", status_code=503, headers={"retry-after": "1"})
        if "text/html" not in request.headers.get("accept", ""):
            return PlainTextResponse("There is nothing here.\n", status_code=404)
        return HTMLResponse(await page("missing.html", start=self.sign_in.start), status_code=404)

    def _is_awaited(self, path: str) -> bool:
        return any(f"{path.rstrip('/')}/".startswith(f"{awaited.rstrip('/')}/") for awaited in self._awaited)

    async def _is_trusted(self, request: Request) -> bool:
        client = request.client.host if request.client else None
        if directly_local(client, request.headers, self._settings):
            return True
        try:
            session = await session_of(request, self._sessions, self._cookies)
        except StorageError:
            return False
        return session is not None and "view" in self._rights(session.person.id)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=family, backlog=2048)
    except socket.gaierror as error:
        raise WebError(f'web.host: "{host}" is no address of this machine ({error.strerror})') from error
    except OSError as error:
        raise WebError(_why_not(host, port, error)) from error


def _why_not(host: str, port: int, error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return (
                f"port {port} on {host} is taken by another program, perhaps another Tieline; stop that one or set "
                f"port = {port + 1 if port < 65535 else 8080} in section [web]"
            )
        case errno.EACCES:
            return f"port {port} needs special rights; set port = 8080 in section [web] and put a proxy before it"
        case errno.EADDRNOTAVAIL:
            return f'web.host: "{host}" is no address of this machine; use "127.0.0.1", or "0.0.0.0" for all'
        case _:
            return f"cannot listen on {host} port {port}: {error.strerror}"


async def _as_json(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, status_code=error.status_code, headers=error.headers)


async def _favicon(request: Request) -> Response:
    return RedirectResponse("/static/icon.svg", status_code=308)
