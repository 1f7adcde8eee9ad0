"""Transfer of a whole SQLite database into an empty PostgreSQL database. Blocking. The old database is only read.

Rows go over in batches. Each is one transaction with the note of how far its table has come, so that a transfer that
was killed goes on there. Until the last transaction the target has no revision: no gateway takes it for one of ours.
"""

import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    Connection,
    MetaData,
    Table,
    Text,
    delete,
    insert,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.exc import DBAPIError

from agent.core.failpoints import failpoint
from agent.storage.connect import (
    TRANSFER,
    Schema,
    State,
    bring_up_to_date,
    make_tables,
    migrating_from,
    revision,
    stamp,
    state_of,
)
from agent.storage.copies.canonical_rows import Converter, Digest, Row, Texts, types_of
from agent.storage.copies.postgres import cursor_of, engine_of, quoted, reason_of
from agent.storage.copies.sqlite import copy_file
from agent.storage.errors import BackupRefused, DatabaseHeld, TransferRefused
from agent.storage.postgres import OWNER_KEY
from agent.storage.sqlite import OwnerLock, damage_in, damaged, emptied, sqlite_engine

BATCH = 5_000  # rows of one transaction, or fewer:
BATCH_BYTES = 4_000_000  # of text and bytes, about
MIGRATED_IN = 3  # sizes of the database: a copy, and what its migration writes
OWN_WITHIN_S = 5  # a server needs a moment to notice that the process of a killed transfer is gone
OF_SQLITE = (
    "sqlite_",
    "passage_fts",
    "memory_fts",
    "alembic_version",
)  # tables that PostgreSQL has in a way of its own

_COPIED = re.compile(r"COPY (\w+), line \d+(?:, column (\w+))?")  # in the context of an error
PASSWORDS = frozenset({"password", "sslpassword"})  # options of an address

# Notes on a transfer, in the target: a row for each table that was begun, and one without a name for the whole.
progress = Table(
    TRANSFER,
    MetaData(),
    Column("name", Text, primary_key=True),
    Column("state", Text, nullable=False),  # copying | copied; of the whole: copying | verified | finished
    Column("revision", Text, nullable=False),  # of the tables
    Column("last", Text),  # JSON: the key of the row that was copied last
    Column("rows", BigInteger, nullable=False),
    Column("digest", Text, nullable=False),
    Column("replaced", BigInteger, nullable=False),  # texts that PostgreSQL cannot hold as they are
    Column("at", BigInteger, nullable=False),
)
WHOLE = ""

