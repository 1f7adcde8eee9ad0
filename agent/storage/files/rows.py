"""Statements on the stored files. Contents come first; a file is there once its row names a whole one."""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, delete, exists, func, select, update
from sqlalchemy.dialects.postgresql import insert

from agent.core.files.store import WORKSPACES, folder_of
from agent.storage.files.cache import StoredFile
from agent.storage.process_tables import file, file_content, file_folder, file_part

STORE = ""  # the folder of `file_folder` that names the store itself


@dataclass(frozen=True, slots=True, kw_only=True)
class NewContent:
    """Bytes that are not stored yet, of a small file."""

    id: str
    sha256: str
    data: bytes


_COLUMNS = (
    file.c.path, file.c.folder, file.c.content, file.c.sha256, file.c.size, file.c.modified_ns, file.c.executable,
    file.c.conv,
)  # fmt: skip
_FIND = select(*_COLUMNS).where(file.c.path == bindparam("path"))
_IN_FOLDER = select(*_COLUMNS).where(file.c.folder == bindparam("folder"))
_PART = select(file_part.c.data).where(
    file_part.c.content == bindparam("content"), file_part.c.number == bindparam("number")
)
_VERSION = select(file_folder.c.version).where(file_folder.c.folder == bindparam("folder"))


def find(conn: Connection, path: str) -> StoredFile | None:
    """The file of that path."""
    row = conn.execute(_FIND, {"path": path}).first()
    return _stored(row) if row is not None else None


def in_folder(conn: Connection, folder: str) -> tuple[StoredFile, ...]:
    """All files of a folder (`folder_of`)."""
    return tuple(_stored(row) for row in conn.execute(_IN_FOLDER, {"folder": folder}))


def below(conn: Connection, prefix: str) -> tuple[StoredFile, ...]:
    """The files that are at or below `prefix`, in one folder (`folder_of`)."""
    start = f"{prefix}/"
    found = [one for folder in {folder_of(prefix), folder_of(f"{start}x")} for one in in_folder(conn, folder)]
    return tuple(one for one in found if one.path == prefix or one.path.startswith(start))


def paths_in(conn: Connection, folders: Sequence[str]) -> frozenset[str]:
    """The paths of all files in these folders."""
    return frozenset(conn.execute(select(file.c.path).where(file.c.folder.in_(folders))).scalars())


def part(conn: Connection, content: str, number: int) -> bytes | None:
    """One part of a content; None when that is gone."""
    found: bytes | None = conn.execute(_PART, {"content": content, "number": number}).scalar()
    return found


def small_parts(conn: Connection, contents: Sequence[str]) -> Mapping[str, bytes]:
    """The bytes of contents that are one part each."""
    rows = conn.execute(select(file_part.c.content, file_part.c.data).where(file_part.c.content.in_(contents)))
    return {row.content: row.data for row in rows}


def known_contents(conn: Connection, hashes: Iterable[str]) -> Mapping[str, str]:
    """The ids of whole contents with these hashes, by hash."""
    asked = select(file_content.c.sha256, file_content.c.id).where(
        file_content.c.sha256.in_(list(hashes)), file_content.c.whole
    )
    return {row.sha256: row.id for row in conn.execute(asked)}


def begin_content(conn: Connection, id: str, *, at: int) -> None:
    """Make room for a content whose parts follow; nothing is known of it before `end_content`."""
    values = {"id": id, "sha256": "", "size": 0, "used_at": at}
    conn.execute(insert(file_content).values(values).on_conflict_do_nothing())


def add_part(conn: Connection, content: str, number: int, data: bytes) -> None:
    """Store one part."""
    values = {"content": content, "number": number, "data": data}
    conn.execute(insert(file_part).values(values).on_conflict_do_nothing())


def end_content(conn: Connection, id: str, sha256: str, size: int, *, at: int) -> None:
    """All parts are there."""
    whole = update(file_content).where(file_content.c.id == id)
    conn.execute(whole.values(sha256=sha256, size=size, whole=True, used_at=at))


def add_small(conn: Connection, contents: Sequence[NewContent], *, at: int) -> None:
    """Store contents of one part each, or of none."""
    if not contents:
        return
    conn.execute(
        insert(file_content).on_conflict_do_nothing(),
        [{"id": one.id, "sha256": one.sha256, "size": len(one.data), "whole": True, "used_at": at} for one in contents],
    )
    parts = [{"content": one.id, "number": 0, "data": one.data} for one in contents if one.data]
    if parts:
        conn.execute(insert(file_part).on_conflict_do_nothing(), parts)


def take(conn: Connection, contents: Iterable[str], *, at: int) -> bool:
    """Hold contents until the commit, so that nothing removes them; False where one is gone."""
    wanted = sorted(set(contents))
    held = update(file_content).where(file_content.c.id.in_(wanted), file_content.c.whole).values(used_at=at)
    return conn.execute(held).rowcount == len(wanted)


