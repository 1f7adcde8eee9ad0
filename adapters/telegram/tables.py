"""A table as aligned monospace text, for messages that know no tables. Pure."""

import unicodedata
from collections.abc import Sequence

from gateway.channels.document import Align, Break, Code, Inline, Link, Table, Text

JOINER = "\u200d"  # glues emoji into one


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


def cell_text(inlines: Sequence[Inline]) -> str:
    """What a cell says, on one line and without markup."""
    return "".join(_inline_text(inline) for inline in inlines)


def display_width(text: str) -> int:
    """Columns in a monospace font: wide characters take two, combining and invisible ones none."""
    if text.isascii():
        return len(text)
    width, previous = 0, ""
    for character in text:
        category = unicodedata.category(character)
        if category in ("Mn", "Me", "Cf", "Cc") or previous == JOINER or "\U0001f3fb" <= character <= "\U0001f3ff":
            previous = character  # an accent, a joined emoji, a skin tone
            continue
        width += 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
        previous = character
    return width


def _inline_text(inline: Inline) -> str:
    match inline:
        case Text(text) | Code(text):
            return " ".join(text.split("\n"))
        case Break():
            return " "
        case Link(url, children):
            label = cell_text(children)
            return label if label == url else f"{label} ({url})".lstrip()
        case _:
            return cell_text(inline.children)


def _padded(text: str, width: int, align: Align | str) -> str:
    room = width - display_width(text)
    if align == "right":
        return " " * room + text
    if align == "center":
        return " " * (room // 2) + text + " " * (room - room // 2)
    return text + " " * room
