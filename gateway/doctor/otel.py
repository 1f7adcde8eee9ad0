"""Tries the collector of `[otel]` with a request that holds nothing."""

from collections.abc import Sequence

from agent.core.clock import SystemClock
from gateway.channels.adapter import Diagnosis
from gateway.config.sections import is_loopback
from gateway.config.settings import Settings
from gateway.otel.collector import Collector, NotTaken, Signal
from gateway.running.monitoring.otel import proxy_of

SUBJECT = "OpenTelemetry"
FIX = "see [otel] endpoint and headers in the configuration (docs/opentelemetry.md)"


async def tried(settings: Settings) -> Sequence[Diagnosis]:
    """A finding: whether the collector takes what is sent to it."""
    otel = settings.otel
    wanted: tuple[tuple[Signal, bool], ...] = (("traces", otel.traces), ("metrics", otel.metrics))
    signals = [signal for signal, is_wanted in wanted if is_wanted]
    collector = Collector(otel, SystemClock(), proxy=proxy_of(settings))
    try:
        for signal in signals:
            await collector.send(signal, b"")  # an empty message of protobuf: of either kind of request
    except NotTaken as error:
        return [Diagnosis(subject=SUBJECT, level="error", finding=str(error), fix=FIX)]
    finally:
        await collector.aclose()
    told = f"{otel.host} takes {' and '.join(signals) or 'nothing: traces and metrics are both off'}"
    if otel.capture_content:
        told += "; texts of people and models go along (capture_content)"
    if otel.headers and not (otel.endpoint.startswith("https://") or is_loopback(otel.hostname)):
        fix = "use https:// in [otel] endpoint"
        finding = f"{told}, without TLS, so the values of its headers can be read on the way"
        return [Diagnosis(subject=SUBJECT, level="warning", finding=finding, fix=fix)]
    return [Diagnosis(subject=SUBJECT, level="ok", finding=told)]
