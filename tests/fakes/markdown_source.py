"""Writes a `Document` as canonical Markdown: what `markdown.parse` reads back as the same document. Pure."""

import re
from itertools import pairwise
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
from gateway.delivery.rendering.markdown import parse

_SPECIAL = re.compile(r"[\\`*_\[\]<>&~|#]")
_LINE_START = re.compile(r"[-+=:]|(\d{1,9})([.)])")
_SAFE_URL = re.compile(r"[\w\-.~:/?#@!$*+,;=%]+", re.ASCII)
_DELIMITERS = {"left": ":--", "center": ":-:", "right": "--:", "none": "---"}


def to_markdown(document: Document) -> str:
    """The source of the document. A lone `Plain` is given as it is where Markdown leaves it alone, else escaped."""
    match document:
        case (Plain(text),) if parse(text) == document:
            return text
    return "\n".join(_blocks(document, loose=True))


def _blocks(blocks: tuple[Block, ...], *, loose: bool) -> list[str]:
    lines: list[str] = []
    other_marker = False
    for before, block in pairwise((None, *blocks)):
        if block is None:
            continue
        if before is not None and loose:
            lines.append("")
        # Two lists of a kind in a row would be read as one, if their markers were the same.
        follows_its_like = (
            isinstance(before, List) and isinstance(block, List) and (before.start is None) == (block.start is None)
        )
        other_marker = follows_its_like and not other_marker
        lines.extend(_block(block, other_marker))
    return lines


def _block(block: Block, other_marker: bool) -> list[str]:
    match block:
        case Plain(text):
            return _lines(tuple(_with_breaks(text)))
        case Paragraph(children):
            return _lines(children)
        case Heading(level, children):
            return [("#" * level + " " + " ".join(_lines(children))).rstrip()]
        case CodeBlock(code, language):
            return _fence(code, language)
        case Quote(blocks):
            return [f"> {line}" if line else ">" for line in _blocks(blocks, loose=True)]
        case List():
            return _list(block, other_marker)
        case Table():
            return _table(block)
        case Rule():
            return ["___"]
        case _:
            assert_never(block)


def _with_breaks(text: str) -> list[Inline]:
    found: list[Inline] = []
    for line in text.splitlines():
        found.extend((Text(line), Break()) if line else (Break(),))
    return found[:-1]


def _fence(code: str, language: str) -> list[str]:
    character = "~" if "`" in language else "`"
    longest = max((len(run) for run in re.findall(re.escape(character) + "+", code)), default=0)
    fence = character * max(3, longest + 1)
    return [fence + language, *code.split("\n"), fence]


def _list(block: List, other_marker: bool) -> list[str]:
    lines: list[str] = []
    for number, item in enumerate(block.items, start=block.start or 0):
        bullet, point = ("*", ")") if other_marker else ("-", ".")
        marker = bullet if block.start is None else f"{number}{point}"
        if lines and not block.tight:
            lines.append("")
        content = _item(item, loose=not block.tight)
        lines.append(f"{marker} {content[0]}".rstrip() if content else marker)
        indent = " " * (len(marker) + 1)
        lines.extend(indent + line if line else "" for line in content[1:])
    return lines


def _item(item: Item, *, loose: bool) -> list[str]:
    content = _blocks(item.blocks, loose=loose)
    if item.checked is not None:
        box = "[x] " if item.checked else "[ ] "
        content = [box + content[0], *content[1:]] if content else [box]
    return content


def _table(block: Table) -> list[str]:
    rows = [" | ".join(_cell(cell) for cell in row) for row in (block.header, *block.rows)]
    rows.insert(1, " | ".join(_DELIMITERS[align] for align in block.aligns))
    return [f"| {row} |" for row in rows]


def _cell(children: tuple[Inline, ...]) -> str:
    return re.sub(r"\\?\|", r"\\|", " ".join(_lines(children)))


def _lines(children: tuple[Inline, ...]) -> list[str]:
    """The inlines as lines of Markdown, none of which is read as anything but text."""
    if not children:
        return [""]
    text = _inlines(children, in_bold=False)
    return [_line(line) for line in text.split("\n")]


def _line(line: str) -> str:
    inner = line.strip()
    if not line:
        return "\\"  # a line ending on its own; a blank line would end the paragraph
    if not inner:
        return "".join(map(_reference, line))
    start = line.index(inner)
    before, after = line[:start], line[start + len(inner) :]
    if found := _LINE_START.match(inner):
        harmless = f"{found[1]}\\{found[2]}" if found[1] else f"\\{found[0]}"
        inner = harmless + inner[found.end() :]
    return "".join(map(_reference, before)) + inner + "".join(map(_reference, after))


def _reference(character: str) -> str:
    """Source that is read as this character and as nothing else, and that is not stripped at the edge of a line."""
    return f"&#{ord(character)};"


def _inlines(children: tuple[Inline, ...], *, in_bold: bool) -> str:
    parts: list[str] = []
    for at, child in enumerate(children):
        after = children[at + 1] if at + 1 < len(children) else None
        match child:
            case Text(text):
                parts.append(_text(text, children[at - 1] if at else None, after))
            case Code(text):
                parts.append(_code(text))
            case Bold(inner):
                parts.append(f"**{_hugged(inner, in_bold=True)}**")
            case Italic(inner):
                # "***x***" is read with the emphasis outside, so italics at the edge of bold take the other mark.
                lonely = in_bold and (at == 0 or after is None)
                mark = "_" if lonely else "*"
                parts.append(f"{mark}{_hugged(inner, in_bold=False)}{mark}")
            case Strike(inner):
                parts.append(f"~~{_hugged(inner, in_bold=in_bold)}~~")
            case Link(url, inner):
                parts.append(f"[{_inlines(inner, in_bold=in_bold)}]({_url(url)})")
            case Break():
                parts.append("\n")
            case _:
                assert_never(child)
    return "".join(parts)


def _hugged(children: tuple[Inline, ...], *, in_bold: bool) -> str:
    """A mark beside white space marks nothing, so white space at the edges is written as references."""
    text = _inlines(children, in_bold=in_bold)
    inner = text.strip()
    if not inner or inner == text:
        return text
    before, after = text[: text.index(inner)], text[text.index(inner) + len(inner) :]
    return "".join(map(_reference, before)) + inner + "".join(map(_reference, after))


def _text(text: str, before: Inline | None, after: Inline | None) -> str:
    """A mark with letters on both sides could open as well as close: a letter beside one is written as a reference."""
    start = int(isinstance(before, Bold | Italic) and not text[:1].isspace())
    end = max(start, len(text) - int(isinstance(after, Bold | Italic) and not text[-1:].isspace()))
    escaped = _SPECIAL.sub(r"\\\g<0>", text[start:end]).replace("\n", "&#10;")
    if escaped.endswith("!") and isinstance(after, Link):
        escaped = escaped[:-1] + "\\!"
    return "".join(map(_reference, text[:start])) + escaped + "".join(map(_reference, text[end:]))


def _code(text: str) -> str:
    runs = {len(run) for run in re.findall("`+", text)}
    ticks = next("`" * length for length in range(1, len(runs) + 2) if length not in runs)
    padded = text.startswith("`") or text.endswith("`") or (text[:1] == text[-1:] == " " and text.strip(" "))
    return f"{ticks} {text} {ticks}" if padded else f"{ticks}{text}{ticks}"


def _url(url: str) -> str:
    if _SAFE_URL.fullmatch(url):
        return url
    return "<" + re.sub(r"[\\<>&]", r"\\\g<0>", url) + ">"
