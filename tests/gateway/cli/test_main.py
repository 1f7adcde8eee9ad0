"""The command line as a whole: its help, its version, what it says to a wrong word."""

import re
from importlib.metadata import version
from pathlib import Path

import click
import pytest

from gateway.cli.main import COMMANDS, cli
from tests.gateway.cli.conftest import Tieline

WANTED = {"run", "init", "doctor", "config", "pair", "export", "backup", "slack-manifest", "version", "console"}


def test_the_help_names_every_command(tieline: Tieline) -> None:
    shown = tieline("--help")
    assert shown.exit_code == 0
    listed = re.findall(r"^  ([a-z-]+) {2,}\S", shown.stdout.partition("Commands:")[2], re.MULTILINE)
    assert listed == list(COMMANDS)
    assert set(COMMANDS) >= WANTED
    assert tieline("-h").stdout == shown.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_is_there_and_says_what_its_line_says(tieline: Tieline, name: str) -> None:
    """The lines of the help stand apart from the commands, so that the help need not load them."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.name == name
    assert tieline(name, "--help").exit_code == 0
    assert (command.help or "").split()[0] == COMMANDS[name][1].split()[0]


@pytest.mark.parametrize("group", ["config", "pair", "inbox"])
def test_every_sub_command_says_what_it_does(group: str) -> None:
    command = cli.get_command(click.Context(cli), group)
    assert isinstance(command, click.Group)
    assert command.commands
    assert all(inner.help for inner in command.commands.values())


def test_an_unknown_command_is_told_which_there_are(tieline: Tieline) -> None:
    wrong = tieline("strat")
    assert wrong.exit_code == 2
    assert "no such command 'strat'" in wrong.stderr
    assert all(name in wrong.stderr for name in COMMANDS)


@pytest.mark.parametrize(
    ("args", "meant"),
    [(("doctr",), "did you mean doctor? There are: run, "), (("config", "shw"), "Did you mean 'show'?")],
    ids=["command", "sub-command"],
)
def test_a_mistyped_command_is_told_the_nearest(tieline: Tieline, args: tuple[str, ...], meant: str) -> None:
    wrong = tieline(*args)
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert meant in wrong.stderr


@pytest.mark.parametrize("group", ["config", "pair"])
def test_the_line_of_a_group_promises_no_sub_command_that_is_not_there(group: str) -> None:
    command = cli.get_command(click.Context(cli), group)
    assert isinstance(command, click.Group)
    line = COMMANDS[group][1].lower()
    promised = re.findall(r"\b(check|show|explain|list|approve|deny)\b", f"{line} {(command.help or '').lower()}")
    assert promised
    assert set(promised) <= set(command.commands)


def test_the_help_says_where_configuration_and_data_are_looked_for(tieline: Tieline) -> None:
    options = " ".join(tieline("inbox", "--help").stdout.split())
    assert "else TIELINE_CONFIG, else gateway.toml in the data directory." in options
    assert "else TIELINE_HOME, else ~/.tieline." in options


def test_version(tieline: Tieline) -> None:
    shown = tieline("version")
    assert shown.stdout.startswith(f"tieline {version('tieline')} (Python 3.")
    assert tieline("--version").stdout == shown.stdout


def test_lists_of_sub_commands_are_not_cut_off(tieline: Tieline) -> None:
    assert "..." not in tieline("pair", "--help").stdout.partition("Commands:")[2]


def test_a_number_that_makes_no_sense_is_refused(tieline: Tieline) -> None:
    wrong = tieline("audit", "--most", "-3")
    assert wrong.exit_code == 2
    assert "-3 is not in the range x>=1" in wrong.stderr


@pytest.mark.parametrize(
    "args",
    [["run"], ["console"], ["doctor"], ["pair", "list"], ["export", "telegram:1"], ["backup"], ["config", "check"]],
    ids=" ".join,
)
def test_every_command_tells_a_broken_configuration_the_same_way(tieline: Tieline, args: list[str]) -> None:
    ran = tieline(*args, config='[access]\ndm = "opne"\n[wbe]\n')
    assert ran.exit_code == 78
    assert [line.partition(": ")[2] for line in ran.stderr.splitlines()] == [
        "access.dm: 'opne' is not one of 'pairing', 'allowlist', 'open' or 'closed'",
        "wbe: unknown key; did you mean web?",
    ]
    assert ran.stdout == ""


def test_a_configuration_that_is_named_must_be_there(tieline: Tieline, home: Path) -> None:
    ran = tieline("config", "check", "--config", "/nowhere/at/all.toml")
    assert ran.exit_code == 78
    assert f"tieline init --home {home}` writes one" in ran.stderr


def test_the_sign_in_link_needs_a_gateway(tieline: Tieline, home: Path) -> None:
    ran = tieline("sign-in")
    assert ran.exit_code == 1
    assert f"tieline run --home {home}`" in ran.stderr


@pytest.mark.parametrize(
    "args",
    [
        ["--home", "HOME", "inbox"],
        ["--home", "HOME", "inbox", "list"],
        ["inbox", "--home", "HOME", "list"],
        ["inbox", "list", "--home", "HOME"],
        ["--home", "/nowhere", "inbox", "list", "--home", "HOME"],
        ["--home", "HOME", "pair", "list"],
        ["--home", "HOME", "status"],
        ["--home", "HOME", "backup"],
    ],
    ids=" ".join,
)
def test_the_data_directory_may_be_named_before_and_after_the_command(
    tieline: Tieline, tmp_path: Path, args: list[str]
) -> None:
    named = tmp_path / "named"
    ran = tieline(*(str(named) if arg == "HOME" else arg for arg in args))
    assert ran.exit_code == 1
    assert str(named) in ran.stderr, "it was looked for there"


def test_the_configuration_may_be_named_before_the_command(tieline: Tieline, tmp_path: Path) -> None:
    file = tmp_path / "other.toml"
    file.write_text("[wbe]\n")
    for args in (["--config", str(file), "config", "check"], ["config", "check", "--config", str(file)]):
        ran = tieline(*args)
        assert (ran.exit_code, f"{file}: wbe: unknown key" in ran.stderr) == (78, True)
