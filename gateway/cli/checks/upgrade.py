"""Findings of `tieline upgrade --check`: what the next start of this version will change. Changes nothing. Blocking."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from sqlalchemy import URL, Connection, text
from sqlalchemy.exc import SQLAlchemyError

from agent.core.clock import SystemClock
from agent.core.phrases import counted
from agent.storage.connect import BACKUPS, NAME, State, bring_up_to_date, free_name, migrating_from, revision, target_of
from agent.storage.copies.inspection import look, read
from agent.storage.copies.sqlite import copy_file
from agent.storage.errors import DatabaseUnusable, StorageError
from gateway.backup.request import ENCRYPTED, PASSPHRASE, PLAIN
from gateway.channels.adapter import Diagnosis
from gateway.config.settings import Settings
from gateway.doctor.database import way_out
from gateway.doctor.findings import former_names, recall
from gateway.running.foundation import noted_version
from gateway.storage.repair import SCHEMA
from gateway.web.control_client import NoGateway, Refused, call

TRIED_IN = 3  # sizes of the database: a copy, and what its migration writes
ARCHIVED_IN = 2  # sizes of the database: an archive is staged before it is written


def findings(settings: Settings) -> Iterator[Diagnosis]:
    """Versions, configuration, database, room for its copy, and the way back."""
    yield from versions(settings.home)
    yield _found("configuration", "ok", f"{settings.source} can be read" if settings.source else "there is no file")
    yield from former_names(settings)
    yield from (one for one in recall(settings) if one.level == "error")
    yield from _database(settings)


def versions(home: Path) -> Iterator[Diagnosis]:
    """The version that is installed, the one that runs, and the one that was started here last."""
    here, last, running = version("tieline"), noted_version(home), _running(home)
    noted = f"Tieline {last} was started here last" if last else "no version has noted that it was started here"
    yield _found("version", "ok", f"{here} is installed, {noted}")
    if running:
        fix = "stop it before this version is started, and before it is installed in the place of that one"
        yield _found("gateway", "ok" if running == here else "warning", f"Tieline {running} runs", fix)
    else:
        yield _found("gateway", "ok", "does not run")


def _running(home: Path) -> str:
    try:
        return str(call(home, "version"))
    except NoGateway:
        return ""
    except Refused:
        return "(of a version that it does not tell)"


def _database(settings: Settings) -> Iterator[Diagnosis]:
    url, home = settings.database.url, settings.home
    try:
        target = target_of(url, home)
        state = look(url, home, SCHEMA)
        stored = str(read(url, home, revision)) if state is State.OTHER else ""
        pending = migrating_from(stored, SCHEMA).pending(SCHEMA.migrations, stored) if stored else ()
    except DatabaseUnusable as error:
        yield _found("database", "error", str(error), way_out(error, settings))
        return
    if state is State.FOREIGN:
        yield _found(
            "database", "error", "it holds tables that are not ours", "name an empty database in [database] url"
        )
    elif state is State.CURRENT:
        yield _found("database", "ok", f"of revision {SCHEMA.head}, as this version wants it: nothing is migrated")
        yield _found("way back", "ok", "the tables stay as they are, so the version before can be started again")
    elif state is not State.OTHER:
        yield _found("database", "ok", "will be made at the first start")
    else:
        yield _found("database", "ok", f"of revision {stored}: {counted(len(pending), 'migration')} will run")
        yield from (_found(f"migration {one.revision}", "ok", one.text) for one in pending)
        yield from _tried(target) if isinstance(target, Path) else ()
        yield from _room(settings, target)
        yield _way_back(target, home, stored)


def _tried(path: Path) -> Iterator[Diagnosis]:
    """The migrations on a copy, which is removed again."""
    needed, folder = TRIED_IN * _size(path), Path(tempfile.gettempdir())
    if shutil.disk_usage(folder).free < needed:
        finding = f"not tried: a copy and its migration take {_mb(needed)} in {folder}"
        yield _found("migration on a copy", "warning", finding, "set TMPDIR to a folder with room")
        return
    with tempfile.TemporaryDirectory(prefix="tieline-upgrade-") as folder_of_copy:
        copy, clock = Path(folder_of_copy) / "tieline.db", SystemClock()
        began = clock.monotonic()
        try:
            copy_file(path, copy)
            bring_up_to_date(copy, SCHEMA, copied=False)
        except (StorageError, SQLAlchemyError, OSError) as error:
            yield _found("migration on a copy", "error", str(error), "stay with the version that you have")
            return
        yield _found("migration on a copy", "ok", f"done in {clock.monotonic() - began:.1f} s, and removed again")


def _room(settings: Settings, target: Path | URL) -> Iterator[Diagnosis]:
    """Whether the copy that the start makes first can be written."""
    folder = _backups(target, settings.home)
    there = next((one for one in (folder, *folder.parents) if one.exists()), Path("/"))
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        fix = f"make {folder} a folder that this account may write"
        yield _found(
            "copy before it", "error", f"{there} cannot be written, and without a copy nothing is migrated", fix
        )
        return
    free = shutil.disk_usage(there).free
    if isinstance(target, Path):
        needed, least = _size(target), "takes"
    else:
        needed, least = ARCHIVED_IN * read(settings.database.url, settings.home, _size_on_server), "takes at most"
    level: Literal["ok", "warning", "error"] = "ok"
    if free < needed:
        level = "error" if isinstance(target, Path) else "warning"
    fix = f"free some room there, or let {folder} be a link to a folder on another disk"
    yield _found("copy before it", level, f"{least} {_mb(needed)} in {folder}, where {_mb(free)} are free", fix)


def _way_back(target: Path | URL, home: Path, stored: str) -> Diagnosis:
    """How the version before goes on, if it has to."""
    into, stem, ending = "name an empty database in [database] url and ", NAME, PLAIN
    if isinstance(target, Path):
        into, stem, ending = "", target.stem, ".db"
    elif os.environ.get(PASSPHRASE):
        ending = ENCRYPTED
    file = free_name(_backups(target, home), f"{stem}-{stored}", ending)
    finding = f"{into}`tieline restore {file}`, then start the version before again; what was said since is lost"
    return _found("way back", "ok", finding)


def _backups(target: Path | URL, home: Path) -> Path:
    return (target.parent if isinstance(target, Path) else home) / BACKUPS


def _size(path: Path) -> int:
    log = path.with_name(f"{path.name}-wal")
    return path.stat().st_size + (log.stat().st_size if log.exists() else 0)


def _size_on_server(conn: Connection) -> int:
    return int(conn.execute(text("SELECT pg_database_size(current_database())")).scalar_one())


def _mb(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def _found(subject: str, level: Literal["ok", "warning", "error"], finding: str, fix: str = "") -> Diagnosis:
    return Diagnosis(subject=subject, level=level, finding=finding, fix=fix)
