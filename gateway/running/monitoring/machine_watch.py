"""Watch over machine and backups: measures the load, tells of a full disk, of backups and of an unexpected end."""

import logging
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

import anyio
from pydantic import TypeAdapter, ValidationError

from agent.storage.copies import inspection
from agent.storage.errors import StorageError
from gateway.backup import outcome
from gateway.backup.copies import Copy, copies_in, folders_of, newest_backup, trouble_with
from gateway.running.basics import Basics
from gateway.running.monitoring.alerts import SAME_AGAIN_S, Alerts
from gateway.telemetry import machine
from gateway.telemetry.machine import Folder, MachineLoad, Sample

SAMPLE_S = 5.0
SAMPLES = 13  # a minute
LOOK_S = 60.0
FOLDERS_S = 900.0  # a data directory can hold very many files
STARTED_S = 600.0  # until then one that was missed is being made up for
ENOUGH_AGAIN = 1.2  # times the least: a disk at the border is not told again and again
RUNNING = "running"  # a file of the data directory while a gateway runs; an orderly end removes it
ENDS = "ends"  # a file of the data directory: unexpected ends that wait to be told

DISK, BACKUP = "disk", "backup"  # subjects of troubles
NO_BACKUP = "backup age"  # the subject of the outage; that of one which fails is the nightly work's

