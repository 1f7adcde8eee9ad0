"""`tieline doctor` against the doubles: good tokens, bad ones, and what else may be wrong on a machine."""

import json
import sys
from collections.abc import AsyncIterator, Set
from pathlib import Path

import anyio
import pytest

from tests.gateway.cli.conftest import Tieline
from tests.program import configs
from tests.program.doubles import DISCORD_TOKEN, SLACK_BOT_TOKEN, TELEGRAM_TOKEN, Doubles, all_doubles
from tests.program.people import OnTelegram
from tests.program.running import Program


@pytest.fixture
def open_home(home: Path) -> Path:
    home.chmod(0o755)
    return home


@pytest.fixture
async def doubles() -> AsyncIterator[Doubles]:
    async with all_doubles() as running:
        yield running


LITTLE = "below 12,000 little is left beside instructions and tools"


def three_channels(doubles: Doubles) -> str:
    return configs.telegram(doubles) + configs.discord(doubles) + configs.slack(doubles)


async def doctor(
    home: Path, config: str, *options: str, about: Set[str] = frozenset()
) -> tuple[int, dict[str, list[str]]]:
    """Its exit code, and its findings by mark."""
    about = about | {"budget"} if "[budget]" in config else about
    ran = await Program(home, config, about=about).cli("doctor", *options)
    assert not ran.stderr, ran.stderr
    findings: dict[str, list[str]] = {"✓": [], "!": [], "✗": [], "→": []}
    for line in ran.stdout.splitlines():
        findings[line.strip()[0]].append(line.strip()[2:])
    return ran.returncode, findings


async def test_with_good_tokens_everything_is_in_order(doubles: Doubles, home: Path) -> None:
    limit = "[budget]\nmax_daily_cost_usd = 1.0\n"
    code, found = await doctor(home, limit + configs.models(doubles, "a") + three_channels(doubles))
    assert (code, found["✗"]) == (0, [])
    assert any("the price of model-a is not known" in line for line in found["!"])
    fine = "\n".join(found["✓"])
    for subject in ("Python", "configuration", "data directory", "gateway: does not run", "database", "agent default",
                    "provider a: openai, model model-a, answered in", "window of a: 128,000 tokens (configured)",
                    "telegram: signed in as",
                    "discord token: signed in as", "discord gateway", "slack bot token: signed in as"):  # fmt: skip
        assert subject in fine
    assert (await doubles.telegram.get("state"))["messages"] == [], "it changes nothing"
    (call,) = (await doubles.llm.get("calls"))["calls"]
    assert call["body"]["max_tokens"] == 16


@pytest.mark.requirement("G-45")
async def test_what_a_platform_withholds_is_a_warning_only_where_a_rule_needs_it(doubles: Doubles, home: Path) -> None:
    channels = three_channels(doubles).replace(
        f'token = "{DISCORD_TOKEN}"', f'token = "{DISCORD_TOKEN}"\nmessage_content = false'
    )
    kept = ("telegram: privacy mode is on", "discord intents: message_content is off", "slack platform roles: without")
    _, found = await doctor(home, channels, about={"channels.message_content"})
    for line in kept:
        (told,) = [one for one in found["✓"] if line in one]
        assert "no rule needs more (else: " in told
        assert not any(line in one for one in found["!"])
    # Scopes without which an outage leaves a gap are missed in any case.
    (gap,) = [one for one in found["!"] if "slack unaddressed messages and history" in one]
    assert "needed by [network] catch_up_max_age" in gap

    access = "[access]\nrequire_mention = false\nplatform_admins = true\n"
    about = {"channels.message_content", "access.require_mention", "access.platform_admins"}
    _, found = await doctor(home, access + channels, about=about)
    rules = ("require_mention = false", "require_mention = false", "platform_admins = true")
    for line, rule in zip(kept, rules, strict=True):
        (told,) = [one for one in found["!"] if line in one]
        assert f"needed by [access] {rule}" in told
    for fix in ("/setprivacy", "Privileged Gateway Intents", "reinstall the app"):
        assert any(fix in one for one in found["→"])


