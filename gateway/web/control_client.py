"""The other end of the control socket, for commands: standard library only, so that they start fast."""

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

CONNECT_WITHIN_S = 5.0
ANSWER_WITHIN_S = 300.0
WITHOUT_LIMIT = frozenset({"backup", "ask"})  # as long as the data directory is large, and as a turn takes
RESTART = "restart the gateway"


class NoGateway(Exception):
    """No gateway runs with this data directory."""


class Refused(Exception):
    """The gateway said no; `fix` tells what to do about it."""

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.fix = fix


class OtherVersion(Refused):
    """The gateway does not know the operation: it runs with another version than this command, mostly an older one."""


def socket_path(home: Path) -> Path:
    """Where the control socket of a data directory lies."""
    return home / "tieline.sock"


def is_running(home: Path) -> bool:
    """Does a gateway answer there?"""
    try:
        _connected(home, CONNECT_WITHIN_S).close()
    except NoGateway:
        return False
    return True


def call(home: Path, operation: str, **arguments: Any) -> Any:
    """Have the running gateway do something and return its answer. Raises NoGateway, Refused and OtherVersion."""
    within_s = None if operation in WITHOUT_LIMIT else ANSWER_WITHIN_S
    try:
        with _request(home, "POST", f"/do/{operation}", arguments, within_s=within_s) as response:
            return _result(response.read())
    except OtherVersion as error:
        raise _told(home, operation, error) from error


def stream(home: Path, operation: str, **arguments: Any) -> Iterator[Any]:
    """The same for operations that answer bit by bit. Raises Refused where the operation fails, also midway."""
    try:
        with _request(home, "POST", f"/do/{operation}", arguments) as response:
            for line in response:
                if line.strip():
                    yield _result(line)
    except OtherVersion as error:
        raise _told(home, operation, error) from error


def channel_lines(home: Path, path: str) -> Iterator[Any]:
    """JSON lines of an adapter on the control socket (`/channels/console/events`), until it ends; no time limit."""
    with _request(home, "GET", path, None, within_s=None) as response:
        for line in response:
            if line.strip():
                yield json.loads(line)


def channel_call(home: Path, path: str, body: Any) -> Any:
    """Post JSON to an adapter on the control socket and return its JSON answer."""
    with _request(home, "POST", path, body) as response:
        return json.loads(response.read())


def differing(running: str) -> str:
    """The notice that the running gateway has another version than this command; "" where it has the same."""
    here = version("tieline")
    return "" if running == here else f"Tieline {running} runs, {here} is installed"


def _told(home: Path, operation: str, error: OtherVersion) -> OtherVersion:
    """The gateway's refusal with the versions of both."""
    try:
        with _request(home, "POST", "/do/version", {}) as response:
            versions = differing(str(_result(response.read())))
    except (NoGateway, Refused):
        versions = ""
    versions = versions or "an older version of Tieline runs than is installed"
    return OtherVersion(f"{versions}: it knows no operation {operation!r}", fix=RESTART)


@contextmanager
def _request(
    home: Path, method: str, path: str, body: Any, *, within_s: float | None = ANSWER_WITHIN_S
) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("localhost", timeout=within_s)
    connection.sock = _connected(home, within_s)
    try:
        with suppress(BrokenPipeError, ConnectionResetError):  # who is refused unread finds the answer all the same
            connection.request(
                method,
                path,
                body=None if body is None else json.dumps(body).encode(),
                headers={"content-type": "application/json", "connection": "close"},
            )
        response = connection.getresponse()
        if response.status >= 400:
            _refuse(response)
        yield response
    except TimeoutError as error:
        raise Refused("the gateway did not answer in time", fix="see its log, or restart it") from error
    except (ConnectionError, http.client.HTTPException) as error:
        raise NoGateway("the gateway went away before it had answered; see its log") from error
    finally:
        connection.close()


def _connected(home: Path, within_s: float | None) -> socket.socket:
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connected.settimeout(CONNECT_WITHIN_S)
    try:
        connected.connect(str(socket_path(home)))
    except PermissionError as error:
        connected.close()
        raise NoGateway(f"{socket_path(home)} belongs to another account; use the one that runs the gateway") from error
    except OSError as error:
        connected.close()
        raise NoGateway(f"no gateway runs with the data directory {home}; start it with `tieline run`") from error
    connected.settimeout(within_s)
    return connected


def _refuse(response: http.client.HTTPResponse) -> None:
    try:
        answer = json.loads(response.read())
    except ValueError:
        answer = {}
    if not isinstance(answer, dict):
        answer = {}
    default = f"the gateway failed (status {response.status})"
    refused = OtherVersion if response.status == 404 else Refused
    raise refused(answer.get("error", default), fix=answer.get("fix", "see its log" if not answer else ""))


def _result(text: bytes) -> Any:
    answer = json.loads(text)
    if "error" in answer:
        raise Refused(answer["error"], fix=answer.get("fix", ""))
    return answer["result"]
