"""`tieline init`: a few questions, and a configuration that loads; secrets lie apart, for their owner alone."""

import os
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from gateway.config.read import load
from tests.gateway.cli.conftest import Tieline
from tests.program.doubles import all_doubles
from tests.program.running import Program

TELEGRAM_TOKEN = "123456:abcdefghijklmnopqrstuvwxyz012345678"
ANSWERS = [
    "compatible", "my-model", "http://127.0.0.1:9/v1", "sk-llm-secret",
    "y", TELEGRAM_TOKEN,
    "n",
    "y", "xoxb-1-2-abc", "xapp-1-2-abc", "signing-0123456789abcdef",
    "allowlist", "telegram:77, slack:U0ANN", "subgoal",
]  # fmt: skip
SECRETS = ("sk-llm-secret", TELEGRAM_TOKEN, "xoxb-1-2-abc", "xapp-1-2-abc", "signing-0123456789abcdef")


def typed(*answers: str) -> str:
    return "\n".join(answers) + "\n"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.requirement("G-28", "W-66")
def test_it_writes_what_the_gateway_loads(tmp_path: Path) -> None:
    """The whole command as a process without a terminal, as in a script or a container."""
    home = tmp_path / "new" / "home"
    environ = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    ran = subprocess.run(
        [sys.executable, "-m", "gateway", "init", "--advanced", "--no-check", "--home", str(home)],
        input=typed(*ANSWERS),
        capture_output=True,
        text=True,
        timeout=60,
        env=environ,
        start_new_session=True,  # no terminal to take passwords from
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert f"Written: {home / 'gateway.toml'}" in ran.stdout
    assert f"tieline run --home {home}" in ran.stdout

    settings = load(environ={"TIELINE_HOME": str(home)})
    (provider,) = settings.llm.providers
    assert (provider.name, provider.type, provider.model) == ("main", "openai", "my-model")
    assert provider.base_url == "http://127.0.0.1:9/v1"
    assert set(SECRETS) <= settings.secrets
    assert [channel.type for channel in settings.channels] == ["telegram", "slack", "web", "console", "api"]
    assert settings.memory.compression.pruning_strategy == "subgoal"
    assert "4 subgoal " in ran.stdout
    assert "5 subgoal_mig " in ran.stdout
    assert (settings.access.dm, settings.access.admins) == ("allowlist", ("telegram:77", "slack:U0ANN"))

    written = (home / "gateway.toml").read_text()
    assert written.endswith(("]\n", '"\n')), "its last line is one"
    assert not any(secret in written + ran.stdout for secret in SECRETS)
    kept = {path.name: path for path in (home / "secrets").iterdir()}
    assert kept["telegram-token"].read_text() == f"{TELEGRAM_TOKEN}\n"
    assert sorted(kept) == [
        "llm-main", "slack-app_token", "slack-bot_token", "slack-signing_secret", "telegram-token",
    ]  # fmt: skip
    assert {mode(path) for path in kept.values()} == {0o600}
    assert mode(home / "gateway.toml") == 0o600
    assert (mode(home), mode(home / "secrets")) == (0o700, 0o700)


def test_return_at_every_question_is_a_demo_less_start(tieline: Tieline, home: Path) -> None:
    """Only the model's key has no sensible default; one from the environment is offered."""
    ran = tieline("init", "--no-check", stdin="\n" * 10, ANTHROPIC_API_KEY="sk-ant-from-outside")
    assert ran.exit_code == 0, ran.output
    written = tomllib.loads((home / "gateway.toml").read_text())
    assert written["llm"]["providers"][0]["api_key"] == "env:ANTHROPIC_API_KEY"
    assert written["access"] == {"dm": "pairing", "admins": []}
    assert "channels" not in written
    assert "memory" not in written, "the default needs no line"
    assert list((home / "secrets").iterdir()) == []


def test_the_demo_needs_no_key(tieline: Tieline, home: Path) -> None:
    assert tieline("init", stdin=typed("demo", "", "", "", "", "", "")).exit_code == 0
    assert load(environ={"TIELINE_HOME": str(home)}).llm.providers[0].type == "demo"


def test_an_old_file_is_kept_beside_and_only_replaced_when_asked(tieline: Tieline, home: Path) -> None:
    old = '[access]\ndm = "closed"\n'
    kept = tieline("init", config=old, stdin="n\n")
    assert kept.exit_code == 0
    assert (home / "gateway.toml").read_text() == old
    assert tieline("init", stdin=typed("y", "demo", "", "", "", "", "", "")).exit_code == 0
    assert (home / "gateway.toml.bak").read_text() == old
    assert 'dm = "pairing"' in (home / "gateway.toml").read_text()


def test_a_token_of_the_wrong_kind_is_told_at_once_and_the_rest_is_kept(tieline: Tieline, home: Path) -> None:
    """Slack's three tokens are the ones people mix up; nothing is asked of the platform for that."""
    again = ("y", "xoxb-1-2-abc", "xapp-1-2-abc", "")  # for the third: Enter keeps what was typed
    answers = ("demo", "", "", "y", "xapp-wrong-one", "", "signing-0123456789abcdef", *again, "", "", "")
    ran = tieline("init", "--no-check", stdin=typed(*answers))
    assert ran.exit_code == 0, ran.output
    assert "xoxb-" in ran.output.partition("Signing Secret")[2]
    assert "Enter keeps the one you typed" in ran.output
    slack, *_ = load(environ={"TIELINE_HOME": str(home)}).channels
    assert slack.type == "slack"
    assert (home / "secrets" / "slack-signing_secret").read_text() == "signing-0123456789abcdef\n"


def test_a_platform_whose_token_is_not_at_hand_is_left_out_and_nothing_else_is_lost(
    tieline: Tieline, home: Path
) -> None:
    answers = ("compatible", "m", "", "sk-llm-secret", "y", "no token at all", "n", "", "", "", "", "")
    ran = tieline("init", "--no-check", stdin=typed(*answers))
    assert ran.exit_code == 0, ran.output
    assert "Telegram is left out" in ran.output
    settings = load(environ={"TIELINE_HOME": str(home)})
    assert [channel.type for channel in settings.channels] == ["web", "console", "api"]
    assert [path.name for path in (home / "secrets").iterdir()] == ["llm-main"]


def test_a_key_that_is_needed_is_asked_for_until_it_is_there(tieline: Tieline, home: Path) -> None:
    answers = ("anthropic", "", "", "", "sk-ant-now", "", "", "", "", "", "")
    ran = tieline("init", "--no-check", stdin=typed(*answers))
    assert ran.exit_code == 0, ran.output
    assert ran.output.count("It does not work without") == 2
    assert "empty for none" not in ran.output
    assert (home / "secrets" / "llm-main").read_text() == "sk-ant-now\n"


def test_wrong_admins_and_addresses_are_asked_for_again(tieline: Tieline, home: Path) -> None:
    address = ("compatible", "m", "127.0.0.1:9", "", "", "", "http://127.0.0.1:9/v1", "")
    answers = (*address, "", "", "", "", "77, bob", "", "telegram:77", "")
    ran = tieline("init", "--no-check", stdin=typed(*answers))
    assert ran.exit_code == 0, ran.output
    assert "base_url: must be an address that begins with http" in ran.output
    settings = load(environ={"TIELINE_HOME": str(home)})
    assert settings.llm.providers[0].base_url == "http://127.0.0.1:9/v1"
    assert settings.access.admins == ("telegram:77",)


def test_an_address_in_the_place_of_a_model_is_noticed(tieline: Tieline, home: Path) -> None:
    asked = ("compatible", "http://127.0.0.1:9/v1", "localhost:11434", "m:8b", "http://127.0.0.1:9/v1")
    ran = tieline("init", "--no-check", stdin=typed(*asked, *[""] * 6))
    assert ran.exit_code == 0, ran.output
    assert "http://127.0.0.1:9/v1 is an address, not the name of a model" in ran.output
    assert "localhost:11434 is an address" in ran.output
    (provider,) = load(environ={"TIELINE_HOME": str(home)}).llm.providers
    assert (provider.model, provider.base_url) == ("m:8b", "http://127.0.0.1:9/v1")


def test_a_mistyped_admin_is_taken_back_with_enter(tieline: Tieline, home: Path) -> None:
    ran = tieline("init", "--no-check", stdin=typed("demo", "", "", "", "", "ann", "", "", ""))
    assert ran.exit_code == 0, ran.output
    assert ran.output.count("'ann' names no platform") == 1
    assert "[ann]" not in ran.output
    assert load(environ={"TIELINE_HOME": str(home)}).access.admins == ()


def test_a_service_behind_litellm_may_have_no_key(tieline: Tieline, home: Path) -> None:
    """Bedrock and Vertex AI read variables of their own."""
    ran = tieline("init", "--no-check", stdin=typed("litellm", "bedrock/some-model", "", "", "", "", "", "", ""))
    assert ran.exit_code == 0, ran.output
    (provider,) = load(environ={"TIELINE_HOME": str(home)}).llm.providers
    assert (provider.type, provider.model, provider.api_key.get_secret_value()) == ("litellm", "bedrock/some-model", "")


def test_options_are_chosen_by_number_too(tieline: Tieline, home: Path) -> None:
    ran = tieline("init", "--advanced", stdin=typed("9", "4", "", "", "", "2", "", "5"))
    assert ran.exit_code == 0, ran.output
    assert "type a number from 1 to 5" in ran.output
    settings = load(environ={"TIELINE_HOME": str(home)})
    assert settings.llm.providers[0].type == "demo"
    assert settings.access.dm == "allowlist"
    assert settings.memory.compression.pruning_strategy == "subgoal_mig"


@pytest.mark.requirement("H-37")
@pytest.mark.parametrize("chosen", [pytest.param("subgoal", marks=pytest.mark.slow), "subgoal_mig"])
async def test_who_asks_for_more_may_choose_to_go_by_subgoals_and_the_program_does(home: Path, chosen: str) -> None:
    """`--advanced` offers both; without it nobody is asked."""
    program = Program(home, "")
    for flags, last in (((), ()), (("--advanced",), (chosen,))):
        (home / "gateway.toml").unlink()
        ran = await program.cli("init", *flags, stdin=typed("demo", "", "", "", "", "", *last))
        assert ran.returncode == 0, ran.stderr
        offered = [word for word in ("subgoal", "subgoal_mig") if f" {word} " in ran.stdout]
        assert offered == (["subgoal", "subgoal_mig"] if flags else []), "no newcomer is asked that"
    with (home / "gateway.toml").open("a") as written:
        written.write(f"\n[web]\nport = {program.port}\n")
    async with program:
        shown = await program.cli("config", "show")
        assert f'"pruning_strategy": "{chosen}"' in shown.stdout


async def test_the_model_is_tried_and_a_refused_key_can_be_typed_again(home: Path) -> None:
    async with all_doubles() as doubles:
        await doubles.llm.post("settings", {"api_key": "the-right-one"})
        address = f"http://127.0.0.1:{doubles.llm.port}/v1"
        once = ("compatible", "m", address, "a-wrong-one")
        answers = (*once, "y", "", "", "", "the-right-one", "", "", "", "", "", "")
        program = Program(home, "")
        (home / "gateway.toml").unlink()
        ran = await program.cli("init", stdin=typed(*answers))
        assert ran.returncode == 0, ran.stderr
        assert "the API key was refused" in ran.stdout
        assert "✓ openai, model m, answered in" in ran.stdout
        assert (home / "secrets" / "llm-main").read_text() == "the-right-one\n"


async def test_a_refused_key_that_is_not_typed_again_is_said_to_be_kept(home: Path) -> None:
    async with all_doubles() as doubles:
        await doubles.llm.post("settings", {"api_key": "the-right-one"})
        answers = ("compatible", "m", f"http://127.0.0.1:{doubles.llm.port}/v1", "a-wrong-one", "n")
        program = Program(home, "")
        (home / "gateway.toml").unlink()
        ran = await program.cli("init", stdin=typed(*answers, "", "", "", "", ""))
        assert ran.returncode == 0, ran.stderr
        refused, _, after = ran.stdout.partition("Enter it again?")
        assert "the API key was refused" in refused
        assert "It is kept as it was entered;" in after.partition("Connect Telegram?")[0]
        assert f"doctor --home {home}" in after, "with what tries it again"
        assert (home / "secrets" / "llm-main").read_text() == "a-wrong-one\n"


def test_without_answers_it_says_what_it_needs_in_one_line(tieline: Tieline, home: Path) -> None:
    ran = tieline("init", stdin="anthropic\n")
    assert ran.exit_code == 1
    assert ran.stderr.strip() == "init asks questions: start it in a terminal; nothing is written"
    assert not (home / "gateway.toml").exists()


def test_what_the_environment_has_wrong_is_told_before_the_first_question(tieline: Tieline) -> None:
    ran = tieline("init", stdin="demo\n", TIELINE__ACCESS__DM="opne")
    assert ran.exit_code == 1
    assert "the environment is wrong: access.dm: 'opne'" in ran.stderr
    assert "Which model" not in ran.stdout


def test_a_home_that_cannot_be_written_is_told_with_the_fix(tieline: Tieline, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = tieline("init", "--home", str(tmp_path / "file" / "below"), stdin=typed("demo", "", "", "", "", "", ""))
    assert ran.exit_code == 1
    assert "cannot write below" in ran.stderr
    assert "TIELINE_HOME" in ran.stderr


def test_a_newcomer_is_asked_nothing_that_needs_a_manual(tieline: Tieline, home: Path) -> None:
    ran = tieline("init", stdin=typed("demo", "", "", "", "", ""))
    assert ran.exit_code == 0, ran.output
    assert "subgoal" not in ran.output
