"""Reads every row of a database by the columns that it has, whatever the version that made it."""

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, inspect, make_url, text

Row = Mapping[str, Any]
Table = Mapping[str, Row]  # by the primary key, as text

NOT_OURS = ("passage_fts", "memory_fts", "sqlite_", "alembic_version")  # SQLite's own, and the tables of its indexes


def engine_of(home: Path, database: str | None) -> Engine:
    """The database of this home: a file, or the PostgreSQL database of this address."""
    if database is None:
        return create_engine(f"sqlite:///{home / 'tieline.db'}", connect_args={"timeout": 30})
    return create_engine(make_url(database).set(drivername="postgresql+psycopg"))


def tables_of(engine: Engine) -> Sequence[str]:
    """The names of the product's tables."""
    return sorted(name for name in inspect(engine).get_table_names() if not name.startswith(NOT_OURS))


def read_all(engine: Engine) -> dict[str, Table]:
    """Every row of every table."""
    looker = inspect(engine)
    found: dict[str, Table] = {}
    with engine.connect() as conn:
        for name in tables_of(engine):
            keys = looker.get_pk_constraint(name)["constrained_columns"]
            # Not reflected: the type of a vector is unknown to SQLAlchemy, and its text is enough here.
            rows = conn.execute(text(f'select * from "{name}"')).mappings()
            found[name] = {" ".join(str(row[key]) for key in keys): _plain(row) for row in rows}
    return found


def _plain(row: Mapping[Any, Any]) -> Row:
    return {
        str(key): base64.b64encode(value).decode() if isinstance(value, bytes) else value for key, value in row.items()
    }


def query(engine: Engine, sql: str, **values: Any) -> list[tuple[Any, ...]]:
    """The rows of one query; closes what it opened, so that no lock stays."""
    with engine.connect() as conn:
        return [tuple(row) for row in conn.execute(text(sql), values)]


def revision(engine: Engine) -> str:
    """The revision that the database says it has."""
    ((found,),) = query(engine, "select version_num from alembic_version")
    return str(found)
