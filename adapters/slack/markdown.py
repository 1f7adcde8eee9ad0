"""Document → the Markdown that Slack's `markdown` block and its streams take; parsed again it gives the document. Pure.

Escapes only what would be read as markup, so that ordinary text stays as it is. `<@…>` and `<!…>` never survive: a
model's words must not call people.
"""

import re
from collections.abc import Sequence
from typing import assert_never
from unicodedata import category

from adapters.slack.parse import ESCAPES, escaped
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
from gateway.channels.kit.dialect import Dialect, render

# Inlines of a paragraph as Markdown, with as few escapes as keep its meaning. Pure.

_SPECIAL = re.compile(r"[\\`*_~&<\]!]")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]*);")
_AUTOLINK = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*")
_PUNCTUATION = set("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


def inline(
    children: Sequence[Inline], *, raw_breaks: bool = False, in_link: bool = False, before: str = " ", behind: str = " "
) -> str:
    """Markdown of the children. `raw_breaks` keeps line endings in text; `before` and `behind` stand around it."""
    nodes = _merged(children)
    out = ""
    for index, node in enumerate(nodes):
        after = _first_character(nodes[index + 1 :], behind)
        previous = out[-1] if out else before
        match node:
            case Text(text):
                shown = text if raw_breaks else text.replace("\n", " ")
                out += _text(shown, previous, after, in_link=in_link)
            case Bold(inner):
                out += _styled("**", inner, previous, after, in_link=in_link)
            case Strike(inner):
                out += _styled("~~", inner, previous, after, in_link=in_link)
            case Italic(inner):
                # An underscore opens and closes at the edge of a word only; a star would melt into bold's stars.
                inside_word = previous.isalnum() or after.isalnum()
                out += _styled("*" if inside_word else "_", inner, previous, after, in_link=in_link)
            case Code(text):
                out += _code(text)
            case Link(url, inner):
                out += _link(url, inner)
            case Break():
                out += "\n"
            case _:
                assert_never(node)
    return out


def _merged(children: Sequence[Inline]) -> list[Inline]:
    """Neighbouring texts as one, so that each sees what really stands beside it."""
    nodes: list[Inline] = []
    for node in children:
        last = nodes[-1] if nodes else None
        if isinstance(node, Text) and isinstance(last, Text):
            nodes[-1] = Text(last.text + node.text)
        elif not (isinstance(node, Text) and not node.text):
            nodes.append(node)
    return nodes


def _first_character(nodes: Sequence[Inline], behind: str) -> str:
    if not nodes:
        return behind
    match nodes[0]:
        case Text(text):
            return text[0]
        case Break():
            return " "
        case Link():
            return "["
        case Code():
            return "`"
        case _:
            return "*"


def _styled(mark: str, children: Sequence[Inline], previous: str, after: str, *, in_link: bool) -> str:
    """The children between marks. A mark between a letter and punctuation is none: such punctuation goes outside.

    Between a letter and code or a link it would be shown, so the words go without it there.
    """
    first, *rest = _merged(children) or [Text("")]
    lead = trail = ""
    if _is_letter(previous):
        if not isinstance(first, Text):
            return inline(children, in_link=in_link, before=previous, behind=after)
        count = next((at for at, one in enumerate(first.text) if _is_letter(one)), len(first.text))
        lead, first = first.text[:count], Text(first.text[count:])
    *rest, last = [first, *rest]
    if _is_letter(after):
        if not isinstance(last, Text):
            return inline(children, in_link=in_link, before=previous, behind=after)
        count = next((at for at, one in enumerate(reversed(last.text)) if _is_letter(one)), len(last.text))
        end = len(last.text) - count
        last, trail = Text(last.text[:end]), last.text[end:]
    marked = _wrapped(mark, [*rest, last], in_link=in_link)
    before = _text(lead.replace("\n", " "), previous, mark[0], in_link=in_link)
    return before + marked + _text(trail.replace("\n", " "), mark[0], after, in_link=in_link)


def _is_letter(character: str) -> bool:
    """Whether the parser takes it for a letter: neither white space nor punctuation nor a symbol."""
    return bool(character) and not character.isspace() and category(character)[0] not in "PS"


def _wrapped(mark: str, children: Sequence[Inline], *, in_link: bool) -> str:
    inner = inline(children, in_link=in_link, before=mark[0], behind=mark[0])
    bare = inner.strip()
    if not bare:
        return inner
    lead = inner[: len(inner) - len(inner.lstrip())]
    trail = inner[len(inner.rstrip()) :]
    return f"{lead}{mark}{bare}{mark}{trail}"


def _code(text: str) -> str:
    text = " ".join(text.split("\n"))
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    padded = text.startswith("`") or text.endswith("`") or (text[:1] == text[-1:] == " " and text.strip() != "")
    return f"{fence} {text} {fence}" if padded else f"{fence}{text}{fence}"


def _link(url: str, children: Sequence[Inline]) -> str:
    if children == (Text(url),) and _AUTOLINK.fullmatch(url):
        return f"<{url}>"
    if children == (Text(url.removeprefix("mailto:")),) and url.startswith("mailto:"):
        return f"<{url.removeprefix('mailto:')}>"
    label = inline(children, in_link=True, before="[", behind="]")
    return f"[{label}]({_destination(url)})"


def _destination(url: str) -> str:
    url = _ENTITY.sub(lambda match: "&amp;" + match[0][1:], url)
    if not url or re.search(r"[\s<>]", url):
        inner = url.replace("\n", "%0A").replace("<", "%3C").replace(">", "%3E")
        return f"<{inner}>"
    depth = 0
    for character in url:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            break
    return url if depth == 0 else url.replace("(", "\\(").replace(")", "\\)")


def _text(text: str, previous: str, after: str, *, in_link: bool) -> str:
    if not _SPECIAL.search(text) and not in_link:
        return text
    out: list[str] = []
    for index, character in enumerate(text):
        left = text[index - 1] if index else previous
        right = text[index + 1] if index + 1 < len(text) else after
        out.append(_escaped(character, left, right, text, index, in_link=in_link))
    return "".join(out)


def _escaped(character: str, left: str, right: str, text: str, index: int, *, in_link: bool) -> str:
    """The character, escaped if it would be read as markup where it stands."""
    match character:
        case "\\":
            dangerous = right in _PUNCTUATION or right == "\n" or index + 1 == len(text)
        case "`":
            dangerous = True
        case "*":
            dangerous = not (left.isspace() and right.isspace())
        case "_":
            dangerous = not ((left.isspace() and right.isspace()) or (left.isalnum() and right.isalnum()))
        case "~":
            dangerous = not right.isspace() or not left.isspace()
        case "&":
            return "&amp;" if _ENTITY.match(text, index) or index + 1 == len(text) else character
        case "<":
            return "&lt;" if right.isalpha() or right in "/!?@#*[`" else character
        case "[":
            dangerous = in_link
        case "]":
            dangerous = in_link or right in ("(", "[", ":")
        case "!":
            dangerous = right == "["
        case _:
            dangerous = False
    return "\\" + character if dangerous else character


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


# Document → Slack's own mrkdwn: for notifications, and for the message where a `markdown` block is refused.


def mrkdwn(document: Document) -> str:
    """The whole document; a reader of a `Plain` block sees exactly its text."""
    return render(document, MRKDWN)


def _mrkdwn_link(url: str, label: str) -> str:
    target = escaped(url.strip()).replace("|", "%7C")
    if "://" not in url and not url.startswith(("mailto:", "tel:")):
        return f"{label} ({target})" if target and target != label else label  # Slack links whole addresses only
    bare = label.replace("\n", " ").replace("|", "¦")
    return f"<{target}|{bare}>" if bare.strip() and bare != target else f"<{target}>"


MRKDWN = Dialect(
    bold="*",
    italic="_",
    strike="~",
    escapes=ESCAPES,
    code_escapes=ESCAPES,
    bare_addresses=False,
    link=_mrkdwn_link,
    structure="text",
    languages=False,
    tables="monospace",
    rule="─" * 10,
)
