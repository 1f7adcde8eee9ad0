"""`tieline config`: is it right, what is in force, what could stand in it."""

import json
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.cli.conftest import Tieline

jsonschema: Any = import_module("jsonschema")  # has no types

SHIPPED = Path(__file__).parents[3] / "config" / "gateway.toml"

FULL_OF_SECRETS = """
[database]
url = "postgresql://ann:hidden-db@localhost/x"
[web]
metrics_token = "hidden-metrics"
[network]
proxy = "http://me:hidden-proxy@proxy:3128"
[[llm.providers]]
name = "main"
type = "openai"
model = "m"
api_key = "env:MY_KEY"
base_url = "http://user:hidden-url@localhost/v1"
extra_headers = { x-team = "hidden-header" }
proxy = "http://me:hidden-own-proxy@proxy:3128"
[[channels]]
type = "telegram"
token = "file:secrets/bot"
[[channels]]
type = "slack"
bot_token = "xoxb-hidden-bot"
app_token = "xapp-hidden-app"
signing_secret = "hidden-signing"
[[channels]]
type = "discord"
token = "hidden-discord"
"""


@pytest.fixture
def secret_home(home: Path) -> Path:
    (home / "secrets").mkdir()
    (home / "secrets" / "bot").write_text("123456:hidden-telegram\n")
    (home / "secrets" / "bot").chmod(0o600)
    return home


def test_check_says_what_was_understood(tieline: Tieline, home: Path) -> None:
    assert "no file, defaults: fine" in tieline("config", "check").stdout
    ran = tieline("config", "check", config='[[channels]]\ntype = "telegram"\naccount = "two"\ntoken = "123:abc-d"')
    assert ran.exit_code == 0
    assert f"{home / 'gateway.toml'}: fine" in ran.stdout
    assert "telegram@two" in ran.stdout
    assert "demo" in ran.stdout


def test_check_warns_of_an_agent_that_is_not_there(tieline: Tieline) -> None:
    ran = tieline("config", "check", config='[agent]\nname = "nosuch"')
    assert ran.exit_code == 0
    assert "warning: agent.name: there is no agent 'nosuch'; known: default" in ran.stdout


@pytest.mark.parametrize("group", ["slack:C0TEAM", "slack:T1:G0TEAM", "slack:T1"])
@pytest.mark.parametrize("key", ["allow", "admins", "block"])
def test_a_group_among_people_is_a_mistake(tieline: Tieline, key: str, group: str) -> None:
    ran = tieline("config", "check", config=f'[access]\n{key} = ["{group}"]')
    assert f"access.{key}: '{group}' is a group" in ran.stderr
    assert tieline("config", "check", config=f'[access]\nallow_groups = ["{group}"]').exit_code == 0


@pytest.mark.parametrize("person", ["telegram:77", "slack:U0ANN"])
def test_a_person_among_groups_is_a_mistake(tieline: Tieline, person: str) -> None:
    ran = tieline("config", "check", config=f'[access]\nallow_groups = ["{person}"]')
    assert f"access.allow_groups: '{person}' is a person" in ran.stderr
    fine = f'[access]\nallow = ["{person}"]\nadmins = ["{person}"]\nblock = ["{person}", "telegram:-1005"]'
    assert tieline("config", "check", config=fine).exit_code == 0


@pytest.mark.parametrize(
    ("section", "key"),
    [("access", "allow"), ("access", "allow_groups"), ("access", "admins"), ("access", "block"),
     ("approvals", "approvers")],
)  # fmt: skip
def test_a_name_of_no_platform_is_a_mistake(tieline: Tieline, section: str, key: str) -> None:
    ran = tieline("config", "check", config=f'[{section}]\n{key} = ["telegram:5", "slak:U1"]')
    assert ran.exit_code != 0
    assert f"{section}.{key}: 'slak:U1': 'slak' is no platform; use one of " in ran.stderr


@pytest.mark.requirement("G-28")
@pytest.mark.parametrize("what", ["show", "check"])
def test_no_secret_is_ever_shown(tieline: Tieline, secret_home: Path, what: str) -> None:
    ran = tieline("config", what, config=FULL_OF_SECRETS, MY_KEY="sk-hidden-key")
    assert ran.exit_code == 0, ran.stderr
    assert "hidden" not in ran.output


