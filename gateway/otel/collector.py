"""Requests to the collector of `[otel]`. Loads the HTTP library: imported by name at the first request.

The operator names the address, so it may be on this machine or in the local network. No redirect is followed: it would
take the headers, which hold keys, elsewhere.
"""

from email.utils import parsedate_to_datetime
from functools import partial
from typing import Literal

import anyio
import httpx2
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from agent.core.clock import Clock
from agent.core.httpx_limits import limited_to
from gateway.otel.settings import OtelSettings

WITHIN_S = 10.0  # for a whole request
LARGEST = 64 * 1024  # bytes of an answer
LONGEST_WAIT_S = 300.0  # that a collector may ask for
LATER = frozenset({429, 502, 503, 504})  # https://opentelemetry.io/docs/specs/otlp/#retryable-response-codes

Signal = Literal["traces", "metrics"]


class NotTaken(Exception):
    """The collector has not taken it; the text says why, without secrets. `retry_after_s` None: it never will."""

    def __init__(self, why: str, retry_after_s: float | None) -> None:
        super().__init__(why)
        self.retry_after_s = retry_after_s


class Collector:
    """One collector, which is called by `proxy` if one is given."""

    def __init__(self, settings: OtelSettings, clock: Clock, *, proxy: str | None, within_s: float = WITHIN_S) -> None:
        self._settings = settings
        self._clock = clock
        self._within_s = within_s
        self._proxy = proxy
        self._client: httpx2.AsyncClient | None = None

    async def send(self, signal: Signal, body: bytes) -> int:
        """Post it; how many spans or points of it the collector has left out. Raises NotTaken."""
        host, path = self._settings.host, f"/v1/{signal}"
        headers = {name: value.get_secret_value() for name, value in self._settings.headers.items()}
        headers |= {"content-type": "application/x-protobuf", "user-agent": "Tieline"}
        try:
            with anyio.fail_after(self._within_s):
                client = await self._opened()
                async with client.stream("POST", self._settings.address(path), content=body, headers=headers) as answer:
                    status, told = answer.status_code, answer.headers
                    said = await answer.aread() if status == 200 else b""
        except TimeoutError as error:
            raise NotTaken(f"{host} did not answer within {self._within_s:g} s", 0.0) from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            # Its text may hold a header's value; the kind alone is told.
            raise NotTaken(f"{host} cannot be reached: {type(error).__name__}", 0.0) from error
        if 200 <= status < 300:
            return _left_out(signal, said)
        elsewhere = ", which leads elsewhere and is not followed" if 300 <= status < 400 else ""
        wait_s = _wait_s(told.get("retry-after", ""), self._clock) if status in LATER else None
        raise NotTaken(f"{host} answered {path} with status {status}{elsewhere}", wait_s)

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _opened(self) -> httpx2.AsyncClient:
        if self._client is None:
            # In a thread: to read the certificates takes as long as tens of turns' steps.
            tls = await anyio.to_thread.run_sync(partial(httpx2.create_ssl_context, trust_env=False))
            self._client = httpx2.AsyncClient(
                verify=tls,
                trust_env=False,
                proxy=self._proxy,
                follow_redirects=False,
                timeout=None,
                event_hooks={"response": [limited_to(LARGEST)]},
            )
        return self._client


def _wait_s(header: str, clock: Clock) -> float:
    """The seconds that a Retry-After asks for (RFC 9110, section 10.2.3); 0 where it says nothing."""
    try:
        if header.strip().isdecimal():
            return min(float(header), LONGEST_WAIT_S)
        wait_s = (parsedate_to_datetime(header) - clock.now()).total_seconds()
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return min(max(0.0, wait_s), LONGEST_WAIT_S)


def _left_out(signal: Signal, said: bytes) -> int:
    """The number that a partial success tells; an answer that nobody can read is one all the same."""
    try:
        if signal == "traces":
            number: int = ExportTraceServiceResponse.FromString(said).partial_success.rejected_spans
        else:
            number = ExportMetricsServiceResponse.FromString(said).partial_success.rejected_data_points
    except DecodeError:
        return 0
    return max(0, number)
