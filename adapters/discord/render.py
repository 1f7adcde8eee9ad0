"""A document as Discord Markdown. Pure; never splits.

The result is CommonMark as well wherever Discord allows it, so that it can be read back. Discord knows no tables
(aligned code, else a list of fields) and headings of three levels.
"""

import re
from collections.abc import Sequence
from itertools import groupby, pairwise

from adapters.discord.limits import LABEL_LIMIT, ROW_LENGTH, ROWS, TABLE_COLUMNS, TEXT_LIMIT
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
from gateway.channels.kit.tables import fields, monospace_within, words
from gateway.channels.outbound import Button

# Escaping: backslashes where Discord's parser would take a character for markup. Pure.

_URL = r"https?://[^\s<]+[^<.,:;\"'\]\s]"  # taken whole by the clients, and a backslash in it would break it

# Does Discord see anything but text in this? Of what ends with the sign it begins with, the first beginning in the text
# speaks for all: any end behind a later one is behind the first.
_MARKUP = re.compile(
    r"\\[^0-9A-Za-z\s]"
    r"|\A(?>[\s\S]*?\*\*)[\s\S]+?\*\*(?!\*)"
    r"|\*(?=\S)(?:\*\*|\\[\s\S]|\s+(?:\\[\s\S]|[^\s*\\]|\*\*)|[^\s*\\])+?\*(?!\*)"
    r"|\A(?>[\s\S]*?__)[\s\S]+?__|\A(?>[\s\S]*?_)[\s\S]+?_\b"
    r"|\A(?>[\s\S]*?~~)[\s\S]+?~~|\A(?>[\s\S]*?\|\|)[\s\S]+?\|\||`[\s\S]*?`"
    r"|^ *(?:[-*] |\d+\. |#{1,3} |-# |>(?:>>)? )"
    r"|\[[^\[\]]*+\]\(\s*+<?(?:https?|discord)://",
    re.MULTILINE,
)

_SIGN = re.compile(
    rf"(?P<url>{_URL})"
    r"|\\(?=[^0-9A-Za-z \t]|$)"
    r"|\*(?!\s)|(?<=\*)\*|_"  # an underscore opens inside a word too
    r"|~(?=~)|(?<=~)~|^~|~$|\|(?=\|)|(?<=\|)\||`"
    r"|\[|\](?=\()|&(?=#?\w+;)"  # without its first bracket there is no link, whatever stands in its label
    r"|<(?=[A-Za-z][A-Za-z0-9+.-]+:[^\s<>]*>|[^\s<>@]+@[^\s<>]+>)"
)
_STRICT = re.compile(rf"(?P<url>{_URL})|\\(?=[^0-9A-Za-z \t]|$)|[*_~|`\[\]]|&(?=#?\w+;)|<(?=[A-Za-z])")

_LINE_START = re.compile(
    r"^(?P<space>[ \t]*)(?:"
    r"(?P<number>\d{1,9})(?=[.)](?:\s|$))"
    r"|(?=#{1,6}(?:\s|$)|>|[-+*](?:\s|$)|-#\s|[-=][-= \t]*$|[|:][ |:\-]*$)"
    r")",
    re.MULTILINE,
)


def has_markup(text: str) -> bool:
    """Would Discord show this otherwise than letter by letter? For texts of a message's length."""
    return _MARKUP.search(text) is not None


def escaped(text: str, *, strict: bool = False) -> str:
    """The text with a backslash before each sign; `strict` inside other markup, where even a lone sign ends it."""
    return (_STRICT if strict else _SIGN).sub(_with_backslash, text)


def _with_backslash(match: re.Match[str]) -> str:
    return match[0] if match["url"] else "\\" + match[0]


def escaped_line_starts(text: str) -> str:
    """The same for what is markup at the beginning of a line only: headings, quotes, lists, rules, tables."""
    return _LINE_START.sub(lambda match: match["space"] + (match["number"] or "") + "\\", text)


def literal(text: str) -> str:
    """Text without any markup, so that what people read is this text."""
    return escaped_line_starts(escaped(text))


DEEPEST_HEADING = 3
STYLES = {"plain": 2, "primary": 1, "danger": 4}
_LANGUAGE = re.compile(r"[A-Za-z0-9_+\-.#]+")
_BACKTICKS = re.compile(r"`+")

_Styled = Bold | Italic | Strike


