"""The metrics as points of OTLP: the same families as for Prometheus, and the usage of tokens as a histogram. Pure.

Loaded by name where it is needed. Names of https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-metrics/ where
they have one; all others are called as for Prometheus, whose collectors add `_total` by themselves.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    Gauge,
    HistogramDataPoint,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import Histogram as OtlpHistogram
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric as OtlpMetric
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from prometheus_client import Metric
from prometheus_client.samples import Sample

from gateway.otel.metric_export import Series
from gateway.telemetry.metrics import TOKENS

SCOPE = "tieline"
CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
USAGE = "gen_ai.client.token.usage"
NAMES: Mapping[str, tuple[str, str]] = {  # to the name and the unit
    "gen_ai_client_operation_duration_seconds": ("gen_ai.client.operation.duration", "s"),
    "gen_ai_client_operation_time_to_first_chunk_seconds": ("gen_ai.client.operation.time_to_first_chunk", "s"),
}
LABELS: Mapping[str, str] = {
    "gen_ai_operation_name": "gen_ai.operation.name",
    "gen_ai_provider_name": "gen_ai.provider.name",
    "gen_ai_request_model": "gen_ai.request.model",
    "gen_ai_token_type": "gen_ai.token.type",
}


def body_of(
    resource: Resource, version: str, families: Iterable[Metric], usage: Mapping[Series, Sequence[float]],
    bounds: Sequence[float], *, since_ns: int, at_ns: int,
) -> tuple[bytes, int]:  # fmt: skip
    """The body of a request, and the number of its points. Counts began at `since_ns`; both in UTC nanoseconds."""
    metrics = [made for family in families if (made := _metric(family, since_ns, at_ns)) is not None]
    if usage:
        metrics.append(_token_usage(usage, bounds, since_ns, at_ns))
    scope = ScopeMetrics(scope=InstrumentationScope(name=SCOPE, version=version), metrics=metrics)
    request = ExportMetricsServiceRequest(resource_metrics=[ResourceMetrics(resource=resource, scope_metrics=[scope])])
    body: bytes = request.SerializeToString()
    return body, sum(_size(metric) for metric in metrics)


def _metric(family: Metric, since_ns: int, at_ns: int) -> OtlpMetric | None:
    """The family; None for the count of tokens, which the histogram of them tells."""
    name, unit = NAMES.get(family.name, (family.name, ""))
    if family.name == TOKENS or not family.samples:
        return None
    made = OtlpMetric(name=name, unit=unit, description=family.documentation)
    match family.type:
        case "histogram":
            points = _histogram_points(family.samples, since_ns, at_ns)
            made.histogram.CopyFrom(OtlpHistogram(data_points=points, aggregation_temporality=CUMULATIVE))
        case "counter":
            numbers = _numbers(family.samples, since_ns, at_ns)
            made.sum.CopyFrom(Sum(data_points=numbers, aggregation_temporality=CUMULATIVE, is_monotonic=True))
        case _:
            made.gauge.CopyFrom(Gauge(data_points=_numbers(family.samples, 0, at_ns)))
    return made


def _numbers(samples: Iterable[Sample], since_ns: int, at_ns: int) -> Iterator[NumberDataPoint]:
    for sample in samples:
        yield NumberDataPoint(
            attributes=_attributes(sample.labels),
            start_time_unix_nano=since_ns,
            time_unix_nano=at_ns,
            as_double=sample.value,
        )


def _histogram_points(samples: Iterable[Sample], since_ns: int, at_ns: int) -> Iterator[HistogramDataPoint]:
    """A point for each series: the counts of its buckets apart, not added up as for Prometheus."""
    buckets: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = defaultdict(list)
    sums: dict[tuple[tuple[str, str], ...], float] = {}
    for sample in samples:
        series = tuple((name, value) for name, value in sample.labels.items() if name != "le")
        if sample.name.endswith("_bucket"):
            buckets[series].append((float(sample.labels["le"]), sample.value))
        elif sample.name.endswith("_sum"):
            sums[series] = sample.value
    for series, found in buckets.items():
        counts = [found[0][1], *(upper - lower for (_, lower), (_, upper) in pairwise(found))]
        yield HistogramDataPoint(
            attributes=_attributes(dict(series)),
            start_time_unix_nano=since_ns,
            time_unix_nano=at_ns,
            count=round(found[-1][1]),
            sum=sums.get(series, 0.0),
            bucket_counts=map(round, counts),
            explicit_bounds=[bound for bound, _ in found[:-1]],
        )


def _token_usage(
    usage: Mapping[Series, Sequence[float]], bounds: Sequence[float], since_ns: int, at_ns: int
) -> OtlpMetric:
    points = [
        HistogramDataPoint(
            attributes=_attributes(
                {
                    "gen_ai.operation.name": operation,
                    "gen_ai.provider.name": provider,
                    "gen_ai.request.model": model,
                    "gen_ai.token.type": kind,
                }
            ),
            start_time_unix_nano=since_ns,
            time_unix_nano=at_ns,
            count=round(sum(counts)),
            sum=total,
            bucket_counts=map(round, counts),
            explicit_bounds=bounds,
        )
        for (operation, provider, model, kind), (total, *counts) in usage.items()
    ]
    histogram = OtlpHistogram(data_points=points, aggregation_temporality=CUMULATIVE)
    return OtlpMetric(name=USAGE, unit="{token}", description="Tokens of one model call.", histogram=histogram)


def _size(metric: OtlpMetric) -> int:
    kind = metric.WhichOneof("data")
    return len(getattr(metric, kind).data_points) if kind is not None else 0


def _attributes(labels: Mapping[str, str]) -> list[KeyValue]:
    return [
        KeyValue(key=LABELS.get(name, name), value=AnyValue(string_value=value.encode(errors="replace").decode()))
        for name, value in labels.items()
    ]