def test_show_is_json_with_every_value_in_force(tieline: Tieline, secret_home: Path) -> None:
    ran = tieline("config", "show", config=FULL_OF_SECRETS, MY_KEY="sk-hidden-key", TIELINE__WEB__PORT="9191")
    shown: dict[str, Any] = json.loads(ran.stdout)
    assert shown["web"]["port"] == 9191, "the environment counts"
    assert shown["queue"]["max_depth"] == 10, "a default is shown too"
    assert shown["database"]["url"] == "postgresql://ann:[redacted]@localhost/x"
    assert [channel["type"] for channel in shown["channels"]] == [
        "telegram",
        "slack",
        "discord",
        "web",
        "console",
        "api",
    ]
    assert set(tomllib.loads(SHIPPED.read_text())) <= set(shown)


class TestSchema:
    @pytest.fixture
    def schema(self, tieline: Tieline) -> dict[str, Any]:
        shown: dict[str, Any] = json.loads(tieline("config", "schema").stdout)
        return shown

    def test_it_is_a_valid_schema_and_takes_the_shipped_file(self, schema: dict[str, Any]) -> None:
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.validate(tomllib.loads(SHIPPED.read_text()), schema, jsonschema.Draft202012Validator)
        jsonschema.validate(tomllib.loads(FULL_OF_SECRETS), schema, jsonschema.Draft202012Validator)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"wbe": {}},
            {"web": {"prot": 1}},
            {"access": {"dm": "opne"}},
            {"channels": [{"type": "telegram", "tokn": "x"}]},
            {"llm": {"providers": [{"name": "a", "type": "gpt"}]}},
        ],
        ids=str,
    )
    def test_it_finds_what_the_check_finds(self, schema: dict[str, Any], wrong: dict[str, Any]) -> None:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema, jsonschema.Draft202012Validator)


def test_rules_about_tools_that_there_are_not_are_told(tieline: Tieline) -> None:
    config = """
[approvals]
ask = ["mcp__time__*", "web_*"]
deny = ["shel", "shell", "mcp__tme__now", "mcp__*"]
[[mcp.servers]]
name = "time"
command = "true"
"""
    ran = tieline("config", "check", config=config)
    assert ran.exit_code == 0, ran.output
    assert [line for line in ran.stdout.splitlines() if line.startswith("warning")] == [
        "warning: approvals.deny: there is no tool 'shel', so the rule has no effect; did you mean shell?",
        "warning: approvals.deny: 'mcp__tme__now' is of the MCP server 'tme', which is not configured, "
        "so the rule has no effect; did you mean mcp__time__…?",
    ]
    assert "! approvals: approvals.deny: there is no tool 'shel'" in tieline("doctor", "--offline").stdout


@pytest.mark.parametrize("environment", [{}, {"TIELINE__LOGGING__TRACES": "true"}], ids=["file", "environment"])
def test_the_former_name_of_a_key_works_and_its_new_name_is_told(tieline: Tieline, environment: dict[str, str]) -> None:
    config = "" if environment else "[logging]\ntraces = true\n"
    told = "logging.traces: is called logging.event_log now; the former name goes with the next version"
    ran = tieline("config", "check", config=config, **environment)
    assert ran.exit_code == 0, ran.output
    assert f"warning: {told}\n" in ran.stdout
    assert f"! configuration: {told}" in tieline("doctor", "--offline", **environment).stdout
    assert json.loads(tieline("config", "show", **environment).stdout)["logging"]["event_log"] is True


def test_a_key_under_both_its_names_keeps_what_the_new_one_says(tieline: Tieline) -> None:
    tieline("config", "check", config="[logging]\ntraces = true\nevent_log = false\n")
    assert json.loads(tieline("config", "show").stdout)["logging"]["event_log"] is False


@pytest.mark.parametrize("command", [["config", "check"], ["doctor", "--offline"], ["run"]], ids=" ".join)
def test_a_secret_that_others_may_read_is_refused_with_the_fix(
    tieline: Tieline, secret_home: Path, command: list[str]
) -> None:
    bot = secret_home / "secrets" / "bot"
    bot.chmod(0o644)
    ran = tieline(*command, config='[[channels]]\ntype = "telegram"\ntoken = "file:secrets/bot"\n')
    assert ran.exit_code != 0
    assert f"channels[0].token: others may read {bot} (mode 0644); chmod 600 {bot}" in ran.stderr
    assert "hidden" not in ran.stderr + ran.stdout


def test_doctor_mends_the_rights_of_secrets_before_it_reads_them(tieline: Tieline, secret_home: Path) -> None:
    bot = secret_home / "secrets" / "bot"
    bot.chmod(0o644)
    ran = tieline(
        "doctor", "--fix", "--offline", config='[[channels]]\ntype = "telegram"\ntoken = "file:secrets/bot"\n'
    )
    assert f"{bot} is for this account alone" in ran.stdout
    assert bot.stat().st_mode & 0o777 == 0o600
    assert "others may read" not in ran.stdout + ran.stderr
