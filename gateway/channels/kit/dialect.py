"""A document as text of a platform whose markup resembles Markdown, as a table describes it. Pure; never splits.

An adapter declares its `Dialect` instead of writing a renderer. Whatever a text holds, it becomes no markup and calls
nobody.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, assert_never
from urllib.parse import quote

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
from gateway.channels.kit.tables import fields, monospace, monospace_within, words

JOINER = "\u2060"  # invisible; behind the first sign of what would call people
FENCE = "```"
IN_LINK = "[]"  # among the marks around: the words of a link

_URL = re.compile(r"https?://[^\s<`|\\]*[^\s<`|\\.,:;\"'\]!?*_~]")
_LINE_START = re.compile(r"^([ \t]*)(?:(\d{1,9})(?=[.)](?:\s|$))|(?=[#>+=-]))", re.MULTILINE)
_INDENTED = re.compile(r"^(?: {4}| {0,3}\t)", re.MULTILINE)
_HARMFUL_IN_TARGET = re.compile(r"[\s<>()\\`\"]")
_BACKTICKS = re.compile(r"`+")
_LANGUAGE = re.compile(r"[A-Za-z0-9_+\-.#]+")


def backslashed(signs: str) -> Mapping[str, str]:
    """Escapes by a backslash, for `Dialect.escapes`."""
    return {sign: "\\" + sign for sign in signs}


def markdown_link(url: str, label: str) -> str:
    """`[label](url)`. An address that is its own label stays bare; any but http, https and mailto is no link."""
    if label.replace("\\", "") == url and not url.lower().startswith("http"):
        return label
    if not url.lower().startswith(("http://", "https://", "mailto:")):
        return f"{label} (`{url.replace('`', '')}`)".lstrip() if url.replace("`", "") else label
    target = _HARMFUL_IN_TARGET.sub(lambda match: quote(match[0], safe=""), url)
    return f"[{label}]({target})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The platform's markup.

    `bold`, `italic` and `strike` stand around words, "" where there is no such thing. With `marks_in_words` they also
    work beside a letter; else words beside one go without. `escapes` says what a sign becomes in text, `code_escapes`
    in code. `link` gives the markup of an address and its rendered label. With `bare_addresses` the platform makes
    links of addresses by itself, so that they stay as they are.

    `structure` is `markup` where the platform knows headings, lists, quotes and the like at the beginning of a line:
    then text there is escaped by a backslash, and code may be fenced by any number of backticks. It is `text` where
    such things are only drawn. `tables` gives how tables are shown: as `markup`, or in a `monospace` font.

    `calls` matches what calls people (`@channel`, `@ann`), in text and in the address of a link. It is broken by an
    invisible sign.
    """

    bold: str = "**"
    italic: str = "*"
    strike: str = "~~"
    marks_in_words: bool = False
    escapes: Mapping[str, str] = field(default_factory=lambda: backslashed("\\`*_~[]<>|&"))
    code_escapes: Mapping[str, str] = field(default_factory=dict)
    bare_addresses: bool = True
    link: Callable[[str, str], str] = markdown_link
    structure: Literal["markup", "text"] = "markup"
    headings: int = 6  # levels; deeper ones are shown as the deepest, and with 0 a heading is a bold line
    languages: bool = True  # a fence may name one
    tables: Literal["markup", "monospace"] = "markup"
    columns: int | None = None  # a wider table in a monospace font becomes a list of fields
    rule: str = "---"
    calls: re.Pattern[str] | None = None


MARKDOWN = Dialect()  # CommonMark with tables and strikethrough, as many servers take it


def measure(document: Document, dialect: Dialect) -> int:
    """Characters of the rendering, for `Capabilities.measure`."""
    return len(render(document, dialect))


def render(document: Document, dialect: Dialect) -> str:
    return _Writer(dialect).blocks(document, "\n\n")


