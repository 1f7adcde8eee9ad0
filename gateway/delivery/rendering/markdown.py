"""Reads Markdown into a `Document`: CommonMark, tables, strikethrough and task lists; HTML is ordinary text. Pure.

Text without any markup stays one `Plain`, so that it arrives byte for byte.
"""

import re
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import replace
from typing import Any, cast

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, reference
from markdown_it.rules_inline import StateInline, entity, escape
from markdown_it.rules_inline.state_inline import Delimiter
from markdown_it.token import Token

from gateway.channels.document import (
    Align,
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
    is_blank,
)
from gateway.delivery.rendering.emphasis import ESCAPED, OPAQUE, Run, Spans, literal_spans, pairs
from gateway.delivery.rendering.markdown_notes import raised, with_notes_and_formulas

# Rules of the parser that differ from CommonMark: emphasis, addresses, unused definitions.

Definition = dict[str, Any]


def with_our_rules(parser: MarkdownIt) -> MarkdownIt:
    """The parser with our rules in the places of its own."""
    parser.inline.ruler.at("emphasis", _emphasis)
    parser.inline.ruler.at("strikethrough", _strike)
    parser.inline.ruler.at("escape", _escape)
    parser.inline.ruler.at("entity", _entity)
    parser.inline.ruler2.at("balance_pairs", _pair)
    parser.block.ruler.at("reference", _definition)
    return parser


# -- emphasis, addresses and paths


def _spans(state: StateInline) -> Spans:
    """Found once for a text; the parser looks at it sign by sign."""
    known = cast("dict[str, Spans]", state.env.setdefault("literal", {}))
    if (spans := known.get(state.src)) is None:
        spans = known[state.src] = literal_spans(state.src)
    return spans


def _emphasis(state: StateInline, silent: bool) -> bool:
    if silent or state.src[state.pos] not in "*_":
        return False
    _put(state, 1)
    return True


def _strike(state: StateInline, silent: bool) -> bool:
    if silent or not state.src.startswith("~~", state.pos, state.posMax):
        return False
    _put(state, 2)
    return True


def _put(state: StateInline, width: int) -> None:
    """The run of signs as tokens of `width` signs, each of which `_pair` may pair."""
    start, sign = state.pos, state.src[state.pos]
    while state.pos < state.posMax and state.src[state.pos] == sign:
        state.pos += 1
    length = state.pos - start
    if _spans(state).holds(start):
        state.append_pending(sign * length)
        return
    if length % width:
        state.append_pending(sign)
    units = length // width
    for number in range(units):
        token = state.push("text", "", 0)
        token.content = sign * width
        token.meta = {"units": 0 if number else units}
        state.delimiters.append(Delimiter(ord(sign), 0, len(state.tokens) - 1, -1, open=True, close=True))


def _escape(state: StateInline, silent: bool) -> bool:
    """Leave a backslash in a path as it is."""
    if state.src[state.pos] != "\\" or not _spans(state).holds_path(state.pos):
        return escape(state, silent)
    if not silent:
        state.append_pending("\\")
    state.pos += 1
    return True


def _entity(state: StateInline, silent: bool) -> bool:
    """Leave "&lt;" in an address as it is."""
    return not (state.src[state.pos] == "&" and _spans(state).holds(state.pos)) and entity(state, silent)


class _Level:
    """The text between the brackets of a link, or outside of all, and the runs of markup characters in it."""

    def __init__(self, delimiters: list[Delimiter]) -> None:
        self.delimiters = delimiters
        self.runs: list[Run] = []
        self._pieces: list[str] = []
        self._length = self._units = 0

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def put(self, piece: str) -> None:
        self._pieces.append(piece)
        self._length += len(piece)

    def put_sign(self, token: Token) -> None:
        if units := int(token.meta["units"]):
            length = units * len(token.content)
            self.runs.append(Run(token.content[0], self._length, self._length + length, self._units))
        self._units += 1
        self.put(token.content)


def _pair(state: StateInline) -> None:
    """The parser makes emphasis of the delimiters that have an `end`."""
    for level in _levels(state):
        for opener, closer in pairs(level.text, level.runs) if level.runs else ():
            level.delimiters[opener].end = closer


