"""A document as HTML, one piece per block. Pure; writes no tag that it did not choose, then has nh3 look again.

A formula is its source: the page sets it, and where it cannot, the source is what a person reads.
"""

import re
from collections.abc import Sequence
from html import escape
from typing import assert_never

import nh3

from adapters.web.code_colours import coloured
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

_SCHEMES = frozenset({"http", "https", "mailto"})

# An address in running text, and what ends a sentence and no address. Each takes every sign once.
_ADDRESS = re.compile(r"(?<![\w/])https?://[^\s<>\"'`\0]+", re.IGNORECASE)
_AFTER_ADDRESS = ".,;:!?*_~…"
_BRACKETS = {")": "(", "]": "[", "}": "{"}

# The second wall: even a mistake above must not let a script or a style through.
_CLEANER = nh3.Cleaner(
    tags={
        *("p", "br", "strong", "em", "del", "code", "pre", "a", "h3", "h4", "h5", "h6", "blockquote", "hr", "span"),
        *("ul", "ol", "li", "div", "table", "thead", "tbody", "tr", "th", "td", "figure", "figcaption"),
    },
    attributes={
        "a": {"href", "target", "aria-label", "data-note", "data-words"},
        "ol": {"start"},
        "th": {"scope"},
        "div": {"role", "tabindex", "aria-label"},
        "pre": {"tabindex", "aria-label"},
        "span": {"role", "aria-label"},
    },
    allowed_classes={
        "p": {"plain"},
        "div": {"table"},
        "code": {"math"},
        "figure": {"code", "formula"},
        "ul": {"tasks"},
        "th": {"left", "center", "right"},
        "td": {"left", "center", "right"},
        "span": {"box", "c", "s", "n", "w"},
    },
    url_schemes=set(_SCHEMES),
    link_rel="noopener noreferrer nofollow",
    strip_comments=True,
)


def blocks_as_html(document: Document) -> tuple[str, ...]:
    """Each block's HTML, safe to put into a page."""
    return tuple(_CLEANER.clean(_block(block)) for block in document)


def linked(text: str) -> str:
    """Text as HTML with its addresses as links, safe to put into a page."""
    return _CLEANER.clean(_with_links(text))


def text_length(document: Document) -> int:
    """Characters a person reads: the measure of the web chat's limit."""
    return sum(len(readable(block)) for block in document)


def readable(block: Block) -> str:
    """A block's text without any markup, for measuring and for titles."""
    match block:
        case Plain(text) | CodeBlock(text):
            return text
        case Paragraph(children) | Heading(_, children):
            return _inline_text(children)
        case Quote(blocks):
            return "\n".join(map(readable, blocks))
        case List(items):
            return "\n".join("\n".join(map(readable, item.blocks)) for item in items)
        case Table(header, rows):
            return "\n".join("\t".join(map(_inline_text, row)) for row in (header, *rows))
        case Rule():
            return "---"
        case _:
            assert_never(block)


def _inline_text(inlines: Sequence[Inline]) -> str:
    return "".join(map(_one_inline_text, inlines))


def _one_inline_text(inline: Inline) -> str:
    match inline:
        case Text(text) | Code(text):
            return text
        case Bold(children) | Italic(children) | Strike(children) | Link(_, children):
            return _inline_text(children)
        case Break():
            return "\n"
        case _:
            assert_never(inline)


def _block(block: Block) -> str:
    match block:
        case Plain(text):
            return f'<p class="plain">{_with_links(text)}</p>'
        case Paragraph(children):
            return f"<p>{_inlines(children)}</p>"
        case Heading(level, children):
            tag = f"h{min(level + 2, 6)}"  # the page and the conversation have the first two levels
            return f"<{tag}>{_inlines(children)}</{tag}>"
        case CodeBlock(code, formula=True):
            return f'<figure class="formula"><code class="math">{_text(code)}</code></figure>'
        case CodeBlock(code, language):
            caption = f"<figcaption>{_text(language)}</figcaption>" if language else ""
            shown = coloured(_whole(code), language)
            return f'<figure class="code">{caption}<pre tabindex="0"><code>{shown}</code></pre></figure>'
        case Quote(blocks):
            return f"<blockquote>{_all(blocks)}</blockquote>"
        case List(items, start, tight):
            return _list(items, start, tight=tight)
        case Table():
            return _table(block)
        case Rule():
            return "<hr>"
        case _:
            assert_never(block)


def _all(blocks: Sequence[Block]) -> str:
    return "".join(map(_block, blocks))


