"""Rows as both databases hold them: each type is converted, a value that fits none is named, a digest notices all."""

import sqlite3
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import BigInteger, Boolean, Column, Float, Integer, LargeBinary, MetaData, Table, Text

from agent.storage.copies.canonical_rows import Converter, Digest, Texts, types_of
from agent.storage.errors import TransferRefused
from agent.storage.tables import Id

THINGS = Table(
    "things",
    MetaData(),
    Column("id", Id, primary_key=True),
    Column("yes", Boolean),
    Column("at", BigInteger),
    Column("few", Integer),
    Column("share", Float),
    Column("vector", LargeBinary),
    Column("said", Text),
)
WHOLE = (7, 1, 1_795_983_535_359_290, -3, 0.1, b"\x00\xff", "{}")


def test_each_type_becomes_that_of_postgresql() -> None:
    row = Converter(THINGS)(WHOLE)
    assert row == (7, True, 1_795_983_535_359_290, -3, 0.1, b"\x00\xff", "{}")
    assert [type(value) for value in row] == [int, bool, int, int, float, bytes, str]
    assert types_of(THINGS) == ["int8", "bool", "int8", "int4", "float8", "bytea", "text"]


def test_nothing_stays_nothing_and_a_whole_number_of_a_float_becomes_one() -> None:
    assert Converter(THINGS)((7, *[None] * 6)) == (7, *[None] * 6)
    (share,) = Converter(THINGS)((7, None, None, None, 2, None, None))[4:5]
    assert (share, type(share)) == (2.0, float)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        pytest.param("yes", 2, id="a boolean is 0 or 1"),
        pytest.param("yes", "t", id="a boolean is no text"),
        pytest.param("at", "soon", id="a moment is a number"),
        pytest.param("at", 1.5, id="a moment has no fraction"),
        pytest.param("few", 2**31, id="an integer has 32 bits"),
        pytest.param("share", "much", id="a float is no text"),
        pytest.param("vector", "text", id="bytes are no text"),
        pytest.param("said", b"bytes", id="a text is no bytes"),
    ],
)
def test_a_value_that_its_column_cannot_hold_is_named_with_its_row(column: str, value: Any) -> None:
    row: list[Any] = list(WHOLE)
    row[[one.name for one in THINGS.columns].index(column)] = value
    with pytest.raises(TransferRefused, match=rf"things\.{column} holds .* in the row id = 7; correct that row"):
        Converter(THINGS)(row)


def test_texts_that_postgresql_cannot_hold_are_replaced_and_counted() -> None:
    texts = Texts()
    with closing(sqlite3.connect(":memory:")) as opened:
        opened.text_factory = texts
        statement = (
            "SELECT 'a' || char(0) || 'b' || char(0), CAST(X'61FF62' AS TEXT), CAST(X'00FF' AS TEXT), 'Grüße 👋'"
        )
        row = opened.execute(statement).fetchone()
    assert row == ("a\ufffdb\ufffd", "a\ufffdb", "\ufffd\ufffd", "Grüße 👋")
    assert texts.replaced == 3


def digest(*rows: tuple[Any, ...]) -> Digest:
    found = Digest()
    for row in rows:
        found.add(row)
    return found


def test_a_digest_is_equal_for_equal_rows_in_any_order_and_goes_on_from_its_text() -> None:
    rows = [(1, "a", None), (2, "ü\n", 0.1), (3, "", b"\x00")]
    whole = digest(*rows)
    assert digest(*reversed(rows)) == whole
    half = digest(*rows[:2])
    rest = Digest(half.rows, half.text)
    rest.add(rows[2])
    assert (rest, rest.text, rest.rows) == (whole, whole.text, 3)


@pytest.mark.parametrize(
    "other",
    [(1, "A", None), (1, "a", ""), (1, "a", 0), (1, "a "), (True, "a", None), (1.0, "a", None), (1, b"a", None)],
    ids=["a letter", "an empty text", "a zero", "a column", "a boolean", "a float", "bytes"],
)
def test_a_digest_notices_any_difference(other: tuple[Any, ...]) -> None:
    assert digest((1, "a", None)) != digest(other)
    assert digest((1, "a", None)) != digest((1, "a", None), (2, "a", None))
