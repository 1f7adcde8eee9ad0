"""Reads what Telegram shows back into structure: letter by letter, where each stands and how it is set.

`intended` gives the same for a document, less what Telegram cannot show: a heading is bold, code takes no style, a link
keeps no code, a table's cells no markup, a quote inside a quote is marked by "> ", code in a list stands at the margin.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from adapters.telegram.render import index_at
from gateway.channels.document import (
    Bold,
    Break,
    Code,
    CodeBlock,
    Document,
    Heading,
    Inline,
    Italic,
    Link,
    List,
    Paragraph,
    Plain,
    Quote,
    Rule,
    Strike,
    Table,
    Text,
)
from gateway.channels.kit.tables import cell_text, display_width

Place = tuple[object, ...]
RULE = re.compile("─{10}")
MARKER = re.compile(r"(?:(?P<bullet>[•◦▪])|(?P<number>\d+)\.(?: (?P<numbered_box>[☐☑]))?|(?P<box>[☐☑])) ")


@dataclass(frozen=True, slots=True)
class Letter:
    """`place` leads from the outside in; `style` holds names of styles and the address of a link."""

    place: Place
    style: frozenset[str]
    letter: str


# -- what was meant


def intended(document: Document, place: Place = ()) -> Iterator[Letter]:
    for block in document:
        match block:
            case Plain(text):
                yield from _plain(text, place)
            case Paragraph(children):
                yield from _meant(children, place, frozenset())
            case Heading(_, children):
                yield from _meant(children, place, frozenset({"bold"}))
            case CodeBlock(code, language):
                yield from (Letter((*_quote(place), "code", language), frozenset(), letter) for letter in code)
            case Quote(blocks):
                yield from intended(blocks, place if "quote" in place else (*place, "quote"))
            case List(items, start):
                for number, item in enumerate(items, start=start or 0):
                    name = "bullet" if start is None else number
                    inner = item.blocks
                    yield from intended(inner, (*place, name, item.checked))
            case Table(header, rows, _):
                for row_number, row in enumerate((header, *rows)):
                    for column, cell in enumerate(row):
                        yield from _plain(cell_text(cell), (*place, "cell", row_number, column))
            case Rule():
                yield Letter(place, frozenset({"rule"}), "-")


def _meant(inlines: Sequence[Inline], place: Place, style: frozenset[str]) -> Iterator[Letter]:
    for inline in inlines:
        match inline:
            case Text(text):
                yield from _plain(text, place, style)
            case Break():
                pass
            case Code(text):
                in_link = any("://" in name for name in style)
                yield from _plain(text, place, style if in_link else frozenset({"code"}))
            case Bold(children):
                yield from _meant(children, place, style | {"bold"})
            case Italic(children):
                yield from _meant(children, place, style | {"italic"})
            case Strike(children):
                yield from _meant(children, place, style | {"strikethrough"})
            case Link(url, children):
                yield from _meant(children, place, style | {url})


def _quote(place: Place) -> Place:
    return tuple(part for part in place if part == "quote")


def _plain(text: str, place: Place, style: frozenset[str] = frozenset()) -> Iterator[Letter]:
    return (Letter(place, style, letter) for letter in text if not letter.isspace())


# -- what is shown


def shown(text: str, entities: Sequence[dict[str, Any]]) -> Iterator[Letter]:
    """Raises AssertionError for entities that Telegram does not take."""
    spans = [(*_range(text, entity), entity) for entity in entities]
    _legal(spans)
    styles = [set[str]() for _ in text]
    blocks: list[tuple[int, int, dict[str, Any]]] = []
    quoted = [False] * len(text)
    for start, end, entity in spans:
        if entity["type"] == "pre":
            blocks.append((start, end, entity))
        for index in range(start, end):
            if entity["type"] == "blockquote":
                quoted[index] = True
            elif entity["type"] != "pre":
                styles[index].add(str(entity.get("url", entity["type"])))
    yield from _lines(text, styles, quoted, sorted(blocks, key=lambda block: block[0]))


def _lines(
    text: str, styles: list[set[str]], quoted: list[bool], blocks: list[tuple[int, int, dict[str, Any]]]
) -> Iterator[Letter]:
    at = 0
    items: list[tuple[int, object, bool | None]] = []  # column where its text stands, name, checked
    while at < len(text):
        quote: Place = ("quote",) if quoted[at] else ()
        if blocks and blocks[0][0] == at:
            start, end, entity = blocks.pop(0)
            yield from _block(text[start:end], entity, quote)
            at = end + 1
            continue
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        line = text[at:end]
        if not line.strip():
            at = end + 1
            continue
        column = len(line) - len(line.lstrip(" "))
        while items and items[-1][0] > column:
            items.pop()
        while marker := MARKER.match(line, column):
            box = marker["numbered_box"] or marker["box"]
            name = int(marker["number"]) if marker["number"] else "bullet"
            items.append((marker.end(), name, None if box is None else box == "☑"))
            column = marker.end()
        place = (*quote, *_path(items))
        if RULE.fullmatch(line[column:]):
            yield Letter(place, frozenset({"rule"}), "-")
        else:
            for index in range(at + column, end):
                if not text[index].isspace():
                    yield Letter(place, frozenset(styles[index]), text[index])
        at = end + 1


def _path(items: Sequence[tuple[int, object, bool | None]]) -> Place:
    return tuple(part for _, name, checked in items for part in (name, checked))


def _block(text: str, entity: dict[str, Any], place: Place) -> Iterator[Letter]:
    lines = text.split("\n")
    if "language" not in entity and len(lines) > 1 and re.fullmatch(r"-+(\|-+)*", lines[1].replace("-|-", "-|-")):
        edges = [0]
        for dashes in lines[1].split("-|-"):
            edges.append(edges[-1] + len(dashes) + 3)
        for row, line in enumerate((lines[0], *lines[2:])):
            for column, (left, right) in enumerate(pairwise(edges)):
                yield from _plain(_columns(line, left, right - 3), (*place, "cell", row, column))
        return
    yield from (Letter((*place, "code", entity.get("language", "")), frozenset(), letter) for letter in text)


def _columns(line: str, left: int, right: int) -> str:
    """The separator between two columns of a monospace line."""
    found = ""
    for index, letter in enumerate(line):
        before, after = display_width(line[:index]), display_width(line[: index + 1])
        joined = after == before and before > left  # an accent, a joined emoji
        if left <= before and after <= right and (before < right or joined):
            found += letter
    return found


def _range(text: str, entity: dict[str, Any]) -> tuple[int, int]:
    start, end = index_at(text, entity["offset"]), index_at(text, entity["offset"] + entity["length"])
    assert entity["offset"] >= 0
    assert entity["length"] > 0
    assert len(text[:start].encode("utf-16-le")) // 2 == entity["offset"], "an entity begins inside a character"
    return start, end


def _legal(spans: list[tuple[int, int, dict[str, Any]]]) -> None:
    """Bot API, "Formatting options": nested or apart; code and pre alone; links only with styles; quotes not nested."""
    styles = {"bold", "italic", "strikethrough"}
    for number, (start, end, one) in enumerate(spans):
        for other_start, other_end, other in spans[number + 1 :]:
            if other_start >= end or start >= other_end:
                continue
            nested = (start <= other_start and other_end <= end) or (other_start <= start and end <= other_end)
            assert nested, f"crossed: {one} {other}"
            kinds = {str(one["type"]), str(other["type"])}
            assert one["type"] != other["type"], f"twice: {one} {other}"
            if "blockquote" not in kinds:
                assert not kinds & {"code", "pre"}, f"in code: {one} {other}"
                assert kinds & styles, f"both stand alone: {one} {other}"