def _list(items: Sequence[Item], start: int | None, *, tight: bool) -> str:
    inside = "".join(f"<li>{_box(item.checked)}{_item(item, tight=tight)}</li>" for item in items)
    if start is not None:
        attribute = f' start="{start}"' if start != 1 else ""
        return f"<ol{attribute}>{inside}</ol>"
    tasks = ' class="tasks"' if any(item.checked is not None for item in items) else ""
    return f"<ul{tasks}>{inside}</ul>"


def _item(item: Item, *, tight: bool) -> str:
    if not tight:
        return _all(item.blocks)
    return "".join(_inlines(block.children) if isinstance(block, Paragraph) else _block(block) for block in item.blocks)


def _box(checked: bool | None) -> str:
    match checked:
        case None:
            return ""
        case True:
            return '<span class="box" role="img" aria-label="done">☑</span> '
        case False:
            return '<span class="box" role="img" aria-label="open">☐</span> '


def _table(table: Table) -> str:
    def cell(tag: str, column: int, children: Sequence[Inline]) -> str:
        align = table.aligns[column] if column < len(table.aligns) else "none"
        scope = ' scope="col"' if tag == "th" else ""
        styled = f' class="{align}"' if align != "none" else ""
        return f"<{tag}{scope}{styled}>{_inlines(children)}</{tag}>"

    def row(tag: str, cells: Sequence[Sequence[Inline]]) -> str:
        return "<tr>" + "".join(cell(tag, column, children) for column, children in enumerate(cells)) + "</tr>"

    head = f"<thead>{row('th', table.header)}</thead>"
    body = "".join(row("td", cells) for cells in table.rows)
    # A wide table scrolls by itself, also with the keyboard; the page never does.
    inside = f"<table>{head}<tbody>{body}</tbody></table>"
    return f'<div class="table" role="region" tabindex="0" aria-label="table">{inside}</div>'


def _inlines(inlines: Sequence[Inline], *, in_link: bool = False) -> str:
    return "".join(_inline(inline, in_link=in_link) for inline in inlines)


def _inline(inline: Inline, *, in_link: bool) -> str:
    match inline:
        case Text(text, note):
            return _note(text, note) if note else _text(text) if in_link else _with_links(text)
        case Bold(children):
            return f"<strong>{_inlines(children, in_link=in_link)}</strong>"
        case Italic(children):
            return f"<em>{_inlines(children, in_link=in_link)}</em>"
        case Strike(children):
            return f"<del>{_inlines(children, in_link=in_link)}</del>"
        case Code(text, formula):
            return f'<code class="math">{_text(text)}</code>' if formula else f"<code>{_text(text)}</code>"
        case Link(url, children):
            return _link(url, children)
        case Break():
            return "<br>"
        case _:
            assert_never(inline)


def _note(sign: str, number: int) -> str:
    """A footnote's sign leads to its words and back; the page finds them in the same message."""
    which, gap = ("words", " ") if sign.endswith(" ") else ("note", "")
    shown = _text(sign.rstrip())
    return f'<a href="#" data-{which}="{number}" aria-label="Footnote {number}">{shown}</a>{gap}'


def _link(url: str, children: Sequence[Inline]) -> str:
    label = _inlines(children, in_link=True) or _text(url)
    if url.partition(":")[0].lower() not in _SCHEMES:  # nothing that a click could run
        return label if not url or label == _text(url) else f"{label} ({_text(url)})"
    return f'<a href="{escape(url)}" target="_blank">{label}</a>'


def _with_links(text: str) -> str:
    pieces, end = [], 0
    for found in _ADDRESS.finditer(text):
        address = _without_rest(found[0])
        if address.endswith("/") and address.count("/") == 2:  # "https://" and no host
            continue
        pieces.append(_text(text[end : found.start()]))
        pieces.append(f'<a href="{escape(address)}" target="_blank">{_text(address)}</a>')
        end = found.start() + len(address)
    pieces.append(_text(text[end:]))
    return "".join(pieces)


def _without_rest(address: str) -> str:
    """The address without the signs of the sentence around it: a bracket stays where it was opened within."""
    counts = {sign: address.count(sign) for sign in "()[]{}"}
    end = len(address)
    while end:
        last = address[end - 1]
        opening = _BRACKETS.get(last)
        if opening is not None and counts[last] > counts[opening]:
            counts[last] -= 1
        elif last not in _AFTER_ADDRESS:
            break
        end -= 1
    return address[:end]


def _text(text: str) -> str:
    return escape(_whole(text), quote=False)


def _whole(text: str) -> str:
    return text.replace("\0", "\ufffd")
