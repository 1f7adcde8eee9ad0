"""The pure parts: settings, ids, commands, errors, the watch, handles."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from adapters.discord.commands import differs, payload_of
from adapters.discord.connection import ConnectionStats, Timeouts, Verdict, verdict
from adapters.discord.limits import moment_of, snowflake_at
from adapters.discord.parse import Handle
from adapters.discord.settings import DiscordSettings
from gateway.channels.outbound import CommandSpec

# -- settings


@pytest.mark.requirement("G-11")
def test_defaults() -> None:
    settings = DiscordSettings(type="discord", token="abc.def")  # type: ignore[arg-type]
    assert settings.stream_every_s == 1.5
    assert settings.channel_type == "discord"
    assert settings.api_base_url == "https://discord.com/api/v10"
    assert settings.gateway_url is None


@pytest.mark.parametrize("token", ["  abc.def\n", "Bot abc.def"])
def test_a_token_is_taken_as_it_was_copied(token: str) -> None:
    assert DiscordSettings(token=token).token.get_secret_value() == "abc.def"  # type: ignore[arg-type]


@pytest.mark.requirement("G-28")
@pytest.mark.parametrize(
    ("keys", "words"),
    [
        pytest.param({"token": ""}, "copy it whole", id="empty token"),
        pytest.param({"token": "two words secret"}, "copy it whole", id="odd token"),
        pytest.param({"token": "t", "api_base_url": "discord.com"}, "api_base_url", id="address without a scheme"),
        pytest.param({"token": "t", "gateway_url": "http://x"}, "gateway_url", id="gateway without ws"),
        pytest.param({"token": "t", "stream_interval_ms": 10}, "stream_interval_ms", id="too quick"),
        pytest.param({"token": "t", "streem": 1}, "streem", id="unknown key"),
    ],
)
def test_a_mistake_is_named_and_the_token_is_not(keys: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError) as raised:
        DiscordSettings.model_validate({"type": "discord", **keys})
    assert words in str(raised.value)
    # The loader prints messages, never inputs: those hold the secret.
    assert not any("secret" in error["msg"] for error in raised.value.errors())


def test_the_token_is_not_shown() -> None:
    assert "abc.def" not in repr(DiscordSettings(token="abc.def"))  # type: ignore[arg-type]


def test_settings_parsing_and_rendering_do_without_the_library() -> None:
    code = (
        "import sys, adapters.discord.settings, adapters.discord.parse, adapters.discord.render,"
        "adapters.discord.commands;"
        "sys.exit(sum(name.split('.')[0] in ('discord', 'aiohttp') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- ids


def test_ids_hold_their_moment() -> None:
    moment = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
    assert moment_of(snowflake_at(moment)) == moment
    assert int(snowflake_at(moment)) < int(snowflake_at(moment + timedelta(milliseconds=1)))
    assert moment_of("175928847299117063") == datetime(2016, 4, 30, 11, 18, 25, 796000, tzinfo=UTC)
    assert snowflake_at(datetime(2000, 1, 1, tzinfo=UTC)) == "0"


@pytest.mark.parametrize("text", ["", "slash", "slash.1", "slash.x.t", "menu.1.t", "slash.1."])
def test_what_is_no_handle_is_none(text: str) -> None:
    assert Handle.read(text) is None


def test_a_handle_is_read_back() -> None:
    for kind in ("slash", "button"):
        handle = Handle(kind, "123", "to.ken-_x")
        assert Handle.read(str(handle)) == handle


# -- commands

STATUS = CommandSpec(name="status", description="How it stands")
MODEL = CommandSpec(name="model", description="Choose a model", options="[name]")
ALLOW = CommandSpec(name="allow", description="x" * 200, options="<who>", admin=True)


def test_commands_as_discord_takes_them() -> None:
    status, model, allow = payload_of([STATUS, MODEL, ALLOW])
    assert (status["name"], status["options"]) == ("status", [])
    assert model["options"] == [{"type": 3, "name": "arguments", "description": "[name]", "required": False}]
    assert allow["options"][0]["required"]
    assert len(allow["description"]) == 100


def test_what_is_chosen_from_a_list_is_chosen_there() -> None:
    spec = CommandSpec(
        name="verbose", description="x", options="[quiet|normal]", menu=True, choices=("quiet", "normal")
    )
    verbose, umbrella = payload_of([spec, CommandSpec(name="dump", description="x", menu=False)])
    offered = [{"name": "quiet", "value": "quiet"}, {"name": "normal", "value": "normal"}]
    assert (verbose["name"], verbose["options"][0]["choices"]) == ("verbose", offered)
    assert umbrella["name"] == "tieline"


def test_names_discord_does_not_take_are_left_out() -> None:
    specs = [CommandSpec(name=name, description="x") for name in ("Upper", "with space", "x" * 33, "fine_1")]
    assert [command["name"] for command in payload_of(specs)] == ["fine_1", "tieline"]


@pytest.mark.parametrize(
    ("change", "differ"),
    [
        pytest.param({}, False, id="the same"),
        pytest.param(
            {"id": "1", "nsfw": False, "version": "2", "dm_permission": True}, False, id="fields of Discord's"
        ),
        pytest.param({"description": "new"}, True, id="another description"),
        pytest.param({"options": [{"type": 3, "name": "arguments", "description": "[x]"}]}, True, id="an option"),
        pytest.param({"contexts": [0]}, True, id="servers only"),
        pytest.param({"contexts": None, "guild_id": "1"}, False, id="of one server"),
        pytest.param({"name": "other"}, True, id="another name"),
    ],
)
def test_what_counts_as_a_difference(change: dict[str, object], differ: bool) -> None:
    wanted = payload_of([STATUS])
    assert differs([{**wanted[0], **change}], wanted) is differ


def test_more_and_less_differ_but_order_does_not() -> None:
    two, one = payload_of([STATUS, MODEL]), payload_of([STATUS])
    assert differs(two, one)
    assert differs(one, two)
    assert differs([], one)
    assert not differs(two[::-1], two)


# -- the watch

PATIENCE = Timeouts(deaf_s=100, probe_s=300, rebuild_s=180)


@pytest.mark.parametrize(
    ("acked_s", "quiet_s", "down_s", "found"),
    [
        pytest.param(41, 200, 0, Verdict.WELL, id="beating"),
        pytest.param(101, 1, 0, Verdict.DEAF, id="events but no acknowledged heartbeat"),
        pytest.param(41, 301, 0, Verdict.PROBE, id="beating but silent"),
        pytest.param(500, 500, 60, Verdict.WELL, id="the library is reconnecting"),
        pytest.param(500, 500, 181, Verdict.DEAF, id="the library does not get through"),
    ],
)
def test_verdict(acked_s: float, quiet_s: float, down_s: float, found: Verdict) -> None:
    stats = ConnectionStats(shard_id=0, heard_s=0, acked_s=acked_s, quiet_s=quiet_s, down_s=down_s)
    assert verdict(stats, PATIENCE) is found
