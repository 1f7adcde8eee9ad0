"""A collector for OTLP/HTTP on loopback, as strict as a real one, and as unkind when it is told to be."""

import gzip
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from gateway.web.server import serve
from tests.fakes.running import running

PROTOBUF = "application/x-protobuf"
KEY = "k3y-of-the-collector"


@dataclass(frozen=True, slots=True)
class SeenSpan:
    """A span as the collector has it; moments are in nanoseconds."""

    name: str
    trace: str
    id: str
    parent: str
    kind: str
    begun: int
    ended: int
    failed: bool
    attributes: Mapping[str, Any]


@dataclass
class OtlpCollector:
    """`status` is the answer from now on, with `retry_after` if that is set; while `is_slow` there is none.

    `key`: what the header `x-api-key` must hold, None: anything. `rejects` is how many spans or points of each request
    it leaves out, as it tells. `bodies` are those that were taken.
    """

    url: str
    key: str | None = None
    status: int = 200
    retry_after: str = ""
    rejects: int = 0
    is_slow: bool = False
    asked: int = 0
    bodies: list[bytes] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    elsewhere: list[Mapping[str, str]] = field(default_factory=list)
    resources: list[Mapping[str, Any]] = field(default_factory=list)
    spans: list[SeenSpan] = field(default_factory=list)
    metrics: dict[str, Metric] = field(default_factory=dict)

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/traces", self._traces, methods=["POST"]),
                Route("/v1/metrics", self._metrics, methods=["POST"]),
                Route("/elsewhere", self._elsewhere, methods=["POST", "GET"]),
            ]
        )

    def named(self, name: str) -> SeenSpan:
        """The one span with that name."""
        (found,) = (span for span in self.spans if span.name == name)
        return found

    def children(self, of: SeenSpan) -> list[str]:
        """Names of the spans below it, in the order in which they began."""
        below = [span for span in self.spans if span.parent == of.id and span.trace == of.trace]
        return [span.name for span in sorted(below, key=lambda span: span.begun)]

    async def _traces(self, request: Request) -> Response:
        body = await self._body(request)
        if isinstance(body, Response):
            return body
        try:
            told = ExportTraceServiceRequest.FromString(body)
        except DecodeError:
            return Response(status_code=400)
        spans = [span for resource in told.resource_spans for scope in resource.scope_spans for span in scope.spans]
        if any(len(span.trace_id) != 16 or len(span.span_id) != 8 or not span.name for span in spans):
            return Response(status_code=400)
        self._take(request, body)
        self.resources += [_values(resource.resource.attributes) for resource in told.resource_spans]
        self.spans += map(_seen, spans)
        partial = ExportTracePartialSuccess(rejected_spans=self.rejects, error_message="too many")
        answer = ExportTraceServiceResponse(partial_success=partial if self.rejects else None)
        return Response(answer.SerializeToString(), media_type=PROTOBUF)

    async def _metrics(self, request: Request) -> Response:
        body = await self._body(request)
        if isinstance(body, Response):
            return body
        try:
            told = ExportMetricsServiceRequest.FromString(body)
        except DecodeError:
            return Response(status_code=400)
        self._take(request, body)
        self.resources += [_values(resource.resource.attributes) for resource in told.resource_metrics]
        self.metrics |= {metric.name: metric for metric in _metrics_in(told)}
        partial = ExportMetricsPartialSuccess(rejected_data_points=self.rejects)
        answer = ExportMetricsServiceResponse(partial_success=partial if self.rejects else None)
        return Response(answer.SerializeToString(), media_type=PROTOBUF)

    async def _elsewhere(self, request: Request) -> Response:
        self.elsewhere.append(dict(request.headers))
        return Response(status_code=200)

    async def _body(self, request: Request) -> bytes | Response:
        """The body, unpacked, or the refusal."""
        self.asked += 1
        body = await request.body()
        while self.is_slow:  # noqa: ASYNC110 - the test ends it
            await anyio.sleep(0.01)
        if request.headers.get("content-type") != PROTOBUF:
            return Response(status_code=415)
        if self.key is not None and request.headers.get("x-api-key") != self.key:
            return Response("who are you?", status_code=401)
        if self.status in (301, 307):
            return RedirectResponse(f"{self.url}/elsewhere", status_code=self.status)
        if self.status != 200:
            headers = {"retry-after": self.retry_after} if self.retry_after else {}
            return Response("no" * 100_000, status_code=self.status, headers=headers)
        return gzip.decompress(body) if request.headers.get("content-encoding") == "gzip" else body

    def _take(self, request: Request, body: bytes) -> None:
        self.bodies.append(body)
        self.headers.append(dict(request.headers))


def _metrics_in(told: ExportMetricsServiceRequest) -> Iterator[Metric]:
    for resource in told.resource_metrics:
        for scope in resource.scope_metrics:
            yield from scope.metrics


def _seen(span: Span) -> SeenSpan:
    return SeenSpan(
        name=span.name,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        kind=Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower(),
        begun=span.start_time_unix_nano,
        ended=span.end_time_unix_nano,
        failed=span.status.code == Status.STATUS_CODE_ERROR,
        attributes=_values(span.attributes),
    )


def _values(attributes: Any) -> Mapping[str, Any]:
    found: list[KeyValue] = list(attributes)
    return {one.key: _value(one.value) for one in found}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind) if kind is not None else None


@asynccontextmanager
async def otlp_collector(key: str | None = None) -> AsyncIterator[OtlpCollector]:
    """One that listens."""
    listening = socket.create_server(("127.0.0.1", 0))
    collector = OtlpCollector(url=f"http://127.0.0.1:{listening.getsockname()[1]}", key=key)
    async with running(lambda: serve(collector.app(), listening, anyio.Event())):
        yield collector
