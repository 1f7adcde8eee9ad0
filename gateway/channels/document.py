"""A document of blocks and inlines: the result of a Markdown parse, and the input of every renderer. Pure data."""

from dataclasses import dataclass
from typing import Literal, assert_never

Align = Literal["left", "center", "right", "none"]


@dataclass(frozen=True, slots=True)
class Text:
    """`note` is the number of the footnote whose sign this is, in the text or before the words of it; 0: no sign."""

    text: str
    note: int = 0


@dataclass(frozen=True, slots=True)
class Bold:
    children: tuple["Inline", ...]


@dataclass(frozen=True, slots=True)
class Italic:
    children: tuple["Inline", ...]


@dataclass(frozen=True, slots=True)
class Strike:
    children: tuple["Inline", ...]


@dataclass(frozen=True, slots=True)
class Code:
    """`formula`: LaTeX with its signs around it, which is shown as code where nothing sets formulas."""

    text: str
    formula: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """Also a picture, which no chat shows inline: then `children` hold its alternative text."""

    url: str
    children: tuple["Inline", ...]


@dataclass(frozen=True, slots=True)
class Break:
    """A line ending inside a paragraph, hard or soft: chats show both as one."""


Inline = Text | Bold | Italic | Strike | Code | Link | Break


@dataclass(frozen=True, slots=True)
class Plain:
    """Text without any markup, to arrive byte for byte."""

    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    children: tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class Heading:
    level: int  # 1..6
    children: tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """`formula`: LaTeX without the signs around it, which is shown as code where nothing sets formulas."""

    code: str  # without the last newline
    language: str = ""
    formula: bool = False


@dataclass(frozen=True, slots=True)
class Quote:
    blocks: tuple["Block", ...]


@dataclass(frozen=True, slots=True)
class Item:
    """`checked` is None for an item that is no task."""

    blocks: tuple["Block", ...]
    checked: bool | None = None


@dataclass(frozen=True, slots=True)
class List:
    items: tuple[Item, ...]
    start: int | None = None  # the first number of an ordered list
    tight: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    header: tuple[tuple[Inline, ...], ...]
    rows: tuple[tuple[tuple[Inline, ...], ...], ...]
    aligns: tuple[Align, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    pass


Block = Plain | Paragraph | Heading | CodeBlock | Quote | List | Table | Rule
Document = tuple[Block, ...]


def is_blank(document: Document) -> bool:
    """Is there nothing to see in it? Platforms refuse such a message."""
    return all(_blank_block(block) for block in document)


def _blank_block(block: Block) -> bool:
    match block:
        case Plain(text) | CodeBlock(text):
            return not text.strip()
        case Paragraph(children) | Heading(_, children):
            return _blank_inlines(children)
        case Quote(blocks):
            return is_blank(blocks)
        case List(items):
            return all(is_blank(item.blocks) for item in items)
        case Table(header, rows):
            return all(_blank_inlines(cell) for row in (header, *rows) for cell in row)
        case Rule():
            return False
        case _:
            assert_never(block)


def _blank_inlines(children: tuple[Inline, ...]) -> bool:
    return all(_blank_inline(child) for child in children)


def _blank_inline(inline: Inline) -> bool:
    match inline:
        case Text(text) | Code(text):
            return not text.strip()
        case Bold(children) | Italic(children) | Strike(children) | Link(_, children):
            return _blank_inlines(children)
        case Break():
            return True
        case _:
            assert_never(inline)
