"""Provider settings: strict, complete about mistakes, silent about secrets."""

import logging
from typing import Any

import pytest
from pydantic import SecretStr, TypeAdapter, ValidationError

from agent.providers.provider import Prices
from agent.providers.settings import ANTHROPIC_MODEL, OPENAI_MODEL, ProviderSettings, from_environment
from agent.run.settings import TimeoutSettings

GOOD: dict[str, Any] = {"name": "main", "type": "openai", "model": "gpt-x", "api_key": SecretStr("sk-very-secret-1")}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": ""}, "name: use"),
        ({"name": "a b"}, "name: use"),
        ({"model": ""}, "model is missing"),
        ({"api_key": SecretStr("")}, 'set api_key = "env:OPENAI_API_KEY"'),
        ({"api_key": SecretStr(""), "type": "anthropic"}, 'set api_key = "env:ANTHROPIC_API_KEY"'),
        ({"base_url": "localhost:8084"}, "base_url: must be an address that begins with http"),
        ({"base_url": "http://[::1"}, "base_url: must be an address"),
        ({"base_url": "https://host:x/v1"}, "base_url: must be an address"),
        ({"base_url": "https://my host/v1"}, "base_url: must be an address"),
        ({"base_url": "https://ex☃ample.com/v1"}, "base_url: must be an address"),
        ({"proxy": SecretStr("proxy.local")}, "proxy: must be an address that begins with http"),
        ({"max_tokens": 0}, "max_tokens = 0"),
        ({"context_window": 2_000_001}, "context_window = 2000001"),
        ({"temperature": 3}, "temperature = 3"),
        ({"thinking": 1023}, "thinking = 1023"),
        ({"timeout_s": 0}, "timeout_s = 0"),
        ({"prices": Prices(input=-1, output=1)}, "prices.input = -1"),
        ({"prices": Prices(input=float("nan"), output=1)}, "prices.input = nan"),
        ({"prices": Prices(input=1, output=1, cache_read=float("inf"))}, "prices.cache_read = inf"),
        ({"stream_timeout_s": 1e9}, "stream_timeout_s"),
        ({"type": "litellm", "proxy": SecretStr("http://p")}, "set HTTPS_PROXY"),
    ],
)
def test_mistakes_name_the_key_and_the_fix(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match="provider ") as caught:
        ProviderSettings(**GOOD | change)
    assert words in str(caught.value)


@pytest.mark.requirement("G-29")
def test_all_mistakes_come_at_once() -> None:
    with pytest.raises(ValueError, match="model is missing") as caught:
        ProviderSettings(name="main", type="openai", max_tokens=-1)
    assert "api_key is missing" in str(caught.value)
    assert "max_tokens = -1" in str(caught.value)


@pytest.mark.parametrize("key", ["modle", "prices.inputs"])
def test_a_configuration_may_not_have_unknown_keys(key: str) -> None:
    section: dict[str, Any] = {"name": "main", "type": "demo", "prices": {"input": 1, "output": 2}}
    if key.startswith("prices."):
        section["prices"] |= {key.removeprefix("prices."): 1}
    else:
        section[key] = 1
    with pytest.raises(ValidationError, match=key.rpartition(".")[2]):
        TypeAdapter(ProviderSettings).validate_python(section)


@pytest.mark.requirement("G-28")
def test_a_key_is_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    secrets = {"proxy": SecretStr("http://u:pass-word@p"), "extra_headers": {"x-key": SecretStr("header-secret")}}
    settings = ProviderSettings(**GOOD | secrets)
    logging.getLogger("tieline.test").warning("settings %s", settings)
    shown = repr(settings) + str(settings) + caplog.text
    shown += TypeAdapter(ProviderSettings).dump_json(settings).decode()
    for secret in ("sk-very-secret-1", "pass-word", "header-secret"):
        assert secret not in shown
    assert set(settings.secrets) == {"sk-very-secret-1", "http://u:pass-word@p", "header-secret"}


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        pytest.param({}, [("demo", "demo", "")], id="nothing: the demo"),
        pytest.param({"OPENAI_API_KEY": "  "}, [("demo", "demo", "")], id="an empty key is none"),
        pytest.param({"ANTHROPIC_API_KEY": "k"}, [("anthropic", "anthropic", ANTHROPIC_MODEL)], id="Anthropic's key"),
        pytest.param({"OPENAI_API_KEY": "k"}, [("openai", "openai", OPENAI_MODEL)], id="OpenAI's key"),
        pytest.param(
            {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "OPENAI_MODEL": "gpt-y"},
            [("anthropic", "anthropic", ANTHROPIC_MODEL), ("openai", "openai", "gpt-y")],
            id="both: Anthropic is first and so the default",
        ),
    ],
)
def test_without_a_configuration_the_environment_decides(
    environ: dict[str, str], found: list[tuple[str, str, str]]
) -> None:
    assert [(one.name, one.type, one.model) for one in from_environment(environ)] == found


def test_the_environment_may_name_another_address() -> None:
    (one,) = from_environment({"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"})
    assert one.base_url == "http://127.0.0.1:1/v1"
    assert one.api_key.get_secret_value() == "k"


@pytest.mark.requirement("R-18")
def test_a_providers_own_limit_ends_no_stream_before_the_turns() -> None:
    own = ProviderSettings(name="demo", type="demo").stream_timeout_s
    assert own == TimeoutSettings().llm_stream == 300.0, "whichever is shorter ends the stream"
