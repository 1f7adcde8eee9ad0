"""Operator's commands while no gateway runs: they own the database for the length of one operation."""

import sqlite3
from pathlib import Path

import pytest

from tests.gateway.cli.conftest import Tieline


@pytest.fixture
def made(tieline: Tieline) -> None:
    """The database is there."""
    tieline("doctor", "--fix")


@pytest.mark.parametrize(
    "args",
    [["dead"], ["inbox"], ["outbox"], ["usage"], ["audit"], ["pair", "list"], ["export", "telegram:77"], ["backup"]],
    ids=" ".join,
)
def test_a_mistyped_home_is_told_and_nothing_is_made(tieline: Tieline, tmp_path: Path, args: list[str]) -> None:
    ran = tieline(*args, "--home", str(tmp_path / "nowhere"))
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert f"there is no database of Tieline for {tmp_path / 'nowhere'}" in ran.stderr
    assert "--home" in ran.stderr
    assert not (tmp_path / "nowhere").exists()


def test_what_checks_says_that_a_home_is_not_there_yet(tieline: Tieline, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    assert f"{nowhere} (not there yet)" in tieline("doctor", "--home", nowhere).stdout
    assert f"{nowhere} (not there yet)" in tieline("config", "check", "--home", nowhere).stdout


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["pair", "list"], "Nobody waits to be let in.\n"),
        (["inbox"], "No message waits.\n"),
        (["outbox"], "Everything is sent.\n"),
        (["dead"], "No dead letters.\n"),
    ],
    ids=" ".join,
)
def test_an_empty_house_says_so(tieline: Tieline, args: list[str], said: str) -> None:
    ran = tieline(*args)
    assert (ran.exit_code, ran.stdout) == (0, said)


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["pair", "approve", "AAAA2222"], "no open pairing with the code AAAA2222"),
        (["pair", "deny", "AAAA2222"], "no open pairing with the code AAAA2222"),
        (["inbox", "retry", "7"], "7"),
        (["export", "telegram:1"], "telegram:1"),
        (["audit", "telegram:1"], "there is nothing of 'telegram:1'"),
    ],
    ids=" ".join,
)
def test_what_is_not_there_is_said_with_a_code(tieline: Tieline, args: list[str], why: str) -> None:
    ran = tieline(*args)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert why in ran.stderr


@pytest.mark.usefixtures("made")
def test_a_backup_is_a_database(tieline: Tieline, home: Path) -> None:
    ran = tieline("backup", str(home / "copy.db"))
    assert ran.exit_code == 0, ran.output
    assert str(home / "copy.db") in ran.stdout
    with sqlite3.connect(home / "copy.db") as copy:
        assert copy.execute("select count(*) from inbox").fetchone() == (0,)
    assert tieline("backup").exit_code == 0
    assert list((home / "backups").iterdir())


@pytest.mark.usefixtures("made")
def test_a_backup_makes_no_folder_where_a_disk_should_be(tieline: Tieline, home: Path) -> None:
    ran = tieline("backup", str(home / "not" / "there" / "copy.db"))
    assert ran.exit_code == 1
    assert f"there is no folder {home / 'not' / 'there'}" in ran.stderr
    assert not (home / "not").exists()


def test_a_broken_database_is_told_in_words(tieline: Tieline, home: Path) -> None:
    (home / "tieline.db").write_text("no database at all, though it lies where one should")
    ran = tieline("pair", "list")
    assert ran.exit_code == 1
    assert "tieline.db" in ran.stderr