@pytest.mark.parametrize(
    ("script", "finding", "mending"),
    [
        pytest.param(None, "bubblewrap is not installed", "install bubblewrap, or", id="missing"),
        pytest.param(
            "echo 'bwrap: no namespaces here' >&2; exit 1",
            "bubblewrap does not work here (bwrap: no namespaces here)",
            "allow it what docs/containers.md and docs/deploying.md tell, or",
            id="not allowed to work",
        ),
    ],
)
async def test_a_sandbox_that_is_not_there_and_one_that_does_not_work_are_told_apart(
    home: Path, tmp_path: Path, script: str | None, finding: str, mending: str
) -> None:
    if script is not None:
        (tmp_path / "bwrap").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bwrap").chmod(0o755)
    ran = await Program(home, "", {"PATH": str(tmp_path)}).cli("doctor", "--offline")
    assert f"! shell: {finding}" in ran.stdout
    assert f"→ {mending}" in ran.stdout


@pytest.mark.parametrize(
    ("tells", "line"),
    [
        ("", "window of a: 128,000 tokens (assumed: nobody tells it)"),
        pytest.param(
            "vllm",
            "window of a: 8,192 tokens (told by its server, /v1/models max_model_len); " + LITTLE,
            marks=pytest.mark.slow,
        ),
        ("llamacpp", "window of a: 8,192 tokens (told by its server, /props n_ctx); " + LITTLE),
    ],
)  # fmt: skip
async def test_a_window_that_is_not_configured_is_asked_for(
    doubles: Doubles, home: Path, tells: str, line: str
) -> None:
    await doubles.llm.post("settings", {"tells": tells})
    _, found = await doctor(home, configs.models(doubles, "a").replace("context_window = 128000\n", ""))
    assert line in found["!"]


@pytest.mark.requirement("G-28")
async def test_each_bad_token_is_an_error_with_its_fix_and_is_not_shown(doubles: Doubles, home: Path) -> None:
    config = three_channels(doubles)
    for good, bad in (
        (TELEGRAM_TOKEN, "999:WRONG-telegram"),
        (DISCORD_TOKEN, "WRONG-discord"),
        (SLACK_BOT_TOKEN, "xoxb-WRONG-slack"),
    ):
        config = config.replace(good, bad)
    ran = await Program(home, configs.models(doubles, "a") + config).cli("doctor")
    assert ran.returncode == 1
    wrong = [line for line in ran.stdout.splitlines() if line.startswith("✗")]
    assert {line.split()[1].rstrip(":") for line in wrong} == {"telegram", "discord", "slack"}
    assert "@BotFather" in ran.stdout
    assert "→" in ran.stdout
    assert "WRONG" not in ran.stdout + ran.stderr


async def test_what_is_wrong_on_the_machine_is_found(doubles: Doubles, open_home: Path) -> None:
    home = open_home
    (home / "tieline.db").write_text("no database at all, though it lies where one should")
    persona = home / "agents" / "default" / "AGENT.md"
    persona.parent.mkdir(parents=True)
    persona.write_text("---\nname: X\nmax_turn: 1\n---\nHi.")
    code, found = await doctor(home, "")
    assert code == 1
    assert any("database" in line for line in found["✗"])
    assert any("agent default" in line and "max_turns" in line for line in found["✗"])
    assert any("can be read by other accounts" in line for line in found["!"])
    assert any("only the built-in demo answers" in line for line in found["!"])
    assert any(f"chmod 700 {home}" in line for line in found["→"])
    assert any("tieline init" in line for line in found["→"])


