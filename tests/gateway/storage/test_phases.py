"""Each migration says whether processes of the version before can run beside it, as its statements show (G-156)."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, make_url

from agent.storage import migrate
from gateway.storage.repair import SCHEMA
from tests.fakes.databases import PostgresServer
from tests.gateway.storage.phases import phase_of


@pytest.fixture
def engine(postgres_server: PostgresServer) -> Iterator[Engine]:
    """An empty database of PostgreSQL, on which alone two processes can run."""
    with postgres_server.database(empty=True) as url:
        engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
        yield engine
        engine.dispose()


@pytest.mark.requirement("G-156")
def test_the_phase_of_each_migration_is_that_of_its_statements(engine: Engine) -> None:
    """A new migration states `phase`; what drops, renames or narrows is `contract`: old processes end first."""
    ran: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        ran.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    first, *later = reversed(migrate.known_revisions(SCHEMA.migrations))
    found: dict[str, str] = {}
    for revision in (first, *later):
        ran.clear()
        with engine.begin() as conn:
            migrate.upgrade(conn, SCHEMA.migrations, revision)
        assert ran, revision
        found[revision] = phase_of(ran)
    said = {one.revision: one.phase for one in migrate.pending(SCHEMA.migrations, "base")}
    assert said == found
    assert {one for one, phase in found.items() if phase == "contract"} >= {"0029_feedback", "0032_places"}


@pytest.mark.parametrize(
    ("statements", "phase"),
    [
        pytest.param(["CREATE TABLE a (id INT NOT NULL)"], "expand", id="a new table"),
        pytest.param(["ALTER TABLE a ADD COLUMN b TEXT"], "expand", id="a nullable column"),
        pytest.param(["ALTER TABLE a ADD COLUMN b TEXT DEFAULT '' NOT NULL"], "expand", id="a column with a default"),
        pytest.param(
            ["ALTER TABLE a ADD COLUMN b TEXT NOT NULL"], "contract", id="a column that old writers leave out"
        ),
        pytest.param(["ALTER TABLE a ADD COLUMN b INT", "UPDATE a SET b = 1"], "expand", id="fills a new column"),
        pytest.param(["UPDATE a SET b = 1 WHERE c = 2"], "contract", id="rewrites an old column"),
        pytest.param(["DELETE FROM a WHERE b = 1"], "contract", id="deletes rows"),
        pytest.param(["DROP TABLE a"], "contract", id="drops a table"),
        pytest.param(['ALTER TABLE "a" DROP COLUMN b'], "contract", id="drops a column"),
        pytest.param(["DROP INDEX ix_a_b"], "contract", id="drops an index, which may be the one of an upsert"),
        pytest.param(["ALTER TABLE a RENAME TO b"], "contract", id="renames a table"),
        pytest.param(["ALTER TABLE a RENAME COLUMN b TO c"], "contract", id="renames a column"),
        pytest.param(["ALTER TABLE a ALTER COLUMN b SET NOT NULL"], "contract", id="narrows a column"),
        pytest.param(["ALTER TABLE a ALTER COLUMN b DROP NOT NULL"], "expand", id="widens a column"),
        pytest.param(["ALTER TABLE a ALTER COLUMN b TYPE BIGINT"], "contract", id="changes a type"),
        pytest.param(["ALTER TABLE a ADD CONSTRAINT c CHECK (b > 0)"], "contract", id="adds a constraint"),
        pytest.param(["CREATE INDEX ix_a ON a (b)"], "expand", id="an index"),
        pytest.param(["CREATE UNIQUE INDEX ix_a ON a (b)"], "contract", id="a unique index on an old table"),
        pytest.param(
            ["CREATE TABLE a (b INT)", "CREATE UNIQUE INDEX ix_a ON a (b)", "UPDATE a SET b = 1"],
            "expand",
            id="all of its own",
        ),
    ],
)
def test_a_statement_expands_or_contracts(statements: list[str], phase: str) -> None:
    assert phase_of(statements) == phase
