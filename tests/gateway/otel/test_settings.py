"""Mistakes in the section `[otel]` are told with their key, and without the values of headers."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from gateway.config.errors import ConfigError
from gateway.config.read import load
from gateway.otel.settings import OtelSettings

HERE = "http://127.0.0.1:4318"


@pytest.mark.parametrize(
    ("given", "mistake"),
    [
        pytest.param({"endpoint": "127.0.0.1:4318"}, 'otel.endpoint: is no address; write it as "http://', id="bare"),
        pytest.param({"endpoint": "http://[::1"}, "otel.endpoint: is no address", id="unreadable"),
        pytest.param({"endpoint": "grpc://here:4317"}, "otel.endpoint: is no address", id="another protocol"),
        pytest.param({"endpoint": "http://me:word@here"}, "use otel.headers", id="a password in the address"),
        pytest.param({"endpoint": f"{HERE}?a=b"}, "must have neither ? nor #", id="a query"),
        pytest.param({"endpoint": f"{HERE}/v1/traces"}, "is added by itself", id="with the path of a signal"),
        pytest.param({"endpoint": HERE, "headers": {"a b": SecretStr("x")}}, "no name of a header", id="a blank"),
        pytest.param({"endpoint": HERE, "headers": {"k": SecretStr("a\nb: c")}}, "headers.k: may hold", id="a line"),
        pytest.param({"endpoint": HERE, "headers": {"Host": SecretStr("x")}}, "set by the gateway itself", id="ours"),
        pytest.param({"headers": {"k": SecretStr("x")}}, "otel.endpoint: is missing", id="headers alone"),
        pytest.param({"capture_content": True}, "otel.endpoint: is missing", id="texts alone"),
        pytest.param({"service_name": " "}, "otel.service_name", id="no name"),
        pytest.param({"metrics_every_s": 0.1}, "otel.metrics_every_s: 0.1 must be 1 to 3600", id="too often"),
        pytest.param({"content_chars": 5}, "otel.content_chars: 5 must be 100", id="too little text"),
    ],
)
def test_mistakes_name_their_key(given: dict[str, Any], mistake: str) -> None:
    found = list(OtelSettings(**given).mistakes())
    assert any(mistake in one for one in found), found
    assert "a\nb: c" not in str(found)


def test_spans_need_traces(tmp_path: Path) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text(f'[otel]\nendpoint = "{HERE}"\n[traces]\nenabled = false\n')
    with pytest.raises(ConfigError, match=r"otel.traces: turns are exported as they are traced"):
        load(path, {"TIELINE_HOME": str(tmp_path)})
    path.write_text(f'[otel]\nendpoint = "{HERE}"\ntraces = false\n[traces]\nenabled = false\n')
    assert load(path, {"TIELINE_HOME": str(tmp_path)}).otel.sends_metrics


def test_headers_are_secrets(tmp_path: Path) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text(f'[otel]\nendpoint = "{HERE}/"\nheaders = {{ x-api-key = "env:COLLECTOR_KEY" }}\n')
    settings = load(path, {"TIELINE_HOME": str(tmp_path), "COLLECTOR_KEY": "correct-horse"})
    assert "correct-horse" in settings.secrets
    assert "correct-horse" not in repr(settings)
    assert settings.otel.address("/v1/traces") == f"{HERE}/v1/traces"
