"""Builds, from the pieces of a regular expression, texts on which a matcher that goes back would take longest. Pure.

An attack is a head, a unit that is repeated, and a tail: its text may have any length. The families:

- each piece that repeats, pumped: what stands before it, many of it, and an end that does not fit;
- the beginning of a match, cut at each place, written again and again, with and without something between;
- runs of one character and of two, from every literal and class of the pattern and from all kinds of white space.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

STYLES = ("a", "-", "0", " ", "A", "\n")  # which member of a class is preferred
FEWER = 3  # of them for each branch of a choice but the first
BETWEEN = ("", " ", "-", "\n", ".", "a")
TAILS = ("", "\x00", "!", "\n", "a")
PUMPED = 12  # copies of a piece in the middle of a beginning: `{10,}` takes ten
MOST_CUTS, MOST_HEADS, MOST_ENDS, MOST_SIGNS = 40, 6, 5, 24
# Tried as members of a class, in this order. Each kind of character that patterns tell apart is there.
_CANDIDATES = (
    "aA0_-. \n\t/:;,=<>!?@#$%&*+()[]{}|\\^~`'\"éß–—“”。\u200b\xa0\x00bcdefghijklmnopqrstuvwxyzBCDEFGXZ123456789"
)


@dataclass(frozen=True, slots=True)
class Attack:
    """`text(n)` is a text of some `n` characters."""

    head: str
    unit: str
    tail: str

    def text(self, length: int) -> str:
        room = max(0, length - len(self.head) - len(self.tail))
        return f"{self.head}{self.unit * (room // len(self.unit))}{self.tail}"

    def __str__(self) -> str:
        return f"{self.head!r} + {self.unit!r} * n + {self.tail!r}"


def attacks_on(pattern: re.Pattern[str] | re.Pattern[bytes]) -> list[Attack]:
    """Every attack that the pieces of the pattern give, each once."""
    written = pattern.pattern
    if isinstance(written, str):
        return list(dict.fromkeys(_all(_Pattern(written, pattern.flags))))
    found = dict.fromkeys(_all(_Pattern(written.decode("latin-1"), pattern.flags)))
    return [one for one in found if one.text(64).isascii()]


def _all(pattern: "_Pattern") -> Iterator[Attack]:
    heads, ends = {"": None}, dict.fromkeys(TAILS[:2])
    for branch in range(pattern.most_branches):
        for style in STYLES[:FEWER] if branch else STYLES:
            write = _Writer(style, branch)
            for before, body, after in write.repeats(pattern.tree, ""):
                heads[before] = None
                ends |= dict.fromkeys(after[:cut] + "\x00" for cut in range(1, min(len(after), 3) + 1))
                yield from _pumped(before, body, after)
            yield from _begun(write.sequence(pattern.tree, full=False))
            yield from _begun(write.sequence(pattern.tree, full=True), BETWEEN[:1])
    for sign in pattern.alphabet:
        for head in list(heads)[:MOST_HEADS]:
            for tail in list(ends)[:MOST_ENDS] if head else dict.fromkeys([*TAILS, *list(ends)[:MOST_ENDS]]):
                yield Attack(head, sign, tail)
    for first in pattern.alphabet:
        for second in pattern.alphabet:
            if first != second:
                yield Attack("", first + second, "\x00")


def _pumped(before: str, body: str, after: str) -> Iterator[Attack]:
    if not body:
        return
    near = after[:-1] + "\x00"
    for tail in dict.fromkeys((*TAILS, near)):
        yield Attack(before, body, tail)
    for copies in (1, PUMPED):
        for between in BETWEEN:
            yield Attack("", f"{before}{body * copies}{between}", "")
        yield Attack("", f"{before}{body * copies}{near}", "")


def _begun(match: str, between: Sequence[str] = BETWEEN) -> Iterator[Attack]:
    for cut in range(1, min(len(match), MOST_CUTS) + 1):
        for sign in between if cut <= 8 or cut >= len(match) - 1 else between[:3]:
            yield Attack("", match[:cut] + sign, "")
    if len(match) > MOST_CUTS:
        yield Attack("", match, "\x00")


class _Pattern:
    def __init__(self, pattern: str, flags: int) -> None:
        parsed = _parser.parse(pattern, flags)
        self.tree = list(parsed)

    @cached_property
    def most_branches(self) -> int:
        return min(24, max((len(items[1]) for op, items in _walk(self.tree) if op is sre.BRANCH), default=1))

    @cached_property
    def alphabet(self) -> list[str]:
        """One character for each kind that the pattern tells apart: what fits the same pieces is the same to it."""
        pieces = [(op, item) for op, item in _walk(self.tree) if op in (sre.LITERAL, sre.NOT_LITERAL, sre.IN)]
        literals = "".join(chr(item) for op, item in pieces if op is sre.LITERAL)
        kinds: dict[tuple[bool, ...], str] = {}
        for sign in dict.fromkeys((*" \na\x00", *literals, *_CANDIDATES)):
            kinds.setdefault((*(_fits(op, item, sign) for op, item in pieces), sign.isalnum(), sign == "\n"), sign)
        return list(kinds.values())[:MOST_SIGNS]


class _Writer:
    """Writes strings that fit pieces of a pattern: the class member it prefers, the n-th branch of each choice."""

    def __init__(self, style: str, branch: int) -> None:
        self._style = style
        self._branch = branch
        self._groups: dict[int, str] = {}

    def sequence(self, items: Sequence[Any], *, full: bool) -> str:
        return "".join(self._piece(op, item, full=full) for op, item in items)

    def repeats(self, items: Sequence[Any], before: str) -> Iterator[tuple[str, str, str]]:
        """Of each repeated piece at any depth: what fits before it, one of it, what would have to follow."""
        for at, (op, item) in enumerate(items):
            rest = list(items[at + 1 :])
            if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
                _, most, body = item
                if most > 1:
                    yield before, self.sequence(body, full=True), self.sequence(rest, full=False)
                yield from self.repeats(body, before)
            for inner in _inside(op, item):
                yield from self.repeats(inner, before)
            before += self._piece(op, item, full=False)

    def _piece(self, op: Any, item: Any, *, full: bool) -> str:
        if op is sre.LITERAL:
            return chr(item)
        if op in (sre.NOT_LITERAL, sre.ANY, sre.IN):
            return self._member(lambda sign: _fits(op, item, sign))
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            least, _, body = item
            copies = min(max(int(least), 1 if full else 0), 300)
            return self.sequence(body, full=full) * copies
        if op is sre.SUBPATTERN:
            written: str = self.sequence(item[3], full=full)
            self._groups[item[0]] = written
            return written
        if op is sre.BRANCH:
            return self.sequence(item[1][self._branch % len(item[1])], full=full)
        if op is sre.ATOMIC_GROUP:
            return self.sequence(item, full=full)
        if op is sre.GROUPREF:
            return self._groups.get(item, "")
        return ""

    def _member(self, fits: Callable[[str], bool]) -> str:
        return next((sign for sign in (self._style, *_CANDIDATES) if fits(sign)), "")


def _inside(op: Any, item: Any) -> Iterable[Sequence[Any]]:
    if op is sre.SUBPATTERN:
        return (item[3],)
    if op is sre.BRANCH:
        return tuple(item[1])
    if op is sre.ATOMIC_GROUP:
        return (item,)
    if op in (sre.ASSERT, sre.ASSERT_NOT):
        return (item[1],)
    if op is sre.GROUPREF_EXISTS:
        return tuple(part for part in item[1:] if part is not None)
    return ()


def _walk(items: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    for op, item in items:
        yield op, item
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            yield from _walk(item[2])
        for inner in _inside(op, item):
            yield from _walk(inner)


def _fits(op: Any, item: Any, sign: str) -> bool:
    if op is sre.ANY:
        return sign != "\n"
    if op is sre.LITERAL:
        return ord(sign) == int(item)
    if op is sre.NOT_LITERAL:
        return ord(sign) != int(item)
    return _is_member(item, sign)


def _is_member(items: Sequence[Any], sign: str) -> bool:
    negated = bool(items) and items[0][0] is sre.NEGATE
    return any(_has(op, item, sign) for op, item in items) is not negated


def _has(op: Any, item: Any, sign: str) -> bool:
    if op is sre.LITERAL:
        return ord(sign) == int(item)
    if op is sre.RANGE:
        return bool(item[0] <= ord(sign) <= item[1])
    if op is sre.CATEGORY:
        kind = str(item).removeprefix("CATEGORY_")
        word = sign.isalnum() or sign == "_"
        holds = {"DIGIT": sign.isdecimal(), "SPACE": sign.isspace(), "WORD": word}
        return holds[kind.removeprefix("NOT_")] is not kind.startswith("NOT_")
    return False
