"""Repairs of `tieline doctor --fix`: rights of files, leftovers of a killed process, the tables of the database."""

import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from importlib import import_module
from pathlib import Path

from sqlalchemy import Connection

from agent.core.clock import SystemClock
from agent.storage.timestamps import to_timestamp
from gateway.cli.offline import AloneError, on_database
from gateway.config.settings import Settings
from gateway.storage.repair import Ailment, homeless_schedules, mend
from gateway.web.control_client import socket_path

PRIVATE_FOLDERS = ("", "secrets", "backups", "traces", "files", "uploads", "web")


async def mended(settings: Settings, *, running: bool) -> AsyncIterator[str]:
    """Mends, and gives a line for each thing as soon as it is done. Raises AloneError where the database fails."""
    for line in (*rights(settings.home), *_leftovers(settings.home, running=running)):
        yield line
    if not running:
        for line in await _tables(settings):
            yield line


def rights(home: Path) -> Iterator[str]:
    """Nobody else on this machine may read what people wrote."""
    if not home.exists():
        home.mkdir(parents=True, mode=0o700)
        yield f"{home} is made"
    for name in PRIVATE_FOLDERS:
        folder = home / name
        if folder.is_dir() and folder.stat().st_mode & 0o077:
            folder.chmod(0o700)
            yield f"{folder} is for this account alone"
    secrets = home / "secrets"
    files = [home / "gateway.toml", *(secrets.iterdir() if secrets.is_dir() else ()), *home.glob("tieline.db*")]
    for file in files:
        if file.is_file() and file.stat().st_mode & 0o077:
            file.chmod(0o600)
            yield f"{file} is for this account alone"


def _leftovers(home: Path, *, running: bool) -> Iterator[str]:
    """Leftovers of a process that was killed in the middle of something."""
    if running:
        return
    left = [
        *(path for pattern in (".*.restored*", ".restoring-*", ".*.transfer*") for path in home.glob(pattern)),
        *(home / "backups").glob(".*.partial*"),
    ]
    if socket_path(home).is_socket():
        left.append(socket_path(home))
    for path in left:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
        yield f"{path} is removed: a process that was killed had left it"


async def _tables(settings: Settings) -> list[str]:
    """Opening it makes it or brings it up to date, after a copy."""
    url, home = settings.database.url, settings.home
    looking, opening = import_module("agent.storage.copies.inspection"), import_module("gateway.storage.repair")
    try:
        before = looking.look(url, home, opening.SCHEMA)
    except import_module("agent.storage.errors").DatabaseUnusable as error:
        raise AloneError(str(error)) from error
    accounts, now = [channel.channel_type for channel in settings.channels], to_timestamp(SystemClock().now())

    def work(conn: Connection) -> Sequence[Ailment]:
        return [*mend(conn), *homeless_schedules(conn, accounts, mend_at=now)]

    found = await on_database(settings, lambda database: database.write(work))
    done = [f"the database: {ailment.mended} ({ailment.count})" for ailment in found]
    if before is None or before is looking.State.EMPTY:
        done.append("the database is made")
    elif before is looking.State.OTHER:
        done.append(f"the database is brought up to date; a copy from before is in {home / 'backups'}")
    return done
