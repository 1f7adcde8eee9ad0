"""The move to PostgreSQL: every row of every table arrives, is compared, and goes on where it was interrupted."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, inspect, make_url, text

from agent.memory import pgvector
from agent.storage.connect import State, create, revision, state_of
from agent.storage.copies import transfer as copying
from agent.storage.copies.transfer import Transferred, address_of
from agent.storage.errors import DatabaseDamaged, DatabaseHeld, SchemaTooNew, TransferRefused
from agent.storage.postgres import OWNER_KEY
from agent.storage.sqlite import OwnerLock, sqlite_engine
from gateway.backup.transfer import AFTER_COPY, move, sqlite_of, take_in_vectors
from gateway.storage.repair import SCHEMA
from tests.upgrade.fixture import Fixture
from tests.upgrade.moved import COMMIT, NOTES, at_head, change, here, many, rows_of
from tests.upgrade.rows import read_all
from tests.upgrade.rows import revision as revision_of

LARGE = 2 * copying.BATCH + 1_000  # rows of a table that takes three batches


class Interrupted(Exception):
    """The end of a transfer in the middle, as far as the databases can tell."""


class Ends:
    """Raises when the n-th batch of a table has been stored; tells from which row each table was gone on with."""

    def __init__(self, table: str = "", batches: int = 0) -> None:
        self._at = (table, batches)
        self.told: list[tuple[str, str, int, int]] = []

    def __call__(self, doing: str, table: str, done: int, of: int) -> None:
        self.told.append((doing, table, done, of))
        if doing == "copy" and (table, len(self.copied(table))) == self._at:
            raise Interrupted

    def copied(self, table: str) -> list[int]:
        """How many rows of a table were there after each batch."""
        return [done for doing, name, done, _ in self.told if (doing, name) == ("copy", table)]


def nothing(*_: object) -> None:
    """Progress that nobody looks at."""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose database has a row in every state there is, at this version's revision."""
    return at_head(tmp_path_factory.mktemp("kept"))


@pytest.fixture
def home(kept: Path, tmp_path: Path) -> Path:
    (tmp_path / "h").mkdir()
    (tmp_path / "h" / "tieline.db").write_bytes((kept / "tieline.db").read_bytes())
    return tmp_path / "h"


def moved(home: Path, target: str, told: Any = nothing) -> Transferred:
    """Move the database of a home, as the command does."""
    return move(home / "tieline.db", target, home, told)[0]


def digest_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.mark.requirement("G-154")
def test_every_row_of_every_table_arrives_and_the_old_database_stays_as_it_was(
    home: Path, target: str, there: Engine
) -> None:
    before, file = here(home), digest_of(home / "tieline.db")
    result = moved(home, target)
    assert (result.finished, result.before, result.left_out) == (True, None, ())
    assert rows_of(there) == before
    assert {one.name for one in result.tables} == set(SCHEMA.metadata.tables)
    assert all(one.equal and one.rows == len(before[one.name]) for one in result.tables)
    assert sum(one.rows > 0 for one in result.tables) > 40, "the source has nearly every kind of row"
    assert digest_of(home / "tieline.db") == file
    left = {path.name for path in home.iterdir()} - {"tieline.db-wal", "tieline.db-shm"}  # every reader leaves these
    assert left == {"tieline.db", "tieline.db.lock"}
    with there.connect() as conn:
        assert state_of(conn, SCHEMA) is State.CURRENT


@pytest.mark.requirement("G-154")
def test_a_database_of_an_older_version_is_brought_up_to_date_on_a_copy(
    tmp_path: Path, target: str, there: Engine, home: Path
) -> None:
    old = tmp_path / "old"
    Fixture(COMMIT, "sqlite").lay_out(old, None)
    file = digest_of(old / "tieline.db")
    assert moved(old, target).finished
    assert rows_of(there) == here(home)
    assert digest_of(old / "tieline.db") == file
    assert not list(old.glob(".tieline.db*")), "the copy is removed again"
    assert not (old / "backups").exists() or not list((old / "backups").glob("tieline-*"))


