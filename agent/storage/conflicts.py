"""INSERT … ON CONFLICT in the words that SQLite and PostgreSQL share, so that neither dialect is imported for it."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import Insert, SyntaxExtension
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ClauseElement
from sqlalchemy.sql.visitors import InternalTraversal


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
