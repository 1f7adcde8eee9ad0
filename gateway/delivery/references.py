"""Definitions of links in Markdown: one that nothing refers to stays text, since a reader would take it away."""

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, cast

from markdown_it.rules_block import StateBlock, reference
from markdown_it.token import Token

Definition = dict[str, Any]


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


def kept_definition(state: StateBlock, start: int, end: int, silent: bool) -> bool:
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
