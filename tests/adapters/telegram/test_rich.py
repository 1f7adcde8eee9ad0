"""Rich messages: what the server makes of our HTML is the document, and they are used only where they gain."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings

from adapters.telegram import rich
from gateway.channels.document import (
    Bold,
    Break,
    Code,
    CodeBlock,
    Document,
    Heading,
    Inline,
    Italic,
    Item,
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
from tests.adapters.telegram.test_render import documents
from tests.doubles.telegram_api import parse_rich

A: tuple[Inline, ...] = (Text("a"),)
PARAGRAPH = Paragraph(A)


def read(blocks: list[dict[str, Any]]) -> Document:
    """The document that a received rich message shows."""
    return tuple(_block(block) for block in blocks)


def _block(block: dict[str, Any]) -> Any:
    match block["type"]:
        case "paragraph":
            return Paragraph(_inlines(block["text"]))
        case "heading":
            return Heading(block["size"], _inlines(block["text"]))
        case "pre":
            return CodeBlock(block["text"], block.get("language", ""))
        case "divider":
            return Rule()
        case "blockquote":
            return Quote(read(block["blocks"]))
        case "list":
            items = block["items"]
            checked = [bool(item.get("is_checked")) if item.get("has_checkbox") else None for item in items]
            inner = tuple(Item(read(item["blocks"]), box) for item, box in zip(items, checked, strict=True))
            return List(inner, items[0].get("value"))
        case "table":
            rows = [tuple(_inlines(cell["text"]) for cell in row) for row in block["cells"]]
            return Table(rows[0], tuple(rows[1:]), tuple(cell["align"] for cell in block["cells"][0]))
    raise AssertionError(block)


def _inlines(text: Any) -> tuple[Inline, ...]:
    parts = text if isinstance(text, list) else [text]
    return tuple(inline for part in parts for inline in _inline(part))


def _inline(part: Any) -> Iterator[Inline]:
    if isinstance(part, str):
        for number, line in enumerate(part.split("\n")):
            if number:
                yield Break()
            if line:
                yield Text(line)
        return
    inner = _inlines(part["text"])
    match part["type"]:
        case "bold":
            yield Bold(inner)
        case "italic":
            yield Italic(inner)
        case "strikethrough":
            yield Strike(inner)
        case "code":
            yield Code(part["text"])
        case "url":
            yield Link(part["url"], inner)


def merged(document: Document) -> Document:
    """Texts in a row are one text; whether a list is tight is not kept."""
    return tuple(_merged_block(block) for block in document)


def _merged_block(block: Any) -> Any:
    match block:
        case Paragraph(children):
            return Paragraph(_merge(children))
        case Heading(level, children):
            return Heading(level, _merge(children))
        case Quote(inner):
            return Quote(merged(inner))
        case List(items, start):
            return List(tuple(Item(merged(item.blocks), item.checked) for item in items), start)
        case Table(header, rows, aligns):
            return Table(tuple(map(_merge, header)), tuple(tuple(map(_merge, row)) for row in rows), aligns)
    return block


def _merge(children: Any) -> Any:
    out: list[Any] = []
    for child in children:
        match child:
            case Bold(inner) | Italic(inner) | Strike(inner):
                out.append(type(child)(_merge(inner)))
            case Link(url, inner):
                out.append(Link(url, _merge(inner)))
            case Text(text) if out and isinstance(out[-1], Text):
                out[-1] = Text(out[-1].text + text)
            case _:
                out.append(child)
    return tuple(out)


@settings(max_examples=100, deadline=None)
@given(documents)
def test_the_server_reads_the_document(document: Document) -> None:
    assert merged(read(parse_rich({"html": rich.html(document)}))) == merged(document)


def test_an_address_that_nobody_can_open_is_shown() -> None:
    link = Paragraph((Link("docs/a.md", (Text("guide"),)), Text(", "), Link("docs/b.md", ())))
    assert rich.html((link,)) == "<p>guide (docs/a.md), docs/b.md</p>"


@pytest.mark.parametrize(
    ("document", "gains"),
    [
        pytest.param((PARAGRAPH,), False, id="styled text loses nothing as text"),
        pytest.param((CodeBlock("x", "py"), Quote((PARAGRAPH,))), False, id="nor do code and a quote"),
        pytest.param((Heading(1, A),), True, id="a heading"),
        pytest.param((List((Item((PARAGRAPH,)),)),), True, id="a list"),
        pytest.param((Table((A,), ((A,),), ("none",)),), True, id="a table"),
        pytest.param((Rule(),), True, id="a rule"),
        pytest.param((Quote((Quote((PARAGRAPH,)),)),), True, id="a quote in a quote"),
        pytest.param((Heading(1, A), Plain("  x")), False, id="what must arrive byte for byte goes as text"),
    ],
)
def test_gains(document: Document, gains: bool) -> None:
    assert rich.gains(document) is gains


def nested(levels: int) -> Document:
    document: Document = (PARAGRAPH,)
    for _ in range(levels):
        document = (Quote(document),)
    return document


@pytest.mark.parametrize(
    ("document", "fits"),
    [
        pytest.param((Table((A,) * 20, (), ("none",) * 20),), True, id="20 columns"),
        pytest.param((Table((A,) * 21, (), ("none",) * 21),), False, id="21 columns"),
        pytest.param((Quote((Table((A,) * 21, (), ("none",) * 21),)),), False, id="21 columns, hidden in a quote"),
        pytest.param(tuple([PARAGRAPH] * 500), True, id="500 blocks"),
        pytest.param((*[PARAGRAPH] * 499, List((Item((PARAGRAPH,)),))), False, id="more with the item of a list"),
        pytest.param(nested(15), True, id="16 levels"),
        pytest.param(nested(16), False, id="17 levels"),
        pytest.param((Paragraph((Text("x" * 33_000),)),), False, id="too many characters"),
    ],
)
def test_fits(document: Document, fits: bool) -> None:
    assert rich.fits(document) is fits
    if fits:
        parse_rich({"html": rich.html(document)})


def test_an_address_cannot_end_its_attribute() -> None:
    url = 'https://example.org/?a="onclick&b=1'
    (shown,) = read(parse_rich({"html": rich.html((Paragraph((Link(url, (Text("here"),)),)),))}))
    assert shown == Paragraph((Link(url, (Text("here"),)),))
