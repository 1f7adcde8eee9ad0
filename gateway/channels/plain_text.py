"""A document as Markdown-like text, for terminals and for platforms that refused a rendering. Pure, escapes nothing."""

from collections.abc import Sequence
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


def as_text(document: Document) -> str:
    """Text that a person can read without any rendering; a lone `Plain` is itself, byte for byte."""
    return "\n\n".join(map(_block, document))


def _block(block: Block) -> str:
    match block:
        case Plain(text):
            return text
        case Paragraph(children):
            return _inlines(children)
        case Heading(level, children):
            return f"{'#' * level} {_inlines(children)}"
        case CodeBlock(code, language):
            return f"```{language}\n{code}\n```"
        case Quote(blocks):
            return "\n".join(f"> {line}".rstrip() for line in as_text(blocks).splitlines())
        case List(items, start):
            return "\n".join(
                _item(item, "- " if start is None else f"{start + index}. ") for index, item in enumerate(items)
            )
        case Table(header, rows):
            lines = ["| " + " | ".join(map(_inlines, row)) + " |" for row in (header, *rows)]
            return "\n".join([lines[0], "|" + " --- |" * len(header), *lines[1:]])
        case Rule():
            return "---"
        case _:
            assert_never(block)


def _item(item: Item, mark: str) -> str:
    box = "" if item.checked is None else "[x] " if item.checked else "[ ] "
    text = "\n".join(map(_block, item.blocks)).replace("\n", "\n" + " " * len(mark))
    return f"{mark}{box}{text}"


def _inlines(inlines: Sequence[Inline]) -> str:
    return "".join(map(_inline, inlines))


def _inline(inline: Inline) -> str:
    match inline:
        case Text(text):
            return text
        case Code(text):
            return f"`{text}`"
        case Bold(children):
            return f"**{_inlines(children)}**"
        case Italic(children):
            return f"*{_inlines(children)}*"
        case Strike(children):
            return f"~~{_inlines(children)}~~"
        case Link(url, children):
            return f"[{_inlines(children)}]({url})"
        case Break():
            return "\n"
        case _:
            assert_never(inline)
