"""Requests for a backup: what it is to hold, how its file is called, how many stay.

Light, since every start imports it; what makes a backup is loaded when one is made.
"""

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import cast

import anyio.to_thread

from agent.core.clock import SystemClock
from agent.storage.database import Database
from gateway.channels.entry_points import installed, token_forms
from gateway.config.sections import BACKUPS
from gateway.config.settings import Settings
from gateway.telemetry.redaction import Redactor

PASSPHRASE = "TIELINE_BACKUP_PASSPHRASE"  # noqa: S105 - the name of a variable
PLAIN, ENCRYPTED = ".tar", ".tar.encrypted"  # endings of the names that we give
_NAME, _ANY = "tieline-%Y%m%d-%H%M%S", "tieline-????????-??????.*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Contents of a backup. `source` is the configuration's file; `redact` takes secrets out of a text.

    With a passphrase the archive is encrypted and holds secrets too. `files` are those that people sent and that tools
    made.
    """

    home: Path
    source: Path | None
    redact: Callable[[str], str]
    passphrase: str | None = None
    files: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """A backup that was made. `left_out` tells in sentences what the archive does not hold."""

    path: Path
    size: int
    files: int
    left_out: tuple[str, ...]


def wanted_of(settings: Settings, passphrase: str | None, files: bool) -> Wanted:
    """Everything that the configuration in force names."""
    redactor = Redactor(settings.secrets, token_forms(installed()))
    return Wanted(home=settings.home, source=settings.source, redact=redactor, passphrase=passphrase, files=files)


async def archive(database: Database, to: Path, wanted: Wanted, *, at: datetime) -> Archived:
    """Write the new file `to`, whole or not at all, for this account alone. Raises BackupRefused."""
    backup = await anyio.to_thread.run_sync(import_module, "gateway.backup.backup")  # 20 ms
    return cast(Archived, await backup.archive(database, to, wanted, at=at))


def before_migration(settings: Settings) -> Callable[[Database, str], Awaitable[Path]]:
    """Maker of the backup of a PostgreSQL database that stands at an older revision: `BackUp` of `agent.storage`.

    It holds the database and what the operator wrote; a migration leaves the files that people sent as they are.
    """

    async def back_up(database: Database, revision: str) -> Path:
        passphrase = os.environ.get(PASSPHRASE) or None
        connect = import_module("agent.storage.connect")
        folder = settings.home / BACKUPS
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        to = connect.free_name(folder, f"{connect.NAME}-{revision}", ENCRYPTED if passphrase else PLAIN)
        made = await archive(database, to, wanted_of(settings, passphrase, False), at=SystemClock().now())
        return made.path

    return back_up


def name_of(at: datetime, *, is_encrypted: bool) -> str:
    """The name of a backup that was made at that moment, in UTC."""
    return f"{at.astimezone(UTC):{_NAME}}{ENCRYPTED if is_encrypted else PLAIN}"


def moment_of(file: Path) -> datetime | None:
    """The moment in the name of a backup; None where the name is another."""
    try:
        return datetime.strptime(file.name.partition(".")[0], _NAME).replace(tzinfo=UTC)
    except ValueError:
        return None


def backups_in(folder: Path) -> list[Path]:
    """The backups that were made without a name of their own, the newest first. Copies before a migration are none."""
    dated = [(path.stat().st_mtime, path) for path in folder.glob(_ANY) if path.is_file()]
    return [path for _, path in sorted(dated, reverse=True)]


def keep_newest(folder: Path, count: int) -> None:
    """Remove all of them but the newest."""
    for path in backups_in(folder)[count:]:
        path.unlink(missing_ok=True)
