"""A database that a test gets is as the template, whatever the test before did to the one that it had."""

import pytest
from sqlalchemy import create_engine, text

from tests.fakes.databases import PostgresServer

INSERT = """
insert into log_entry (digest, first_at, last_at, times, level, logger, conv, ref, message, error, traceback)
values ('d', 1, 1, 1, 'error', 'tieline', '', '', 'm', '', '') returning id
"""


def run(url: str, *statements: str) -> list[object]:
    """The first column of what the last statement gives."""
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:", 1))
    with engine.begin() as conn:
        for statement in statements:
            result = conn.execute(text(statement))
        found = list(result.scalars()) if result.returns_rows else []
    engine.dispose()
    return found


def test_one_without_changes_is_used_again_empty_and_counts_from_one(postgres_server: PostgresServer) -> None:
    with postgres_server.database() as first:
        before = run(first, INSERT)
    with postgres_server.database() as second:
        assert second == first
        assert run(second, "select id from log_entry") == []
        assert run(second, INSERT) == before


@pytest.mark.parametrize(
    "change",
    [
        "alter table log_entry add column more integer",
        "drop table log_entry",
        "create index own on log_entry (message)",
        "update alembic_version set version_num = 'other'",
    ],
)
def test_one_whose_tables_were_changed_is_not_used_again(postgres_server: PostgresServer, change: str) -> None:
    with postgres_server.database() as first:
        run(first, change)
    with postgres_server.database() as second:
        assert second != first


def test_one_that_a_test_dropped_is_forgotten(postgres_server: PostgresServer) -> None:
    with postgres_server.database() as first:
        name = first.partition("?")[0].rpartition("/")[2]
        with postgres_server.database(empty=True) as other:
            run_outside_transaction(other, f"drop database {name} with (force)")
    with postgres_server.database() as second:
        assert second != first


def run_outside_transaction(url: str, statement: str) -> None:
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:", 1), isolation_level="AUTOCOMMIT")
    with engine.connect() as conn:
        conn.execute(text(statement))
    engine.dispose()
