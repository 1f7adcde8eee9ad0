"""Document → the Markdown that Slack's `markdown` block and its streams take; parsed again it gives the document. Pure.

Escapes only what would be read as markup, so that ordinary text stays as it is. `<@…>` and `<!…>` never survive: a
model's words must not call people.
"""

import re
from collections.abc import Sequence
from typing import assert_never

from adapters.slack.inlines import inline
from gateway.channels.document import (
    Block,
    CodeBlock,
    Document,
    Heading,
    Inline,
    Item,
    List,
    Paragraph,
    Plain,
    Quote,
    Rule,
    Table,
    Text,
)

_LINE_STARTS = (
    (re.compile(r"^(\s*)([-+*])(?=\s|$)"), r"\1\\\2"),  # a bullet
    (re.compile(r"^(\s*\d{1,9})([.)])(?=\s|$)"), r"\1\\\2"),  # a number
    (re.compile(r"^(\s*)(#{1,6})(?=\s|$)"), r"\1\\\2"),  # a heading
    (re.compile(r"^(\s*)>"), r"\1&gt;"),  # a quote
    (re.compile(r"^(\s*)(=+\s*|-+\s*|_(?:\s*_){2,}\s*)$"), r"\1\\\2"),  # an underline or a rule
    (re.compile(r"^(\s*+)(?=[|:\s]*+-[|:\-\s]*+$)([|:])"), r"\1\\\2"),  # the second row of a table
    (re.compile(r"^(\s*)(\[[ xX]\]\s|\[[^\]]+\]:)"), r"\1\\\2"),  # a task, a reference
)
_DELIMITERS = {"left": ":---", "right": "---:", "center": ":---:", "none": "---"}


def markdown(document: Document) -> str:
    """The whole document."""
    return "\n\n".join(_blocks(document, tight=False))


def _blocks(blocks: Sequence[Block], *, tight: bool) -> list[str]:
    """Each block's text. Lists in a row take turns in their markers, or they would be read as one."""
    texts: list[str] = []
    turn = False
    for index, block in enumerate(blocks):
        before = blocks[index - 1] if index else None
        turn = not turn if isinstance(block, List) and isinstance(before, List) else False
        texts.append(_list(block, turn=turn) if isinstance(block, List) else _block(block))
    return [text for text in texts if text] if not tight else texts


def _block(block: Block) -> str:
    match block:
        case Plain(text):
            return "\n".join(_harmless(line) for line in inline((Text(text),), raw_breaks=True).split("\n"))
        case Paragraph(children):
            return _lines(inline(children))
        case Heading(level, children):
            title = " ".join(inline(children).split("\n"))
            title = re.sub(r"(^|\s)(#+)$", r"\1\\\2", title)
            return f"{'#' * level} {title}".rstrip()
        case CodeBlock(code, language):
            longest = max((len(run) for run in re.findall(r"`{3,}", code)), default=2)
            fence = "`" * (longest + 1)
            return f"{fence}{language.replace('`', '')}\n{code}\n{fence}" if code else f"{fence}{language}\n{fence}"
        case Quote(blocks):
            inner = "\n\n".join(_blocks(blocks, tight=False))
            return "\n".join(f"> {line}".rstrip() for line in inner.split("\n"))
        case List():
            return _list(block, turn=False)
        case Table(header, rows, aligns):
            return _table(header, rows, [_DELIMITERS[align] for align in aligns])
        case Rule():
            return "___"  # dashes below a bullet would be read as one rule
    assert_never(block)


def _lines(text: str) -> str:
    """Each line's beginning made harmless; an empty line would end the paragraph."""
    return "\n".join(_harmless(line) if line else "\\" for line in text.split("\n"))


def _harmless(line: str) -> str:
    for pattern, replacement in _LINE_STARTS:
        changed, count = pattern.subn(replacement, line, count=1)
        if count:
            return changed
    return line


def _list(block: List, *, turn: bool) -> str:
    items = []
    for offset, item in enumerate(block.items):
        bullet, point = ("*", ")") if turn else ("-", ".")
        marker = bullet if block.start is None else f"{block.start + offset}{point}"
        items.append(_item(item, marker, tight=block.tight))
    return ("\n" if block.tight else "\n\n").join(items)


def _item(item: Item, marker: str, *, tight: bool) -> str:
    inner = ("\n" if tight else "\n\n").join(_blocks(item.blocks, tight=tight))
    if item.checked is not None:
        inner = f"[{'x' if item.checked else ' '}] {inner}"
    indent = " " * (len(marker) + 1)
    first, *rest = inner.split("\n")
    return "\n".join([f"{marker} {first}".rstrip(), *(f"{indent}{line}" if line else "" for line in rest)])


def _table(
    header: Sequence[Sequence[Inline]], rows: Sequence[Sequence[Sequence[Inline]]], delimiters: Sequence[str]
) -> str:
    def row(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    lines = [row([_cell(cell) for cell in header]), row(delimiters)]
    lines += [row([_cell(cell) for cell in cells]) for cells in rows]
    return "\n".join(lines)


def _cell(children: Sequence[Inline]) -> str:
    # A bar ends a cell even inside code.
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(inline(tuple(children)).split("\n")))
