"""The nightly backup of the running gateway, where `[backup] at` asks for one."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import anyio

from agent.core.clock import Clock
from agent.storage.errors import StorageError
from gateway.backup.maker import BackupMaker
from gateway.backup.request import backups_in, keep_newest, moment_of
from gateway.config.sections import BackupSettings

EVERY_S = 60.0
AGAIN_AFTER = timedelta(hours=1)  # a try that failed
BY = "the clock"

_log = logging.getLogger("tieline.backup")


def last_due(now: datetime, at: time, zone: str) -> datetime:
    """The newest moment at or before `now` at which the clock of that zone showed `at`."""
    local = now.astimezone(ZoneInfo(zone))
    today = datetime.combine(local.date(), at, local.tzinfo).astimezone(UTC)
    return today if today <= now else datetime.combine(local.date() - timedelta(days=1), at, local.tzinfo)


class NightlyBackup:
    """The scheduler's work of each minute. One that was missed, as the gateway did not run, is made at the start."""

    def __init__(
        self,
        maker: BackupMaker,
        *,
        clock: Clock,
        settings: Callable[[], BackupSettings],
        zone: Callable[[], str],
        tell: Callable[[str, dict[str, object]], None],
        over: Callable[[], None] = lambda: None,
    ) -> None:
        """`tell` says a sentence of the catalogue to the owners, `over` that there is a backup again."""
        self._maker = maker
        self._clock = clock
        self._settings = settings
        self._zone = zone
        self._tell = tell
        self._over = over
        self._failed: tuple[datetime, datetime] | None = None  # which was due, and when it was tried last

    async def run_once(self) -> None:
        """Make one where it is due; of one that fails the owners are told once, and it is tried again each hour."""
        settings, now = self._settings(), self._clock.now()
        if not settings.at or self._maker.running is not None:
            return
        due, folder = last_due(now, settings.moment, self._zone()), self._maker.folder
        told = self._failed is not None and self._failed[0] == due
        if told and self._failed is not None and now - self._failed[1] < AGAIN_AFTER:
            return
        try:
            if not await anyio.to_thread.run_sync(_made_since, folder, due):
                if self._maker.running is not None:
                    return
                await self._maker.make(BY)
                await anyio.to_thread.run_sync(keep_newest, folder, settings.keep)
            self._over()
        except (StorageError, OSError) as error:
            _log.error("the backup failed, tried again in an hour: %s", error)
            self._failed = (due, now)
            if not told:
                self._tell("owner_backup", {"why": str(error)})


def _made_since(folder: Path, due: datetime) -> bool:
    """Whether a backup in the folder is as new as that, by its name; one made by hand counts."""
    moments = (moment_of(file) for file in backups_in(folder) if file.suffix != ".db")  # that is the database alone
    return any(at is not None and at >= due for at in moments)