async def test_a_platform_that_does_not_answer_is_a_finding(doubles: Doubles, home: Path) -> None:
    gone = configs.telegram(doubles).replace(str(doubles.telegram.port), "9")
    code, found = await doctor(home, gone)
    assert code == 1
    assert any(line.startswith("telegram") for line in found["✗"])


@pytest.mark.parametrize("kind", ["openai", pytest.param("anthropic", marks=pytest.mark.slow)])
async def test_a_key_that_a_model_refuses_and_an_address_that_is_dead_are_errors(
    doubles: Doubles, home: Path, kind: str
) -> None:
    await doubles.llm.post("settings", {"api_key": "the-right-one"})
    dead = configs.models(doubles, "b", kind=kind).replace(str(doubles.llm.port), "9")
    code, found = await doctor(home, configs.models(doubles, "a", kind=kind) + dead)
    assert code == 1
    refused, gone = found["✗"]
    assert refused.startswith(f"provider a: {kind}, model model-a: the API key was refused (401)")
    assert gone.startswith(f"provider b: {kind}, model model-b: ")
    assert "cannot be reached" in gone
    assert "see api_key, model and base_url of the provider a" in found["→"]
    assert any("does the service run at http://127.0.0.1:9" in line for line in found["→"])
    assert "sk-double" not in "".join(found["✗"])


async def test_an_account_without_credit_is_told_to_add_some(doubles: Doubles, home: Path) -> None:
    broke = {"status": 429, "code": "insufficient_quota", "message": "You exceeded your current quota."}
    await doubles.llm.post("script", [{"match": {}, "reply": {"error": broke}}])
    code, found = await doctor(home, configs.models(doubles, "a"))
    assert code == 1
    assert found["✗"][0].startswith("provider a: openai, model model-a: the account has no quota left")
    assert "add credit or raise the limit of the account at the provider" in found["→"]
    assert not any("api_key" in line for line in found["→"])


async def test_offline_nobody_is_asked(doubles: Doubles, home: Path) -> None:
    config = configs.models(doubles, "a") + configs.telegram(doubles).replace(TELEGRAM_TOKEN, "999:WRONG-telegram")
    code, found = await doctor(home, config, "--offline")
    assert (code, found["✗"]) == (0, [])
    assert "provider a: openai, model model-a, not asked (--offline)" in found["✓"]
    assert "telegram: not asked (--offline)" in found["✓"]
    assert (await doubles.llm.get("calls"))["calls"] == []


@pytest.mark.slow  # two commands
async def test_the_demo_beside_a_model_is_told_only_where_it_answers_first(doubles: Doubles, home: Path) -> None:
    demo, real = '[[llm.providers]]\nname = "demo"\ntype = "demo"\n', configs.models(doubles, "a")
    _, found = await doctor(home, demo + real, "--offline")
    assert "provider demo: the built-in demo answers by default" in found["!"]
    assert any("default = true" in line for line in found["→"])
    _, found = await doctor(home, real + demo, "--offline")
    assert "provider demo: the built-in demo, nothing to try" in found["✓"]
    assert not any("demo" in line for line in found["!"])


def test_an_agent_that_is_not_there_is_no_broken_file(tieline: Tieline, home: Path) -> None:
    ran = tieline("doctor", "--offline", config='[agent]\nname = "nope"\n')
    assert "there is no agent 'nope'; known: default" in ran.output
    assert "or write agents/nope/AGENT.md" in ran.output
    assert "correct its AGENT.md" not in ran.output


def test_without_a_file_it_says_what_holds(tieline: Tieline) -> None:
    output = tieline("doctor", "--offline").output
    assert "configuration: no file, so the defaults hold" in output
    assert "conversations: kept for ever" in output


@pytest.mark.slow  # a program and two commands beside it
async def test_beside_a_running_gateway_it_takes_nothing_away(doubles: Doubles, home: Path) -> None:
    program = Program(home, configs.models(doubles, "a") + configs.telegram(doubles))
    async with program:
        ran = await program.cli("doctor")
        assert ran.returncode == 0, ran.stdout
        assert "gateway: runs" in ran.stdout
        assert "held by the running gateway" in ran.stdout
        await program.ready(2)


