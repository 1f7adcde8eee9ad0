"""Statements handed to the driver: the same results, transactions and errors as through SQLAlchemy."""

import pytest
from sqlalchemy import Connection, bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from agent.core.ids import ConversationId
from agent.storage.database import Database, attempted
from agent.storage.statements import CompiledStatement, or_ignore
from agent.storage.tables import conversation

KEY = ConversationId("telegram:1")


def statements() -> tuple[CompiledStatement, CompiledStatement, CompiledStatement, CompiledStatement]:
    key = conversation.c.key == bindparam("which")
    return (
        CompiledStatement(insert(conversation)),
        CompiledStatement(or_ignore(insert(conversation)).returning(conversation.c.key)),
        CompiledStatement(
            update(conversation).where(key, conversation.c.state == "open").values(epoch=conversation.c.epoch + 1)
        ),
        CompiledStatement(select(conversation.c.epoch).where(key)),
    )


async def test_values_constants_and_counts_arrive(database: Database) -> None:
    add, add_once, grow, epoch = statements()

    def work(conn: Connection) -> list[object]:
        row = {"key": KEY, "created_at": 1}
        assert epoch.scalar(conn, {"which": KEY}) is None
        add.run(conn, row)
        return [
            add_once.scalar(conn, row),
            add_once.scalar(conn, {"key": "telegram:2", "created_at": 1}),
            grow.run(conn, {"which": KEY}),
            grow.run(conn, {"which": "telegram:3"}),
            epoch.scalar(conn, {"which": KEY}),
        ]

    assert await database.write(work) == [None, "telegram:2", 1, 0, 1]
    assert await database.read(lambda conn: epoch.scalar(conn, {"which": KEY})) == 1


async def test_rows_name_their_columns(database: Database) -> None:
    add, _, _, _ = statements()
    both = CompiledStatement(select(conversation.c.key, conversation.c.epoch).order_by(conversation.c.key.desc()))

    def work(conn: Connection) -> list[object]:
        assert list(both.rows(conn, {})) == []
        for key in ("telegram:1", "telegram:2"):
            add.run(conn, {"key": key, "created_at": 1})
        (second, first) = both.rows(conn, {})
        assert tuple(second) == ("telegram:2", 0)
        return [first.key, first.epoch]

    assert await database.write(work) == ["telegram:1", 0]


async def test_it_is_part_of_the_transaction_and_fails_as_sqlalchemy_does(database: Database) -> None:
    add, _, _, epoch = statements()

    def twice(conn: Connection) -> None:
        add.run(conn, {"key": KEY, "created_at": 1})
        add.run(conn, {"key": KEY, "created_at": 2})

    with pytest.raises(IntegrityError) as caught:
        await database.write(twice)
    assert "telegram:1" not in str(caught.value.statement)
    assert await database.read(lambda conn: epoch.scalar(conn, {"which": KEY})) is None


async def test_one_statement_is_done_with_each_of_many_rows_or_with_none(database: Database) -> None:
    add, _, _, epoch = statements()
    rows = [{"key": f"telegram:{number}", "created_at": 1} for number in range(3)]
    await database.write(lambda conn: add.run_each(conn, rows))
    await database.write(lambda conn: add.run_each(conn, []))
    with pytest.raises(IntegrityError):
        await database.write(lambda conn: add.run_each(conn, [{"key": "telegram:9", "created_at": 1}, *rows]))

    def epochs(conn: Connection) -> list[object]:
        return [epoch.scalar(conn, {"which": key}) for key in ("telegram:0", "telegram:2", "telegram:9")]

    assert await database.read(epochs) == [0, 0, None]


async def test_what_is_attempted_may_fail_alone(database: Database) -> None:
    add, add_once, _, epoch = statements()

    def work(conn: Connection) -> None:
        add.run(conn, {"key": "telegram:1", "created_at": 1})
        with pytest.raises(IntegrityError), attempted(conn):
            add.run(conn, {"key": "telegram:1", "created_at": 1})
        with attempted(conn):
            add_once.run(conn, {"key": "telegram:2", "created_at": 1})

    await database.write(work)
    found = await database.read(lambda conn: [epoch.scalar(conn, {"which": f"telegram:{n}"}) for n in (1, 2)])
    assert found == [0, 0]
