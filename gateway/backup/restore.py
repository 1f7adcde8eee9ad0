"""Restore and check of an archive that `tieline backup` made. All of it blocks.

An archive is read to its end and compared with its list before anything outside of a folder of its own is changed.
"""

import shutil
import sqlite3
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from sqlalchemy import URL, Connection

from agent.core.errors import ToolError
from agent.core.files.safe import Tree
from agent.storage.connect import State, migrating_from, target_of
from agent.storage.copies.dumped_tables import name_of, rows_in
from agent.storage.copies.inspection import look
from agent.storage.copies.restore import MARGIN, Restored, restore
from agent.storage.errors import BackupRefused, SchemaTooNew, SchemaTooOld
from agent.storage.files.cache import forget_store
from gateway.backup.archive import CONFIGURATION, DATABASE, HOME, RECEIVED, Manifest, unpack
from gateway.backup.backup import COPY
from gateway.config.errors import ConfigError
from gateway.config.read import read as read_configuration
from gateway.storage.repair import SCHEMA

NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where to restore. `source` is the configuration's file, None where there is none: then the archive's counts."""

    home: Path
    source: Path | None
    url: str
    environ: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredArchive:
    """`placed` files came out of the archive; `stayed` are there already and were left as they are."""

    manifest: Manifest
    database: Restored
    placed: int
    stayed: tuple[str, ...]


def verify(file: Path, passphrase: str | None) -> Manifest:
    """Read an archive whole, compare each file with the list, and open the database in it. Raises BackupRefused."""
    with tempfile.TemporaryDirectory(prefix="tieline-verify-") as folder:
        manifest = unpack(file, passphrase, Path(folder), check=lambda _: None, only=f"{DATABASE}/")
        _open_database(manifest, Path(folder) / DATABASE, file)
    return manifest


def _open_database(manifest: Manifest, folder: Path, file: Path) -> None:
    """Whether the database in an archive is one. Raises BackupRefused."""
    if manifest.database == "postgresql":
        for table in manifest.tables:
            found = rows_in(folder / name_of(table.name)) if (folder / name_of(table.name)).exists() else None
            if found != table.rows:
                raise BackupRefused(f"{file} is damaged: table {table.name} has {found} rows of {table.rows}")
        return
    try:
        with closing(sqlite3.connect(f"file:{folder / COPY}?mode=ro", uri=True)) as opened:
            found = opened.execute("PRAGMA integrity_check(1)").fetchone()[0]
            stored = opened.execute("SELECT version_num FROM alembic_version").fetchone()[0]
    except sqlite3.Error as error:
        raise BackupRefused(f"{file} holds no database of Tieline: {error}") from error
    if found != "ok":
        raise BackupRefused(f"{file} holds a damaged database: {found}; choose another copy")
    if stored != manifest.revision:
        raise BackupRefused(f"{file} was changed: its database has revision {stored}, its list {manifest.revision}")


def check_revision(manifest: Manifest, file: Path) -> None:
    """Whether this version can use its database. Raises BackupRefused."""
    if manifest.database not in NAMES:
        raise BackupRefused(f"{file} holds a database of an unknown kind, {manifest.database!r}")
    try:
        migrating_from(manifest.revision, SCHEMA)
    except SchemaTooNew:
        raise BackupRefused(
            f"{file} was written by a newer Tieline (revision {manifest.revision}); install that version first"
        ) from None
    except SchemaTooOld as error:
        raise BackupRefused(f"{file} cannot be used: {error}") from None


def restore_archive(
    file: Path,
    place: Place,
    passphrase: str | None,
    *,
    kept_as: str,
    at: int,
    others: Callable[[Connection], int],
    keep_open: bool = False,
) -> RestoredArchive:
    """Put everything in an archive where it belongs. Raises BackupRefused or DatabaseUnusable; then nothing changed.

    Files that are there already stay as they are; a SQLite database that is there is kept in `backups/<kept_as>`, and
    a PostgreSQL database must be empty. The other arguments are those of `agent.storage.copies.restore`.
    """
    with _stage(place.home) as stage:
        manifest = unpack(file, passphrase, stage, check=lambda listed: check_revision(listed, file))
        _open_database(manifest, stage / DATABASE, file)
        url = _url(place, stage)
        target = target_of(url, place.home)
        kind = "sqlite" if isinstance(target, Path) else "postgresql"
        if kind != manifest.database:
            raise BackupRefused(
                f"{file} holds a {NAMES[manifest.database]} database, and [database] url names {NAMES[kind]}: types "
                f"and numbering of the two differ, so one does not become the other; name a {NAMES[manifest.database]} "
                "database there"
            )
        stayed: list[str] = []

        def put() -> None:
            stayed.extend(_place(manifest, stage, place.home))
            if kind == "postgresql":
                forget_store(place.home)

        if isinstance(target, Path):
            database = restore(
                url,
                place.home,
                stage / DATABASE / COPY,
                schema=SCHEMA,
                kept_as=kept_as,
                at=at,
                others=others,
                keep_open=keep_open,
            )
            put()
        else:
            database = _fill(target, url, place, manifest, stage, at, others, put, keep_open=keep_open)
    inside = sum(1 for member in manifest.members if member.name.startswith(f"{HOME}/"))
    return RestoredArchive(
        manifest=manifest, database=database, placed=inside - len(stayed), stayed=tuple(sorted(stayed))
    )


def _fill(
    target: URL,
    url: str,
    place: Place,
    manifest: Manifest,
    stage: Path,
    at: int,
    others: Callable[[Connection], int],
    put: Callable[[], None],
    *,
    keep_open: bool,
) -> Restored:
    if look(url, place.home, SCHEMA) is not State.EMPTY:
        raise BackupRefused(
            f"{target.render_as_string(hide_password=True)} holds tables already, which stay as they are; "
            "name an empty database"
        )
    messages, answers, more = import_module("agent.storage.copies.postgres").load(
        target,
        stage / DATABASE,
        manifest.tables,
        manifest.revision,
        schema=SCHEMA,
        at=at,
        others=others,
        before_commit=put,
        keep_open=keep_open,
    )
    return Restored(
        path=Path(target.database or ""), kept=None, messages=messages, answers=answers, others=more, margin=MARGIN
    )


@contextmanager
def _stage(home: Path) -> Iterator[Path]:
    """A folder on the disk of the data directory, which is as before when it ends with a refusal."""
    made = [folder for folder in (home, *home.parents) if not folder.exists()]
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        stage = Path(tempfile.mkdtemp(prefix=".restoring-", dir=home))
    except OSError as error:
        raise BackupRefused(f"cannot write to {home}: {error.strerror}") from error
    try:
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        with suppress(OSError):  # something was put there
            for folder in made:
                folder.rmdir()


def _url(place: Place, stage: Path) -> str:
    """The address of the database: of the configuration that will be in force. Raises BackupRefused."""
    archived = stage / HOME / CONFIGURATION
    if place.source is not None or not archived.exists():
        return place.url
    try:
        data = {key: value for key, value in tomllib.loads(archived.read_text()).items() if key == "database"}
        return read_configuration(data, place.environ, home=place.home, source=archived).database.url
    except (ConfigError, ValueError) as error:
        raise BackupRefused(f"the archived {CONFIGURATION} cannot be used: {error}") from error


def _place(manifest: Manifest, stage: Path, home: Path) -> Iterator[str]:
    """Move the files to where they belong; gives the names of those that were there already."""
    for member in manifest.members:
        part, _, name = member.name.partition("/")
        if part != HOME:
            continue
        top = next((one for one in RECEIVED if name.startswith(f"{one}/")), name.partition("/")[0])
        rest = tuple(name[len(top) + 1 :].split("/")) if name != top else ()
        # The operator may keep one of these folders elsewhere; what lies below is reached without following links.
        tree, names = (Tree((home / top).resolve()), rest) if rest else (Tree(home), (name,))
        try:
            is_placed = tree.adopt(names, stage / HOME / name)
        except ToolError as error:
            raise BackupRefused(f"{name} cannot be put back: {error}") from error
        except OSError as error:
            raise BackupRefused(f"{name} cannot be put back: {error.strerror}") from error
        if not is_placed:
            yield name
