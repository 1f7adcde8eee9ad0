"""Where our Markdown differs from CommonMark's, as rules of the parser: emphasis, addresses, unused definitions.

Which signs are emphasis `literal` decides. A definition that nothing refers to ("[Result]: 42") stays text: a reader
would take it away.
"""

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, cast

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, reference
from markdown_it.rules_inline import StateInline, entity, escape
from markdown_it.rules_inline.state_inline import Delimiter
from markdown_it.token import Token

from gateway.delivery.literal import ESCAPED, OPAQUE, Run, Spans, literal_spans, pairs

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
    """In a path a backslash is one."""
    if state.src[state.pos] != "\\" or not _spans(state).holds_path(state.pos):
        return escape(state, silent)
    if not silent:
        state.append_pending("\\")
    state.pos += 1
    return True


def _entity(state: StateInline, silent: bool) -> bool:
    """In an address "&lt;" is no "<"."""
    return not (state.src[state.pos] == "&" and _spans(state).holds(state.pos)) and entity(state, silent)


class _Level:
    """What stands between the brackets of a link, or outside of all: its text, and the runs of signs in it."""

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
