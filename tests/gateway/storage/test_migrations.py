"""The migrations make the schema that the code expects, on both databases, there and back (Z-69)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, create_engine, inspect, make_url, text

from agent.storage import migrate
from agent.storage.connect import State, create, revision, state_of
from agent.storage.sqlite import sqlite_engine
from agent.storage.tables import MEMORY_FULL_TEXT, POSTGRES_FULL_TEXT
from gateway.storage.migrations.versions import r0029_since_initial
from gateway.storage.repair import SCHEMA
from tests.fakes.databases import PostgresServer


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """An empty database."""
    if request.param == "sqlite":
        yield sqlite_engine(tmp_path / "x.db")
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with server.database(empty=True) as url:
        engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
        yield engine
        engine.dispose()


def counted(engine: Engine) -> set[str]:
    """The tables whose numbers are never given again. On PostgreSQL no sequence goes back."""
    if engine.dialect.name != "sqlite":
        return set()
    with engine.connect() as conn:
        return set(conn.execute(text("SELECT name FROM sqlite_master WHERE sql LIKE '%AUTOINCREMENT%'")).scalars())


def where(index: Any) -> list[str]:
    """The condition of a partial index."""
    options = index.get("dialect_options", {})
    return [str(options[option]) for option in ("sqlite_where", "postgresql_where") if option in options]


def shape(engine: Engine) -> dict[str, Any]:
    """Everything that can be told about the tables."""
    looker = inspect(engine)
    tables = sorted(looker.get_table_names())
    return {
        table: (
            [{**column, "type": repr(column["type"])} for column in looker.get_columns(table)],
            looker.get_pk_constraint(table),
            sorted((index["name"], index["column_names"], where(index)) for index in looker.get_indexes(table)),
            sorted(looker.get_unique_constraints(table), key=lambda unique: unique["name"] or ""),
            looker.get_foreign_keys(table),
        )
        for table in tables
    }


def is_ours(name: str | None, kind: str, parents: Any) -> bool:
    """Full-text indexes are made by hand; SQLite's make tables of their own."""
    return kind not in ("table", "index") or not (name or "").startswith(("passage_fts", "memory_fts"))


@pytest.mark.requirement("Z-69")
def test_the_migrations_make_what_the_code_believes_in(engine: Engine) -> None:
    with engine.begin() as conn:
        migrate.upgrade(conn, SCHEMA.migrations)
    with engine.connect() as conn:
        context = MigrationContext.configure(conn, opts={"compare_type": True, "include_name": is_ours})
        assert compare_metadata(context, SCHEMA.metadata) == []
        assert revision(conn) == SCHEMA.head
        assert state_of(conn, SCHEMA) is State.CURRENT


@pytest.mark.requirement("Z-69")
def test_a_new_database_is_the_same_as_a_migrated_one(engine: Engine) -> None:
    with engine.begin() as conn:
        create(conn, SCHEMA)
    made, numbered = shape(engine), counted(engine)
    assert numbered == ({"schedule", "goal", "plan", "group_message"} if engine.dialect.name == "sqlite" else set())
    with engine.begin() as conn:
        SCHEMA.metadata.drop_all(conn)
        conn.execute(text("drop table alembic_version"))
        migrate.upgrade(conn, SCHEMA.migrations)
    assert (shape(engine), counted(engine)) == (made, numbered)


@pytest.mark.requirement("Z-69")
@pytest.mark.parametrize("made", ["at once", "by migrations"])
def test_a_turn_reads_the_rows_that_are_open_and_no_others(tmp_path: Path, made: str) -> None:
    """SQLite takes the newest of two indexes that promise as much, and knows nothing of how full they will be."""
    engine = sqlite_engine(tmp_path / "x.db")
    with engine.begin() as conn:
        if made == "at once":
            create(conn, SCHEMA)
        else:
            migrate.upgrade(conn, SCHEMA.migrations)
        plans = {
            table: [row[3] for row in conn.execute(text(f"EXPLAIN QUERY PLAN SELECT * FROM {table} WHERE {which}"))]
            for table, which in {
                "outbox": "conv = 'a' AND status IN ('new', 'sending') ORDER BY id LIMIT 1",
                "inbox": "conv = 'a' AND status = 'new' ORDER BY CASE kind WHEN 'message' THEN 1 END, id LIMIT 9",
            }.items()
        }
    assert "ix_outbox_open" in plans["outbox"][0]
    assert "ix_inbox_new" in plans["inbox"][0]
    engine.dispose()


def test_every_migration_can_be_taken_back(engine: Engine) -> None:
    revisions = migrate.known_revisions(SCHEMA.migrations)
    with engine.begin() as conn:
        migrate.upgrade(conn, SCHEMA.migrations)
    for target in (*revisions[1:], "base"):
        with engine.begin() as conn:
            migrate.downgrade(conn, SCHEMA.migrations, target)
    assert inspect(engine).get_table_names() == ["alembic_version"]
    with engine.begin() as conn:
        migrate.upgrade(conn, SCHEMA.migrations)
        assert revision(conn) == SCHEMA.head


