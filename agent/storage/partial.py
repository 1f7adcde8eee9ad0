"""An index over some rows only, in the words that SQLite and PostgreSQL share, so that neither dialect is imported."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import Column, Index
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateIndex
from sqlalchemy.sql.compiler import DDLCompiler


def partial_index(name: str, *columns: Column[Any], where: str, unique: bool = False) -> Index:
    """An index of the columns' table that holds the rows for which `where` (plain text of ours) is true."""
    return Index(name, *columns, unique=unique, info={"where": where})


@compiles(CreateIndex)
def _compile(element: CreateIndex, compiler: DDLCompiler, **options: Any) -> str:
    visit: Callable[..., str] = compiler.visit_create_index
    statement = visit(element, **options)
    where = element.element.info.get("where")
    return f"{statement} WHERE {where}" if where else statement
