"""A text as blocks and inlines: what one Markdown parse gives and every renderer takes. Pure data."""

from dataclasses import dataclass
from typing import Literal

Align = Literal["left", "center", "right", "none"]


@dataclass(frozen=True, slots=True)
class Text:
    text: str


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
    text: str


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
    """Text without any markup, to arrive byte for byte (DESIGN §13.14)."""

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
    code: str  # without the last newline
    language: str = ""


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
