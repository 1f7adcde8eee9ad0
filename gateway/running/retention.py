"""Housekeeping: old rows, old messages, old attachments, exports and backups go, by the `[retention]` section."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import anyio

from agent.core.clock import Clock
from agent.core.files.safe import Tree
from agent.core.files.store import UPLOADS, FileUpkeep
from agent.memory import misses
from agent.memory.expiry import expire
from agent.memory.memory import Memory
from agent.storage import sqlite
from agent.storage.database import Database
from agent.storage.errors import StorageError
from agent.storage.timestamps import to_timestamp
from agent.tools.files.paths import FOLDER as WORKSPACES
from agent.tools.mcp.server import bounded
from agent.tools.output_files import FOLDER as OUTPUTS
from gateway.backup.request import keep_newest
from gateway.config.sections import RetentionSettings
from gateway.storage.retention import BATCH, prune

FIRST_S, EVERY_S = 60.0, 3600.0
EXPORT_DAYS = 1  # also of files of requests that a crash has ended

_log = logging.getLogger("tieline.upkeep")


class Upkeep:
    """The scheduler's hourly work; a failure waits for the next hour."""

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock,
        home: Path,
        files: FileUpkeep | None,
        retention: Callable[[], RetentionSettings],
        memory: Memory,
        groups: Callable[[], Awaitable[None]],
        traces: Callable[[], Awaitable[None]],
        events: Callable[[], Awaitable[None]],
        ledger_days: Callable[[], int],
        miss_days: Callable[[], int],
        sync_files: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`groups` removes what is kept too long of what people said among themselves, `traces` those of turns,
        `events` what other programs were told. `files` keeps files in the database, where it does; `sync_files` lets go
        of what other processes had forgotten.

        `ledger_days` is how long the ledger of schedules is kept, `miss_days` what the memory did not find.
        """
        self._database = database
        self._clock = clock
        self._home = home
        self._files = files
        self._retention = retention
        self._memory = memory
        self._sync_files = sync_files
        self._groups = groups
        self._traces = traces
        self._events = events
        self._ledger_days = ledger_days
        self._miss_days = miss_days

    async def run_once(self) -> None:
        """Go through everything; what fails is logged, and left for the next time."""
        # Files first: on a full disk no row can go before there is room.
        await self._run(*self._of_home(), self._tidy_rows)

    async def run_home_once(self) -> None:
        """The same for the files of this process's home alone."""
        await self._run(*self._of_home())

    async def run_rows_once(self) -> None:
        """The same for the rows, which processes may share."""
        await self._run(self._tidy_rows)

    async def _run(self, *steps: Callable[[RetentionSettings, datetime], Awaitable[None]]) -> None:
        for tidy in steps:
            try:
                await tidy(self._retention(), self._clock.now())
            except (StorageError, OSError) as error:
                _log.warning("tidying up failed, tried again in an hour: %s", error)

    async def tidy(self) -> None:
        """Once through everything. Raises StorageError and OSError."""
        retention, now = self._retention(), self._clock.now()
        for tidy in (*self._of_home(), self._tidy_rows):
            await tidy(retention, now)

    def _of_home(self) -> Sequence[Callable[[RetentionSettings, datetime], Awaitable[None]]]:
        if self._files is None:
            return (self._tidy_files,)
        return self._tidy_files, partial(self._tidy_stored, self._files)

    async def _tidy_rows(self, retention: RetentionSettings, now: datetime) -> None:
        inbox_before = to_timestamp(now - timedelta(days=retention.within(retention.inbox_days)))
        outbox_before = to_timestamp(now - timedelta(days=retention.within(retention.outbox_days)))
        pruning = partial(
            prune,
            inbox_before=inbox_before,
            outbox_before=outbox_before,
            audit_before=to_timestamp(now - timedelta(days=retention.audit_days)),
            runs_before=to_timestamp(now - timedelta(days=self._ledger_days())),
            now=to_timestamp(now),
        )
        while await self._database.write(pruning) >= BATCH:
            await self._clock.sleep(0.2)
        await self._groups()
        await self._traces()
        await self._events()
        misses_before = int((now - timedelta(days=retention.within(self._miss_days()))).timestamp())
        await self._database.write(partial(misses.prune, before_s=misses_before))
        if retention.conversation_days:
            before = to_timestamp(now - timedelta(days=retention.conversation_days))
            await expire(self._memory, before=before, clock=self._clock)
        await self._clean(to_timestamp(now))

    async def _tidy_files(self, retention: RetentionSettings, now: datetime) -> None:
        if self._sync_files is not None:
            await self._sync_files()
        for name, before in _ends(retention, now):
            await anyio.to_thread.run_sync(_remove_files, self._home / name, before)
        await anyio.to_thread.run_sync(_bound_logs, self._home / "logs")
        await anyio.to_thread.run_sync(keep_newest, self._home / "backups", retention.backups)

    async def _tidy_stored(self, files: FileUpkeep, retention: RetentionSettings, now: datetime) -> None:
        """The same in the database, where it keeps files, and here what was removed there."""
        await files.adopt()
        for name, before in _ends(retention, now):
            await files.expire(name, before)
        await files.tidy()

    async def _clean(self, at: int) -> None:
        """Remove what people had forgotten from the database's file as well, and what went by itself from its log."""
        if not await self._database.read(partial(sqlite.is_due, at=at)):
            while not await self._database.write(sqlite.empty_log):
                await self._clock.sleep(0.1)
            return
        merged = await self._database.write(partial(sqlite.merge, first=True))
        while not merged:
            merged = await self._database.write(partial(sqlite.merge, first=False))
        while not await self._database.write(sqlite.clean):
            await self._clock.sleep(0.1)
        await self._database.write(partial(sqlite.note_cleaned, at=at))


def _ends(retention: RetentionSettings, now: datetime) -> Sequence[tuple[str, float]]:
    """The folders of files that go, each with the moment (POSIX seconds) before which they were last written."""
    days = (
        ("files", retention.attachment_days),
        (OUTPUTS, retention.output_days),
        ("exports", EXPORT_DAYS),
        (UPLOADS, EXPORT_DAYS),
        (WORKSPACES, retention.workspace_days),
    )
    return [(name, now.timestamp() - timedelta(days=kept).total_seconds()) for name, kept in days]


def _remove_files(folder: Path, before: float) -> None:
    """Files last written before that moment (POSIX seconds), and folders that have been empty as long."""
    for left in Tree(folder).prune(before):
        if not left.gone:
            _log.warning("%r in %s is old and stays: %s", "/".join(left.names), folder, left.why)


def _bound_logs(folder: Path) -> None:
    for path in folder.glob("mcp-*.log"):
        bounded(path)