@pytest.mark.requirement("G-154")
def test_new_numbers_begin_behind_the_greatest_that_were_given(home: Path, target: str, there: Engine) -> None:
    change(home, "UPDATE sqlite_sequence SET seq = 5000 WHERE name = 'goal'")  # its rows are gone since
    greatest = {name: max(map(int, rows), default=0) for name, rows in here(home).items() if name in ("inbox", "turn")}
    moved(home, target)
    with there.begin() as conn:
        columns, values = "conv, text, status, created_at, updated_at", "'a', 'b', 'cleared', 1, 1"
        new = conn.execute(text(f"INSERT INTO goal ({columns}) VALUES ({values}) RETURNING id")).scalar_one()
        assert new == 5001
        for name, last in greatest.items():
            sequence = conn.execute(text("SELECT pg_get_serial_sequence(:name, 'id')"), {"name": name}).scalar_one()
            assert conn.execute(text(f"SELECT nextval('{sequence}')")).scalar_one() == last + 1 > 1
        session = "INSERT INTO memory_session (session, audience, first, last) VALUES ('new', 'a', 1, 1) RETURNING no"
        assert conn.execute(text(session)).scalar_one() > 1, "a key of another name than id"


@pytest.mark.requirement("G-154")
def test_texts_with_nul_characters_are_replaced_and_counted(home: Path, target: str, there: Engine) -> None:
    change(
        home,
        "INSERT INTO guideline VALUES ('telegram:1', '', 'two' || char(0) || 'words' || char(0), 1)",
        "INSERT INTO guideline VALUES ('telegram:2', '', CAST(X'62FF' AS TEXT), 1)",
        "INSERT INTO adapter_store VALUES ('a', 'key' || char(0), 'x', 1)",
    )
    result = moved(home, target)
    assert result.finished
    assert {one.name: one.replaced for one in result.tables if one.replaced} == {"guideline": 2, "adapter_store": 1}
    with there.connect() as conn:
        bodies = conn.execute(text("SELECT body FROM guideline WHERE conv LIKE 'telegram:_' ORDER BY conv")).scalars()
        assert bodies.all()[-2:] == ["two\ufffdwords\ufffd", "b\ufffd"]


@pytest.mark.requirement("G-154")
def test_the_search_index_finds_what_was_kept_and_vectors_are_compared_there(
    home: Path, target: str, there: Engine
) -> None:
    steps = moved(home, target).steps
    assert "The search index of the memory was made." in steps
    with there.begin() as conn:
        can = pgvector.prepare(conn)
        assert ("Vectors of the memory were taken in by the extension `vector`." in steps) is can
        if can:
            waiting = text("SELECT count(*) FROM memory_vector WHERE embedding IS NULL")
            assert conn.execute(waiting).scalar_one() == 0 < conn.execute(text(COUNT_VECTORS)).scalar_one()
        conn.execute(text("SET LOCAL enable_seqscan = off"))
        words = "string_to_array(substr(scope, 1, 11) || replace(words, ' ', ' ' || substr(scope, 1, 11)), ' ')"
        which = f"slot IS NOT NULL AND {words} @> (SELECT {words} FROM memory WHERE slot IS NOT NULL LIMIT 1)"
        plan = conn.execute(text(f"EXPLAIN SELECT id FROM memory WHERE {which}")).scalars().all()
        assert any("memory_fts_words" in line for line in plan), plan
        assert conn.execute(text(f"SELECT count(*) FROM memory WHERE {which}")).scalar_one() >= 1
        assert conn.execute(text("SELECT reltuples FROM pg_class WHERE relname = 'inbox'")).scalar_one() > 0


COUNT_VECTORS = "SELECT count(*) FROM memory_vector"


def test_without_vectors_nothing_is_said_of_them(there: Engine) -> None:
    with there.begin() as conn:
        create(conn, SCHEMA)
        assert take_in_vectors(conn) == ""