def test_the_index_of_the_memory_is_made_the_same_way_twice() -> None:
    """Comparing tables tells nothing of triggers and indexes over expressions."""
    assert r0029_since_initial.SQLITE_FULL_TEXT == MEMORY_FULL_TEXT
    assert r0029_since_initial.POSTGRES_FULL_TEXT == (POSTGRES_FULL_TEXT,)


def test_the_head_that_is_checked_cheaply_is_the_newest_migration() -> None:
    assert migrate.known_revisions(SCHEMA.migrations)[0] == SCHEMA.head


@pytest.mark.parametrize(("kept", "below"), [((), None), ((1, 3), 4)], ids=["nothing", "two things"])
def test_what_was_kept_before_the_index_of_stems_waits_for_its_words(
    engine: Engine, kept: tuple[int, ...], below: int | None
) -> None:
    with engine.begin() as conn:
        migrate.upgrade(conn, SCHEMA.migrations, "0015_forgetting")
        rows = "INSERT INTO memory (id, audience, scope, kind, conv, text, source, dedup, created_at)"
        for id in kept:
            conn.execute(
                text(f"{rows} VALUES (:id, 'a', 'x', 'said', 'c', 't', 'chat', :dedup, 1)"),
                {"id": id, "dedup": str(id)},
            )
        migrate.upgrade(conn, SCHEMA.migrations)
        assert conn.execute(text("SELECT below FROM memory_unindexed")).scalar_one_or_none() == below
        assert conn.execute(text("SELECT COUNT(*) FROM memory WHERE words IS NULL AND slot IS NULL")).scalar() == len(
            kept
        )


def test_rules_about_calls_from_before_rules_about_tools_allow(engine: Engine) -> None:
    with engine.begin() as conn:
        migrate.upgrade(conn, SCHEMA.migrations, "0015_forgetting")
        columns = "conv, tool, covers, shown, created_by, created_at"
        conn.execute(text(f"INSERT INTO approval_rule ({columns}) VALUES ('c', 'write', 'd', 's', 'p', 1)"))
        migrate.upgrade(conn, SCHEMA.migrations)
        assert conn.execute(text("SELECT effect FROM approval_rule")).scalar_one() == "allow"


def test_what_any_answer_counted_for_a_skill_counts_no_longer(engine: Engine) -> None:
    with engine.begin() as conn:
        migrate.upgrade(conn, SCHEMA.migrations, "0015_forgetting")
        conn.execute(text("INSERT INTO skill_arm VALUES ('global', 'translate', 503, 7, 3, 1)"))
        migrate.upgrade(conn, SCHEMA.migrations)
        row = conn.execute(text("SELECT successes, failures, simulated FROM skill_arm")).one()
    assert tuple(row) == (3, 0, 3), "but for what it was given to begin with"


GOAL = "INSERT INTO goal (conv, text, status, created_at, updated_at) VALUES (:conv, 'a goal', 'completed', 1, :at)"
KEEPER = "INSERT INTO goal (id, conv, text, status, created_at, updated_at) VALUES (500, '', '', 'cleared', 1, :at)"


def test_the_number_of_a_deleted_goal_is_not_given_again(engine: Engine) -> None:
    with engine.begin() as conn:
        migrate.upgrade(conn, SCHEMA.migrations, "0029_feedback")
        conn.execute(text(GOAL), [{"conv": "a", "at": 1}, {"conv": "b", "at": 2}])
        migrate.upgrade(conn, SCHEMA.migrations)
        assert conn.execute(text("SELECT id, conv, text, turns FROM goal ORDER BY id")).all() == [
            (1, "a", "a goal", 0),
            (2, "b", "a goal", 0),
        ]
        conn.execute(text("DELETE FROM goal WHERE id = 2"))
        conn.execute(text(GOAL), {"conv": "c", "at": 3})
        assert conn.execute(text("SELECT id FROM goal WHERE conv = 'c'")).scalar_one() == 3


def test_what_a_restore_of_before_wrote_to_keep_numbers_is_gone_and_they_stay_left_out(tmp_path: Path) -> None:
    engine = sqlite_engine(tmp_path / "x.db")
    with engine.begin() as conn:
        migrate.upgrade(conn, SCHEMA.migrations, "0029_feedback")
        conn.execute(text(GOAL), {"conv": "a", "at": 1})
        conn.execute(text(KEEPER), {"at": 2**62})
        migrate.upgrade(conn, SCHEMA.migrations)
        assert conn.execute(text("SELECT id FROM goal")).scalars().all() == [1]
        conn.execute(text(GOAL), {"conv": "b", "at": 2})
        assert conn.execute(text("SELECT id FROM goal WHERE conv = 'b'")).scalar_one() == 501
    engine.dispose()


def test_a_revision_that_was_squashed_is_none_that_the_migrations_know() -> None:
    assert not SCHEMA.squashed & set(migrate.known_revisions(SCHEMA.migrations))
    assert len(SCHEMA.squashed) == 24
