"""Looks after the machine below the gateway: free disk space, size of the database, age of backups, how the last
process ended.
"""

import logging
import shutil
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import anyio
from sqlalchemy import Connection, text

from agent.storage.errors import StorageError
from gateway.backup.request import backups_in, moment_of
from gateway.running.alerts import Alerts
from gateway.running.basics import Basics

EVERY_S = 60.0
ENOUGH_AGAIN = 1.2  # times the least: a disk at the border is not told again and again
RUNNING = "running"  # a file of the data directory while a gateway runs; an orderly end removes it
MEBIBYTE = 1024 * 1024

_log = logging.getLogger("tieline.host")
_SQLITE_SIZE = text("select page_count * page_size from pragma_page_count(), pragma_page_size()")
_POSTGRESQL_SIZE = text("select pg_database_size(current_database())")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReadings:
    """`backup_at` is the moment of the newest backup; None: there is none, or its folder cannot be read."""

    disk_free_bytes: int
    database_bytes: int
    backup_at: datetime | None


class HostWatch:
    """The scheduler's work of each minute, and the readings for a scrape."""

    def __init__(self, basics: Basics, alerts: Alerts) -> None:
        self._basics = basics
        self._alerts = alerts

    async def begin(self) -> None:
        """Note that a gateway runs; tell the receivers where the last one did not end in order."""
        since = await anyio.to_thread.run_sync(_begin, self._basics.home / RUNNING, self._basics.clock.now())
        if since:
            _log.warning("the gateway that ran since %s ended unexpectedly", since)
            self._alerts.tell_receivers("owner_restarted", {"since": since})

    async def end(self) -> None:
        """Note that it ended in order."""
        with suppress(OSError):
            await anyio.to_thread.run_sync(partial((self._basics.home / RUNNING).unlink, missing_ok=True))

    async def read(self) -> HostReadings:
        """The readings of now. Raises StorageError and OSError."""
        home, folder = self._basics.home, self._basics.home / self._basics.settings.backup.folder
        free = await anyio.to_thread.run_sync(lambda: shutil.disk_usage(home).free)
        return HostReadings(
            disk_free_bytes=free,
            database_bytes=await self._basics.database.read(_size),
            backup_at=await anyio.to_thread.run_sync(_newest_backup, folder),
        )

    async def run_once(self) -> None:
        """Tell the owners what they should know of."""
        try:
            readings = await self.read()
        except (StorageError, OSError) as error:
            _log.warning("the disk and the backups cannot be looked at: %s", error)
            return
        self._tell_disk(readings.disk_free_bytes // MEBIBYTE)
        self._tell_backup(readings.backup_at)

    def _tell_disk(self, free_mb: int) -> None:
        least_mb = self._basics.settings.alerts.least_free_mb
        if free_mb < least_mb:
            self._alerts.outage("disk", "owner_disk", {"free": free_mb, "least": least_mb})
        elif free_mb >= least_mb * ENOUGH_AGAIN:
            self._alerts.outage_over("disk", "owner_disk_back", {"free": free_mb})

    def _tell_backup(self, newest: datetime | None) -> None:
        settings = self._basics.settings
        hours = settings.alerts.backup_max_h
        old = newest is not None and self._basics.clock.now() - newest > timedelta(hours=hours)
        if settings.backup.at and hours and old:
            self._alerts.outage("backup age", "owner_backup_old", {"hours": hours})
        else:
            self._alerts.outage_over("backup age", "owner_backup_back" if newest is not None else None, {})


def _begin(file: Path, now: datetime) -> str:
    """Since when the process ran that did not end in order; "" where there is none."""
    since = ""
    with suppress(OSError, UnicodeDecodeError):
        since = file.read_text().strip()[:40]
    with suppress(OSError):  # without it an unexpected end is not told
        file.write_text(f"{now:%Y-%m-%d %H:%M} UTC\n")
    return since


def _newest_backup(folder: Path) -> datetime | None:
    moments = [moment_of(file) for file in backups_in(folder) if file.suffix != ".db"]  # that is the database alone
    return max((at for at in moments if at is not None), default=None)


def _size(conn: Connection) -> int:
    size: int = conn.execute(_SQLITE_SIZE if conn.dialect.name == "sqlite" else _POSTGRESQL_SIZE).scalar_one()
    return size
