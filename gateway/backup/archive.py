"""The archive of a backup: a tar file whose first member lists all others with their sizes and hashes.

Nothing here trusts a file that is read: a name that would leave its folder, a link, a device and anything that the
list does not name are refused before they are written anywhere.
"""

import hashlib
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from pydantic import TypeAdapter, ValidationError

from agent.storage.copies.dumped_tables import DumpedTable
from agent.storage.errors import BackupRefused

FORMAT = 1
MAGIC = b"tieline-encrypted-backup 1\n"
MANIFEST = "manifest.json"
LARGEST_MANIFEST = 256 * 1024 * 1024  # bytes: some million files
PIECE = 1024 * 1024
DATABASE, HOME = "database", "home"
CONFIGURATION = "gateway.toml"
WRITTEN = ("agents", "skills", "memory")  # folders of a data directory that the operator fills
SECRETS = "secrets"
RECEIVED = ("files", "outputs", "workspaces", "web/chat")
KEPT = frozenset({CONFIGURATION, *WRITTEN, SECRETS, *(name.partition("/")[0] for name in RECEIVED)})
_CODING = {"format": tarfile.GNU_FORMAT, "encoding": "utf-8", "errors": "surrogateescape"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One file. `modified` is in seconds since the epoch: retention goes by it, also after a restore."""

    name: str
    size: int
    sha256: str
    modified: int
    executable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """`tables` are those of a PostgreSQL database. `left_out` tells in sentences what the archive does not hold."""

    format: int
    program: str
    made_at: str
    database: str
    revision: str
    secrets: bool
    tables: tuple[DumpedTable, ...] = ()
    left_out: tuple[str, ...] = ()
    members: tuple[Member, ...] = ()


_MANIFEST = TypeAdapter(Manifest)


class Contents:
    """Files to be archived, copied to one unnamed file first: each is read once, while others go on changing it."""

    def __init__(self, folder: Path) -> None:
        self._file = cast(BinaryIO, tempfile.TemporaryFile(dir=folder))  # noqa: SIM115 - closed by `close`
        self.members: list[Member] = []

    def add(self, name: str, source: BinaryIO, *, modified: float, executable: bool = False) -> None:
        digest, size = hashlib.sha256(), 0
        for piece in iter(lambda: source.read(PIECE), b""):
            digest.update(piece)
            size += len(piece)
            self._file.write(piece)
        found = Member(
            name=name, size=size, sha256=digest.hexdigest(), modified=max(0, int(modified)), executable=executable
        )
        self.members.append(found)

    def write(self, to: BinaryIO, manifest: Manifest, passphrase: str | None) -> None:
        """Write the archive; its list is `manifest` with all that was added."""
        out: Any = _encryption().EncryptedWriter(to, passphrase, magic=MAGIC) if passphrase else to
        listed = _MANIFEST.dump_json(replace(manifest, members=tuple(self.members)), indent=1)
        self._file.seek(0)
        with tarfile.open(fileobj=out, mode="w|", **_CODING) as tar:  # type: ignore[call-overload]
            tar.addfile(_header(MANIFEST, len(listed), 0), BytesIO(listed))
            for member in self.members:
                tar.addfile(_header(member.name, member.size, member.modified), self._file)
        if passphrase:
            out.finish()

    def close(self) -> None:
        self._file.close()


def _encryption() -> Any:
    """The module that encrypts, loaded when it is needed: its library is slow to import."""
    return import_module("gateway.backup.encryption")


def _header(name: str, size: int, modified: int) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.size, header.mtime, header.mode = size, modified, 0o600
    return header


Check = Callable[[Manifest], None]


def is_archive(file: Path) -> bool:
    """Whether it begins as an archive of ours, encrypted or not; a copy of a SQLite database does not."""
    try:
        with file.open("rb") as opened:
            return _begins_as_one(opened.read(512))
    except OSError:
        return False


def _begins_as_one(block: bytes) -> bool:
    return block.startswith((MAGIC, MANIFEST.encode() + b"\0"))


def unpack(file: Path, passphrase: str | None, into: Path, *, check: Check, only: str = "") -> Manifest:
    """Read an archive whole, compare each file with the list, and write the files below `into`, a new folder.

    `check` sees the list before a file is written. Of names that do not begin with `only` nothing is written. Raises
    BackupRefused.
    """
    try:
        with file.open("rb") as opened, _plain(opened, passphrase, file) as plain:
            return _unpack(plain, file, into, check, only)
    except FileNotFoundError:
        raise BackupRefused(f"there is no file {file}") from None
    except tarfile.TarError:
        raise BackupRefused(f"{file} is cut or damaged: it cannot be read to its end; choose another copy") from None


@contextmanager
def _plain(opened: BinaryIO, passphrase: str | None, file: Path) -> Iterator[BinaryIO]:
    begin = opened.read(512)
    if not _begins_as_one(begin):
        raise BackupRefused(f"{file} is no backup of Tieline")
    encrypted = begin.startswith(MAGIC)
    opened.seek(len(MAGIC) if encrypted else 0)
    if not encrypted:
        yield opened
    elif not passphrase:
        raise BackupRefused(
            f"{file} is encrypted: name its passphrase with --passphrase-file FILE, or in TIELINE_BACKUP_PASSPHRASE"
        )
    else:
        yield cast(BinaryIO, _encryption().EncryptedReader(opened, passphrase, str(file), magic=MAGIC))


def _unpack(plain: BinaryIO, file: Path, into: Path, check: Check, only: str) -> Manifest:
    with tarfile.open(fileobj=plain, mode="r|", **_CODING) as tar:  # type: ignore[call-overload]
        manifest = _manifest_of(tar, file)
        _check_names(manifest, file)
        check(manifest)
        waiting = {member.name: member for member in manifest.members}
        while (header := tar.next()) is not None:
            if header.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
                raise BackupRefused(f"{file} holds {header.name!r}, which is no file but a link, a device or a folder")
            member = waiting.pop(header.name, None)
            if member is None:
                raise BackupRefused(f"{file} holds {header.name!r}, which its list does not name: it was changed")
            source = tar.extractfile(header)
            assert source is not None  # it is a regular file
            to = into.joinpath(*PurePosixPath(member.name).parts) if member.name.startswith(only) else None
            if _copied(cast(BinaryIO, source), to, member) != (member.size, member.sha256):
                raise BackupRefused(f"{file} is damaged: {member.name!r} is not what was put in; choose another copy")
    while plain.read(PIECE):  # what pads the archive is checked too
        pass
    if waiting:
        raise BackupRefused(f"{file} is cut: {len(waiting)} of {len(manifest.members)} files are missing")
    return manifest


def _manifest_of(tar: tarfile.TarFile, file: Path) -> Manifest:
    header = tar.next()
    source = tar.extractfile(header) if header is not None and header.isreg() and header.name == MANIFEST else None
    if header is None or source is None or header.size > LARGEST_MANIFEST:
        raise BackupRefused(f"{file} is no backup of Tieline")
    listed = source.read()
    try:
        version = TypeAdapter(dict[str, object]).validate_json(listed).get("format")
        if isinstance(version, int) and version > FORMAT:
            raise BackupRefused(
                f"{file} was written by a newer Tieline (archive format {version}, this one knows {FORMAT}); "
                "install that version first"
            )
        return _MANIFEST.validate_json(listed)
    except ValidationError:
        raise BackupRefused(f"{file} is damaged: its list cannot be read; choose another copy") from None


def _check_names(manifest: Manifest, file: Path) -> None:
    seen = set()
    for member in manifest.members:
        parts = member.name.split("/")
        if any(part in ("", ".", "..") or "\0" in part for part in parts):
            raise BackupRefused(f"{file} holds {member.name!r}, which would leave the data directory")
        if parts[0] not in (DATABASE, HOME) or len(parts) < 2 or (parts[0] == HOME and parts[1] not in KEPT):
            raise BackupRefused(f"{file} holds {member.name!r}, which is no part of a backup")
        if member.name in seen:
            raise BackupRefused(f"{file} holds {member.name!r} twice")
        seen.add(member.name)


def _copied(source: BinaryIO, to: Path | None, member: Member) -> tuple[int, str]:
    """Copy it, into a file of this account alone; gives size and hash of what was read."""
    if to is None:
        return _measured(source, None)
    to.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    mode = 0o700 if member.executable else 0o600
    with os.fdopen(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb") as out:
        found = _measured(source, out)
        out.flush()
        os.fsync(out.fileno())
    os.utime(to, (member.modified, member.modified))
    return found


def _measured(source: BinaryIO, out: BinaryIO | None) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    for piece in iter(lambda: source.read(PIECE), b""):
        digest.update(piece)
        size += len(piece)
        if out is not None:
            out.write(piece)
    return size, digest.hexdigest()
