"""`tieline doctor` about the collector of OpenTelemetry."""

from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from gateway.config.read import load
from gateway.config.settings import Settings
from gateway.doctor.findings import everything
from gateway.doctor.otel import tried
from tests.fakes.otlp_collector import KEY, OtlpCollector, otlp_collector

Configure = Callable[..., Settings]


@pytest.fixture
def configured(tmp_path: Path) -> Configure:
    def make(endpoint: str, key: str = KEY, more: str = "") -> Settings:
        path = tmp_path / "gateway.toml"
        path.write_text(f'[otel]\nendpoint = "{endpoint}"\nheaders = {{ x-api-key = "{key}" }}\n{more}')
        return load(path, {"TIELINE_HOME": str(tmp_path)})

    return make


async def test_the_collector_is_asked_and_gets_nothing(configured: Configure) -> None:
    async with otlp_collector(key=KEY) as collector:
        (found,) = await tried(configured(collector.url, more="capture_content = true\n"))
        assert (collector.asked, set(collector.bodies)) == (2, {b""})
    assert found.level == "ok"
    assert "takes traces and metrics; texts of people and models go along" in found.finding


@pytest.mark.parametrize("wrong", ["key", "address", "elsewhere"])
async def test_a_collector_that_does_not_take_it_is_an_error(configured: Configure, wrong: str) -> None:
    async with otlp_collector(key=KEY) as collector:
        collector.status = 307 if wrong == "elsewhere" else 200
        url, key = collector.url + "/nowhere" * (wrong == "address"), "wrong-key" if wrong == "key" else KEY
        (found,) = await tried(configured(url, key=key))
        _is_told(found.finding, wrong, collector)
    assert found.level == "error"
    assert "[otel] endpoint" in found.fix
    assert "wrong-key" not in found.finding


def _is_told(finding: str, wrong: str, collector: OtlpCollector) -> None:
    words = {"key": "status 401", "address": "status 404", "elsewhere": "status 307, which leads elsewhere"}
    assert words[wrong] in finding
    assert collector.elsewhere == []


async def test_keys_that_go_in_the_clear_are_told(configured: Configure) -> None:
    settings = configured("http://collector.example:4318", more="traces = false\nmetrics = false\n")
    (found,) = await tried(settings)
    assert (found.level, found.fix) == ("warning", "use https:// in [otel] endpoint")


async def test_offline_nobody_is_asked(configured: Configure) -> None:
    async with otlp_collector(key=KEY) as collector:
        settings = configured(collector.url)
        async with aclosing(everything(settings, None, offline=True)) as findings:
            found = await anext(one async for one in findings if one.subject == "OpenTelemetry")
        assert collector.asked == 0
    assert found.finding == "not asked (--offline)"
