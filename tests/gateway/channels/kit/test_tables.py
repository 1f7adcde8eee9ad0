"""Tables where a platform has none: aligned, or a list of fields; nothing of them is lost."""

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.channels.document import Block, Bold, Break, Code, Inline, Link, List, Paragraph, Table, Text
from gateway.channels.kit.tables import cell_text, display_width, fields, monospace, monospace_within, words

URL = "https://example.org/a"


def row(*cells: str) -> tuple[tuple[Inline, ...], ...]:
    return tuple((Text(cell),) if cell else () for cell in cells)


SMALL = Table(row("name", "wert"), (row("größe", "1"), row("日本", "22")), ("left", "right"))


def test_columns_are_aligned_for_wide_characters() -> None:
    assert monospace(SMALL).split("\n") == ["name  | wert", "------|-----", "größe |    1", "日本  |   22"]


def test_a_joined_emoji_takes_one_place() -> None:
    table = Table(row("n", "数"), (((Bold((Text("日本"),)),), (Text("👍🏽 ok"),)),), ("left", "right"))
    lines = monospace(table).split("\n")
    assert {display_width(line) for line in lines} == {display_width(lines[0])}


def test_centred_cells_and_rows_that_are_too_short() -> None:
    table = Table(row("a", "total"), (row("x"), row("y", "1")), ("left", "center"))
    assert monospace(table).split("\n") == ["a | total", "--|------", "x |", "y |   1"]


def test_a_cell_is_one_line_and_keeps_the_address_of_its_link() -> None:
    assert cell_text((Text("a\nb"), Break(), Code("c"), Link(URL, (Bold((Text("x"),)),)))) == f"a b cx ({URL})"
    assert words((Text("a\nb"), Break(), Code("c"), Link(URL, (Bold((Text("x"),)),)))) == "a b cx"
    assert cell_text((Link(URL, (Text(URL),)),)) == URL


@pytest.mark.parametrize(("columns", "fits"), [(12, True), (11, False)])
def test_a_table_fits_or_not(columns: int, fits: bool) -> None:
    assert (monospace_within(SMALL, columns) is not None) is fits


def test_links_are_not_hidden_in_code() -> None:
    linked = Table(row("name"), (((Bold((Link(URL, (Text("x"),)),)),),),), ())
    assert monospace_within(linked, 1000) is None


def test_fields_name_each_value() -> None:
    shown = fields(Table(row("name", ""), (row("one", "two"), row("", "x", "more")), ()))
    assert isinstance(shown, List)
    first, second = (item.blocks[0] for item in shown.items)
    assert first == Paragraph((Bold((Text("name"),)), Text(": "), Text("one"), Break(), Text("two")))
    assert second == Paragraph(
        (Bold((Text("name"),)), Text(": "), Text("–"), Break(), Text("x"), Break(), Text("more"))
    )


def test_a_table_without_rows_shows_its_header() -> None:
    assert fields(Table(row("a", "b"), (), ())) == Paragraph((Text("a"), Text(" · "), Text("b")))


def test_width_of_letters() -> None:
    assert [display_width(text) for text in ("abc", "日本", "e\u0301", "👩‍👩‍👧", "👍🏽")] == [3, 4, 1, 2, 2]


def _texts(block: Block) -> Iterator[str]:
    match block:
        case List(items):
            for item in items:
                for inner in item.blocks:
                    yield from _texts(inner)
        case Paragraph(children):
            yield cell_text(children)
        case _:
            raise AssertionError(block)


cells = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zs", "Zl", "Zp"]), min_size=1, max_size=9)


@given(st.lists(st.lists(cells, min_size=1, max_size=4), min_size=2, max_size=5))
def test_no_cell_is_lost(rows: Sequence[Sequence[str]]) -> None:
    header, *more = (row(*cells) for cells in rows)
    table = Table(header, tuple(more), ())
    aligned, listed = monospace(table), "\n".join(_texts(fields(table)))
    assert all(cell in aligned for cells in rows for cell in cells)
    assert all(cell in listed for cells in rows[1:] for cell in cells)