class _Writer:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._is_markup = dialect.structure == "markup"
        self._escapes = str.maketrans(dict(dialect.escapes))
        self._code_escapes = str.maketrans(dict(dialect.code_escapes))

    # -- blocks

    def blocks(self, blocks: Sequence[Block], apart: str) -> str:
        if not blocks:
            return ""
        parts, other = [self._block(blocks[0])], False
        for before, block in pairwise(blocks):
            # Two lists in a row are told apart by their markers.
            other = self._is_markup and isinstance(before, List) and isinstance(block, List) and not other
            parts.append(self._list(block, other) if isinstance(block, List) else self._block(block))
        return apart.join(parts)

    def _block(self, block: Block) -> str:
        match block:
            case Plain(text):
                return self._lines(self._text(text))
            case Paragraph(children):
                return self._lines(self._inlines(children))
            case Heading(level, children):
                return self._heading(level, children)
            case CodeBlock(code, language):
                return self._fenced(code, language)
            case Quote(blocks):
                return "\n".join(f"> {line}".rstrip() for line in self.blocks(blocks, "\n\n").split("\n"))
            case List():
                return self._list(block, False)
            case Table():
                return self._table(block)
            case Rule():
                return self._dialect.rule
        assert_never(block)

    def _lines(self, text: str) -> str:
        """The text with markup that only counts at the beginning of a line made harmless: headings, quotes, lists,
        rules, indented code.
        """
        if not self._is_markup:
            return text
        text = _LINE_START.sub(lambda match: match[1] + (match[2] or "") + "\\", text)
        return _INDENTED.sub(lambda match: "\u00a0" + match[0][1:].replace("\t", "    "), text)

    def _heading(self, level: int, children: Sequence[Inline]) -> str:
        title = self._inlines(children).replace("\n", " ")
        if self._is_markup and self._dialect.headings:
            title = title[:-1] + "\\#" if title.endswith("#") else title
            return f"{'#' * min(level, self._dialect.headings)} {title}".rstrip()
        bold = self._dialect.bold
        if bold and bold not in self._dialect.escapes:
            title = title.replace(bold, "")
        return f"{bold}{title}{bold}" if title.strip() else ""

    def _fenced(self, code: str, language: str) -> str:
        fence = FENCE
        if self._is_markup:
            longest = max((len(run) for run in _BACKTICKS.findall(code)), default=0)
            fence = "`" * max(3, longest + 1)
        known = language if self._dialect.languages and _LANGUAGE.fullmatch(language) else ""
        return f"{fence}{known}\n{code.translate(self._code_escapes)}\n{fence}"

    def _table(self, table: Table) -> str:
        if self._dialect.tables == "markup":
            rows = [f"| {' | '.join(map(self._cell, row))} |" for row in (table.header, *table.rows)]
            return "\n".join([rows[0], "|" + " --- |" * len(table.header), *rows[1:]])
        columns = self._dialect.columns
        shown = monospace(table) if columns is None else monospace_within(table, columns)
        return self._block(fields(table)) if shown is None else self._fenced(shown, "")

    def _cell(self, children: Sequence[Inline]) -> str:
        # A bar ends a cell even inside code.
        return re.sub(r"(?<!\\)\|", r"\\|", self._inlines(children).replace("\n", " "))

    def _list(self, block: List, other: bool) -> str:
        items = []
        for offset, item in enumerate(block.items):
            if block.start is not None:
                marker = f"{block.start + offset}{')' if other else '.'}"
            else:
                marker = ("*" if other else "-") if self._is_markup else "•"
            items.append(self._marked(marker, item, block.tight) if self._is_markup else self._drawn(marker, item))
        return ("\n" if block.tight else "\n\n").join(items)

    def _marked(self, marker: str, item: Item, tight: bool) -> str:
        box = "" if item.checked is None else "[x] " if item.checked else "[ ] "
        inner = self.blocks(item.blocks, "\n" if tight else "\n\n")
        indented = re.sub(r"\n(?!\n)", "\n" + " " * (len(marker) + 1), inner)
        return f"{marker} {box}{indented}".rstrip(" ")

    def _drawn(self, marker: str, item: Item) -> str:
        """An item where there are no lists. Code stays at the margin: what is put before its lines would be code."""
        if item.checked is not None:
            marker = "☑" if item.checked else "☐"
        first, *rest = self.blocks(item.blocks, "\n").split("\n")
        if self._is_fence(first):
            first, rest = "", [first, *rest]
        lines, inside = [f"{marker} {first}".rstrip()], False
        for line in rest:
            lines.append(line if inside or self._is_fence(line) or not line else f"    {line}")
            inside = inside != self._is_fence(line)
        return "\n".join(lines)

    def _is_fence(self, line: str) -> bool:
        return line == FENCE or (self._dialect.languages and line.startswith(FENCE))

    # -- inlines

    def _inlines(self, children: Sequence[Inline], inside: str = "") -> str:
        """`inside` holds the marks around, which are not used within once more."""
        out = ""
        nodes = _merged(children)
        for number, node in enumerate(nodes):
            after = words(nodes[number + 1 : number + 2])[:1]
            if self._is_markup and isinstance(node, Link) and out.endswith("!"):
                out = out[:-1] + "\\!"  # else it would be a picture
            beside_letter = out[-1:].isalnum() or after.isalnum()
            out += self._inline(node, inside, bare=beside_letter and not self._dialect.marks_in_words)
        return out

    def _inline(self, node: Inline, inside: str, *, bare: bool) -> str:
        match node:
            case Text(text):
                return self._text(text, in_link=IN_LINK in inside)
            case Code(text):
                return self._code(text, bare=bare)
            case Bold(children):
                return self._styled(self._dialect.bold, children, inside, bare=bare)
            case Italic(children):
                return self._styled(self._dialect.italic, children, inside, bare=bare)
            case Strike(children):
                return self._styled(self._dialect.strike, children, inside, bare=bare)
            case Link(url, children):
                return self._link(url, children, inside)
            case Break():
                return "\n"
        assert_never(node)

    def _text(self, text: str, *, in_link: bool = False) -> str:
        if in_link or not self._dialect.bare_addresses:
            return self._uncalled(text.translate(self._escapes))
        parts, end = [], 0
        for match in _URL.finditer(text):
            parts += [text[end : match.start()].translate(self._escapes), match[0]]
            end = match.end()
        parts.append(text[end:].translate(self._escapes))
        return self._uncalled("".join(parts))

    def _uncalled(self, text: str) -> str:
        calls = self._dialect.calls
        return text if calls is None else calls.sub(lambda match: match[0][0] + JOINER + match[0][1:], text)

    def _styled(self, mark: str, children: Sequence[Inline], inside: str, *, bare: bool) -> str:
        """White space at the edges goes outside, where it breaks nothing."""
        if bare or not mark or mark in inside.split():
            return self._inlines(children, inside)
        text = self._inlines(children, f"{inside} {mark}")
        core = text.strip()
        if not core:
            return text
        at = text.index(core)
        return f"{text[:at]}{mark}{core}{mark}{text[at + len(core) :]}"

    def _code(self, text: str, *, bare: bool) -> str:
        if self._is_markup:
            text = " ".join(text.split("\n"))
            fence = "`" * (max((len(run) for run in _BACKTICKS.findall(text)), default=0) + 1)
            blanks = text.startswith(" ") and text.endswith(" ") and text.strip()  # one at each end is taken off
            pad = " " if blanks or text.startswith("`") or text.endswith("`") else ""
            return f"{fence}{pad}{text.translate(self._code_escapes)}{pad}{fence}" if text else ""
        if bare or not text or "`" in text:
            return self._text(text)
        return f"`{text.translate(self._code_escapes)}`"

    def _link(self, url: str, children: Sequence[Inline], inside: str) -> str:
        if self._dialect.bare_addresses and words(children) == url and _URL.fullmatch(url):
            return self._text(url)
        label = self._inlines(children, f"{inside} {IN_LINK}")
        calls = self._dialect.calls
        target = url if calls is None else calls.sub(lambda match: f"%{ord(match[0][0]):02X}" + match[0][1:], url)
        return self._dialect.link(target, label)


def _merged(children: Sequence[Inline]) -> list[Inline]:
    """Neighbours of one style as one: `**a****b**` says something else."""
    merged: list[Inline] = []
    for node in children:
        last = merged[-1] if merged else None
        if isinstance(node, Bold) and isinstance(last, Bold):
            merged[-1] = Bold(last.children + node.children)
        elif isinstance(node, Italic) and isinstance(last, Italic):
            merged[-1] = Italic(last.children + node.children)
        elif isinstance(node, Strike) and isinstance(last, Strike):
            merged[-1] = Strike(last.children + node.children)
        else:
            merged.append(node)
    return merged
