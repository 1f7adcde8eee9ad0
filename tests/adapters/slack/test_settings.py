"""Mistakes in the `[[channels]]` section are named with their cure; nothing heavy is loaded for it."""

import subprocess
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from adapters.slack.settings import SlackSettings

GOOD = {"bot_token": "xoxb-1", "app_token": "xapp-1"}


def test_defaults() -> None:
    settings = SlackSettings.model_validate(GOOD)
    assert settings.channel_type == "slack"
    assert settings.socket_mode
    assert settings.api_base_url == "https://slack.com/api/"


@pytest.mark.requirement("G-11")
def test_an_answer_grows_every_two_seconds() -> None:
    settings = SlackSettings.model_validate(GOOD)
    assert settings.stream_interval_ms == 2000
    assert settings.stream_every_s == 2.0


@pytest.mark.requirement("G-10")
def test_text_is_split_at_4000() -> None:
    assert SlackSettings.model_validate(GOOD).text_limit == 4000


def test_a_second_account_has_its_own_type() -> None:
    assert SlackSettings.model_validate(GOOD | {"account": "second"}).channel_type == "slack@second"


def test_without_an_app_token_slack_comes_by_http() -> None:
    assert not SlackSettings.model_validate({"bot_token": "xoxb-1", "signing_secret": "s"}).socket_mode


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        pytest.param({"bot_token": "xoxb-1"}, "set app_token .* or signing_secret", id="no way in"),
        pytest.param({"bot_token": "xoxb-1", "signing_secret": " "}, "hears nothing", id="an empty secret"),
        pytest.param(GOOD | {"bot_token": "xapp-1"}, "bot_token must start with xoxb-.*'xapp-'", id="tokens swapped"),
        pytest.param(GOOD | {"bot_token": "xoxp-1"}, "bot_token must start with xoxb-", id="a person's token"),
        pytest.param(GOOD | {"app_token": "xoxb-1"}, "app_token must start with xapp-", id="a bot token as app token"),
        pytest.param(GOOD | {"api_base_url": "slack.com"}, "must be an http", id="no address"),
        pytest.param(GOOD | {"slash_command": "/Tie Line"}, "slash_command must look like", id="no command"),
        pytest.param(GOOD | {"stream_interval_ms": 1}, "greater than or equal", id="too fast"),
        pytest.param(GOOD | {"text_limit": 5000}, "less than or equal", id="too long"),
        pytest.param(GOOD | {"bot_tokn": "x"}, "bot_tokn", id="unknown key"),
    ],
)
def test_mistakes(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        SlackSettings.model_validate(keys)


@pytest.mark.requirement("G-28")
@pytest.mark.parametrize("key", ["bot_token", "app_token", "signing_secret"])
def test_secrets_do_not_show(key: str) -> None:
    secret = {"bot_token": "xoxb-geheim", "app_token": "xapp-geheim", "signing_secret": "geheim"}[key]
    settings = SlackSettings.model_validate(GOOD | {key: secret})
    assert "geheim" not in repr(settings) + str(settings.model_dump())
    with pytest.raises(ValidationError) as raised:
        SlackSettings.model_validate({"bot_token": "geheim", "app_token": "geheim", "signing_secret": "geheim"})
    assert "must start with" in str(raised.value)
    assert "geheim" not in str(raised.value)


def test_light_modules_stay_light() -> None:
    modules = ("settings", "parse", "markdown", "render", "manifest", "account")
    code = "import sys\n" + "\n".join(f"import adapters.slack.{name}" for name in modules)
    code += "\nprint([name for name in ('slack_sdk', 'slack_bolt', 'aiohttp') if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
