"""A document as a person reads it on a platform without any formatting."""

from typing import assert_never

from gateway.channels.document import (
    Block,
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


def readable(document: Document) -> str:
    return "\n\n".join(_block(block) for block in document)


def utf16_length(document: Document) -> int:
    """The length of what is read, in Telegram's unit."""
    return len(readable(document).encode("utf-16-le")) // 2


def _block(block: Block) -> str:
    match block:
        case Plain(text):
            return text
        case Paragraph(children) | Heading(_, children):
            return _inlines(children)
        case CodeBlock(code):
            return code
        case Quote(blocks):
            return "\n".join("> " + line for line in readable(blocks).split("\n"))
        case List():
            return "\n".join(_items(block))
        case Table(header, rows):
            return "\n".join(" | ".join(_inlines(cell) for cell in row) for row in (header, *rows))
        case Rule():
            return "———"
        case _:
            assert_never(block)


def _items(block: List) -> list[str]:
    lines = []
    for number, item in enumerate(block.items, start=block.start or 0):
        marker = "• " if block.start is None else f"{number}. "
        box = {None: "", True: "☑ ", False: "☐ "}[item.checked]
        lines.append(marker + box + readable(item.blocks).replace("\n", "\n  "))
    return lines


def _inlines(children: tuple[Inline, ...]) -> str:
    return "".join(_inline(child) for child in children)


def _inline(inline: Inline) -> str:
    match inline:
        case Text(text) | Code(text):
            return text
        case Bold(children) | Italic(children) | Strike(children):
            return _inlines(children)
        case Link(url, children):
            return f"{_inlines(children)} ({url})"
        case Break():
            return "\n"
        case _:
            assert_never(inline)
