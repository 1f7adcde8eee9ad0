"""Backups at the command line: made, verified, restored, looked at by the doctor."""

import os
from pathlib import Path

import pytest

from gateway.doctor.backups import findings
from tests.gateway.cli.conftest import Tieline

WORDS = {"TIELINE_BACKUP_PASSPHRASE": "correct horse"}


@pytest.fixture
def made(home: Path, sqlite_template: Path) -> Path:
    """A data directory with a database and a skill."""
    (home / "tieline.db").write_bytes(sqlite_template.read_bytes())
    (home / "skills/tidy").mkdir(parents=True)
    (home / "skills/tidy/SKILL.md").write_text("Tidy up.")
    return home


def told(home: Path, *, drill: bool = False) -> list[tuple[str, str, str]]:
    return [(one.subject, one.level, one.finding) for one in findings(home, drill)]


def test_a_backup_is_made_verified_and_restored(tieline: Tieline, made: Path, tmp_path: Path) -> None:
    (tmp_path / "words").write_text("correct horse\nanother line\n")
    file = str(tmp_path / "all.tar.encrypted")
    ran = tieline("backup", file, "--passphrase-file", str(tmp_path / "words"))
    assert (ran.exit_code, ran.stderr) == (0, ""), ran.output
    refused = tieline("backup", "--verify", file)
    assert refused.exit_code == 1
    assert "is encrypted: name its passphrase with --passphrase-file" in refused.stderr
    verified = tieline("backup", "--verify", file, **WORDS)
    assert f"{file} is whole: 2 files, SQLite of revision" in verified.stdout
    ran = tieline("restore", file, "--home", str(tmp_path / "new"), **WORDS)
    assert ran.exit_code == 0, ran.output
    assert "Put back: 1 file." in ran.stdout
    assert (tmp_path / "new/skills/tidy/SKILL.md").read_text() == "Tidy up."


def test_a_copy_of_the_database_alone_is_verified_too(tieline: Tieline, made: Path, tmp_path: Path) -> None:
    file = str(tmp_path / "copy.db")
    assert tieline("backup", file).exit_code == 0
    assert "a copy of the database alone" in tieline("backup", "--verify", file).stdout
    refused = tieline("backup", str(tmp_path / "more.db"), **WORDS)
    assert refused.exit_code == 1
    assert "a copy of the database alone is not encrypted; name more.tar.encrypted" in refused.stderr


@pytest.mark.parametrize(("text", "why"), [(None, "cannot read the passphrase"), ("\nlater", "holds no passphrase")])
def test_a_passphrase_that_is_none_is_refused(
    tieline: Tieline, made: Path, tmp_path: Path, text: str | None, why: str
) -> None:
    """Else the archive would be made without secrets, and nobody would notice."""
    if text is not None:
        (tmp_path / "words").write_text(text)
    ran = tieline("backup", str(tmp_path / "all.tar"), "--passphrase-file", str(tmp_path / "words"))
    assert ran.exit_code == 1
    assert why in ran.stderr
    assert not (tmp_path / "all.tar").exists()


def test_one_each_night_is_written_into_the_configuration(tieline: Tieline, made: Path) -> None:
    file = made / "gateway.toml"
    ran = tieline("backup", "--schedule", "03:15")
    assert (ran.exit_code, ran.stderr) == (0, ""), ran.output
    assert ran.stdout.startswith("a backup each night at 03:15 (UTC), to backups; so says ")
    assert ran.stdout.endswith("it counts from the next start on\n"), "who runs without a file looks for none"
    assert not (made / "backups").exists(), "none is made now"
    file.write_text('[backup] # safe\nfolder = "/mnt/safe"  # a disk\n' + file.read_text().replace("[backup]", ""))
    assert tieline("backup", "--schedule", "04:30").stdout.endswith("a running gateway takes it up\n")
    assert file.read_text() == '[backup] # safe\nfolder = "/mnt/safe"  # a disk\n\nat = "04:30"\n'
    assert file.stat().st_mode & 0o777 == 0o600
    assert tieline("backup", "--schedule", "off").stdout.startswith("no backup by itself; ")
    assert 'at = ""' in file.read_text()


def test_a_schedule_that_cannot_be_is_refused(tieline: Tieline, made: Path, tmp_path: Path) -> None:
    file = made / "gateway.toml"
    wrong = tieline("backup", "--schedule", "25:00")
    assert (wrong.exit_code, file.exists()) == (78, False)
    assert "backup.at: '25:00' is no time of day" in wrong.stderr
    assert "give it alone" in tieline("backup", str(tmp_path / "x.tar"), "--schedule", "03:15").stderr
    other = tieline("backup", "--schedule", "03:15", TIELINE__BACKUP__AT="05:00")
    assert other.exit_code == 1
    assert "the environment (TIELINE__BACKUP__AT) says '05:00'" in other.stderr


def test_the_doctor_tells_the_age_of_the_newest(tieline: Tieline, made: Path) -> None:
    assert told(made) == [("backup", "ok", f"none in {made / 'backups'}")]
    assert tieline("backup", "--no-files").exit_code == 0
    (file,) = (made / "backups").iterdir()
    assert told(made) == [("backup", "ok", f"the newest is 0 hours old: {file.name}")]
    at = file.stat().st_mtime - 8 * 86400
    os.utime(file, (at, at))
    assert told(made) == [("backup", "warning", f"the newest is 8 days old: {file.name}")]


def test_the_drill_restores_the_newest_and_tells_what_hinders_it(tieline: Tieline, made: Path) -> None:
    assert told(made, drill=True) == [("backup", "error", f"none in {made / 'backups'}")]
    assert tieline("backup").exit_code == 0
    (file,) = (made / "backups").iterdir()
    finding = f"{file.name} can be restored: 1 file, and the database opens"
    assert told(made, drill=True)[1] == ("backup: drill", "ok", finding)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    subject, level, finding = told(made, drill=True)[1]
    assert (subject, level) == ("backup: drill", "error")
    assert "is cut or damaged" in finding
