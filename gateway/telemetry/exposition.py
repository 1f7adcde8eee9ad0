"""The metrics in Prometheus' text format; loaded by name at the first scrape, since the library takes time to load."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Metric, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from gateway.telemetry.metrics import COUNTERS, HISTOGRAMS, NEWEST, Gauges, Histogram, Metrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True, eq=False)
class _Collector:
    metrics: Metrics
    gauges: Gauges

    def collect(self) -> Iterable[Metric]:
        for name, family in COUNTERS.items():
            counter = CounterMetricFamily(name, family.text, labels=family.labels)
            for labels, count in self.metrics.counts[name].items():
                counter.add_metric(labels, count)
            yield counter
        for name, family in HISTOGRAMS.items():
            durations = HistogramMetricFamily(name, family.text, labels=family.labels)
            for labels, histogram in self.metrics.histograms[name].items():
                durations.add_metric(labels, _buckets(histogram), histogram.total)
            yield durations
        for name, family in NEWEST.items():
            yield GaugeMetricFamily(name, family.text, value=self.metrics.newest[name])
        yield from self._gauges()

    def _gauges(self) -> Iterable[Metric]:
        gauges = self.gauges
        for name, text, value in (
            ("tieline_queue_depth", "Messages that wait for their turn.", gauges.queue_depth),
            ("tieline_outbox_open", "Messages that wait for their platform.", gauges.outbox_open),
            ("tieline_outbox_dead", "Messages that could not be delivered.", gauges.outbox_dead),
            ("tieline_conversations_awake", "Agents in memory.", gauges.awake),
            ("tieline_tasks", "Tasks of the event loop that are alive.", gauges.tasks),
            ("tieline_ready", "1 when /readyz is green.", float(gauges.ready)),
            ("tieline_troubles_open", "What the operator should look at.", gauges.troubles_open),
            ("tieline_event_loop_lag_seconds", "How late the event loop was last.", gauges.loop_lag_s),
            ("tieline_event_loop_lag_worst_seconds", "Its worst in the last minute.", gauges.loop_lag_worst_s),
            ("tieline_queue_oldest_seconds", "Since when the oldest message waits; 0: none.", gauges.queue_oldest_s),
            ("tieline_disk_free_bytes", "Free space where the data directory lies.", gauges.disk_free_bytes),
            ("tieline_database_size_bytes", "Size of the database.", gauges.database_bytes),
            ("tieline_last_backup_timestamp_seconds", "Moment of the newest backup; 0: none.", gauges.backup_at),
        ):
            if value is not None:
                yield GaugeMetricFamily(name, text, value=float(value))
        used = GaugeMetricFamily(
            "tieline_budget_used_ratio", "The fullest budget of its kind; 1 is used up.", labels=["scope", "per"]
        )
        for (scope, per), share in gauges.budgets.items():
            used.add_metric([scope, per], share)
        yield used
        up = GaugeMetricFamily("tieline_adapter_up", "1 when the account can hear.", labels=["channel_type"])
        for channel_type, hears in gauges.adapters.items():
            up.add_metric([channel_type], float(hears))
        yield up
        answering = GaugeMetricFamily(
            "tieline_provider_up", "0 while the model does not answer.", labels=["gen_ai_provider_name"]
        )
        for name, answers in gauges.providers.items():
            answering.add_metric([name], float(answers))
        yield answering
        build = GaugeMetricFamily("tieline_build_info", "Which version runs.", labels=["version"])
        build.add_metric([gauges.version], 1.0)
        yield build


def exposition(metrics: Metrics, gauges: Gauges) -> bytes:
    """Everything, as a scrape wants it."""
    return generate_latest(_registry(metrics, gauges))


def families(metrics: Metrics, gauges: Gauges) -> Sequence[Metric]:
    """The same as values, which stay as they are now."""
    return tuple(_registry(metrics, gauges).collect())


def _registry(metrics: Metrics, gauges: Gauges) -> CollectorRegistry:
    """A registry of its own: nothing of other libraries slips in."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(metrics, gauges))
    ProcessCollector(registry=registry)
    return registry


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    buckets: list[tuple[str, float]] = []
    seen = 0
    for bound, count in zip([*map(str, histogram.bounds), "+Inf"], histogram.counts, strict=True):
        seen += count
        buckets.append((bound, float(seen)))
    return buckets
