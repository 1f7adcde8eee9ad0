"""Watch over machine and backups: measures the load, reports a nearly full disk and backups that are old or failed."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import anyio

from agent.storage.errors import StorageError
from gateway.backup import outcome
from gateway.backup.copies import copies_in, folders_of, newest_backup, trouble_with
from gateway.running.basics import Basics
from gateway.telemetry import machine
from gateway.telemetry.machine import Folder, MachineLoad, Sample

SAMPLE_S = 5.0
SAMPLES = 13  # a minute
LOOK_S = 60.0
FOLDERS_S = 900.0  # a data directory can hold very many files
STARTED_S = 600.0  # until then one that was missed is being made up for

DISK, BACKUP = "disk", "backup"  # subjects of troubles


class MachineWatch:
    """`run` it beside everything else; `load` and `folders` are what it measured."""

    def __init__(self, basics: Basics) -> None:
        self._basics = basics
        self._samples: deque[Sample] = deque(maxlen=SAMPLES)
        self._began_s = basics.clock.monotonic()
        self.folders: Sequence[Folder] | None = None  # None: not measured yet

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

    async def look(self) -> None:
        """Report what is wrong with the disk and with the backups, or that it is over."""
        await self._look_at_disk()
        await self._look_at_backups()

    async def _look_at_disk(self) -> None:
        troubles = self._basics.troubles
        try:
            disk = await anyio.to_thread.run_sync(machine.disk, self._basics.home)
        except OSError:
            return  # the database tells, which cannot be written either
        if not disk.is_nearly_full:
            troubles.over("storage", DISK)
            return
        text = f"nearly full: {disk.free // 1_000_000:,} MB of {disk.total // 1_000_000:,} MB are free"
        fix = "free some space; the page Health lists the largest folders, and [retention] tells what is removed when"
        troubles.report("storage", DISK, text, fix=fix)

    async def _look_at_backups(self) -> None:
        settings, now = self._basics.settings.backup, self._basics.clock.now()
        zone = self._basics.settings.scheduler.zone
        try:
            ended = await self._basics.database.read(outcome.newest)
        except StorageError:
            return  # told as the database's own trouble
        folders = folders_of(self._basics.home, settings)
        newest = newest_backup(await anyio.to_thread.run_sync(copies_in, folders))
        if self._basics.clock.monotonic() - self._began_s < STARTED_S:
            settings = replace(settings, at="")
        text = trouble_with(newest, ended, settings, zone=zone, now=now)
        if text:
            fix = "`tieline backup`, or Back up now on the page Health, makes one; docs/backup.md tells more"
            self._basics.troubles.report("storage", BACKUP, text, fix=fix)
        else:
            self._basics.troubles.over("storage", BACKUP)

    async def _measure_folders(self) -> None:
        while True:
            self.folders = await anyio.to_thread.run_sync(machine.folders_in, self._basics.home, abandon_on_cancel=True)
            await self._basics.clock.sleep(FOLDERS_S)