def put(conn: Connection, files: Sequence[StoredFile], *, at: int) -> None:
    """Write the rows of files whose contents are held; a content that was replaced goes, unless another file has it."""
    if not files:
        return
    paths = [one.path for one in files]
    held = select(file.c.path, file.c.content).where(file.c.path.in_(paths)).with_for_update()
    before = {row.path: row.content for row in conn.execute(held)}
    statement = insert(file)
    changed = {name: statement.excluded[name] for name in ("content", "sha256", "size", "modified_ns", "executable")}
    conn.execute(
        statement.on_conflict_do_update(index_elements=[file.c.path], set_=changed),
        [
            {
                "path": one.path,
                "folder": one.folder,
                "content": one.content,
                "sha256": one.sha256,
                "size": one.size,
                "modified_ns": one.modified_ns,
                "executable": one.executable,
                "conv": one.conversation,
                "created_at": at,
            }
            for one in files
        ],
    )
    now = {one.path: one.content for one in files}
    drop_unused(conn, {content for path, content in before.items() if now[path] != content})


def remove(conn: Connection, paths: Sequence[str]) -> None:
    """Remove files, and their contents unless another file has them."""
    if paths:
        gone = conn.execute(delete(file).where(file.c.path.in_(paths)).returning(file.c.content)).scalars().all()
        drop_unused(conn, set(gone))


def drop_unused(conn: Connection, contents: Iterable[str]) -> None:
    """Remove those of these contents that no file has.

    They are locked first: a file that takes one at the same time is committed then, and seen by the second statement.
    """
    wanted = sorted(set(contents))
    if not wanted:
        return
    chosen = file_content.c.id.in_(wanted)
    conn.execute(select(file_content.c.id).where(chosen).order_by(file_content.c.id).with_for_update()).all()
    conn.execute(delete(file_content).where(chosen, ~exists().where(file.c.content == file_content.c.id)))


def drop_abandoned(conn: Connection, *, before: int, most: int) -> int:
    """Remove up to `most` contents that no file has taken since then: their writer was killed. How many there were."""
    unused = (file_content.c.used_at < before) & ~exists().where(file.c.content == file_content.c.id)
    found = conn.execute(select(file_content.c.id).where(unused).limit(most)).scalars().all()
    drop_unused(conn, found)
    return len(found)


def trim(conn: Connection, folder: str, most: int, newest: str) -> None:
    """Remove the oldest files of a folder until `most` bytes are left there; `newest` stays."""
    found = sorted(in_folder(conn, folder), key=lambda one: one.modified_ns)
    total, gone = sum(one.size for one in found), []
    for one in found:
        if total <= most:
            break
        if one.path != newest:
            total -= one.size
            gone.append(one.path)
    remove(conn, gone)


def remove_old(conn: Connection, top: str, *, before_ns: int, most: int) -> int:
    """Remove up to `most` files below a folder of the data directory that were last written before then."""
    old = select(file.c.path, file.c.folder).where(
        func.starts_with(file.c.path, f"{top}/"), file.c.modified_ns < before_ns
    )
    found = conn.execute(old.limit(most)).all()
    for folder in sorted({row.folder for row in found if is_workspace(row.folder)}):
        change(conn, folder, secrets.token_hex(8))
    remove(conn, [row.path for row in found])
    return len(found)


def version(conn: Connection, folder: str) -> str | None:
    """The name of the state of a workspace; None while it has none."""
    found: str | None = conn.execute(_VERSION, {"folder": folder}).scalar()
    return found


def versions(conn: Connection, folders: Sequence[str]) -> Mapping[str, str]:
    """The names of the states of workspaces."""
    rows = conn.execute(select(file_folder).where(file_folder.c.folder.in_(folders)))
    return {row.folder: row.version for row in rows}


def change(conn: Connection, folder: str, version: str) -> str | None:
    """Name the state of a workspace anew; gives the name before. Others who change it wait for the commit."""
    statement = insert(file_folder).values(folder=folder, version=version)
    conn.execute(statement.on_conflict_do_nothing())
    before: str | None = conn.execute(
        select(file_folder.c.version).where(file_folder.c.folder == folder).with_for_update()
    ).scalar()
    conn.execute(update(file_folder).where(file_folder.c.folder == folder).values(version=version))
    return before if before != version else None


def name_of_store(conn: Connection, otherwise: str) -> str:
    """The name of this store; the first caller gives it."""
    conn.execute(insert(file_folder).values(folder=STORE, version=otherwise).on_conflict_do_nothing())
    found = version(conn, STORE)
    assert found is not None
    return found


def move(conn: Connection, old: str, new: str) -> None:
    """Let the files of a folder follow to another one; where there is a file of that path already, both stay."""
    taken = {one.path for one in in_folder(conn, new)}
    moved = {one.path: f"{new}{one.path[len(old) :]}" for one in in_folder(conn, old)}
    if old.startswith(f"{WORKSPACES}/") and taken:
        return  # as on the disk: two workspaces are never mixed
    for path, to in moved.items():
        if to in taken:
            continue
        conn.execute(update(file).where(file.c.path == path).values(path=to, folder=new))


def is_workspace(folder: str) -> bool:
    """Whether the folder is a workspace, whose state has a name."""
    return folder.startswith(f"{WORKSPACES}/")


def _stored(row: Any) -> StoredFile:
    return StoredFile(
        path=row.path,
        folder=row.folder,
        content=row.content,
        sha256=row.sha256,
        size=row.size,
        modified_ns=row.modified_ns,
        executable=bool(row.executable),
        conversation=row.conv,
    )