@pytest.mark.requirement("G-155")
def test_an_interrupted_copy_goes_on_in_the_middle_of_a_table(home: Path, target: str, there: Engine) -> None:
    many(home, LARGE)
    before = here(home)
    rows = len(before["channel_setting"])
    with pytest.raises(Interrupted):
        moved(home, target, Ends("channel_setting", 2))
    with there.connect() as conn:
        assert state_of(conn, SCHEMA) is State.FOREIGN, "no gateway takes it for its own"
        note = conn.execute(text(f"SELECT state, rows FROM {NOTES} WHERE name = 'channel_setting'")).one()
        assert tuple(note) == ("copying", 2 * copying.BATCH)
    ends = Ends()
    result = moved(home, target, ends)
    assert (result.finished, result.anew) == (True, False)
    assert ends.copied("channel_setting") == [rows], "the first two batches are not copied again"
    assert ends.copied("approval") == [], "nor are tables that were finished"
    assert rows_of(there) == before
    with there.connect() as conn:
        assert conn.execute(text(f"SELECT count(*) FROM {NOTES} WHERE last IS NOT NULL")).scalar_one() == 0


@pytest.mark.requirement("G-155")
def test_a_table_with_replaced_texts_begins_anew(home: Path, target: str, there: Engine) -> None:
    change(home, "DELETE FROM channel_setting")
    many(home, LARGE)
    change(home, "UPDATE channel_setting SET key = key || char(0)")
    with pytest.raises(Interrupted):
        moved(home, target, Ends("channel_setting", 1))
    ends = Ends()
    assert moved(home, target, ends).finished
    assert ends.copied("channel_setting") == [copying.BATCH, 2 * copying.BATCH, LARGE]
    with there.connect() as conn:
        assert conn.execute(text("SELECT count(*) FROM channel_setting")).scalar_one() == LARGE


@pytest.mark.requirement("G-155")
@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("UPDATE approval SET reason = 'another' WHERE rowid = 1", id="a row of a finished table"),
        pytest.param("DELETE FROM approval_rule", id="rows are gone"),
        pytest.param("UPDATE channel_setting SET value = 'off' WHERE key = 'key 3'", id="a row of the unfinished one"),
    ],
)
def test_where_the_old_database_has_changed_meanwhile_all_is_copied_anew(
    statement: str, home: Path, target: str, there: Engine
) -> None:
    many(home, LARGE)
    with pytest.raises(Interrupted):
        moved(home, target, Ends("channel_setting", 2))
    change(home, statement)
    result = moved(home, target)
    assert (result.finished, result.anew) == (True, True)
    assert rows_of(there) == here(home)


@pytest.mark.requirement("G-155")
def test_a_finished_copy_is_recognised_until_the_old_database_changes(home: Path, target: str, there: Engine) -> None:
    first = moved(home, target)
    with there.begin() as conn:
        conn.execute(text("DELETE FROM adapter_store"))  # a gateway has run with it
    again = moved(home, target)
    assert (again.finished, again.before is not None, again.steps) == (True, True, ())
    assert [one.digest for one in again.tables] == [one.digest for one in first.tables]
    with there.connect() as conn:
        assert conn.execute(text("SELECT count(*) FROM adapter_store")).scalar_one() == 0, "nothing is copied over it"
    change(home, "INSERT INTO adapter_store VALUES ('a', 'b', 'c', 1)")
    with pytest.raises(TransferRefused, match="was filled from this database before, which has changed since"):
        moved(home, target)


@pytest.mark.requirement("G-155")
@pytest.mark.parametrize(
    ("statement", "table"),
    [
        pytest.param("UPDATE session SET title = title || '.'", "session", id="a text"),
        pytest.param(
            "UPDATE message SET pinned = NOT pinned WHERE id = (SELECT min(id) FROM message)", "message", id="a boolean"
        ),
        pytest.param("DELETE FROM channel_setting WHERE key = 'key 1'", "channel_setting", id="a row less"),
        pytest.param("INSERT INTO guideline VALUES ('a', 'b', 'c', 1)", "guideline", id="a row more"),
    ],
)
def test_a_row_that_was_changed_behind_its_back_is_noticed(
    statement: str, table: str, home: Path, target: str, there: Engine
) -> None:
    many(home, 3)

    def told(doing: str, name: str, *_: object) -> None:
        if (doing, name) == ("compare", "access_grant"):  # all is copied, the first table is being compared
            with there.begin() as conn:
                conn.execute(text(statement))

    result = moved(home, target, told)
    assert not result.finished
    assert [one.name for one in result.tables if not one.equal] == [table]
    with there.connect() as conn:
        assert state_of(conn, SCHEMA) is State.FOREIGN, "no gateway starts with it"
        assert revision(conn) is None


