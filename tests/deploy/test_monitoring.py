"""Alert rules and the Grafana dashboard: they name metrics and labels of `/metrics` alone, in valid expressions."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from gateway.telemetry.metrics import COUNTED, COUNTERS, HISTOGRAMS, Metrics
from tests.deploy.files import DEPLOY
from tests.deploy.promql import Wrong, missing_from, named_in
from tests.gateway.conftest import world, world_of
from tests.gateway.dashboard.conftest import browsing
from tests.gateway.world import World, calling

__all__ = ["world", "world_of"]

SCRAPER = {"instance", "job", "le"}  # labels that Prometheus adds, and that of a histogram's buckets
RULES = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"][0]["rules"]
DASHBOARD = json.loads((DEPLOY / "grafana" / "tieline.json").read_text())
PANELS = DASHBOARD["panels"]
TARGETS = [(f"{panel['title']} {target['refId']}", target["expr"]) for panel in PANELS for target in panel["targets"]]
EXPRESSIONS = [*((rule["alert"], rule["expr"]) for rule in RULES), *TARGETS]
WATCHED = [
    "tieline_ready",
    "tieline_adapter_up",
    "tieline_event_loop_lag_worst_seconds",
    "tieline_outbox_dead",
    "tieline_queue_oldest_seconds",
    "tieline_provider_up",
    "tieline_budget_used_ratio",
    "tieline_disk_free_bytes",
    "tieline_last_backup_timestamp_seconds",
]
DRAWN = [
    "tieline_turns_total",
    "gen_ai_client_operation_time_to_first_chunk_seconds_bucket",
    "gen_ai_client_token_usage_tokens_total",
    "tieline_cost_usd_total",
    "tieline_queue_depth",
    "tieline_outbox_open",
    "tieline_event_loop_lag_seconds",
    "tieline_adapter_up",
    "process_resident_memory_bytes",
]
LIMIT = '[[spending.limits]]\nscope = "person"\ntokens = 1000000\n[backup]\nat = "03:15"\n'


async def exposed_by(world: World) -> dict[str, set[str]]:
    """The metrics of a running gateway after a turn, each with its labels."""
    metrics: Metrics = world.services.overview.metrics
    world.bus.listen(metrics.listen, COUNTED)
    world.script(*calling("compute", "calculate", expression="6*7"))
    await world.answered("compute", "Done: compute")
    async with browsing(world) as owner:
        owner.server.measure(metrics, world.services.overview.gauges)
        answer = await owner.visitor.client.get("/metrics")
    assert answer.status_code == 200, answer.text
    found: dict[str, set[str]] = {"up": set()}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
        if not family.samples:  # nothing of it has happened yet: its labels as they are declared
            declared = COUNTERS.get(family.name) or HISTOGRAMS.get(family.name)
            names = [f"{family.name}_total"] if family.name in COUNTERS else [f"{family.name}_bucket", family.name]
            found |= {name: set(declared.labels if declared else ()) for name in names}
    return found


@pytest.mark.requirement("G-116")
async def test_rules_and_dashboard_name_what_is_exposed_and_nothing_else(world_of: Callable[..., World]) -> None:
    async with world_of(config=LIMIT).process() as world:
        exposed = await exposed_by(world)
    wrong = {name: missing for name, text in EXPRESSIONS if (missing := missing_from(named_in(text), exposed, SCRAPER))}
    assert wrong == {}
    named = {metric for rule in RULES for metric in named_in(rule["expr"]).metrics}
    assert named >= set(WATCHED)
    drawn = {metric for _, text in TARGETS for metric in named_in(text).metrics}
    assert drawn >= set(DRAWN)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_a_rule_says_what_is_wrong_by_labels_that_there_are(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert not {"for", "keep_firing_for"} & rule.keys() or re.fullmatch(r"\d+[smhd]", rule["for"])
    named = named_in(rule["expr"])
    told = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
    by_metric = {"channel_type", "gen_ai_provider_name", "scope", "per"}
    assert told <= named.grouped | {"instance"} | by_metric


def test_each_alert_has_a_name_of_its_own() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", ["prometheus.yml", "compose.yml"])
def test_prometheus_loads_the_rules(name: str) -> None:
    assert yaml.safe_load((DEPLOY / "prometheus" / name).read_text())["rule_files"] == ["alerts.yml"]


def test_panels_lie_beside_each_other_and_ask_the_chosen_source() -> None:
    places = [panel["gridPos"] for panel in PANELS]
    taken = [cell for place in places for cell in _cells(place)]
    assert len(set(taken)) == len(taken)
    assert all(place["x"] + place["w"] <= 24 for place in places)
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    assert {panel["datasource"]["uid"] for panel in PANELS} == {"${datasource}"}
    assert [one["name"] for one in DASHBOARD["templating"]["list"]] == ["datasource", "instance"]


def _cells(place: dict[str, int]) -> Iterator[tuple[int, int]]:
    for x in range(place["w"]):
        for y in range(place["h"]):
            yield place["x"] + x, place["y"] + y


@pytest.mark.parametrize(
    "text",
    ["sum(up", "sum up)", 'up{job="x"', "up{job}", "rate(up[5 minutes])", "up ==", "== 1", "up up", "1 and", '{a="b"}'],
)
def test_what_no_prometheus_takes_is_found(text: str) -> None:
    with pytest.raises((Wrong, IndexError)):
        named_in(text)
