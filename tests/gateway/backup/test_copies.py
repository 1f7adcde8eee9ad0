"""Copies in the folders of backups, and whether the newest is as new as it should be."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gateway.backup.copies import Copy, copies_in, folders_of, newest_backup, trouble_with
from gateway.backup.outcome import Outcome
from gateway.config.sections import BackupSettings

NOW = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)


def made(**before: float) -> Copy:
    return Copy(path=Path("a.tar"), size=1, made_at=NOW - timedelta(**before), is_backup=True)


def ended(error: str = "", **before: float) -> Outcome:
    at = NOW - timedelta(**before)
    return Outcome(began_at=at, ended_at=at, by="Ann", path="a.tar", error=error)


@pytest.mark.parametrize(
    ("newest", "outcome", "at", "text"),
    [
        pytest.param(None, None, "", "", id="none was ever wanted"),
        pytest.param(made(hours=8), None, "03:15", "", id="that of the night is there"),
        pytest.param(
            made(hours=32), None, "03:15", "one is due each night at 03:15, and the newest is 32 hours old", id="missed"
        ),
        pytest.param(None, None, "03:15", "one is due each night at 03:15, and there is none", id="never made"),
        pytest.param(made(hours=24), None, "11:30", "", id="it may take an hour"),
        pytest.param(made(days=7), None, "", "", id="made each week by hand"),
        pytest.param(made(days=9), None, "", "the newest backup is 9 days old", id="made long ago by hand"),
        pytest.param(
            made(days=1),
            ended("no room", hours=1),
            "",
            "the newest backup failed (2026-11-28 11:00 UTC, by Ann): no room",
            id="failed",
        ),
        pytest.param(made(minutes=1), ended("no room", hours=1), "", "", id="made after one that failed"),
        pytest.param(made(hours=1), ended(hours=1), "", "", id="made"),
    ],
)
def test_trouble_with_backups(newest: Copy | None, outcome: Outcome | None, at: str, text: str) -> None:
    assert trouble_with(newest, outcome, BackupSettings(at=at), zone="UTC", now=NOW) == text


def test_copies_of_both_folders_the_newest_first(tmp_path: Path) -> None:
    settings = BackupSettings(folder="disk")
    folders = folders_of(tmp_path, settings)
    assert folders == [tmp_path / "disk", tmp_path / "backups"]
    assert folders_of(tmp_path, BackupSettings()) == [tmp_path / "backups"]
    assert copies_in(folders) == []
    for folder, name in (
        ("disk", "tieline-20261127-031500.tar.encrypted"),
        ("disk", "notes.txt"),
        ("backups", "tieline-20261126-120000.tar"),
        ("backups", "tieline-20261126-130000.db"),
        ("backups", "before.tar"),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_bytes(b"12345")
    os.utime(tmp_path / "backups" / "before.tar", (NOW.timestamp(), NOW.timestamp()))
    (tmp_path / "disk" / "tieline-20261128-000000.tar").symlink_to(tmp_path / "backups" / "before.tar")
    found = copies_in(folders)
    assert [one.path.name for one in found] == [
        "before.tar",
        "tieline-20261127-031500.tar.encrypted",
        "tieline-20261126-130000.db",
        "tieline-20261126-120000.tar",
    ]
    newest = newest_backup(found)
    assert newest is not None
    assert (newest.path, newest.is_encrypted, newest.size) == (found[1].path, True, 5)