Told = Callable[[str, str, int, int], None]
Step = Callable[[Connection], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferredTable:
    """A table in both databases: the rows and their digest here, and those that were found there."""

    name: str
    rows: int
    digest: str
    rows_there: int
    digest_there: str
    replaced: int

    @property
    def equal(self) -> bool:
        return (self.rows, self.digest) == (self.rows_there, self.digest_there)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transferred:
    """`before` is the moment (UTC microseconds) at which it was finished already; None: now, or it was not.

    `finished` is False where tables differ: then the target stays unusable. `anew`: the old database had changed since
    the transfer was begun. `left_out` are tables that are not Tieline's, `steps` what was done after the copy.
    """

    tables: tuple[TransferredTable, ...]
    finished: bool
    before: int | None = None
    anew: bool = False
    left_out: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()


def address_of(url: URL) -> str:
    """The address without a password, which may also stand among the options."""
    bare = URL.create("postgresql", url.username, None, url.host, url.port, url.database)
    shown = {name: value for name, value in url.query.items() if name not in PASSWORDS}
    return bare.set(query=shown).render_as_string()


def transfer(path: Path, url: URL, *, schema: Schema, at: int, told: Told, after: Sequence[Step] = ()) -> Transferred:
    """Copy all rows, compare them, do `after`, and let gateways use the target.

    `told` is called with what is done ("copy", "compare"), the table, and how many of how many rows. Each of `after` is
    one transaction that may be repeated, and gives a line to show or "".
    Raises TransferRefused, and DatabaseUnusable where either database is in use or of a wrong version.
    """
    place = address_of(url)
    with _source(path, schema) as source, _target(url, place) as target:
        return _Transfer(source, target, place, schema, at, told).done(after)


# Source: the file, owned by this process, in one snapshot.


@contextmanager
def _source(path: Path, schema: Schema) -> Iterator[Connection]:
    """The old database at the schema's head: the file itself, or a migrated copy of it."""
    if not path.exists():
        raise TransferRefused(f"there is no SQLite database {path}; name the data directory with --home")
    if (lost := emptied(path)) is not None:
        raise lost
    lock = OwnerLock.take(path.with_name(f"{path.name}.lock"))
    copy = path.with_name(f".{path.name}.transfer")
    try:
        copied = path if _stands_at_head(path, schema) else _migrated(path, copy, schema)
        engine = sqlite_engine(copied, read_only=True)
        with engine.connect() as conn, conn.begin():
            _check(conn, path)
            yield conn
    except (DBAPIError, sqlite3.Error, OSError) as error:
        raise (damage_in(path, error) or TransferRefused(f"{path} cannot be read: {reason_of(error)}")) from error
    finally:
        _removed(copy)
        lock.release()


def _stands_at_head(path: Path, schema: Schema) -> bool:
    """Whether nothing must be migrated. Raises TransferRefused and DatabaseUnusable for what cannot be."""
    engine = sqlite_engine(path, read_only=True)
    with engine.connect() as conn:
        state, stored = state_of(conn, schema), revision(conn)
    if state in (State.EMPTY, State.FOREIGN):
        raise TransferRefused(f"{path} is no database of Tieline; name the data directory with --home")
    if state is State.OTHER:
        migrating_from(stored, schema)
    return state is State.CURRENT


def _migrated(path: Path, copy: Path, schema: Schema) -> Path:
    needed, free = MIGRATED_IN * path.stat().st_size, shutil.disk_usage(path.parent).free
    if free < needed:
        raise TransferRefused(
            f"{path} is of an older revision, and a copy of it that is brought up to date needs {needed / 1e6:,.0f} MB "
            f"in {path.parent}, where {free / 1e6:,.0f} MB are free; free some, or start this version on it once"
        )
    _removed(copy)
    try:
        copy_file(path, copy)
    except BackupRefused as error:
        raise TransferRefused(str(error)) from error
    bring_up_to_date(copy, schema, copied=False)
    return copy


def _removed(copy: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        with suppress(OSError):
            copy.with_name(f"{copy.name}{ending}").unlink(missing_ok=True)


def _check(conn: Connection, path: Path) -> None:
    """Refuse what PostgreSQL would refuse in the middle: damaged pages, rows that refer to none."""
    found = conn.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
    if found != "ok":
        raise damaged(path, str(found).splitlines()[-1])
    broken = conn.exec_driver_sql("PRAGMA foreign_key_check").all()
    if broken:
        table, row, to = broken[0][:3]
        raise TransferRefused(
            f"{len(broken)} rows of {path} refer to rows that are not there, which PostgreSQL does not allow; the "
            f"first is {table} {row}, to {to}; PRAGMA foreign_key_check in the sqlite3 program lists them: remove them"
        )


# Target: an empty database, or one that a transfer has begun to fill.


@contextmanager
def _target(url: URL, place: str) -> Iterator[Connection]:
    """A connection that owns the database."""
    engine = engine_of(url)
    try:
        with engine.connect() as conn:
            with conn.begin():
                _own(conn, place)
            yield conn
    except (DBAPIError, psycopg.Error) as error:
        raise TransferRefused(
            f"{place}: {_why(error)}; the old database is as it was, and the same command goes on with the rest"
        ) from None  # whose own words may hold a row
    finally:
        engine.dispose()


def _why(error: Exception) -> str:
    """The reason in the server's words; of a row that it does not take, the table and the rule alone."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if not isinstance(cause, psycopg.IntegrityError | psycopg.DataError) or cause.sqlstate is None:
        return reason_of(error)
    copied = _COPIED.search(cause.diag.context or "")
    table = cause.diag.table_name or (copied[1] if copied is not None else "")
    column = cause.diag.column_name or (copied[2] if copied is not None else "")
    rule = cause.diag.constraint_name or column or type(cause).__name__
    return (
        f"the server does not take a row of {table or 'a table'}, by its rule {rule} ({cause.sqlstate}), which SQLite "
        "has let pass; correct or remove the row in SQLite"
    )


def _own(conn: Connection, place: str) -> None:
    try:
        conn.execute(text(f"SET lock_timeout = '{OWN_WITHIN_S}s'"))
        conn.execute(text(f"SELECT pg_advisory_lock({OWNER_KEY})"))  # until the connection ends
        for limit in ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout"):
            conn.execute(text(f"SET {limit} = 0"))  # a server may have limits that are meant for turns
    except DBAPIError as error:
        if not isinstance(error.orig, psycopg.errors.LockNotAvailable):
            raise
        raise DatabaseHeld(f"{place} is in use by another process; stop that one first", pid=None) from None


class _Transfer:
    """One run of a transfer, from the rows of an old database into a target that this process owns."""

    def __init__(self, source: Connection, target: Connection, place: str, schema: Schema, at: int, told: Told) -> None:
        self._source = source
        self._target = target
        self._place = place
        self._schema = schema
        self._at = at
        self._told = told
        self._tables: Sequence[Table] = schema.metadata.sorted_tables  # those first that others refer to
        self._texts = Texts()
        self._raw: sqlite3.Connection = source.connection.driver_connection  # type: ignore[assignment]

    def done(self, after: Sequence[Step]) -> Transferred:
        """Go on with it to the end."""
        left_out = self._left_out()
        self._raw.text_factory = self._texts
        with self._target.begin():
            whole = self._begun()
        anew = False
        if whole is not None and self._has_changed():
            if whole.state == "finished":
                raise TransferRefused(
                    f"{self._place} was filled from this database before, which has changed since; to copy it once "
                    "more, name an empty database"
                )
            anew = True
            with self._target.begin():
                self._begin_anew()
            whole = None
        if whole is not None and whole.state == "finished":
            return Transferred(tables=self._as_noted(), finished=True, before=whole.at, left_out=left_out)
        for table in self._tables:
            self._copy(table)
        if whole is None or whole.state != "verified":
            compared = self._compared()
            if not all(one.equal for one in compared):
                return Transferred(tables=compared, finished=False, anew=anew, left_out=left_out)
            with self._target.begin():
                self._note(WHOLE, state="verified")
            failpoint("transfer.verified")
        else:
            compared = self._as_noted()
        steps = tuple(filter(None, map(self._step, after)))
        with self._target.begin():
            self._number_on()
            stamp(self._target, self._schema)
            self._target.execute(update(progress).values(last=None))  # keys name people and places
            self._note(WHOLE, state="finished")
            failpoint("transfer.finish")
        return Transferred(tables=compared, finished=True, anew=anew, left_out=left_out, steps=steps)

    def _step(self, step: Step) -> str:
        with self._target.begin():
            return step(self._target)

    def _left_out(self) -> tuple[str, ...]:
        """Tables of others, which are not copied."""
        there = inspect(self._source).get_table_names()
        ours = self._schema.metadata.tables
        return tuple(name for name in there if name not in ours and not name.startswith(OF_SQLITE))

    # Notes

    def _begun(self) -> Any:
        """The note on the whole; None where the transfer begins now. Raises TransferRefused."""
        encoding = self._target.execute(text("SHOW server_encoding")).scalar_one()
        if encoding != "UTF8":
            raise TransferRefused(
                f"{self._place} has the encoding {encoding}, which cannot hold all texts; make the database anew: "
                "createdb --encoding=UTF8 --template=template0"
            )
        if inspect(self._target).has_table(progress.name):
            whole = self._noted(WHOLE)
            if whole is not None and whole.revision == self._schema.head:
                return whole
            done = "was filled before" if whole is not None and whole.state == "finished" else "is being filled"
            raise TransferRefused(
                f"{self._place} {done} by another version of Tieline; name an empty database, or use that version"
            )
        match state_of(self._target, self._schema):
            case State.FOREIGN:
                raise TransferRefused(f"{self._place} holds tables that are not Tieline's; name an empty database")
            case State.CURRENT | State.OTHER:
                stored = revision(self._target)
                raise TransferRefused(
                    f"{self._place} holds a database of Tieline already (revision {stored}), which stays as it is; "
                    "name an empty database"
                )
            case State.EMPTY:
                make_tables(self._target, self._schema)
                progress.create(self._target)
                self._note(WHOLE, state="copying")
        return None

    def _begin_anew(self) -> None:
        names = ", ".join(quoted(table.name) for table in self._tables)
        self._target.execute(text(f"TRUNCATE {names}"))
        self._target.execute(delete(progress))
        self._note(WHOLE, state="copying")

    def _noted(self, name: str) -> Any:
        return self._target.execute(select(progress).where(progress.c.name == name)).one_or_none()

    def _note(self, name: str, *, state: str, digest: Digest | None = None, **more: object) -> None:
        digest = digest or Digest()
        values = {"state": state, "rows": digest.rows, "digest": digest.text, "at": self._at, **more}
        if not self._target.execute(update(progress).where(progress.c.name == name).values(values)).rowcount:
            new = {"name": name, "revision": self._schema.head, "replaced": 0, **values}
            self._target.execute(insert(progress).values(new))

    # Rows

    def _has_changed(self) -> bool:
        """Whether the old database is another than the one whose rows were copied so far."""
        with self._target.begin():
            notes = {row.name: row for row in self._target.execute(select(progress))}
        for table in self._tables:
            note = notes.get(table.name)
            if note is None:
                continue
            digest = Digest()
            upto = note.last if note.state == "copying" else None
            for row, _ in self._rows(table, "<=", upto):
                digest.add(row)
            self._told("compare", table.name, digest.rows, digest.rows)
            if digest != Digest(note.rows, note.digest):
                return True
        return False

    def _rows(self, table: Table, comparison: str, key: str | None) -> Iterator[tuple[Row, Sequence[Any]]]:
        """The old database's rows, converted, with their keys in their order; those behind or up to a key."""
        convert = Converter(table)
        names = [column.name for column in table.columns]
        keys = [column.name for column in table.primary_key.columns]
        places = [names.index(name) for name in keys]
        ordered = ", ".join(map(quoted, keys))
        values = json.loads(key) if key else []
        which = f" WHERE ({ordered}) {comparison} ({', '.join('?' * len(keys))})" if key else ""
        statement = f"SELECT {', '.join(map(quoted, names))} FROM {quoted(table.name)}{which} ORDER BY {ordered}"  # noqa: S608 - our own names
        for row in self._raw.execute(statement, values):
            yield convert(row), [row[place] for place in places]

    def _copy(self, table: Table) -> None:
        with self._target.begin():
            note = self._noted(table.name)
            if note is not None and note.state == "copying" and note.replaced:
                # The last key may be one whose text was replaced, and there is no going on from that.
                self._target.execute(delete(table))
                self._target.execute(delete(progress).where(progress.c.name == table.name))
                note = None
        if note is not None and note.state == "copied":
            return
        total = self._raw.execute(f"SELECT count(*) FROM {quoted(table.name)}").fetchone()[0]  # noqa: S608
        digest = Digest(note.rows, note.digest) if note is not None else Digest()
        self._texts.replaced = 0
        rows = self._rows(table, ">", note.last if note is not None else None)
        while batch := list(_batch(rows)):
            for row, _ in batch:
                digest.add(row)
            with self._target.begin():
                self._write(table, [row for row, _ in batch])
                last = json.dumps(batch[-1][1])
                self._note(table.name, state="copying", digest=digest, last=last, replaced=self._texts.replaced)
                failpoint("transfer.within")
            failpoint("transfer.after")
            self._told("copy", table.name, digest.rows, total)
        if digest.rows != total:
            raise TransferRefused(
                f"{table.name} has {total:,} rows in SQLite and {digest.rows:,} were copied; nothing may use "
                f"{self._place} so; name an empty database and begin anew"
            )
        with self._target.begin():
            self._note(table.name, state="copied", digest=digest, replaced=self._texts.replaced)

    def _write(self, table: Table, rows: Sequence[Row]) -> None:
        columns = ", ".join(quoted(column.name) for column in table.columns)
        statement = f"COPY {quoted(table.name)} ({columns}) FROM STDIN"
        with cursor_of(self._target) as cursor, cursor.copy(statement) as copied:
            for row in rows:
                copied.write_row(row)

    def _compared(self) -> tuple[TransferredTable, ...]:
        """All tables, with what is found in the target."""
        found: list[TransferredTable] = []
        for one in self._as_noted():
            table, digest = self._schema.metadata.tables[one.name], Digest()
            columns = ", ".join(quoted(column.name) for column in table.columns)
            statement = f"COPY {quoted(table.name)} ({columns}) TO STDOUT"
            with self._target.begin(), cursor_of(self._target) as cursor, cursor.copy(statement) as copied:
                copied.set_types(types_of(table))
                for row in copied.rows():
                    digest.add(row)
                    if digest.rows % BATCH == 0:
                        self._told("compare", table.name, digest.rows, one.rows)
            self._told("compare", table.name, digest.rows, one.rows)
            found.append(_with(one, digest))
        return tuple(found)

    def _as_noted(self) -> tuple[TransferredTable, ...]:
        with self._target.begin():
            notes = {row.name: row for row in self._target.execute(select(progress))}
        return tuple(
            TransferredTable(
                name=note.name,
                rows=note.rows,
                digest=note.digest,
                rows_there=note.rows,
                digest_there=note.digest,
                replaced=note.replaced,
            )
            for note in (notes[table.name] for table in self._tables if table.name in notes)
        )

    def _number_on(self) -> None:
        """Let new numbers begin behind the greatest that SQLite gave, and noted even where its row is gone."""
        given = self._given()
        for table in self._tables:
            for column in table.primary_key.columns:
                asked = text("SELECT pg_get_serial_sequence(:table, :column)")
                names = {"table": quoted(table.name), "column": column.name}
                sequence = self._target.execute(asked, names).scalar_one()
                greatest = self._target.execute(select(column).order_by(column.desc()).limit(1)).scalar()
                if sequence is not None and (last := max(greatest or 0, given.get(table.name, 0))) > 0:
                    self._target.execute(text("SELECT setval(:sequence, :last)"), {"sequence": sequence, "last": last})

    def _given(self) -> Mapping[str, int]:
        """The greatest number that SQLite has given, of the tables whose numbers it never gives again."""
        has = self._raw.execute("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_sequence'").fetchone()
        return dict(self._raw.execute("SELECT name, seq FROM sqlite_sequence").fetchall()) if has else {}


def _batch(rows: Iterator[tuple[Row, Sequence[Any]]]) -> Iterator[tuple[Row, Sequence[Any]]]:
    """The next rows, as many as one transaction takes."""
    size = 0
    for row in islice(rows, BATCH):
        yield row
        size += sum(len(value) for value in row[0] if isinstance(value, str | bytes))
        if size >= BATCH_BYTES:
            return


def _with(one: TransferredTable, digest: Digest) -> TransferredTable:
    return TransferredTable(
        name=one.name,
        rows=one.rows,
        digest=one.digest,
        rows_there=digest.rows,
        digest_there=digest.text,
        replaced=one.replaced,
    )