@pytest.mark.requirement("G-155")
def test_it_refuses_while_somebody_else_uses_either_database(home: Path, target: str, there: Engine) -> None:
    lock = OwnerLock.take(home / "tieline.db.lock")
    with pytest.raises(DatabaseHeld, match=r"tieline\.db is in use by process \d+; stop that one first"):
        moved(home, target)
    lock.release()
    with there.connect() as conn:
        assert inspect(conn).get_table_names() == []
        conn.execute(text(f"SELECT pg_advisory_lock({OWNER_KEY})"))
        with pytest.raises(DatabaseHeld, match="is in use by another process; stop that one first"):
            moved(home, target)


def foreign(conn: Connection) -> None:
    conn.execute(text("CREATE TABLE invoices (id INT)"))


def ours(conn: Connection) -> None:
    create(conn, SCHEMA)


def newer(conn: Connection) -> None:
    create(conn, SCHEMA)
    conn.execute(text("UPDATE alembic_version SET version_num = '0099_future'"))


def of_another_version(conn: Connection) -> None:
    copying.progress.create(conn)
    values = {
        "name": "",
        "state": "copying",
        "revision": "0099_future",
        "rows": 0,
        "digest": "",
        "replaced": 0,
        "at": 1,
    }
    conn.execute(copying.progress.insert().values(values))


@pytest.mark.requirement("G-155")
@pytest.mark.parametrize(
    ("fill", "said"),
    [
        pytest.param(foreign, "holds tables that are not Tieline's; name an empty database", id="tables of others"),
        pytest.param(ours, "holds a database of Tieline already", id="our tables"),
        pytest.param(newer, r"holds a database of Tieline already \(revision 0099_future\)", id="newer tables"),
        pytest.param(of_another_version, "is being filled by another version of Tieline", id="another version's copy"),
    ],
)
def test_it_refuses_a_target_that_is_not_empty(fill: Any, said: str, home: Path, target: str, there: Engine) -> None:
    with there.begin() as conn:
        fill(conn)
    before = read_all(there)
    with pytest.raises(TransferRefused, match=said):
        moved(home, target)
    assert read_all(there) == before


def test_it_refuses_a_source_that_cannot_be_copied(home: Path, target: str, there: Engine, tmp_path: Path) -> None:
    for statement, error, said in (
        ("UPDATE alembic_version SET version_num = '0099_future'", SchemaTooNew, "written by a newer Tieline"),
        ("UPDATE alembic_version SET version_num = '0018_models'", Exception, "of an older Tieline"),
        ("DROP TABLE alembic_version", TransferRefused, "is no database of Tieline"),
    ):
        change(home, statement)
        with pytest.raises(error, match=said):
            moved(home, target)
    (tmp_path / "none").mkdir()
    with pytest.raises(TransferRefused, match="there is no SQLite database"):
        moved(tmp_path / "none", target)
    with pytest.raises(TransferRefused, match="--to names a file"):
        moved(home, "sqlite:///other.db")
    assert inspect(there).get_table_names() == []


def test_limits_of_the_server_that_are_meant_for_turns_do_not_hold(home: Path, target: str, there: Engine) -> None:
    with there.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        for limit in ("statement_timeout", "idle_in_transaction_session_timeout"):
            conn.execute(text(f"ALTER DATABASE {make_url(target).database} SET {limit} = '300ms'"))

    def slow(conn: Connection) -> str:
        return str(conn.execute(text("SELECT pg_sleep(0.5)")).scalar_one())

    url = make_url(target).set(drivername="postgresql+psycopg")
    assert copying.transfer(home / "tieline.db", url, schema=SCHEMA, at=1, told=nothing, after=[slow]).finished


def test_a_target_that_cannot_hold_all_texts_is_refused(home: Path, target: str, there: Engine) -> None:
    name = f"{make_url(target).database}_ascii"
    with there.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        conn.execute(text(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'"))
        try:
            with pytest.raises(TransferRefused, match=r"has the encoding SQL_ASCII, .* --encoding=UTF8"):
                moved(home, make_url(target).set(database=name).render_as_string(hide_password=False))
        finally:
            conn.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))