def render(document: Document) -> str:
    """The content of a message. A single `Plain` goes out byte for byte unless Discord would see markup in it."""
    match document:
        case (Plain(text),) if len(text) <= TEXT_LIMIT and not has_markup(text):
            return text
    return _blocks(document)


def measure(document: Document) -> int:
    """Characters (code points) of the content at most; a `Plain` counts as if every sign in it needed its backslash."""
    return len(_blocks(document))


def action_rows(buttons: Sequence[Sequence[Button]]) -> list[dict[str, object]]:
    """Buttons as components: rows of at most five, what is too long goes on in the next row."""
    rows = [row[at : at + ROW_LENGTH] for row in buttons for at in range(0, len(row), ROW_LENGTH)]
    if len(rows) > ROWS:
        every = [button for row in buttons for button in row]
        rows = [every[at : at + ROW_LENGTH] for at in range(0, len(every), ROW_LENGTH)]
    return [
        {
            "type": 1,
            "components": [
                {
                    "type": 2,
                    "style": STYLES[button.style],
                    "label": button.label[:LABEL_LIMIT],
                    "custom_id": button.action,
                }
                for button in row
            ],
        }
        for row in rows
    ]


# -- blocks


def _blocks(blocks: Sequence[Block], *, apart: str = "\n\n") -> str:
    if not blocks:
        return ""
    parts = [_block(blocks[0])]
    other = False  # two lists in a row are told apart by their markers
    for before, block in pairwise(blocks):
        # A heading brings its own distance.
        parts.append("\n" if isinstance(before, Heading) else apart)
        other = (
            isinstance(before, List)
            and isinstance(block, List)
            and (before.start is None) == (block.start is None)
            and not other
        )
        parts.append(_block(block, other_marker=other))
    return "".join(parts)


def _block(block: Block, *, other_marker: bool = False) -> str:
    match block:
        case Plain(text):
            return literal(text)
        case Paragraph(children):
            return _paragraph(children)
        case Heading(level, children):
            line = _inlines(children).replace("\n", " ")
            line = line[:-1] + "\\#" if line.endswith("#") and not line.endswith("\\#") else line
            return f"{'#' * min(level, DEEPEST_HEADING)} {line}"
        case CodeBlock(code, language):
            return _fenced(code, language)
        case Quote(inner):
            # An empty line needs its blank after the sign: without it the quotation ends on Discord.
            return "\n".join("> " + line for line in _blocks(inner).split("\n"))
        case List():
            return _list(block, other_marker)
        case Table():
            columns = monospace_within(block, TABLE_COLUMNS)
            return _block(fields(block)) if columns is None else _fenced(columns, "")
        case Rule():
            return "---"


def _paragraph(children: Sequence[Inline]) -> str:
    return escaped_line_starts(_inlines(children))


def _fenced(code: str, language: str) -> str:
    """Three backticks end a block on Discord wherever they stand, so a line that holds them goes between two blocks."""
    known = language if _LANGUAGE.fullmatch(language) else ""
    parts: list[str] = []
    for outside, lines in groupby(code.split("\n"), key=lambda line: "```" in line):
        inside = "\n".join(lines)
        if outside:
            parts.append(literal(inside))
        elif inside or "```" not in code:
            # A block without a letter would take the text behind it for its code.
            parts.append(f"```{known}\n{inside if inside.strip(chr(10)) else inside + ' '}\n```")
    return "\n".join(parts)


def _list(block: List, other_marker: bool) -> str:
    items = []
    for number, item in enumerate(block.items):
        if block.start is None:
            marker = "* " if other_marker else "- "
        else:
            marker = f"{block.start + number}{')' if other_marker else '.'} "
        text = _item(item, apart="\n" if block.tight else "\n\n")
        indented = text.replace("\n", "\n" + " " * len(marker))
        # No blanks on an empty line: they would be the only difference to the text that was meant.
        items.append(marker + re.sub(r"\n +(?=\n)", "\n", indented))
    return ("\n" if block.tight else "\n\n").join(items)


def _item(item: Item, *, apart: str) -> str:
    blocks = item.blocks
    if item.checked is None:
        return _blocks(blocks, apart=apart)
    return f"[{'x' if item.checked else ' '}] {_blocks(blocks, apart=apart)}"


# -- inlines


