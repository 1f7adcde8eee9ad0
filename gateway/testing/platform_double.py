"""Double of a platform's HTTP interface: an author's handlers, served by aiohttp on loopback, which fail on demand."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.testing.harness import Fault

# What platforms answer, unless a fault says otherwise. `cut_after` is no answer: the connection goes.
STATUSES: dict[Fault, int] = {"busy": 429, "server_error": 502, "refuse": 400, "gone": 403}


@dataclass(slots=True)
class Call:
    """A request that came, and the status of its answer; 0: it got none."""

    method: str
    path: str
    status: int = 0
    fault: Fault | None = None


@dataclass(slots=True)
class _Due:
    method: str
    path: str
    fault: Fault
    times: int
    status: int
    after_s: float
    body: Any


class PlatformDouble(ABC):
    """The platform as a server. A subclass keeps its messages and gives its `routes`; handlers are aiohttp's.

    `calls` has every request in order. `fail` lets the next requests to a path meet a fault.
    """

    def __init__(self) -> None:
        self.url = ""
        self.calls: list[Call] = []
        self._due: list[_Due] = []

    @abstractmethod
    def routes(self) -> Iterable[web.AbstractRouteDef]:
        """The platform's routes: web.get(path, handler), …"""

    def fail(
        self,
        method: str,
        path: str,
        fault: Fault,
        *,
        times: int = 1,
        status: int = 0,
        after_s: float = 2.0,
        body: Any = None,
    ) -> None:
        """The next `times` requests to the path meet this; `after_s` is what `busy` asks for.

        `body` is the JSON of the refusal, in the platform's own form; by itself it is {"error": fault}.

        A `*` at its end stands for anything. All faults but `cut_after` come before anything is carried out.
        """
        self._due.append(_Due(method, path, fault, times, status or STATUSES.get(fault, 0), after_s, body))

    @asynccontextmanager
    async def served(self, port: int = 0) -> AsyncIterator[None]:
        """On this port of loopback, 0: one that is free; `url` names it from then on."""
        application = web.Application(middlewares=[self._answered])
        application.add_routes(self.routes())
        runner = web.AppRunner(application, shutdown_timeout=0.1, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", port).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            yield
        finally:
            await runner.cleanup()

    @web.middleware
    async def _answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        call = Call(request.method, request.path)
        self.calls.append(call)
        due = self._due_for(request)
        call.fault = due.fault if due else None
        if due is not None and due.fault != "cut_after":
            call.status = due.status
            headers = {"Retry-After": f"{due.after_s:.0f}"} if due.fault == "busy" else {}
            body = {"error": due.fault} if due.body is None else due.body
            return web.json_response(body, status=due.status, headers=headers)
        try:
            response = await handler(request)
        except web.HTTPException as refused:
            call.status = refused.status
            raise
        if due is not None and request.transport is not None:
            request.transport.close()
            return response
        call.status = response.status
        return response

    def _due_for(self, request: web.Request) -> _Due | None:
        for due in self._due:
            matches = request.path.startswith(due.path[:-1]) if due.path.endswith("*") else request.path == due.path
            if due.times and due.method == request.method and matches:
                due.times -= 1
                return due
        return None
