"""OpenTelemetry: who tells the exporters of what, and by which way they reach the collector."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio

from agent.core.ids import random_uuid
from agent.memory.records import Forgotten
from gateway.config.sections import is_loopback
from gateway.config.settings import Settings
from gateway.otel import metric_export
from gateway.otel.exporter import Program, Sending, TraceExport
from gateway.otel.metric_export import MetricExport, TokenUsage
from gateway.running.basics import Basics
from gateway.telemetry.metrics import Gauges, Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class OtelServices:
    """The exporters. Neither does anything while `[otel]` names no collector."""

    sending: Sending
    traces: TraceExport
    metrics: MetricExport

    async def aclose(self) -> None:
        """Send what waits, for a few seconds at most, and close the connection."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.traces.flush)
            tasks.start_soon(self.metrics.flush)
        await self.sending.aclose()


def install_otel(
    basics: Basics, metrics: Metrics, forgotten: Forgotten, version: str, gauges: Callable[[], Awaitable[Gauges]]
) -> OtelServices:
    """From now on turns and metrics are exported, where a collector is named. `gauges` is asked once all is built."""
    sending = Sending(
        basics.clock,
        settings=lambda: basics.settings.otel,
        proxy=lambda: proxy_of(basics.settings),
        troubles=basics.troubles,
        dropped=metrics.dropped,
    )
    program = Program(version=version, instance=random_uuid())
    usage = TokenUsage(lambda: basics.settings.otel.sends_metrics)
    basics.bus.listen(usage.listen, metric_export.HEARD)
    traces = TraceExport(
        basics.database,
        basics.clock,
        sending,
        traces=lambda: basics.settings.traces,
        forgotten=forgotten,
        redact=basics.redact,
        program=program,
    )
    exported = MetricExport(basics.clock, sending, metrics, gauges=gauges, usage=usage, program=program)
    basics.live.listen(lambda settings: traces.heed())
    basics.live.listen(lambda settings: exported.heed())
    return OtelServices(sending=sending, traces=traces, metrics=exported)


def proxy_of(settings: Settings) -> str | None:
    """The operator's proxy; this machine is called without it."""
    return None if is_loopback(settings.otel.hostname) else settings.network.proxy
