"""The numbers of `/metrics` reach a collector, with the tokens of calls as a histogram."""

from collections.abc import AsyncIterator, Callable

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, HistogramDataPoint, Metric
from prometheus_client.parser import text_string_to_metric_families

from agent.core.events import CallBilled, EventBus
from agent.core.ids import ConversationId
from gateway.otel.metric_export import HEARD, TokenUsage
from gateway.telemetry.exposition import exposition
from tests.fakes.otlp_collector import OtlpCollector, otlp_collector
from tests.fakes.waiting import until
from tests.gateway.world import World

CONFIG = """
[otel]
endpoint = "{url}"
service_name = "bot"
traces = false
{more}
"""


@pytest.fixture
async def collector() -> AsyncIterator[OtlpCollector]:
    async with otlp_collector() as listening:
        yield listening


def labels(point: object) -> dict[str, str]:
    return {one.key: one.value.string_value for one in point.attributes}  # type: ignore[attr-defined]


def values(metric: Metric) -> dict[tuple[tuple[str, str], ...], float]:
    points = metric.sum.data_points if metric.HasField("sum") else metric.gauge.data_points
    return {tuple(sorted(labels(point).items())): point.as_double for point in points}


@pytest.mark.requirement("G-128")
async def test_the_numbers_are_those_of_the_scrape(world_of: Callable[..., World], collector: OtlpCollector) -> None:
    config = CONFIG.format(url=collector.url, more="")
    async with world_of(config=config).process() as world:
        await world.answered("the first of all words", "the first")
        await world.services.otel.metrics.send()
        scraped = exposition(world.metrics, await world.services.overview.gauges()).decode()
    metrics = collector.metrics
    assert collector.spans == []
    assert collector.resources[0]["service.name"] == "bot"
    families = {family.name: family for family in text_string_to_metric_families(scraped)}
    own = {name for name, family in families.items() if name.startswith("tieline_") and family.samples}
    assert own <= set(metrics)
    assert "process_resident_memory_bytes" in metrics
    turns = metrics["tieline_turns"]
    assert turns.sum.is_monotonic
    assert turns.sum.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    assert values(turns) == {(("outcome", "error"),): 0.0, (("outcome", "success"),): 1.0}
    assert all(point.start_time_unix_nano < point.time_unix_nano for point in turns.sum.data_points)
    for name in ("tieline_queue_depth", "tieline_outbox_open", "tieline_build_info", "tieline_adapter_up"):
        assert set(values(metrics[name])) == {tuple(sample.labels.items()) for sample in families[name].samples}
    assert values(metrics["tieline_queue_depth"]) == {(): 0.0}
    (duration,) = metrics["gen_ai.client.operation.duration"].histogram.data_points
    assert metrics["gen_ai.client.operation.duration"].unit == "s"
    assert (duration.count, sum(duration.bucket_counts)) == (1, 1)
    assert len(duration.bucket_counts) == len(duration.explicit_bounds) + 1
    assert labels(duration) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "a",
        "gen_ai.request.model": "model-a",
    }
    usage = {labels(point)["gen_ai.token.type"]: point for point in _usage(metrics)}
    assert set(usage) == {"input", "output"}
    assert usage["input"].count == 1
    assert usage["input"].sum > 1000


def _usage(metrics: dict[str, Metric]) -> list[HistogramDataPoint]:
    assert metrics["gen_ai.client.token.usage"].unit == "{token}"
    return list(metrics["gen_ai.client.token.usage"].histogram.data_points)


@pytest.mark.requirement("G-128")
async def test_they_are_sent_again_and_again_from_the_moment_they_are_wanted(
    world_of: Callable[..., World], collector: OtlpCollector
) -> None:
    world = world_of()
    async with world.process():
        world.config = CONFIG.format(url=collector.url, more="metrics_every_s = 1.0")
        assert world.reload() == ()
        await until(lambda: collector.asked >= 1)
        world.config = CONFIG.format(url=collector.url, more="metrics = false")
        assert world.reload() == ()


@pytest.mark.requirement("G-128")
async def test_a_collector_that_fails_is_told_and_the_next_ones_hold_all(
    world_of: Callable[..., World], collector: OtlpCollector
) -> None:
    async with world_of(config=CONFIG.format(url=collector.url, more="")).process() as world:
        collector.status = 503
        await world.answered("the first of all words", "the first")
        await world.services.otel.metrics.send()
        assert [one.kind for one in world.troubles.open if one.kind == "otel"] == ["otel"]
        assert world.metrics.sum("tieline_otel_dropped", signal="metrics") > 20
        collector.status = 200
        await world.services.otel.metrics.send()
        assert [one.kind for one in world.troubles.open if one.kind == "otel"] == []
    assert values(collector.metrics["tieline_turns"])[("outcome", "success"),] == 1.0


@pytest.mark.requirement("G-128")
def test_the_usage_of_tokens_counts_what_came_from_a_cache_as_read() -> None:
    bus, usage = EventBus(lambda error, event: None), TokenUsage(lambda: True)
    bus.listen(usage.listen, HEARD)
    bus.publish(
        CallBilled(
            conversation=ConversationId("telegram:1"), purpose="judge", provider="main", model="m", prompt=10,
            output=3, cache_creation=20, cache_read=300, cost_usd=None, estimated=False,
        )
    )  # fmt: skip
    (read, *counts), (written, *_) = usage.read().values()
    assert (read, written) == (330, 3)
    assert counts.index(1) == 5, "256 < 330 <= 1024"
    assert list(usage.read()) == [("chat", "main", "m", "input"), ("chat", "main", "m", "output")]