_log = logging.getLogger("tieline.machine")


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """Sizes in bytes. `backup_at` is the moment of the newest backup; None: there is none."""

    disk_free: int
    database: int
    backup_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Unexpected ends that were not told, the first one of the process that ran `since`; the last were told at
    `told_at_s` (seconds since the epoch)."""

    count: int = 0
    since: str = ""
    told_at_s: float = 0.0

    def and_one(self, since: str) -> "Ends":
        """One more, of the process that ran since then."""
        return replace(self, count=self.count + 1, since=self.since or since)


_ENDS: TypeAdapter[Ends] = TypeAdapter(Ends)


class MachineWatch:
    """`run` it beside everything else; `load` and `folders` are what it measured."""

    def __init__(self, basics: Basics, alerts: Alerts) -> None:
        self._basics = basics
        self._alerts = alerts
        self._samples: deque[Sample] = deque(maxlen=SAMPLES)
        self._began_s = basics.clock.monotonic()
        self._ends = Ends()
        self.folders: Sequence[Folder] | None = None  # None: not measured yet

    async def begin(self) -> None:
        """Note that a gateway runs; tell the receivers where the last one did not end in order."""
        since = await anyio.to_thread.run_sync(_begin, self._basics.home / RUNNING, self._basics.clock.now())
        if since:
            _log.warning("the gateway that ran since %s ended unexpectedly", since)
        self._ends = await anyio.to_thread.run_sync(_ends, self._basics.home / ENDS)
        if since:
            self._ends = self._ends.and_one(since)
            await self._keep_ends()
        await self._tell_ends()

    async def end(self) -> None:
        """Note that it ended in order."""
        with suppress(OSError):
            await anyio.to_thread.run_sync(partial((self._basics.home / RUNNING).unlink, missing_ok=True))

    async def run(self) -> None:
        """Measure until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._measure_folders)
            looked_s = -LOOK_S
            while True:
                now_s = self._basics.clock.monotonic()
                self._samples.append(await anyio.to_thread.run_sync(machine.sample, now_s))
                if now_s - looked_s >= LOOK_S:
                    await self.look()
                    looked_s = now_s
                await self._basics.clock.sleep(SAMPLE_S)

    async def load(self) -> MachineLoad:
        """The load of now, CPU of the last minute."""
        first, last = (self._samples[0], self._samples[-1]) if self._samples else (None, None)
        return await anyio.to_thread.run_sync(machine.load, first, last)

    async def read(self) -> Readings:
        """The readings of now, for a scrape. Raises StorageError and OSError."""
        disk = await anyio.to_thread.run_sync(machine.disk, self._basics.home)
        state = await self._basics.database.read(inspection.database_state)
        newest = await self._newest_backup()
        return Readings(disk_free=disk.free, database=state.size, backup_at=newest.made_at if newest else None)

    async def look(self) -> None:
        """Report what is wrong with the disk and with the backups, or that it is over."""
        await self._look_at_disk()
        await self._look_at_backups()
        await self._tell_ends()

    async def _tell_ends(self) -> None:
        """Tell the receivers of unexpected ends once an hour: a service that is started again and again may have
        hundreds."""
        ends, now_s = self._ends, self._basics.clock.now().timestamp()
        if not ends.count or abs(now_s - ends.told_at_s) < SAME_AGAIN_S:  # a clock that was set back holds up nothing
            return
        self._ends = Ends(told_at_s=now_s)
        await self._keep_ends()
        key = "owner_restarted" if ends.count == 1 else "owner_restarted_often"
        values: dict[str, object] = (
            {"since": ends.since} if ends.count == 1 else {"since": ends.since, "count": ends.count}
        )
        self._alerts.tell_receivers(key, values)

    async def _keep_ends(self) -> None:
        with suppress(OSError):  # without it the next process tells again
            text = _ENDS.dump_json(self._ends)
            await anyio.to_thread.run_sync((self._basics.home / ENDS).write_bytes, text)

    async def _look_at_disk(self) -> None:
        least_mb = self._basics.settings.alerts.least_free_mb
        try:
            disk = await anyio.to_thread.run_sync(machine.disk, self._basics.home)
        except OSError:
            return  # the database tells, which cannot be written either
        free_mb = disk.free // 1_000_000
        if disk.is_nearly_full(least_mb):
            text = f"nearly full: {free_mb:,} MB of {disk.total // 1_000_000:,} MB are free"
            fix = (
                "free some space; the page Health lists the largest folders, and [retention] tells what is removed when"
            )
            self._basics.troubles.report("storage", DISK, text, fix=fix)
            self._alerts.outage(DISK, "owner_disk", {"free": free_mb})
        elif not disk.is_nearly_full(int(least_mb * ENOUGH_AGAIN)):
            self._basics.troubles.over("storage", DISK)
            self._alerts.outage_over(DISK, "owner_disk_back", {"free": free_mb})

    async def _look_at_backups(self) -> None:
        settings, now = self._basics.settings.backup, self._basics.clock.now()
        try:
            ended = await self._basics.database.read(outcome.newest)
        except StorageError:
            return  # told as the database's own trouble
        newest = await self._newest_backup()
        if self._basics.clock.monotonic() - self._began_s < STARTED_S:
            settings = replace(settings, at="")
        find = partial(trouble_with, newest, settings=settings, zone=self._basics.settings.scheduler.zone, now=now)
        if text := find(ended):
            fix = "`tieline backup`, or Back up now on the page Health, makes one; docs/backup.md tells more"
            self._basics.troubles.report("storage", BACKUP, text, fix=fix)
        else:
            self._basics.troubles.over("storage", BACKUP)
        # That one failed is told by the work that made it.
        if settings.at and (why := find(None)):
            self._alerts.outage(NO_BACKUP, "owner_backup_old", {"why": why})
        elif settings.at or not self._basics.settings.backup.at:
            self._alerts.outage_over(NO_BACKUP, "owner_backup_back" if newest is not None else None, {})

    async def _newest_backup(self) -> Copy | None:
        folders = folders_of(self._basics.home, self._basics.settings.backup)
        return newest_backup(await anyio.to_thread.run_sync(copies_in, folders))

    async def _measure_folders(self) -> None:
        while True:
            self.folders = await anyio.to_thread.run_sync(machine.folders_in, self._basics.home, abandon_on_cancel=True)
            await self._basics.clock.sleep(FOLDERS_S)


def _begin(file: Path, now: datetime) -> str:
    """Since when the process ran that did not end in order; "" where there is none."""
    since = ""
    with suppress(OSError, UnicodeDecodeError):
        since = file.read_text().strip()[:40]
    with suppress(OSError):  # without it an unexpected end is not told
        file.write_text(f"{now:%Y-%m-%d %H:%M} UTC\n")
    return since


def _ends(file: Path) -> Ends:
    with suppress(OSError, ValidationError):
        return _ENDS.validate_json(file.read_bytes())
    return Ends()