def test_rows_that_refer_to_none_are_refused_before_anything_is_written(home: Path, target: str, there: Engine) -> None:
    change(home, "UPDATE message SET session_id = 'gone' WHERE id = (SELECT min(id) FROM message)")
    with pytest.raises(
        TransferRefused, match=r"1 rows of .* refer to rows that are not there.*message \d+, to session"
    ):
        moved(home, target)
    assert inspect(there).get_table_names() == []


def test_a_value_of_the_wrong_type_is_named_and_the_copy_goes_on_once_it_is_mended(home: Path, target: str) -> None:
    change(home, "INSERT INTO guideline VALUES ('telegram:1', '', X'00', 1)")
    with pytest.raises(TransferRefused, match=r"guideline\.body holds a bytes .* conv = 'telegram:1'"):
        moved(home, target)
    change(home, "DELETE FROM guideline WHERE conv = 'telegram:1'")
    assert moved(home, target).finished


def test_a_damaged_file_is_told(home: Path, target: str) -> None:
    file = home / "tieline.db"
    with file.open("r+b") as opened:
        for place in range(40_960, file.stat().st_size, 8_192):
            opened.seek(place)
            opened.write(b"\xff" * 4_096)
    with pytest.raises(DatabaseDamaged, match="is damaged"):
        moved(home, target)


def test_tables_of_others_in_the_old_database_are_named(home: Path, target: str) -> None:
    change(home, "CREATE TABLE mine (id INT)")
    assert moved(home, target).left_out == ("mine",)


def test_a_server_that_does_not_answer_is_told_without_the_password(home: Path) -> None:
    with pytest.raises(TransferRefused) as told:
        moved(home, "postgresql://anna:hidden@127.0.0.1:1/x?password=hidden")
    assert str(told.value).startswith("postgresql://anna@127.0.0.1:1/x: ")
    assert "hidden" not in str(told.value)
    assert address_of(make_url("postgresql+psycopg://a:b@h/x?password=b&sslmode=require")) == (
        "postgresql://a@h/x?sslmode=require"
    )


def test_the_file_is_that_of_the_configuration_or_the_usual_one(tmp_path: Path) -> None:
    assert sqlite_of("sqlite:///other.db", tmp_path) == tmp_path / "other.db"
    assert sqlite_of("postgresql://h/x", tmp_path) == tmp_path / "tieline.db"


def test_a_step_after_the_copy_that_fails_leaves_the_target_closed_and_is_done_again(
    home: Path, target: str, there: Engine
) -> None:
    done: list[str] = []

    def step(conn: Connection) -> str:
        done.append(str(conn.execute(text("SELECT count(*) FROM inbox")).scalar_one()))
        if len(done) == 1:
            raise Interrupted
        conn.execute(text("DELETE FROM adapter_store"))  # what a step writes is not compared with the old rows again
        return "done"

    def go() -> Transferred:
        url = make_url(target).set(drivername="postgresql+psycopg")
        steps = (*AFTER_COPY, step)
        return copying.transfer(home / "tieline.db", url, schema=SCHEMA, at=1, told=nothing, after=steps)

    with pytest.raises(Interrupted):
        go()
    with there.connect() as conn:
        assert state_of(conn, SCHEMA) is State.FOREIGN
    result = go()
    assert (result.finished, result.steps[-1], len(done)) == (True, "done", 2)
    assert revision_of(there) == SCHEMA.head


def test_rows_of_many_bytes_go_in_small_batches(home: Path, target: str) -> None:
    change(home, "DELETE FROM guideline")
    with sqlite_engine(home / "tieline.db").begin() as conn:
        for number in range(6):
            body = "x" * (copying.BATCH_BYTES // 2)
            conn.exec_driver_sql("INSERT INTO guideline VALUES (?, '', ?, 1)", (f"telegram:{number}", body))
    ends = Ends()
    assert moved(home, target, ends).finished
    assert ends.copied("guideline") == [2, 4, 6]
