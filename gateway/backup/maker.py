"""The maker of backups by `[backup]` in the running gateway: one at a time, at night or when an operator asks."""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import anyio

from agent.core.clock import Clock
from agent.storage.database import Database
from agent.storage.errors import BackupRefused, StorageError
from gateway.backup.outcome import recorded
from gateway.backup.request import PASSPHRASE, Archived, Wanted, archive, name_of
from gateway.config.sections import BACKUPS, BackupSettings

_log = logging.getLogger("tieline.backup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A backup that is being made, or is about to be."""

    since: datetime
    by: str


class BackupMaker:
    """`run` makes those that were asked for; `make` is for whoever waits for the end."""

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock,
        home: Path,
        settings: Callable[[], BackupSettings],
        wanted: Callable[[str | None, bool], Wanted],
    ) -> None:
        self._database = database
        self._clock = clock
        self._home = home
        self._settings = settings
        self._wanted = wanted
        self._asked = anyio.Event()
        self._last_name = ""
        self.running: Running | None = None

    @property
    def folder(self) -> Path:
        """Where they lie."""
        return self._home / self._settings().folder

    @property
    def is_encrypted(self) -> bool:
        """Whether the environment names a passphrase for them."""
        return bool(os.environ.get(PASSPHRASE))

    def ask(self, by: str) -> None:
        """Have one made in the background. Raises BackupRefused while one is being made."""
        self._begin(by)
        self._asked.set()

    async def run(self) -> None:
        """Make each that is asked for, until cancelled; how it ended is kept, and one that fails is logged."""
        while True:
            await self._asked.wait()
            self._asked = anyio.Event()
            try:
                await self._made()
            except (StorageError, OSError) as error:
                _log.error("the backup that was asked for failed: %s", error)

    async def make(self, by: str) -> Archived:
        """Make one now. Raises BackupRefused, also while one is being made, and OSError."""
        self._begin(by)
        return await self._made()

    def _begin(self, by: str) -> None:
        if self.running is not None:
            since, whose = self.running.since, self.running.by
            raise BackupRefused(f"a backup is being made already, since {since:%H:%M} UTC, by {whose}")
        now = self._clock.now()
        name = name_of(now, is_encrypted=self.is_encrypted)
        if name == self._last_name:  # names have seconds
            raise BackupRefused("a backup was made in this very second")
        self._last_name, self.running = name, Running(since=now, by=by)

    async def _made(self) -> Archived:
        assert self.running is not None
        settings, folder, now, by = self._settings(), self.folder, self.running.since, self.running.by
        passphrase = os.environ.get(PASSPHRASE) or None
        file = folder / name_of(now, is_encrypted=passphrase is not None)

        async def make() -> Archived:
            if folder == self._home / BACKUPS:
                await anyio.to_thread.run_sync(_make_private, folder)
            return await archive(self._database, file, self._wanted(passphrase, settings.files), at=now)

        try:
            made = await recorded(self._database, self._clock, make, by=by, to=file)
        finally:
            self.running = None
        _log.info("backed up to %s: %d files, %d bytes", made.path, made.files, made.size)
        return made


def _make_private(folder: Path) -> None:
    folder.mkdir(exist_ok=True, mode=0o700)
