"""A table for a platform without tables: aligned columns for a code block, or a list of fields. Pure."""

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


def aligned(table: Table, columns: int) -> str | None:
    """Header, a line of dashes, rows; None when it is wider than `columns` or holds links, which code would hide."""
    cells = [*table.header, *(cell for row in table.rows for cell in row)]
    if any(_has_link(cell) for cell in cells):
        return None
    rows = [[flat(cell) for cell in row] for row in (table.header, *table.rows)]
    count = max((len(row) for row in rows), default=0)
    for row in rows:
        row.extend([""] * (count - len(row)))
    widths = [max(1, *(display_width(row[column]) for row in rows)) for column in range(count)]
    if sum(widths) + 3 * (count - 1) > columns:
        return None
    aligns = [*table.aligns, *(["none"] * count)]
    lines = [
        " | ".join(_padded(row[column], widths[column], aligns[column]) for column in range(count)).rstrip()
        for row in rows
    ]
    lines.insert(1, "-|-".join("-" * width for width in widths))
    return "\n".join(lines)


def fields(table: Table) -> Block:
    """One item a row, one line a field: `**Header**: value`."""
    if not table.rows:
        return Paragraph(tuple(_joined(table.header)))
    return List(tuple(Item((Paragraph(_lines(table.header, row)),)) for row in table.rows))


def _lines(header: Sequence[tuple[Inline, ...]], row: Sequence[tuple[Inline, ...]]) -> tuple[Inline, ...]:
    line: list[Inline] = []
    for number, cell in enumerate(row):
        if line:
            line.append(Break())
        name = flat(header[number]) if number < len(header) else ""
        if name:
            line += [Bold((Text(name),)), Text(": ")]
        line += cell or (Text("–"),)
    return tuple(line) or (Text("–"),)


def _joined(cells: Sequence[tuple[Inline, ...]]) -> list[Inline]:
    line: list[Inline] = []
    for cell in cells:
        line += [Text(" · "), *cell] if line else cell
    return line


def flat(inlines: Sequence[Inline]) -> str:
    """What a cell says, on one line and without markup."""
    return "".join(_flat(inline) for inline in inlines)


def _flat(inline: Inline) -> str:
    match inline:
        case Text(text) | Code(text):
            return " ".join(text.split("\n"))
        case Break():
            return " "
        case _:
            return flat(inline.children)


def _has_link(inlines: Sequence[Inline]) -> bool:
    return any(
        isinstance(inline, Link) or (not isinstance(inline, Text | Code | Break) and _has_link(inline.children))
        for inline in inlines
    )


def display_width(text: str) -> int:
    """Columns in a monospace font: wide characters take two, combining and invisible ones none."""
    if text.isascii():
        return len(text)
    width, previous = 0, ""
    for character in text:
        joined = previous == JOINER or "\U0001f3fb" <= character <= "\U0001f3ff"
        if not joined and unicodedata.category(character) not in ("Mn", "Me", "Cf", "Cc"):
            width += 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
        previous = character
    return width


def _padded(text: str, width: int, align: Align | str) -> str:
    room = width - display_width(text)
    if align == "right":
        return " " * room + text
    if align == "center":
        return " " * (room // 2) + text + " " * (room - room // 2)
    return text + " " * room
