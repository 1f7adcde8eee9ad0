"""`tieline backup`: one archive of the database and of the files of a data directory, also while the gateway runs."""

import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, suppress
from datetime import datetime
from importlib import import_module
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import cast

import anyio
from sqlalchemy import URL

from agent.core.errors import ToolError
from agent.core.files.safe import DEEPEST, Entry, Tree
from agent.core.phrases import counted
from agent.storage.connect import revision
from agent.storage.copies.dumped_tables import DumpedTable, name_of
from agent.storage.copies.inspection import read
from agent.storage.copies.sqlite import copy_file
from agent.storage.database import Database, RetryingDatabase
from agent.storage.errors import BackupRefused
from agent.storage.files.cache import has_all_files, is_attachment
from agent.storage.process_tables import file, file_content, file_folder, file_part
from agent.storage.sqlite import SqliteDatabase
from gateway.backup.archive import (
    CONFIGURATION,
    DATABASE,
    FORMAT,
    HOME,
    RECEIVED,
    SECRETS,
    WRITTEN,
    Contents,
    Manifest,
)
from gateway.backup.configuration import without_secrets
from gateway.backup.request import Archived, Wanted
from gateway.storage.repair import SCHEMA

COPY = "tieline.db"  # the database in the archive, whatever it is called at home
FILES = tuple(table.name for table in (file_content, file_part, file, file_folder))
WEB = "web/chat"
NAMED = 3  # things left out that a sentence names


async def archive(database: Database, to: Path, wanted: Wanted, *, at: datetime) -> Archived:
    """Do what `gateway.backup.request.archive` says.

    The database comes first: a file that its rows name is there already, and one that comes later does no harm.
    """
    inner = database.inner if isinstance(database, RetryingDatabase) else database
    target: Path | URL = inner.path if isinstance(inner, SqliteDatabase) else cast(URL, getattr(inner, "url"))  # noqa: B009
    return await anyio.to_thread.run_sync(_archive, target, to, wanted, at)


