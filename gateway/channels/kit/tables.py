"""A table for a platform without tables: aligned columns in a monospace font, or a list of fields. Pure."""

import unicodedata
from collections.abc import Sequence

from gateway.channels.document import (
    Align,
    Block,
    Bold,
    Break,
    Code,
    Inline,
    Item,
    Link,
    List,
    Paragraph,
    Table,
    Text,
)

JOINER = "\u200d"  # glues emoji into one

Cell = Sequence[Inline]


def monospace(table: Table) -> str:
    """Header, a line of dashes, rows; a link keeps its address in brackets."""
    rows = [[cell_text(cell) for cell in row] for row in (table.header, *table.rows)]
    columns = max((len(row) for row in rows), default=0)
    for row in rows:
        row.extend([""] * (columns - len(row)))
    widths = [max(1, *(display_width(row[column]) for row in rows)) for column in range(columns)]
    aligns = [*table.aligns, *(["none"] * columns)]
    lines = [
        " | ".join(_padded(row[column], widths[column], aligns[column]) for column in range(columns)).rstrip()
        for row in rows
    ]
    lines.insert(1, "-|-".join("-" * width for width in widths))
    return "\n".join(lines)


def monospace_within(table: Table, columns: int) -> str | None:
    """The same; None when it is wider than `columns` or holds links, which code would hide: then show its `fields`."""
    if any(_has_link(cell) for row in (table.header, *table.rows) for cell in row):
        return None
    shown = monospace(table)
    # The line of dashes is as wide as the table.
    return shown if len(shown.split("\n", 2)[1]) <= columns else None


def fields(table: Table) -> Block:
    """One item a row, one line a field: `**Header**: value`."""
    if not table.rows:
        return Paragraph(tuple(_joined(table.header)))
    return List(tuple(Item((Paragraph(_lines(table.header, row)),)) for row in table.rows))


def cell_text(cell: Cell) -> str:
    """The text of a cell, on one line and without markup; a link keeps its address in brackets."""
    return "".join(_text(inline, with_addresses=True) for inline in cell)


def words(cell: Cell) -> str:
    """The same without addresses."""
    return "".join(_text(inline, with_addresses=False) for inline in cell)


def display_width(text: str) -> int:
    """Columns in a monospace font: wide characters take two, combining and invisible ones none."""
    if text.isascii():
        return len(text)
    width, previous = 0, ""
    for character in text:
        joined = previous == JOINER or "\U0001f3fb" <= character <= "\U0001f3ff"  # an emoji of several, a skin tone
        if not joined and unicodedata.category(character) not in ("Mn", "Me", "Cf", "Cc"):
            width += 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
        previous = character
    return width


def _text(inline: Inline, *, with_addresses: bool) -> str:
    match inline:
        case Text(text) | Code(text):
            return " ".join(text.split("\n"))
        case Break():
            return " "
        case Link(url, children) if with_addresses:
            label = cell_text(children)
            return label if label == url else f"{label} ({url})".lstrip()
        case _:
            return "".join(_text(child, with_addresses=with_addresses) for child in inline.children)


def _padded(text: str, width: int, align: Align | str) -> str:
    room = width - display_width(text)
    if align == "right":
        return " " * room + text
    if align == "center":
        return " " * (room // 2) + text + " " * (room - room // 2)
    return text + " " * room


def _lines(header: Sequence[Cell], row: Sequence[Cell]) -> tuple[Inline, ...]:
    line: list[Inline] = []
    for number, cell in enumerate(row):
        if line:
            line.append(Break())
        name = cell_text(header[number]) if number < len(header) else ""
        if name:
            line += [Bold((Text(name),)), Text(": ")]
        line += cell or (Text("–"),)
    return tuple(line) or (Text("–"),)


def _joined(cells: Sequence[Cell]) -> list[Inline]:
    line: list[Inline] = []
    for cell in cells:
        line += [Text(" · "), *cell] if line else cell
    return line


def _has_link(cell: Cell) -> bool:
    return any(
        isinstance(inline, Link) or (not isinstance(inline, Text | Code | Break) and _has_link(inline.children))
        for inline in cell
    )
