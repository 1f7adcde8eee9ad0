"""Document → Slack's own mrkdwn: what notifications show, and the message itself where a `markdown` block is refused.

Pure. mrkdwn has no escapes for its marks and no tables: those become aligned code.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import assert_never

from adapters.slack.text import escaped
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

FENCE = "```"


def mrkdwn(document: Document) -> str:
    """The whole document; a reader of a `Plain` block sees exactly its text."""
    return "\n\n".join(_mrkdwn_block(block) for block in document)


def _mrkdwn_block(block: Block) -> str:
    match block:
        case Plain(text):
            return escaped(text)
        case Paragraph(children):
            return _inline(children)
        case Heading(_, children):
            title = _inline(children).replace("\n", " ").replace("*", "")
            return f"*{title}*" if title.strip() else ""
        case CodeBlock(code, _):
            return f"{FENCE}\n{escaped(code)}\n{FENCE}"
        case Quote(blocks):
            inner = "\n\n".join(_mrkdwn_block(one) for one in blocks)
            return "\n".join(f"> {line}".rstrip() for line in inner.split("\n"))
        case List(items, start, tight):
            lines = [_mrkdwn_item(item, start, offset) for offset, item in enumerate(items)]
            return ("\n" if tight else "\n\n").join(lines)
        case Table(header, rows, aligns):
            return f"{FENCE}\n{escaped(_aligned([header, *rows], aligns))}\n{FENCE}"
        case Rule():
            return "─" * 10
    assert_never(block)


def _mrkdwn_item(item: Item, start: int | None, offset: int) -> str:
    marker = "•" if start is None else f"{start + offset}."
    if item.checked is not None:
        marker = "☑" if item.checked else "☐"
    inner = "\n".join(_mrkdwn_block(block) for block in item.blocks)
    first, *rest = inner.split("\n")
    if first == FENCE:
        first, rest = "", [first, *rest]
    return "\n".join([f"{marker} {first}".rstrip(), *_indented(rest)])


def _indented(lines: Sequence[str]) -> Iterator[str]:
    """Code stays at the margin: what is put before its lines would be part of it."""
    inside = False
    for line in lines:
        is_fence = line == FENCE
        yield line if inside or is_fence or not line else f"    {line}"
        inside = inside != is_fence


def _inline(children: Sequence[Inline]) -> str:
    out = ""
    for number, node in enumerate(children):
        after = _words(children[number + 1 : number + 2])[:1]
        # Slack takes a mark beside a letter for one: the words go without it.
        out += _bare(node) if out[-1:].isalnum() or after.isalnum() else _node(node)
    return out


def _bare(node: Inline) -> str:
    match node:
        case Bold(children) | Italic(children) | Strike(children):
            return _inline(children)
        case Code(text):
            return escaped(text)
        case _:
            return _node(node)


def _node(node: Inline) -> str:
    match node:
        case Text(text):
            return escaped(text)
        case Bold(children):
            return _marked("*", _inline(children))
        case Italic(children):
            return _marked("_", _inline(children))
        case Strike(children):
            return _marked("~", _inline(children))
        case Code(text):
            return f"`{escaped(text)}`" if text and "`" not in text else escaped(text)
        case Link(url, children):
            return _mrkdwn_link(url, _inline(children))
        case Break():
            return "\n"
    assert_never(node)


def _marked(mark: str, inner: str) -> str:
    return f"{mark}{inner}{mark}" if inner.strip() else inner


def _mrkdwn_link(url: str, label: str) -> str:
    target = escaped(url.strip()).replace("|", "%7C")
    if "://" not in url and not url.startswith(("mailto:", "tel:")):
        return f"{label} ({target})" if target and target != label else label  # Slack links whole addresses only
    bare = label.replace("\n", " ").replace("|", "¦")
    return f"<{target}|{bare}>" if bare.strip() and bare != target else f"<{target}>"


def _aligned(rows: Sequence[Sequence[Sequence[Inline]]], aligns: Sequence[str]) -> str:
    cells = [[_words(cell) for cell in row] for row in rows]
    columns = max(map(len, cells), default=0)
    widths = [max((_width(row[i]) for row in cells if i < len(row)), default=0) for i in range(columns)]
    lines = []
    for row in cells:
        padded = []
        for i, width in enumerate(widths):
            text = row[i] if i < len(row) else ""
            room = width - _width(text)
            right = i < len(aligns) and aligns[i] == "right"
            padded.append(" " * room + text if right else text + " " * room)
        lines.append("  ".join(padded).rstrip())
    return "\n".join([lines[0], "  ".join("─" * width for width in widths), *lines[1:]]) if lines else ""


def _words(children: Sequence[Inline]) -> str:
    """A cell's text without any marks."""
    words = []
    for node in children:
        match node:
            case Text(text) | Code(text):
                words.append(text)
            case Break():
                words.append(" ")
            case Bold(inner) | Italic(inner) | Strike(inner) | Link(_, inner):
                words.append(_words(inner))
    return "".join(words)


def _width(text: str) -> int:
    """Columns in a fixed-width font."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