def _archive(database: Path | URL, to: Path, wanted: Wanted, at: datetime) -> Archived:
    if to.exists():
        raise BackupRefused(f"{to} exists already; name a new file")
    if not to.parent.exists():  # not made: a backup disk that is not mounted must not go unnoticed
        raise BackupRefused(f"there is no folder {to.parent}; make it, or see whether its disk is there")
    try:
        stage = Path(tempfile.mkdtemp(prefix=f".{to.name}.", suffix=".partial", dir=to.parent))
    except OSError as error:
        raise BackupRefused(f"cannot write the backup {to}: {error}") from error
    try:
        return _staged(database, to, wanted, at, stage)
    except OSError as error:
        raise BackupRefused(f"cannot write the backup {to}: {error}") from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _staged(database: Path | URL, to: Path, wanted: Wanted, at: datetime, stage: Path) -> Archived:
    with closing(Contents(stage)) as contents:
        kind, stored, tables = _add_database(database, contents, stage, at, without=() if wanted.files else FILES)
        in_database = kind == "postgresql" and has_all_files(wanted.home)
        left_out = (
            *_add_configuration(contents, wanted),
            *_add_folders(contents, wanted, in_database=in_database),
            *_said_of_secrets(wanted),
        )
        manifest = Manifest(
            format=FORMAT,
            program=version("tieline"),
            made_at=at.isoformat(),
            database=kind,
            revision=stored or "",
            secrets=bool(wanted.passphrase),
            tables=tables,
            left_out=left_out,
        )
        partial = stage / "archive"
        with os.fdopen(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as out:
            contents.write(out, manifest, wanted.passphrase)
            out.flush()
            os.fsync(out.fileno())
        size, count = partial.stat().st_size, len(contents.members)
    _put(partial, to)
    return Archived(path=to, size=size, files=count, left_out=left_out)


def _put(partial: Path, to: Path) -> None:
    """Give it its name, which nothing else has: somebody may have made such a file meanwhile."""
    try:
        os.link(partial, to)
    except FileExistsError:
        raise BackupRefused(f"{to} exists already; name a new file") from None
    except OSError:  # a disk without hard links
        partial.rename(to)
    folder = os.open(to.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _add_database(
    database: Path | URL, contents: Contents, stage: Path, at: datetime, *, without: Collection[str]
) -> tuple[str, str | None, tuple[DumpedTable, ...]]:
    """Its kind, its revision and, on PostgreSQL, its tables, those in `without` left out."""
    if isinstance(database, Path):
        copy_file(database, stage / COPY)
        _add_and_remove(contents, stage, COPY, at)
        return "sqlite", revision_of(database), ()
    stored, tables = import_module("agent.storage.copies.postgres").dump(database, stage, SCHEMA, without)
    for table in tables:
        _add_and_remove(contents, stage, name_of(table.name), at)
    return "postgresql", stored, tables


def revision_of(database: Path) -> str | None:
    """The revision of a SQLite file, which does not change while a gateway runs."""
    return read(f"sqlite:///{database}", database.parent, revision)


def _add_and_remove(contents: Contents, stage: Path, name: str, at: datetime) -> None:
    with (stage / name).open("rb") as file:
        contents.add(f"{DATABASE}/{name}", file, modified=at.timestamp())
    (stage / name).unlink()


def _add_configuration(contents: Contents, wanted: Wanted) -> Iterator[str]:
    source = wanted.source or wanted.home / CONFIGURATION
    try:
        text, modified = source.read_bytes(), source.stat().st_mtime
    except FileNotFoundError:
        return
    if not wanted.passphrase:
        try:
            copied, keys = without_secrets(text.decode(), wanted.redact)
        except ValueError as error:  # no text in UTF-8 as well
            yield f"{CONFIGURATION}: it cannot be read, so its secrets cannot be told from the rest: {error}"
            return
        text = copied.encode()
        if keys:
            yield f"{counted(len(keys), 'literal secret')} in {CONFIGURATION}: {', '.join(keys)}"
    contents.add(f"{HOME}/{CONFIGURATION}", BytesIO(text), modified=modified)


def _said_of_secrets(wanted: Wanted) -> Iterator[str]:
    if not wanted.passphrase and (wanted.home / SECRETS).is_dir():
        yield f"{SECRETS}/: secrets are kept in an encrypted archive alone (--passphrase-file)"


def _add_folders(contents: Contents, wanted: Wanted, *, in_database: bool) -> Iterator[str]:
    """Add the folders; files that are `in_database` came with it."""
    secret = (SECRETS,) if wanted.passphrase else ()
    received = () if not wanted.files else (WEB,) if in_database else RECEIVED
    for name in (*WRITTEN, *secret, *received):
        passed_over: list[str] = []
        _add_folder(contents, wanted.home, name, passed_over, beside_files=in_database and name == WEB)
        if passed_over:
            named = ", ".join(passed_over[:NAMED]) + (" …" if len(passed_over) > NAMED else "")
            yield f"{len(passed_over)} links, special or unreadable files in {name}/: {named}"


def _add_folder(
    contents: Contents, home: Path, name: str, passed_over: list[str], *, beside_files: bool = False
) -> None:
    """Add all files of a folder; what a sandboxed command has made there leads nowhere else (`Tree`).

    `beside_files`: of the web chat its journals alone.
    """
    tree = Tree((home / name).resolve())  # the operator may keep it elsewhere
    for entry in _below(tree, (), passed_over):
        if beside_files and is_attachment(entry.names):
            continue
        try:
            with tree.opened(entry.names) as descriptor, os.fdopen(os.dup(descriptor), "rb") as file:
                executable = bool(os.fstat(descriptor).st_mode & 0o100)
                to = "/".join((HOME, name, *entry.names))
                contents.add(to, file, modified=entry.modified_ns / 1e9, executable=executable)
        except FileNotFoundError:
            continue
        except ToolError:  # gone meanwhile, or may not be read
            if tree.look(entry.names) is not None:
                passed_over.append("/".join(entry.names))


def _below(tree: Tree, names: tuple[str, ...], passed_over: list[str]) -> Iterator[Entry]:
    try:
        entries: Sequence[Entry] = tree.folder(names)
    except ToolError:
        with suppress(ToolError):
            if tree.look(names) is not None:
                passed_over.append("/".join(names) or ".")
        return
    for entry in entries:
        if entry.kind == "other" or not _is_text(entry.names[-1]) or len(entry.names) > DEEPEST:
            passed_over.append("/".join(entry.names).encode("utf-8", "replace").decode())
        elif entry.kind == "folder":
            yield from _below(tree, entry.names, passed_over)
        else:
            yield entry


def _is_text(name: str) -> bool:
    """Whether the list can name it."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