def test_an_unwritable_home_is_an_error(tieline: Tieline, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = tieline("doctor", "--home", str(tmp_path / "file" / "below"))
    assert ran.exit_code == 1
    assert "set TIELINE_HOME" in ran.stdout


@pytest.mark.slow  # a program and four commands
@pytest.mark.requirement("W-39")
async def test_what_a_gateway_leaves_behind_is_found_and_mended_without_loss(doubles: Doubles, home: Path) -> None:
    config = configs.ACCESS + configs.models(doubles, "a") + configs.telegram(doubles)
    person = OnTelegram(doubles)
    async with Program(home, config) as program:
        await program.ready(2)
        await person.say("/remind every day at 9:00 standup")
        await person.hears("standup")
        await doubles.llm.post("settings", {"poison": "POISON"})
        await person.say("this holds POISON, sadly")
        await person.hears("refused the request")
        await person.say("still there?")
        await person.hears("no longer took ")
    workspace = home / "workspaces" / "telegram_1"
    workspace.mkdir(parents=True)
    (workspace / "out").symlink_to("/etc")
    (workspace / "notes").symlink_to("below/notes.md")
    (workspace / "python").symlink_to("/usr/bin/python3")
    _, found = await doctor(home, config, "--offline")
    assert "workspace telegram_1: 1 symbolic links lead outside, out → /etc" in found["!"]
    assert any("1 conversations go on without messages that a model refused: telegram:" in one for one in found["!"])
    assert not any("accounts that are not configured" in one for one in found["!"])

    alone = configs.models(doubles, "a")
    _, found = await doctor(home, alone, "--offline")
    assert any("1 reminders or schedules belong to accounts that are not configured" in one for one in found["!"])
    ran = await Program(home, alone).cli("doctor", "--offline", "--fix")
    assert "accounts that are gone are paused, /schedules resumes them (1)" in ran.stdout
    assert "belong to accounts" not in ran.stdout
    assert (workspace / "out").is_symlink(), "nothing of a person's is taken away"
    again = await Program(home, alone).cli("doctor", "--offline", "--fix")
    assert "⚒" not in again.stdout


@pytest.mark.slow
async def test_mcp_servers_are_tried_while_no_gateway_runs(doubles: Doubles, home: Path) -> None:
    def server(name: str, *args: str) -> str:
        return f'[[mcp.servers]]\nname = "{name}"\ncommand = "{sys.executable}"\nargs = {json.dumps(args)}\n'

    servers = server("time", "-m", "mcp_server_time") + server("gone", "-m", "no_such_server")
    tieline = Program(home, servers + configs.models(doubles, "a"), about={"mcp"})
    said = (await tieline.cli("doctor")).stdout
    assert "✓ MCP server time: 2 tools" in said
    assert "✗ MCP server gone: not connected: " in said
    assert "No module named no_such_server" in said
    assert "✓ MCP server time: not asked (--offline)" in (await tieline.cli("doctor", "--offline")).stdout
    async with tieline:
        with anyio.fail_after(60):
            while "! gateway: mcp gone: " not in said:
                said = (await tieline.cli("doctor", "--offline")).stdout
    assert "! MCP server gone: the running gateway has lost it: " in said
    assert "✓ MCP server gone" not in said
    assert "✓ MCP server time: held by the running gateway" in said


@pytest.mark.requirement("G-58")
def test_people_whose_accounts_the_configuration_links_are_listed(tieline: Tieline) -> None:
    section = '[[people]]\nname = "ann"\naccounts = ["telegram:77", "discord:500000000000000001"]\nrights = true\n'
    output = tieline("doctor", "--offline", config=section).output
    assert "people: ann: telegram:77, discord:500000000000000001 (rights of one hold for all)" in output