def _inlines(inlines: Sequence[Inline], *, inside: str = "") -> str:
    """`inside` names the signs of the markup around, so that they are not used within."""
    out: list[str] = []
    merged = _merged(inlines)
    for number, inline in enumerate(merged):
        rest = merged[number + 1] if number + 1 < len(merged) else None
        before = out[-1][-1:] if out and out[-1] else ""
        piece = _inline(inline, inside, before, rest)
        if piece.endswith("!") and isinstance(rest, Link):
            piece = piece[:-1] + "\\!"  # else it would be a picture
        out.append(piece)
    return "".join(out)


def _merged(inlines: Sequence[Inline]) -> list[Inline]:
    """Neighbours of one style as one: `**a****b**` says something else."""
    merged: list[Inline] = []
    for inline in inlines:
        last = merged[-1] if merged else None
        if isinstance(inline, Bold) and isinstance(last, Bold):
            merged[-1] = Bold(last.children + inline.children)
        elif isinstance(inline, Italic) and isinstance(last, Italic):
            merged[-1] = Italic(last.children + inline.children)
        elif isinstance(inline, Strike) and isinstance(last, Strike):
            merged[-1] = Strike(last.children + inline.children)
        else:
            merged.append(inline)
    return merged


def _inline(inline: Inline, inside: str, before: str, after: Inline | None) -> str:
    match inline:
        case Text(text):
            return escaped(text, strict=bool(inside))
        case Break():
            return "\n"
        case Code(text):
            return _code(text)
        case Link(url, children):
            return _link(url, children, inside)
        case Bold(children):
            return _wrapped("**", children, inside)
        case Strike(children):
            return _wrapped("~~", children, inside)
        case Italic(children):
            within_word = _is_word(before) or (isinstance(after, Text | Code) and _is_word(after.text[:1]))
            sign = "*" if within_word or "_" in inside or _holds("_", children) else "_"
            return _wrapped(sign, children, inside)


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _wrapped(sign: str, children: Sequence[Inline], inside: str) -> str:
    """The style around its words; white space at its edges goes outside, where it breaks nothing."""
    if sign in inside.split():
        return _inlines(children, inside=inside)  # bold within bold says nothing new
    if _holds(sign, children):
        # The style would end at the sign: it stops before what cannot be escaped, and goes on behind it.
        return "".join(
            _inlines(tuple(run), inside=inside) if held else _wrapped(sign, tuple(run), inside)
            for held, run in groupby(children, key=lambda child: _holds(sign, (child,)))
        )
    text = _inlines(children, inside=f"{inside} {sign}")
    core = text.strip()
    if not core:
        return text
    at = text.index(core)
    return f"{text[:at]}{sign}{core}{sign}{text[at + len(core) :]}"


def _holds(sign: str, children: Sequence[Inline]) -> bool:
    """Does the sign stand where no backslash can be put: in code or in an address?"""
    for child in children:
        match child:
            case Code(text) if sign in text:
                return True
            case Text(text) if "://" in text and sign in text:
                return True
            case Link(url, inner) if sign in url or _holds(sign, inner):
                return True
            case Bold(inner) | Italic(inner) | Strike(inner) if _holds(sign, inner):
                return True
    return False


def _code(text: str) -> str:
    if not text:
        return ""
    runs = {len(run) for run in _BACKTICKS.findall(text)}
    sign = "`" * next(length for length in range(1, len(runs) + 2) if length not in runs)
    blanks = text.startswith(" ") and text.endswith(" ") and text.strip()  # one at each end is taken off by readers
    pad = " " if blanks or text.startswith("`") or text.endswith("`") else ""
    return f"{sign}{pad}{text}{pad}{sign}"


def _link(url: str, children: Sequence[Inline], inside: str) -> str:
    said = words(children)
    if not url.lower().startswith(("http://", "https://")):
        # Discord shows the raw signs of a link to anything else.
        label = _inlines(children, inside=inside)
        return label if said == url or not url else f"{label} ({escaped(url)})".lstrip()
    if not said.strip() or said == url or (said.lower().startswith(("http://", "https://")) and said in url):
        return f"<{url}>"
    label = _inlines(children, inside=f"{inside} []")
    if "://" in said:
        return f"{label} (<{url}>)"  # a label that looks like an address is not shown as a link
    balanced = url.count("(") == url.count(")") and not re.search(r"[\s<>\\`]", url)
    return f"[{label}]({url})" if balanced else f"[{label}](<{url}>)"