def _levels(state: StateInline) -> Iterator[_Level]:
    inner = (meta["delimiters"] for meta in state.tokens_meta if meta and "delimiters" in meta)
    levels = [_Level(state.delimiters)]
    for token in state.tokens:
        if token.nesting > 0:
            levels.append(_Level(next(inner)))
        elif token.nesting < 0:
            yield levels.pop()
            levels[-1].put(OPAQUE)
        elif "units" in token.meta:
            levels[-1].put_sign(token)
        elif token.type == "text":
            levels[-1].put(token.content)
        elif token.type == "text_special":
            levels[-1].put(token.content if token.content.isspace() else ESCAPED)
        else:
            levels[-1].put("\n" if token.type in ("softbreak", "hardbreak") else OPAQUE)
    yield levels[0]


# -- definitions of links


class References(MutableMapping[str, Definition]):
    """The definitions of a text, which notes those that the parser looks up; of `only` given ones, if there are."""

    def __init__(self, only: frozenset[str] | None = None) -> None:
        self.only = only
        self.used: set[str] = set()
        self._known: dict[str, Definition] = {}

    def __getitem__(self, label: str) -> Definition:
        found = self._known[label]
        self.used.add(label)
        return found

    def __setitem__(self, label: str, definition: Definition) -> None:
        self._known[label] = definition

    def __delitem__(self, label: str) -> None:
        del self._known[label]

    def __contains__(self, label: object) -> bool:
        return label in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def _definition(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """The parser's rule for definitions, which makes a paragraph of one that is not among those to keep."""
    known = cast(References, state.env["references"])
    if known.only is None or silent:
        return reference(state, start, end, silent)
    found = References()
    state.env["references"] = found
    try:
        is_one = reference(state, start, end, silent)
    finally:
        state.env["references"] = known
    if not is_one:
        return False
    (label,) = found
    if label in known.only:
        known.setdefault(label, found[label])
    else:
        _as_text(state, start, state.line)
    return True


def _as_text(state: StateBlock, start: int, end: int) -> None:
    content = state.getLines(start, end, state.blkIndent, False).strip()
    last = state.tokens[-2] if len(state.tokens) > 2 else None
    if last is not None and last.meta.get("definition") == start:
        last.content += "\n" + content  # definitions in a row are lines of one paragraph
        last.meta = {"definition": end}
        return
    _pushed(state, "paragraph_open", 1).map = [start, end]
    inline = _pushed(state, "inline", 0)
    inline.content, inline.map, inline.children, inline.meta = content, [start, end], [], {"definition": end}
    _pushed(state, "paragraph_close", -1)


def _pushed(state: StateBlock, kind: str, nesting: int) -> Token:
    push = cast(Callable[[str, str, int], Token], state.push)
    return push(kind, "p" if nesting else "", nesting)


LONG_TEXT = 1_000  # characters; there is Markdown that takes ten times as long as most, so more goes to a thread
DEEPEST = 60  # levels of nesting; the parser drops text below its limit, so such a text is not parsed at all

# Whatever can begin markup: within a line, and at its start. A text without a match is plain; one with a match is
# parsed and may turn out plain as well.
_INLINE = re.compile(r"[*_`~\[\]<>&\\|\0]|\$[^$\n]*\$")
_LINE = re.compile(
    r"[ ]{0,3}(?:#{1,6}(?:[ \t]|$)|[-+](?:[ \t]|$)|\d{1,9}[.)](?:[ \t]|$)|(?:-[ \t]*){2,}$|=+[ \t]*$)|[ ]{0,3}\t|[ ]{4}"
)
_PARSER = with_notes_and_formulas(
    with_our_rules(
        MarkdownIt("commonmark", {"html": False, "maxNesting": DEEPEST})
        .enable(["table", "strikethrough"])
        .disable(["html_block", "html_inline"])  # they would be asked at each line, and answer no
    )
)
_TASK = re.compile(r"\[([ xX])\][ \t]+(?=\S)")
_ALIGNS: dict[str, Align] = {"text-align:left": "left", "text-align:center": "center", "text-align:right": "right"}


def parse(text: str) -> Document:
    """The blocks of a Markdown text; empty for a blank one."""
    if not text.strip():
        return ()
    if not _INLINE.search(text) and not any(_LINE.match(line) for line in text.splitlines()):
        return (Plain(text),)
    document = _blocks(text)
    if document is None or adds_nothing(document, text):
        return (Plain(text),)
    return document


def adds_nothing(document: Document, text: str) -> bool:
    """Are there only paragraphs, and did the parser take away nothing but white space?"""
    if is_blank(document):
        return True
    if not all(
        isinstance(block, Paragraph) and all(isinstance(child, Text | Break) for child in block.children)
        for block in document
    ):
        return False
    read = " ".join(
        child.text if isinstance(child, Text) else " "
        for block in document
        if isinstance(block, Paragraph)
        for child in block.children
    )
    return "".join(read.split()) == "".join(text.split())


def _blocks(text: str) -> Document | None:
    """None when it is nested too deeply to be read without loss."""
    references = References()
    tokens = _PARSER.parse(text, {"references": references})
    if len(references.used) < len(references):
        # "[Result]: 42" is a definition that nothing refers to: it would vanish.
        tokens = _PARSER.parse(text, {"references": References(frozenset(references.used))})
    if any(_depth(token) >= DEEPEST - 2 for token in tokens):
        return None
    return blocks_of(tokens)


def blocks_of(tokens: Sequence[Token]) -> Document:
    """The blocks that a parser's tokens describe."""
    reader = _Reader(tokens)
    return (*reader.blocks_until(""), *reader.notes)


def _depth(token: Token) -> int:
    return max((child.level for child in token.children), default=0) if token.children else token.level


class _Reader:
    """Walks the flat token list and builds the tree."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self.notes: list[Block] = []  # footnotes: they stand below everything else

    def _next(self) -> Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def blocks_until(self, closing: str) -> tuple[Block, ...]:
        """The blocks up to and including the token of type `closing` (or the end)."""
        blocks: list[Block] = []
        while self._at < len(self._tokens):
            token = self._next()
            if token.type == closing:
                break
            blocks.extend(self._block(token))
        return tuple(blocks)

    def _block(self, token: Token) -> Iterator[Block]:
        match token.type:
            case "paragraph_open":
                yield from _paragraph(self._inline("paragraph_close"))
            case "heading_open":
                if children := self._inline("heading_close"):
                    yield Heading(int(token.tag[1:]), _on_one_line(children))
            case "fence" | "code_block":
                language = token.info.split(maxsplit=1)[0] if token.info.strip() else ""
                formula = bool(token.meta.get("formula"))
                yield CodeBlock(token.content.removesuffix("\n"), language, formula)
            case "blockquote_open":
                if blocks := self.blocks_until("blockquote_close"):
                    yield Quote(blocks)
            case "bullet_list_open":
                yield self._list(None, "bullet_list_close")
            case "ordered_list_open":
                yield self._list(int(token.attrs.get("start", 1)), "ordered_list_close")
            case "table_open":
                yield self._table()
            case "note_open":
                number = int(token.meta["number"])
                note: list[Inline] = [Text(f"{raised(number)} ", number)]
                _append(note, self._inline("note_close"))
                self.notes.append(Paragraph(tuple(note)))
            case "hr":
                yield Rule()
            case _:
                raise AssertionError(f"unexpected token {token.type}")

    def _inline(self, closing: str) -> tuple[Inline, ...]:
        token = self._next()
        closed = self._next()
        assert closed.type == closing, closed.type
        return _inlines(token.children or [])

    def _list(self, start: int | None, closing: str) -> List:
        items: list[Item] = []
        tight = True
        while (token := self._next()).type != closing:
            assert token.type == "list_item_open", token.type
            begin = self._at
            blocks = self.blocks_until("list_item_close")
            tight = tight and not any(
                inner.type == "paragraph_open" and inner.level == token.level + 1 and not inner.hidden
                for inner in self._tokens[begin : self._at]
            )
            items.append(_item(blocks))
        return List(tuple(items), start, tight)

    def _table(self) -> Table:
        rows: list[tuple[tuple[Inline, ...], ...]] = []
        aligns: list[Align] = []
        cells: list[tuple[Inline, ...]] = []
        while (token := self._next()).type != "table_close":
            if token.type == "tr_open":
                cells = []
            elif token.type in ("th_open", "td_open"):
                if token.type == "th_open":
                    aligns.append(_ALIGNS.get(str(token.attrs.get("style", "")), "none"))
                cells.append(_inlines(self._next().children or []))
            elif token.type == "tr_close":
                rows.append(tuple(cells))
        return Table(rows[0], tuple(rows[1:]), tuple(aligns))


def _paragraph(children: tuple[Inline, ...]) -> Iterator[Paragraph]:
    if children:
        yield Paragraph(children)


def _on_one_line(children: tuple[Inline, ...]) -> tuple[Inline, ...]:
    found: list[Inline] = []
    for child in children:
        match child:
            case Break():
                child = Text(" ")
            case Bold(inner) | Italic(inner) | Strike(inner) | Link(_, inner):
                child = replace(child, children=_on_one_line(inner))
        _append(found, (child,))
    return tuple(found)


def _item(blocks: tuple[Block, ...]) -> Item:
    """Read the box of a task: `[ ]` or `[x]` before the text of a list item."""
    if blocks and isinstance(first := blocks[0], Paragraph) and isinstance(text := first.children[0], Text):
        box = _TASK.match(text.text)
        # A box right before other markup ("[ ] **bold**") leaves an empty text behind it.
        if box is None and len(first.children) > 1 and re.fullmatch(r"\[([ xX])\][ \t]+", text.text):
            box = re.match(r"\[([ xX])\][ \t]+", text.text)
        if box:
            rest = text.text[box.end() :]
            children = (Text(rest), *first.children[1:]) if rest else first.children[1:]
            return Item((Paragraph(children), *blocks[1:]), box[1] != " ")
    return Item(blocks)


_WRAPPERS: dict[str, tuple[str, Callable[[tuple[Inline, ...]], Inline]]] = {
    "strong_open": ("strong_close", Bold),
    "em_open": ("em_close", Italic),
    "s_open": ("s_close", Strike),
}


def _inlines(tokens: Sequence[Token], within: frozenset[str] = frozenset()) -> tuple[Inline, ...]:
    return _run(iter(tokens), "", within)


def _run(tokens: Iterator[Token], closing: str, within: frozenset[str]) -> tuple[Inline, ...]:
    """The inlines up to `closing`. `within` names the styles already in force: bold in bold is bold."""
    found: list[Inline] = []
    for token in tokens:
        if token.type == closing:
            break
        match token.type:
            case "text" | "text_special":
                _append(found, (Text(token.content),) if token.content else ())
            case "note":
                found.append(Text(token.content, int(token.meta["number"])))
            case "softbreak" | "hardbreak":
                found.append(Break())
            case "code_inline":
                found.append(Code(token.content, bool(token.meta.get("formula"))))
            case "link_open":
                _append(found, _link(str(token.attrs["href"]), _run(tokens, "link_close", within | {"link"}), within))
            case "image":
                alternative = _inlines(token.children or [], within | {"link"})
                _append(found, _link(str(token.attrs["src"]), alternative, within))
            case kind if kind in _WRAPPERS:
                end, wrap = _WRAPPERS[kind]
                children = _run(tokens, end, within | {kind})
                _append(found, children if kind in within or is_blank((Paragraph(children),)) else (wrap(children),))
            case kind:
                raise AssertionError(f"unexpected token {kind}")
    return tuple(found)


def _link(url: str, children: tuple[Inline, ...], within: frozenset[str]) -> tuple[Inline, ...]:
    """A link; one that leads nowhere, or stands in another link, is text; one without text shows where it leads."""
    shown = (Text(url),) if url and is_blank((Paragraph(children),)) else children
    return (Link(url, shown),) if url and "link" not in within else shown


def _append(found: list[Inline], more: tuple[Inline, ...]) -> None:
    """Join neighbours of a kind: the same words must give the same document, however the parser cut them."""
    for inline in more:
        match (found[-1] if found else None), inline:
            case Text(before, note=0), Text(after, note=0):
                found[-1] = Text(before + after)
            case Bold(before), Bold(after):
                found[-1] = Bold(_joined(before, after))
            case Italic(before), Italic(after):
                found[-1] = Italic(_joined(before, after))
            case Strike(before), Strike(after):
                found[-1] = Strike(_joined(before, after))
            case _:
                found.append(inline)


def _joined(before: tuple[Inline, ...], after: tuple[Inline, ...]) -> tuple[Inline, ...]:
    found = list(before)
    _append(found, after)
    return tuple(found)
