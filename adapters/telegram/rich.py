"""A document as HTML for `sendRichMessage` (Bot API 10.1), and whether it is worth it. Pure.

HTML rather than rich Markdown: that knows `==marked==`, `$maths$` and raw tags, which a text may hold by accident.
"""

import re
from collections.abc import Iterable, Sequence
from html import escape

from adapters.telegram.render import LINKABLE
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

# Bot API, "Rich message limits".
CHARACTERS, BLOCKS, DEPTH, COLUMNS = 32_768, 500, 16, 20
_LANGUAGE = re.compile(r"[\w+#.-]{1,64}")


def gains(document: Document) -> bool:
    """Does it hold what text with entities can only hint at? Older clients show no rich messages at all, so text that
    loses nothing goes out as text.
    """
    return any(_gains(block) for block in document) and not any(isinstance(block, Plain) for block in document)


def fits(document: Document) -> bool:
    """Is it within the limits of one rich message?"""
    return (
        sum(_block_count(block) for block in document) <= BLOCKS
        and max((_depth(block) for block in document), default=0) <= DEPTH
        and len(html(document)) <= CHARACTERS
        and all(len(table.header) <= COLUMNS for table in _tables(document))
    )


def html(document: Document) -> str:
    return "".join(_block(block) for block in document)


def _gains(block: Block) -> bool:
    match block:
        case Heading() | Table() | List() | Rule():
            return True
        case Quote(blocks):
            return any(isinstance(inner, Quote) or _gains(inner) for inner in blocks)
        case _:
            return False


def _children(block: Block) -> Iterable[Block]:
    match block:
        case Quote(blocks):
            yield from blocks
        case List(items):
            for item in items:
                yield from item.blocks


def _block_count(block: Block) -> int:
    own = 1
    if isinstance(block, List):
        own += len(block.items)
    elif isinstance(block, Table):
        own += 1 + len(block.rows)
    return own + sum(_block_count(child) for child in _children(block))


def _depth(block: Block) -> int:
    match block:
        case Paragraph(inlines) | Heading(_, inlines):
            return 1 + _inline_depth(inlines)
        case Table():
            cells = (cell for row in (block.header, *block.rows) for cell in row)
            return 2 + max((_inline_depth(cell) for cell in cells), default=0)
        case _:
            own = 2 if isinstance(block, List) else 1
            return own + max((_depth(child) for child in _children(block)), default=0)


def _inline_depth(inlines: Sequence[Inline]) -> int:
    deepest = 0
    for inline in inlines:
        match inline:
            case Bold(children) | Italic(children) | Strike(children) | Link(_, children):
                deepest = max(deepest, 1 + _inline_depth(children))
            case Code():
                deepest = max(deepest, 1)
    return deepest


def _tables(blocks: Iterable[Block]) -> Iterable[Table]:
    for block in blocks:
        if isinstance(block, Table):
            yield block
        yield from _tables(_children(block))


def _block(block: Block) -> str:
    match block:
        case Plain(text):
            return f"<p>{_line(text)}</p>"
        case Paragraph(children):
            return f"<p>{_inlines(children)}</p>"
        case Heading(level, children):
            return f"<h{level}>{_inlines(children)}</h{level}>"
        case CodeBlock(code, language):
            if not _LANGUAGE.fullmatch(language):
                return f"<pre>{escape(code, quote=False)}</pre>"
            return f'<pre><code class="language-{language}">{escape(code, quote=False)}</code></pre>'
        case Quote(blocks):
            return f"<blockquote>{html(blocks)}</blockquote>"
        case List():
            return _list(block)
        case Table():
            return _table(block)
        case Rule():
            return "<hr/>"


def _list(block: List) -> str:
    items = "".join(f"<li>{_item(item)}</li>" for item in block.items)
    if block.start is None:
        return f"<ul>{items}</ul>"
    return f"<ol>{items}</ol>" if block.start == 1 else f'<ol start="{block.start}">{items}</ol>'


def _item(item: Item) -> str:
    box = "" if item.checked is None else f'<input type="checkbox"{" checked" if item.checked else ""}>'
    match item.blocks:
        case (Paragraph(children), *rest):
            return box + _inlines(children) + html(tuple(rest))
        case blocks:
            return box + html(blocks)


def _table(table: Table) -> str:
    def row(cells: Sequence[Sequence[Inline]], tag: str) -> str:
        out = ""
        for number, cell in enumerate(cells):
            align = table.aligns[number] if number < len(table.aligns) else "none"
            attribute = f' align="{align}"' if align != "none" else ""
            out += f"<{tag}{attribute}>{_inlines(cell)}</{tag}>"
        return f"<tr>{out}</tr>"

    rows = row(table.header, "th") + "".join(row(cells, "td") for cells in table.rows)
    return f"<table bordered>{rows}</table>"


def _inlines(inlines: Sequence[Inline]) -> str:
    return "".join(_inline(inline) for inline in inlines)


def _inline(inline: Inline) -> str:
    match inline:
        case Text(text):
            return _line(text)
        case Break():
            return "<br>"
        case Code(text):
            return f"<code>{escape(text, quote=False)}</code>"
        case Bold(children):
            return f"<b>{_inlines(children)}</b>"
        case Italic(children):
            return f"<i>{_inlines(children)}</i>"
        case Strike(children):
            return f"<s>{_inlines(children)}</s>"
        case Link(url, children):
            return _link(url, _inlines(children))


def _link(url: str, label: str) -> str:
    """The server takes away an address that nobody could open."""
    shown = escape(url, quote=False)
    if url.lower().startswith(LINKABLE):
        return f'<a href="{escape(url)}">{label or shown}</a>'
    return f"{label} ({shown})" if label and label != shown else shown


def _line(text: str) -> str:
    return escape(text, quote=False).replace("\n", "<br>")
