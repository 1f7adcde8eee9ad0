"""Restore: puts a copy in the place of an unused SQLite database; the old one is kept beside it."""

import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, bindparam, func, inspect, or_, select, update

from agent.storage import approval_rows
from agent.storage.connect import Schema, State, migrating_from, revision, target_of
from agent.storage.copies.inspection import look, read
from agent.storage.copies.sqlite import copy_file
from agent.storage.errors import BackupRefused, DatabaseUnusable, SchemaTooNew, SchemaTooOld
from agent.storage.inbox_rows import WEBHOOKS
from agent.storage.sqlite import OwnerLock, sqlite_engine
from agent.storage.tables import approval, goal, inbox, outbox, plan, turn

MARGIN = 1_000  # numbers that are left out where nobody can tell which the former database has given
WHY = "open when the backup was made; it may have been done since"

_PUT_ASIDE = [
    # Wake-ups of goals and plans ("system") are left: the next start puts down what was going on by itself.
    update(inbox)
    .where(
        inbox.c.status == "new",
        or_(inbox.c.kind.in_(("message", "reminder")), inbox.c.dedup.startswith(WEBHOOKS)),
    )
    .values(status="dead", note=bindparam("why")),
    update(outbox).where(outbox.c.status.in_(("new", "sending"))).values(status="dead", note=bindparam("why")),
]
# As with any dead letter: its run has ended, and goes on where it was when the message is tried again.
_END_RUNS = (
    update(turn)
    .where(turn.c.state == "running", turn.c.inbox_id.in_(select(inbox.c.id).where(inbox.c.status == "dead")))
    .values(state="failed", ended_at=bindparam("at"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """`kept` is where the former database is now, None when there was none; the numbers are of what was put aside.

    `margin` numbers of schedules, goals and plans are left out, as nobody can tell which were given since the copy.
    """

    path: Path
    kept: Path | None
    messages: int
    answers: int
    others: int
    margin: int


def restore(
    url: str,
    home: Path,
    copy: Path,
    *,
    schema: Schema,
    kept_as: str,
    at: int,
    others: Callable[[Connection], int],
    keep_open: bool = False,
) -> Restored:
    """Let the database be what `copy` holds. Blocking. Raises BackupRefused or DatabaseUnusable; then nothing changed.

    What was open when the copy was made has most likely been answered since: it becomes dead letters, for the operator
    to decide, unless `keep_open`; its runs have ended at `at` (UTC microseconds), and its questions are closed.
    `others` does the like in tables of the caller's, in the same transaction, and gives the number; the tables may be
    those of an older version. The former database goes to `backups/<kept_as>` beside it.

    Numbers that the former database has given to schedules, goals and plans do not come back: messages on the platforms
    still name them, and so do their buttons.
    """
    path = target_of(url, home)
    if not isinstance(path, Path):
        raise BackupRefused(
            "a copy of a SQLite file is not put into PostgreSQL, where types and numbering differ; a dump is restored "
            "with pg_restore --clean --dbname=DATABASE tieline.dump"
        )
    check_copy(copy, home, schema)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = OwnerLock.take(path.with_name(f"{path.name}.lock"))
    fresh = path.with_name(f".{path.name}.restored")
    try:
        with suppress(FileNotFoundError):
            fresh.unlink()
        copy_file(copy, fresh)
        given = _given(path, home)
        _leave_out(fresh, given)
        messages, answers, more = (0, 0, 0) if keep_open else _put_aside_in(fresh, others, at)
        kept = _keep(path, path.parent / "backups" / kept_as) if path.exists() else None
        fresh.replace(path)
        _sync(path.parent)
    except (OSError, sqlite3.Error) as error:
        raise BackupRefused(f"cannot put {copy} in the place of {path}: {error}") from error
    finally:
        with suppress(OSError):
            fresh.unlink()
        lock.release()
    return Restored(
        path=path, kept=kept, messages=messages, answers=answers, others=more, margin=0 if given else MARGIN
    )


def check_copy(copy: Path, home: Path, schema: Schema) -> None:
    """Make sure that it is a whole database of ours, of this version or an older one. Raises BackupRefused."""
    if not copy.is_file():
        raise BackupRefused(f"there is no file {copy}; `ls {home / 'backups'}` shows what there is")
    try:
        with closing(sqlite3.connect(f"file:{copy}?mode=ro", uri=True)) as opened:
            found = opened.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":
            raise BackupRefused(f"{copy} is damaged: {found}; choose another copy")
        state = look(f"sqlite:///{copy}", home, schema)
        stored = read(f"sqlite:///{copy}", home, revision)
    except (sqlite3.Error, DatabaseUnusable) as error:
        raise BackupRefused(f"{copy} is no backup of Tieline: {error}") from error
    if state not in (State.CURRENT, State.OTHER):
        raise BackupRefused(f"{copy} is no backup of Tieline: it holds none of its tables")
    try:
        migrating_from(stored, schema)
    except SchemaTooNew:
        raise BackupRefused(
            f"{copy} was written by a newer Tieline (revision {stored}); install that version first"
        ) from None
    except SchemaTooOld as error:
        raise BackupRefused(f"{copy} cannot be used: {error}") from None


def _given(former: Path, home: Path) -> Mapping[str, int]:
    """The greatest number that each table of the former database has given; none where it cannot tell."""
    if not former.exists():
        return {}
    try:
        return read(f"sqlite:///{former}", home, _counted)
    except DatabaseUnusable:
        return {}


def _counted(conn: Connection) -> Mapping[str, int]:
    """The greatest number given so far, by the tables whose numbers people see."""
    made = conn.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
    tables: dict[str, str] = {row.name: row.sql for row in made}
    counted = {name: 0 for name, sql in tables.items() if "AUTOINCREMENT" in sql.upper()}
    for table in (goal, plan):  # a database of an older version does not count these
        if table.name in tables:
            counted[table.name] = conn.execute(select(func.max(table.c.id))).scalar_one() or 0
    if "sqlite_sequence" in tables:
        for name, last in conn.exec_driver_sql("SELECT name, seq FROM sqlite_sequence"):
            counted[name] = max(counted.get(name, 0), last)
    return counted


def _leave_out(fresh: Path, given: Mapping[str, int]) -> None:
    """Let new numbers begin after those that were given; where nobody can tell them, `MARGIN` later.

    SQLite goes by its notes for tables that it counts; for goals and plans of an older version the migration does.
    """
    engine = sqlite_engine(fresh)
    try:
        with engine.begin() as conn:
            for name, last in _counted(conn).items():
                wanted = given.get(name, last + MARGIN)
                if wanted <= last:
                    continue
                conn.exec_driver_sql("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
                conn.exec_driver_sql("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (name, wanted))
    finally:
        engine.dispose()


def _put_aside_in(fresh: Path, others: Callable[[Connection], int], at: int) -> tuple[int, int, int]:
    engine = sqlite_engine(fresh)
    try:
        with engine.begin() as conn:
            aside = put_aside(conn, others, at)
    finally:
        engine.dispose()
    if fresh.with_name(f"{fresh.name}-wal").exists():  # the last to close it has taken its journal in
        raise sqlite3.OperationalError("the journal of the copy stays behind")
    return aside


def put_aside(conn: Connection, others: Callable[[Connection], int], at: int) -> tuple[int, int, int]:
    """Make dead letters of what is open in a restored database: messages, answers, and what `others` counts."""
    more = others(conn)  # first: it asks what is still open
    messages, answers = (_marked(conn, statement) for statement in _PUT_ASIDE)
    conn.execute(_END_RUNS, {"at": at})
    if inspect(conn).has_table(approval.name):  # of a version that asked for approvals
        approval_rows.put_aside(conn, at=at)
    return messages, answers, more


def _marked(conn: Connection, statement: object) -> int:
    return conn.execute(statement, {"why": WHY}).rowcount  # type: ignore[call-overload,no-any-return]


def _keep(path: Path, kept: Path) -> Path:
    """The former database as one file in `kept`, or as it lies where it cannot be read; its journal goes with it."""
    kept.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    journal = [path.with_name(f"{path.name}{ending}") for ending in ("-wal", "-shm")]
    try:
        copy_file(path, kept)
    except BackupRefused:
        for part in journal:
            if part.exists():
                part.replace(kept.with_name(part.name.replace(path.name, kept.name)))
        path.replace(kept)
        return kept
    with closing(sqlite3.connect(path)) as opened:  # whose last words are in the journal must not lose them now
        opened.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    for part in journal:  # a journal of the former database would be played into the new one
        part.unlink(missing_ok=True)
    return kept


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
