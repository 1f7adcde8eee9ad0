"""`tieline slack-manifest`: what Slack takes, with the commands of every day."""

import json

import pytest
import yaml

from gateway.commands.all import specs
from gateway.phrases.catalogue import read_catalogue
from tests.gateway.cli.conftest import Tieline


def test_it_is_yaml_for_socket_mode_with_the_commands_of_every_day(tieline: Tieline) -> None:
    shown = yaml.safe_load(tieline("slack-manifest").stdout)
    assert shown["display_information"]["name"] == "Tieline"
    assert shown["settings"]["socket_mode_enabled"] is True
    phrase = read_catalogue()
    wanted = {spec.name for spec in specs(lambda key: phrase(key, "en")) if spec.menu}
    listed = {entry["command"].removeprefix("/") for entry in shown["features"]["slash_commands"]}
    assert {"help", "stop", "provider"} <= wanted
    # Names are shared with Slack and with other apps: all bear the bot's before them.
    assert listed == {"tieline", *(f"tieline-{name}" for name in wanted)}
    assert not any("url" in entry for entry in shown["features"]["slash_commands"])


def test_with_an_address_slack_sends_its_requests_there(tieline: Tieline) -> None:
    shown = json.loads(
        tieline(
            "slack-manifest", "--format", "json", "--name", "Ann's bot", "--request-url", "https://chat.example.org"
        ).stdout
    )
    assert shown["display_information"]["name"] == "Ann's bot"
    assert shown["settings"]["socket_mode_enabled"] is False
    urls = [shown["settings"][part]["request_url"] for part in ("event_subscriptions", "interactivity")]
    urls += [entry["url"] for entry in shown["features"]["slash_commands"]]
    assert set(urls) == {"https://chat.example.org/channels/slack/events"}


@pytest.mark.parametrize(
    ("args", "endpoint"),
    [
        (["--request-url", "https://a.example/"], "https://a.example/channels/slack/events"),
        (["--request-url", "https://a.example", "--account", "b"], "https://a.example/channels/slack@b/events"),
        (["--request-url", "https://a.example/own/events"], "https://a.example/own/events"),
    ],
    ids=["a slash at its end", "another account", "the whole address"],
)
def test_the_address_is_completed(tieline: Tieline, args: list[str], endpoint: str) -> None:
    shown = json.loads(tieline("slack-manifest", "--format", "json", *args).stdout)
    assert shown["settings"]["interactivity"]["request_url"] == endpoint


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["--request-url", "http://a.example"], "https addresses only"),
        (["--name", "x" * 36], "1 to 35 characters"),
    ],
    ids=["unsafe address", "name too long"],
)
def test_what_slack_would_refuse_is_refused_here_in_words(tieline: Tieline, args: list[str], why: str) -> None:
    ran = tieline("slack-manifest", *args)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert why in ran.stderr


def test_both_forms_say_the_same(tieline: Tieline) -> None:
    assert yaml.safe_load(tieline("slack-manifest").stdout) == json.loads(
        tieline("slack-manifest", "--format", "json").stdout
    )
