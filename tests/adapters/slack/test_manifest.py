"""The app manifest that `tieline slack-manifest` prints."""

import pytest

from adapters.slack.manifest import EVENTS, SCOPES, manifest, native_name
from gateway.channels.outbound import CommandSpec

COMMANDS = (
    CommandSpec(name="new", description="Start over"),
    CommandSpec(name="status", description="How things are"),
    CommandSpec(name="provider", description="Choose who answers", options="[name]"),
)


def test_by_socket_mode_nothing_needs_an_address() -> None:
    found = manifest(COMMANDS, name="Tieline", request_url=None)
    assert found["settings"]["socket_mode_enabled"] is True
    assert found["settings"]["event_subscriptions"] == {"bot_events": list(EVENTS)}
    assert found["settings"]["interactivity"] == {"is_enabled": True}
    assert all("url" not in command for command in found["features"]["slash_commands"])


def test_by_http_everything_goes_to_one_address() -> None:
    url = "https://tie.example.org/channels/slack/events"
    found = manifest(COMMANDS, name="Tieline", request_url=url)
    assert found["settings"]["socket_mode_enabled"] is False
    assert found["settings"]["event_subscriptions"]["request_url"] == url
    assert found["settings"]["interactivity"]["request_url"] == url
    assert {command["url"] for command in found["features"]["slash_commands"]} == {url}


def test_every_command_of_the_menu_gets_a_name_that_no_other_app_has() -> None:
    found = manifest(COMMANDS, name="Tieline", request_url=None)["features"]["slash_commands"]
    assert [command["command"] for command in found] == [
        "/tieline",
        "/tieline-new",
        "/tieline-status",
        "/tieline-provider",
    ]
    assert found[0]["usage_hint"].startswith("help | help all | ")
    assert found[3]["usage_hint"] == "[name]"
    assert native_name("remind") == "/tieline-remind"


def test_the_umbrella_can_have_another_name() -> None:
    found = manifest(COMMANDS, name="Bo", request_url=None, slash_command="/bo")["features"]["slash_commands"]
    assert [command["command"] for command in found][:3] == ["/bo", "/bo-new", "/bo-status"]


def test_every_event_has_its_scope() -> None:
    needed = {
        "message.channels": "channels:history",
        "message.groups": "groups:history",
        "message.im": "im:history",
        "message.mpim": "mpim:history",
        "app_mention": "app_mentions:read",
        "member_joined_channel": "channels:read",
        "assistant_thread_started": "assistant:write",
    }
    assert set(needed) <= set(EVENTS)
    assert set(needed.values()) <= set(SCOPES)
    assert {"chat:write", "commands", "files:read", "files:write", "reactions:write", "users:read"} <= set(SCOPES)


def test_what_is_no_everyday_command_goes_through_the_umbrella() -> None:
    more = (*COMMANDS, CommandSpec(name="dump-format", description="x", menu=False))
    found = manifest(more, name="T", request_url=None)["features"]["slash_commands"]
    assert "/tieline-dump-format" not in {command["command"] for command in found}


def test_no_command_is_left_out_in_silence() -> None:
    many = [CommandSpec(name=f"c{number}", description="x") for number in range(50)]
    assert len(manifest(many[:49], name="T", request_url=None)["features"]["slash_commands"]) == 50
    with pytest.raises(ValueError, match="50 commands of an app, and these are 51"):
        manifest(many, name="T", request_url=None)


@pytest.mark.parametrize(
    ("name", "url", "command", "words"),
    [
        ("", None, "new", "1 to 35 characters"),
        ("x" * 36, None, "new", "1 to 35 characters"),
        ("T", "http://localhost/x", "new", "https addresses only"),
        ("T", None, "New", "lower-case"),
        ("T", None, "n" * 40, "at most 32"),
    ],
)
def test_what_slack_would_refuse_is_refused_here(name: str, url: str | None, command: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        manifest([CommandSpec(name=command, description="x")], name=name, request_url=url)
