"""Export of the metrics, with the tokens of each model call as a histogram, which Prometheus has as a counter.

Every so many seconds the metrics of that moment are sent; what a collector does not take is in the next ones again.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module

import anyio

from agent.core.clock import Clock
from agent.core.events import CallBilled, Event, Published
from agent.storage.errors import StorageError
from agent.storage.timestamps import to_timestamp
from gateway.otel.exporter import FLUSH_WITHIN_S, Program, Sending
from gateway.telemetry.metrics import Gauges, Histogram, Metrics, operation_of

# The conventions' bounds of gen_ai.client.token.usage.
BOUNDS = tuple(float(4**power) for power in range(14))
HEARD: tuple[type[Event], ...] = (CallBilled,)

log = logging.getLogger("tieline.otel")

Series = tuple[str, str, str, str]  # operation, provider, model, kind of token


class TokenUsage:
    """Give `listen` to the bus for the kinds in HEARD; counts while `is_on` says so."""

    def __init__(self, is_on: Callable[[], bool]) -> None:
        self._is_on = is_on
        self._series: dict[Series, Histogram] = {}

    def listen(self, published: Published) -> None:
        """A listener for the event bus."""
        event = published.event
        if not isinstance(event, CallBilled) or not self._is_on():
            return
        read = event.prompt + event.cache_creation + event.cache_read
        for kind, tokens in (("input", read), ("output", event.output)):
            series = operation_of(event.purpose), event.provider, event.model, kind
            self._series.setdefault(series, Histogram(BOUNDS)).observe(tokens)

    def read(self) -> Mapping[Series, Sequence[float]]:
        """The sum and then the counts of the buckets of each series, as they are now."""
        return {series: (one.total, *one.counts) for series, one in self._series.items()}


class MetricExport:
    """Sends the metrics of the process. `gauges` reads those of a moment. Run it beside all."""

    def __init__(
        self,
        clock: Clock,
        sending: Sending,
        metrics: Metrics,
        *,
        gauges: Callable[[], Awaitable[Gauges]],
        usage: TokenUsage,
        program: Program,
    ) -> None:
        self._clock = clock
        self._sending = sending
        self._metrics = metrics
        self._gauges = gauges
        self._usage = usage
        self._program = program
        self._since_ns = to_timestamp(clock.now()) * 1000
        self._changed = anyio.Event()

    def heed(self) -> None:
        """The settings have changed."""
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def run(self) -> None:
        """Send each time so much time is over, until cancelled. Sleeps while nothing is to be sent."""
        while True:
            changed, settings = self._changed, self._sending.settings()
            if not settings.sends_metrics:
                await changed.wait()
                continue
            with anyio.move_on_after(settings.metrics_every_s):
                await changed.wait()
            if not changed.is_set():
                await self.send()

    async def send(self, *, at_end: bool = False) -> None:
        """Send the metrics of now, once: the next ones hold all that these do.

        `at_end`: the accounts are closed already, which is nobody's fault and not told.
        """
        settings = self._sending.settings()
        if not settings.sends_metrics:
            return
        try:
            gauges = await self._gauges()
            gauges = replace(gauges, adapters={}) if at_end else gauges
        except StorageError as error:
            log.warning("no metrics are sent this time, the database failed: %s", error)
            return
        exposition = await anyio.to_thread.run_sync(import_module, "gateway.telemetry.exposition")
        points = await anyio.to_thread.run_sync(import_module, "gateway.otel.points")
        spans = await anyio.to_thread.run_sync(import_module, "gateway.otel.spans")
        collector = await anyio.to_thread.run_sync(import_module, "gateway.otel.collector")
        make = partial(
            points.body_of,
            spans.resource_of(settings.service_name, self._program.version, self._program.instance),
            self._program.version,
            exposition.families(self._metrics, gauges),
            self._usage.read(),
            BOUNDS,
            since_ns=self._since_ns,
            at_ns=to_timestamp(self._clock.now()) * 1000,
        )
        body, number = await anyio.to_thread.run_sync(make)
        try:
            await self._sending.send("metrics", body)
        except collector.NotTaken as error:
            self._sending.fails("metrics", str(error))
            self._sending.drop("metrics", number)

    async def flush(self) -> None:
        """Send the last ones, for a few seconds at most. At the end."""
        with anyio.move_on_after(FLUSH_WITHIN_S):
            await self.send(at_end=True)
