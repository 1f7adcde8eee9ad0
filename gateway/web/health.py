"""`/healthz`, `/readyz` and `/metrics`: whether the program lives, can work, and how much it has done."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from hmac import compare_digest
from importlib import import_module

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from gateway.channels.adapter import Health, State
from gateway.telemetry.metrics import Gauges, Metrics
from gateway.telemetry.trouble import Trouble


@dataclass(frozen=True, slots=True)
class Reason:
    """Why the process is not ready: what it is about, what is wrong with it, and how to mend it where that is known."""

    subject: str
    text: str
    fix: str = ""

    def as_json(self) -> dict[str, str]:
        return {"subject": self.subject, "text": self.text} | ({"fix": self.fix} if self.fix else {})


STARTING = Reason("tieline", "starting")
STOPPING = Reason("tieline", "stopping")


def not_ready(adapters: Mapping[str, Health], troubles: Sequence[Trouble]) -> tuple[Reason, ...]:
    """The reasons, none when all is well. Red when an adapter does not hear or a trouble blocks (issue 2)."""
    deaf = [
        Reason(name, f"{health.state}{': ' + health.detail if health.detail else ''}")
        for name, health in adapters.items()
        if health.state not in (State.CONNECTED, State.PAUSED)  # who paused it knows
    ]
    named = {reason.subject for reason in deaf}
    rest = (trouble for trouble in troubles if trouble.blocking and trouble.subject not in named)
    return (*deaf, *(Reason(trouble.subject, trouble.text, trouble.fix) for trouble in rest))


class HealthPages:
    """The three routes. Until `watch` was called the process is starting; details are for the operator only."""

    def __init__(self, is_trusted: Callable[[Request], Awaitable[bool]], metrics_token: str | None = None) -> None:
        self._is_trusted = is_trusted
        self._token = metrics_token
        self._reasons: Callable[[], Sequence[Reason]] = lambda: (STARTING,)
        self._metrics: tuple[Metrics, Callable[[], Awaitable[Gauges]]] | None = None

    def watch(self, reasons: Callable[[], Sequence[Reason]]) -> None:
        """From now on these are the reasons not to be ready."""
        self._reasons = reasons

    def reasons(self) -> Sequence[Reason]:
        """Why it is not ready; empty when it is."""
        return self._reasons()

    def measure(self, metrics: Metrics, gauges: Callable[[], Awaitable[Gauges]]) -> None:
        """From now on `/metrics` has something to tell."""
        self._metrics = (metrics, gauges)

    @property
    def routes(self) -> Sequence[BaseRoute]:
        return [
            Route("/healthz", self._healthz),
            Route("/readyz", self._readyz),
            Route("/metrics", self._metrics_page),
        ]

    async def _healthz(self, request: Request) -> Response:
        return JSONResponse({"alive": True})

    async def _readyz(self, request: Request) -> Response:
        reasons = self.reasons()
        answer: dict[str, object] = {"ready": not reasons}
        if await self._is_trusted(request):
            answer["reasons"] = [reason.as_json() for reason in reasons]
        return JSONResponse(answer, status_code=503 if reasons else 200)

    async def _metrics_page(self, request: Request) -> Response:
        if not await self._is_trusted(request) and not self._has_token(request):
            text = "metrics are for this machine, signed-in people and holders of the metrics_token of section [web]\n"
            return PlainTextResponse(text, status_code=403)
        if self._metrics is None:
            return PlainTextResponse("starting\n", status_code=503, headers={"retry-after": "1"})
        metrics, gauges = self._metrics
        now = await gauges()
        # Loaded at the first scrape: most installations are never scraped, and the library is slow to import.
        exposition = await to_thread.run_sync(import_module, "gateway.telemetry.exposition")
        return Response(exposition.exposition(metrics, now), media_type=exposition.CONTENT_TYPE)

    def _has_token(self, request: Request) -> bool:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        return self._token is not None and compare_digest(given.encode(), self._token.encode())
