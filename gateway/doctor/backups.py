"""The part of `tieline doctor` that looks at backups: the age of the newest, and a drill that restores it. Blocking."""

import os
import tempfile
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path

import anyio

from agent.core.clock import SystemClock
from agent.core.phrases import counted
from agent.storage.copies.restore import restore
from agent.storage.errors import StorageError
from agent.storage.timestamps import to_timestamp
from gateway.backup.archive import is_archive
from gateway.backup.request import PASSPHRASE, backups_in
from gateway.backup.restore import Place, restore_archive, verify
from gateway.channels.adapter import Diagnosis
from gateway.config.sections import BACKUPS
from gateway.phrases.catalogue import read_catalogue
from gateway.scheduler.restored import put_aside
from gateway.storage.repair import SCHEMA, open_database

OLD_DAYS = 8  # of one made each week, a day late
URL = "sqlite:///tieline.db"
HOUR_S = 3600


def findings(home: Path, drill: bool, folder: str = BACKUPS) -> Iterator[Diagnosis]:
    """How old the newest is and, with `drill`, whether it can be restored; `folder` is that of the nightly ones."""
    folders = dict.fromkeys((home / BACKUPS, home / folder))
    found = [file for each in folders for file in backups_in(each)]
    file = max(found, key=lambda one: one.stat().st_mtime, default=None)
    if file is None:
        level = "error" if drill else "ok"
        yield Diagnosis(
            subject="backup",
            level=level,  # type: ignore[arg-type]
            finding=f"none in {' or '.join(map(str, folders))}",
            fix="`tieline backup` makes one",
        )
        return
    now = SystemClock().now()
    hours = max(0, int((now.timestamp() - file.stat().st_mtime) // HOUR_S))
    age = counted(hours, "hour") if hours < 48 else counted(hours // 24, "day")
    is_old = hours >= OLD_DAYS * 24
    yield Diagnosis(
        subject="backup",
        level="warning" if is_old else "ok",
        finding=f"the newest is {age} old: {file.name}",
        fix="`tieline backup` makes one; docs/backup.md has a line for cron",
    )
    if drill:
        yield _drilled(file, now)


def _drilled(file: Path, now: datetime) -> Diagnosis:
    """The outcome of a restore into a data directory that is removed again."""
    with tempfile.TemporaryDirectory(prefix="tieline-drill-") as folder:
        try:
            done = _restored(file, Path(folder), now)
        except (StorageError, OSError) as error:
            fix = "make a new one, `tieline backup`, and see whether its disk is well"
            return Diagnosis(subject="backup: drill", level="error", finding=str(error), fix=fix)
    return Diagnosis(subject="backup: drill", level="ok", finding=f"{file.name} can be restored: {done}")


def _restored(file: Path, home: Path, now: datetime) -> str:
    passphrase = os.environ.get(PASSPHRASE) or None
    at, others = to_timestamp(now), partial(put_aside, now=now, phrase=read_catalogue())
    placed = "a copy of the database alone"
    if not is_archive(file):
        restore(URL, home, file, schema=SCHEMA, kept_as="drill.db", at=at, others=others)
    else:
        held = verify(file, passphrase)
        if held.database == "postgresql":  # a drill has no server to fill
            rows = sum(table.rows for table in held.tables)
            return f"{counted(len(held.members), 'file')}, {counted(rows, 'row')} read, none filled in"
        place = Place(home=home, source=home / "gateway.toml", url=URL, environ={})
        done = restore_archive(file, place, passphrase, kept_as="drill.db", at=at, others=others)
        placed = counted(done.placed, "file")
    anyio.run(_opened, home)
    return f"{placed}, and the database opens"


async def _opened(home: Path) -> None:
    """Open it as the start does, with the migration that an older one needs."""
    await (await open_database(URL, home)).aclose()
