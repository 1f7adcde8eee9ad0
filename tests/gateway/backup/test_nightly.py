"""The nightly backup: made once a night at its time, caught up after a pause, told of when it fails."""

from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import pytest

from agent.storage.database import Database
from gateway.backup.maker import BackupMaker
from gateway.backup.nightly import AGAIN_AFTER, NightlyBackup, last_due
from gateway.backup.request import Wanted
from gateway.backup.restore import verify
from gateway.config.sections import BackupSettings
from tests.fakes.clock import FakeClock


@pytest.mark.parametrize(
    ("now", "zone", "due"),
    [
        pytest.param("2026-11-28T03:14:59+00:00", "UTC", "2026-11-27T03:15:00+00:00", id="not yet today"),
        pytest.param("2026-11-28T03:15:00+00:00", "UTC", "2026-11-28T03:15:00+00:00", id="at the moment"),
        pytest.param("2026-11-28T23:00:00+00:00", "UTC", "2026-11-28T03:15:00+00:00", id="in the evening"),
        pytest.param("2026-11-28T02:30:00+00:00", "Europe/Berlin", "2026-11-28T02:15:00+00:00", id="another zone"),
        pytest.param("2026-03-29T12:00:00+00:00", "Europe/Berlin", "2026-03-29T01:15:00+00:00", id="clocks go forward"),
    ],
)
def test_the_moment_that_was_due_last(now: str, zone: str, due: str) -> None:
    assert last_due(datetime.fromisoformat(now), time(3, 15), zone) == datetime.fromisoformat(due)


class Night:
    def __init__(self, database: Database, home: Path) -> None:
        self.clock = FakeClock(datetime(2026, 11, 27, 22, 0, tzinfo=UTC))
        self.home, self.told = home, list[tuple[str, dict[str, object]]]()
        self.settings = BackupSettings(at="03:15", keep=2)

        def wanted(passphrase: str | None, files: bool) -> Wanted:
            return Wanted(home=home, source=None, redact=str, passphrase=passphrase, files=files)

        self.maker = BackupMaker(database, clock=self.clock, home=home, settings=lambda: self.settings, wanted=wanted)
        self.backup = NightlyBackup(
            self.maker,
            clock=self.clock,
            settings=lambda: self.settings,
            zone=lambda: "UTC",
            tell=lambda key, values: self.told.append((key, values)),
        )

    def made(self, folder: str = "backups") -> list[str]:
        return sorted(path.name for path in (self.home / folder).glob("*"))

    async def later(self, **passes: float) -> list[str]:
        self.clock.advance(timedelta(**passes).total_seconds())
        await self.backup.run_once()
        return self.made()


@pytest.fixture
def night(sqlite_database: Database, tmp_path: Path) -> Night:
    return Night(sqlite_database, tmp_path)


async def test_one_is_made_each_night_and_the_newest_stay(night: Night) -> None:
    first = "tieline-20261127-220000.tar"
    assert await night.later() == [first], "that of last night was missed"
    assert verify(night.home / "backups" / first, None).database == "sqlite"
    assert await night.later(hours=5) == [first]
    second = "tieline-20261128-031500.tar"
    assert await night.later(minutes=15) == [first, second]
    assert await night.later(minutes=1) == [first, second]
    third = await night.later(days=1)
    assert third == [second, "tieline-20261129-031600.tar"]
    assert night.told == []


async def test_without_a_time_none_is_made(night: Night) -> None:
    night.settings = BackupSettings()
    assert await night.later(days=2) == []


async def test_owners_are_told_once_a_night_and_it_is_tried_each_hour(night: Night) -> None:
    night.settings = BackupSettings(at="03:15", folder="disk")
    for minutes in (0, 1, 60, 1):
        await night.later(minutes=minutes)
    ((key, values),) = night.told
    assert key == "owner_backup"
    assert "there is no folder" in str(values["why"])
    (night.home / "disk").mkdir()
    await night.later(minutes=1)
    assert night.made("disk") == [], "tried two minutes ago"
    await night.later(seconds=AGAIN_AFTER.total_seconds())
    assert night.made("disk") == ["tieline-20261128-000300.tar"]
    assert len(night.told) == 1


@pytest.mark.parametrize(
    ("section", "mistake"),
    [
        ({"at": "3:15"}, "backup.at: '3:15' is no time of day"),
        ({"at": "24:00"}, "backup.at: '24:00' is no time of day"),
        ({"keep": 0}, "backup.keep: 0 must be 1 or more"),
        ({"folder": ""}, "backup.folder: is empty"),
    ],
)
def test_mistakes_of_the_section(section: dict[str, object], mistake: str) -> None:
    assert mistake in BackupSettings(**section).mistakes()[0]  # type: ignore[arg-type]
