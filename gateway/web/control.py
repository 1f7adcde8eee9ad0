"""The control socket: how `tieline …` in another shell talks to the running process.

HTTP on `TIELINE_HOME/tieline.sock`, mode 0600: whoever may open it owns the data directory. Protocol: `POST
/do/<operation>` with a JSON object; the answer is `{"result": …}`, or JSON lines where the operation yields them, or
`{"error": …, "fix": …}` with status 400 (404: this version has no such operation, 503: not yet, it is starting).
Adapters with entrance `control` are mounted below `/channels/<channel_type>`.
"""

import errno
import getpass
import json
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from agent.core.bounded_body import BodyTooLarge, whole_body
from agent.storage.errors import StorageError
from gateway.channels.adapter import SignedIn
from gateway.channels.keys import UserId
from gateway.web.control_client import socket_path
from gateway.web.server import serve

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]
Operation = Callable[[Mapping[str, Json]], Awaitable[Json | AsyncIterator[Json]]]

# Room for a socket's path in the system's structure (sun_path), without its end mark.
LONGEST_PATH = 103 if sys.platform == "darwin" else 107
LARGEST_BODY = 16 * 1024 * 1024  # bytes

log = logging.getLogger("tieline.control")


class ControlError(Exception):
    """The socket cannot be served; the text holds the fix."""


class OperationError(Exception):
    """An operation says no; `fix` tells what to do about it."""

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.fix = fix


class Control:
    """`bind`, then `run` in a task. Operations and routes may be added while it runs."""

    def __init__(self, home: Path, operations: Mapping[str, Operation], *, is_starting: bool = False) -> None:
        """`is_starting` until more operations are added: whoever asks for those is told to wait."""
        self._is_starting = is_starting
        self._home = home
        self._operations = dict(operations)
        self._socket: socket.socket | None = None
        self._closing = anyio.Event()
        self._channels = Router()
        self._app = Starlette(
            routes=[
                Route("/do/{operation}", self._do, methods=["POST"]),
                Mount("/channels", _AsOwner(self._channels)),
            ]
        )

    def bind(self) -> None:
        """Take the socket. Raises ControlError when another process has it or the path is too long."""
        path = socket_path(self._home)
        if len(os.fsencode(path)) > LONGEST_PATH:
            raise ControlError(
                f"the path of the control socket is longer than {LONGEST_PATH} bytes: {path}; "
                "set TIELINE_HOME to a shorter path"
            )
        _remove_stale(path)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)  # the socket must not be open to others even for a moment
        try:
            listening.bind(str(path))
        except OSError as error:
            listening.close()
            raise ControlError(f"cannot make {path}: {error.strerror}; check who owns the directory") from error
        finally:
            os.umask(before)
        listening.listen(64)
        self._socket = listening

    def close(self) -> None:
        """Give the socket back when it will not be served."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            _take_away(socket_path(self._home))

    def add(self, operations: Mapping[str, Operation]) -> None:
        """Serve more operations: these are all."""
        self._is_starting = False
        self._operations.update(operations)

    def mount(self, channel_type: str, routes: Sequence[BaseRoute]) -> None:
        """Serve an adapter's routes below `/channels/<channel_type>`."""
        self._channels.routes.append(Mount(f"/{channel_type}", routes=list(routes)))

    async def run(self) -> None:
        """Serve until cancelled, then take the socket away."""
        assert self._socket is not None, "bind first"
        try:
            await serve(self._app, self._socket, self._closing)
        finally:
            _take_away(socket_path(self._home))

    async def _do(self, request: Request) -> Response:
        name = request.path_params["operation"]
        operation = self._operations.get(name)
        if operation is None and self._is_starting:
            answer = {"error": "the gateway is still starting", "fix": "try again in a moment"}
            return JSONResponse(answer, status_code=503)
        if operation is None:
            fix = "is the running gateway older than this command? restart it"
            return JSONResponse({"error": f"the gateway knows no operation {name!r}", "fix": fix}, status_code=404)
        try:
            arguments = json.loads(await whole_body(request.stream(), LARGEST_BODY) or b"{}")
        except BodyTooLarge as error:
            return JSONResponse({"error": str(error), "fix": ""}, status_code=413)
        except (ValueError, RecursionError):
            return JSONResponse({"error": "the arguments are no JSON", "fix": ""}, status_code=400)
        if not isinstance(arguments, dict):
            return JSONResponse({"error": "the arguments are no JSON object", "fix": ""}, status_code=400)
        try:
            result = await operation(arguments)
        except OperationError as error:
            return JSONResponse({"error": str(error), "fix": error.fix}, status_code=400)
        except StorageError as error:
            return JSONResponse({"error": str(error), "fix": ""}, status_code=400)
        if isinstance(result, AsyncIterator):
            return StreamingResponse(_lines(result, name), media_type="application/x-ndjson")
        return JSONResponse({"result": result})


class _AsOwner:
    """Sets `request.state.person`: the account that owns the data directory."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state = scope.setdefault("state", {})
        state["person"] = SignedIn(id=UserId("operator"), display=_login_name())
        await self._app(scope, receive, send)


async def _lines(results: AsyncIterator[Json], name: str) -> AsyncIterator[str]:
    try:
        async for result in results:
            yield json.dumps({"result": result}, ensure_ascii=False) + "\n"
    except OperationError as error:
        yield json.dumps({"error": str(error), "fix": error.fix}, ensure_ascii=False) + "\n"
    except StorageError as error:
        yield json.dumps({"error": str(error), "fix": ""}, ensure_ascii=False) + "\n"


def _remove_stale(path: Path) -> None:
    """A socket nobody listens on is left from a process that was killed."""
    if not path.is_socket():
        if path.exists():
            raise ControlError(f"{path} is in the way and is no socket; move it elsewhere")
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError as error:
            if error.errno not in {errno.ECONNREFUSED, errno.ENOENT}:
                raise ControlError(f"{path} belongs to somebody else: {error.strerror}; check its owner") from error
        else:
            raise ControlError(f"another gateway runs with this data directory (it answers on {path}); stop it first")
    path.unlink(missing_ok=True)


def _take_away(path: Path) -> None:
    """A socket that nobody serves any more; on a disk that has failed it stays, and the next start takes its place."""
    with suppress(OSError):
        path.unlink()


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in many containers
        return "operator"
