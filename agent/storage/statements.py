"""Statements on the way of every turn, compiled once and handed to the driver as text.

Bringing one to the driver takes SQLAlchemy some 40 µs where SQLite's driver itself needs 6 and PostgreSQL's 32, and a
turn makes more than twenty.
"""

from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Column, Connection, Select, TextClause, UpdateBase, bindparam, func, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import Insert, SyntaxExtension
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ClauseElement
from sqlalchemy.sql.visitors import InternalTraversal


class CompiledStatement:
    """One statement of whose result the first value, the number of changed rows or the rows are wanted.

    Its values must be of types that the driver takes as they are: text, numbers, truth values, None. An insert must be
    given the same columns each time.
    """

    def __init__(self, statement: Select[Any] | UpdateBase | TextClause) -> None:
        self._statement = statement
        self._forms: dict[str, _Form] = {}  # by the names of dialects

    def scalar(self, conn: Connection, values: Mapping[str, object]) -> Any:
        """The first value of the first row; None when there is no row. Raises what SQLAlchemy would."""
        rows = self._executed(conn, values).fetchall()  # to the end: an open one would hold up the commit
        return rows[0][0] if rows else None

    def column(self, conn: Connection, values: Mapping[str, object]) -> list[Any]:
        """The first value of each row. Raises what SQLAlchemy would."""
        return [value for (value, *_) in self._executed(conn, values).fetchall()]

    def rows(self, conn: Connection, values: Mapping[str, object]) -> Sequence[Any]:
        """All rows, which name their columns. Truth values are 0 and 1 in SQLite. Raises what SQLAlchemy would."""
        cursor = self._executed(conn, values)
        form = self._forms[conn.dialect.name]
        if form.columns is None:
            columns = [column for column, *_ in cursor.description]
            form.columns = namedtuple("Row", columns)._make  # type: ignore[attr-defined] # known by then only
        return list(map(form.columns, cursor.fetchall()))

    def run(self, conn: Connection, values: Mapping[str, object]) -> int:
        """Do it; how many rows an update changed. Raises what SQLAlchemy would."""
        changed: int = self._executed(conn, values).rowcount
        return changed

    def run_each(self, conn: Connection, rows: Sequence[Mapping[str, object]]) -> None:
        """Do it with each of them, sent together. Raises what SQLAlchemy would."""
        if not rows:
            return
        form = self._form(conn, rows[0])
        try:
            _driver(conn).cursor().executemany(form.text, [form.arguments(values) for values in rows])
        except conn.dialect.loaded_dbapi.Error as error:
            raise form.error(conn, error) from error

    def _executed(self, conn: Connection, values: Mapping[str, object]) -> Any:
        form = self._form(conn, values)
        try:
            return _driver(conn).execute(form.text, form.arguments(values))
        except conn.dialect.loaded_dbapi.Error as error:
            raise form.error(conn, error) from error

    def _form(self, conn: Connection, values: Mapping[str, object]) -> "_Form":
        form = self._forms.get(conn.dialect.name)
        if form is None:
            form = self._forms[conn.dialect.name] = _Form(conn, self._statement, values)
        return form


def _driver(conn: Connection) -> Any:
    """The driver's own connection, within a transaction."""
    if not conn.in_transaction():
        conn.begin()
    return conn.connection.dbapi_connection  # `driver_connection` asks three objects for the same


class _Form:
    """The text of a statement for one driver, and what it wants with it."""

    __slots__ = ("_constants", "_names", "columns", "text")

    def __init__(
        self, conn: Connection, statement: Select[Any] | UpdateBase | TextClause, values: Mapping[str, object]
    ) -> None:
        compiled = statement.compile(dialect=conn.dialect, column_keys=list(values))
        self.text = str(compiled)
        self._constants = {name: value for name, value in compiled.params.items() if name not in values}
        self._names: Sequence[str] | None = getattr(compiled, "positiontup", None)  # of SQLite: its marks are all `?`
        self.columns: Callable[[Iterable[Any]], Any] | None = None

    def arguments(self, values: Mapping[str, object]) -> Mapping[str, object] | Sequence[object]:
        """The values as the driver takes them: by their names, or in the order of their marks."""
        constants = self._constants
        if self._names is None:
            return {**constants, **values} if constants else values
        return [values[name] if name in values else constants[name] for name in self._names]

    def error(self, conn: Connection, error: Exception) -> BaseException:
        """The driver's error as SQLAlchemy would raise it, without values."""
        base = conn.dialect.loaded_dbapi.Error
        return DBAPIError.instance(self.text, None, error, base, hide_parameters=True, dialect=conn.dialect)


# INSERT … ON CONFLICT in the words that SQLite and PostgreSQL share, so that neither dialect is imported for it.


class _OnConflict(SyntaxExtension, ClauseElement):
    """`action` is plain text of ours: column names, never values."""

    inherit_cache = True
    _traverse_internals = [("action", InternalTraversal.dp_string)]  # noqa: RUF012 - SQLAlchemy's own protocol

    def __init__(self, action: str) -> None:
        self.action = action

    def apply_to_insert(self, insert_stmt: Insert) -> None:
        insert_stmt.apply_syntax_extension_point(self.append_replacing_same_type, "post_values")


@compiles(_OnConflict)
def _compile(element: _OnConflict, _compiler: SQLCompiler, **_: Any) -> str:
    return f"ON CONFLICT {element.action}"


def or_ignore(statement: Insert) -> Insert:
    """The insert does nothing when any unique key is taken already."""
    return statement.ext(_OnConflict("DO NOTHING"))


def or_update(statement: Insert, *, key: Sequence[str], columns: Sequence[str]) -> Insert:
    """The insert overwrites `columns` of the row that has the same `key`."""
    changes = ", ".join(f"{column} = excluded.{column}" for column in columns)
    return statement.ext(_OnConflict(f"({', '.join(key)}) DO UPDATE SET {changes}"))


def or_add(statement: Insert, *, key: Sequence[str], columns: Sequence[str]) -> Insert:
    """The insert adds its `columns` to those of the row that has the same `key`."""
    added = ", ".join(f"{column} = {statement.table.name}.{column} + excluded.{column}" for column in columns)
    return statement.ext(_OnConflict(f"({', '.join(key)}) DO UPDATE SET {added}"))


def first_since(conn: Connection, id: Column[int], at: Column[int], moment: int) -> int:
    """The id from which on rows are no older than `moment`; one more than the last where all are.

    A clock that was set back makes it err by the rows written meanwhile: then some go later.
    """
    # One by one: SQLite looks both up in the key, but reads the whole table for the two together.
    lowest = conn.execute(select(func.min(id))).scalar_one()
    highest = conn.execute(select(func.max(id))).scalar_one()
    if lowest is None:
        return 0
    at_or_after = select(id, at.label("at")).where(id >= bindparam("from_id")).order_by(id).limit(1)
    low, high = int(lowest), int(highest) + 1
    while low < high:
        middle = (low + high) // 2
        row = conn.execute(at_or_after, {"from_id": middle}).one()
        if row.at < moment:
            low = row.id + 1
        else:
            high = middle
    return low
