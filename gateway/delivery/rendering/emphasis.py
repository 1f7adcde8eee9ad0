"""Emphasis: which `*`, `_` and `~~` of a text are markup, and which stay as they were written. Pure.

CommonMark takes `__init__.py` for bold and `(a)*b*(c)` for italics. Here a text falls into tokens, at white space, at
dashes and symbols, and at each letter of a script without spaces. Within a token a lone `*` and any `_` are what was
written, unless one of them stands at each end of a word that holds none (`*word*`, `_word_`; `__init__` is a name).
Emphasis over several tokens begins at the start of one and ends at the end of another. A name begins with no `**` and
no `~~`, except for a whole segment of a path (`**/*.py`): these two need only stand at the edge of a word.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple
from unicodedata import category

OPAQUE = "\ufffc"  # stands for code, a link or a picture, which are words whatever they hold
ESCAPED = "\ufffb"  # stands for a character behind a backslash, or written as an entity

# Scripts written without blanks between words, and Hangul, which adds particles to a word without one.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\ua4cf\ua960-\ua97f\uac00-\ud7ff"
    "\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U0001b000-\U0001b2ff\U00020000-\U0003ffff"
)
# Dashes, dots, arrows, emoji and what follows an emoji; brackets of tags and cells.
_PARTING = "<>|\u00b7\u2010-\u2015\u2022\u2026\u200b-\u200d\u2060\u20e3\u2190-\u2bff\ufe0e\ufe0f\U0001f000-\U0001faff"
_BETWEEN = rf"\s{_PARTING}{_UNSPACED}"
_TOKEN = re.compile(rf"(?<![^{_BETWEEN}])[^{_BETWEEN}*_~]*+[*_~][^{_BETWEEN}]*+")
_UNSPACED_LETTER = re.compile(f"[{_UNSPACED}]")

# Before and behind a token these are not of it. Beside a script without spaces only some of them tell on which side.
_OPENING_ONLY = frozenset("([{“„‘¿¡")
_CLOSING_ONLY = frozenset(")]}”’.,;:!?")
_OPENING = _OPENING_ONLY | frozenset("\"'”«»‹›’" + ESCAPED)
_CLOSING = _CLOSING_ONLY | frozenset("\"'“«»‹›‘" + ESCAPED)
_FIRST = frozenset("(\"'“„«»‹›‘’¿¡#@$€£¥" + OPAQUE + ESCAPED)  # besides letters and digits, what a word may begin with
_LAST = frozenset(")\"'“”«»‹›‘’:;,!?%#+$€£¥" + OPAQUE + ESCAPED)  # no ".": `*config.*` is a pattern of files

_ADDRESS = re.compile(
    r"(?P<address>(?<![A-Za-z0-9])(?:[A-Za-z][A-Za-z0-9+.\-]{1,15}+://|www\.)"
    '[^\\s<>"`\\[\\]\u3000-\u303f\uff01\uff08\uff09\uff0c\uff1a\uff1b\uff1f\u201c\u201d]+)'
    r"|(?P<mail>(?<![\w.%+\-])[A-Za-z0-9._%+\-]{1,64}+@[A-Za-z0-9\-]+(?:\.[A-Za-z0-9\-]+)+)"
    r"|(?P<path>(?:(?<!\w)[A-Za-z]:|(?<!\S)\\\\[\w.$\-]+)\\[^\s<>\"`|\[\]]*)"
)
_BEHIND = "?!.,:;'"  # at the end of an address these belong to the sentence, as GFM's literal autolinks have it


class Run(NamedTuple):
    """Signs of one kind in a row, from `start` to `stop`; its units (`*`, `_`, `~~`) are numbered from `first` on."""

    sign: str
    start: int
    stop: int
    first: int

    @property
    def units(self) -> int:
        return (self.stop - self.start) // (2 if self.sign == "~" else 1)

    @property
    def is_strong(self) -> bool:
        return self.sign == "~" or (self.sign == "*" and self.stop - self.start > 1)


@dataclass(frozen=True, slots=True)
class Spans:
    """Where the addresses and the Windows paths of a text stand; in the paths a backslash escapes nothing."""

    starts: tuple[int, ...] = ()
    stops: tuple[int, ...] = ()
    is_path: tuple[bool, ...] = ()

    def holds(self, at: int) -> bool:
        number = bisect_right(self.starts, at) - 1
        return number >= 0 and at < self.stops[number]

    def holds_path(self, at: int) -> bool:
        number = bisect_right(self.starts, at) - 1
        return number >= 0 and at < self.stops[number] and self.is_path[number]


_NOTHING = Spans()


def literal_spans(text: str) -> Spans:
    """The addresses and paths in it."""
    if "://" not in text and "www." not in text and "@" not in text and "\\" not in text:
        return _NOTHING
    found = [(match.start(), _end(match), match.lastgroup == "path") for match in _ADDRESS.finditer(text)]
    if not found:
        return _NOTHING
    starts, stops, is_path = zip(*found, strict=True)
    return Spans(starts, stops, is_path)


def _end(match: re.Match[str]) -> int:
    """Where it ends, without what belongs to the sentence around it; of `_*` at its end only the star does."""
    text, stop = match[0], len(match[0])
    if text.count(")") > text.count("("):
        # A bracket that was opened before it: `[a](https://x.org)**b**`.
        depths = accumulate({"(": 1, ")": -1}.get(character, 0) for character in text)
        stop = next((at for at, depth in enumerate(depths) if depth < 0), stop)
    weak = False
    while stop:
        last, begin = text[stop - 1], stop - 1
        if last in "*_~":
            while begin and text[begin - 1] == last:
                begin -= 1
            if last == "_" or stop - begin == 1:
                if weak:
                    break
                weak = True
        elif last not in _BEHIND:
            break
        stop = begin
    return match.start() + stop


def pairs(text: str, runs: Sequence[Run]) -> Iterator[tuple[int, int]]:
    """The units of `runs` that emphasise what stands between them, as numbers of the opening and the closing one."""
    pairing, spans = _Pairing(), literal_spans(text)
    at = 0
    for match in _TOKEN.finditer(text):
        first = at
        while at < len(runs) and runs[at].start < match.end():
            at += 1
        if at > first:
            pairing.next_token()
            for sign in _signs(text, match.start(), match.end(), runs[first:at], spans):
                yield from pairing.pair(sign)


@dataclass(slots=True)
class _Sign:
    """A run of signs and what it may do: `near` begin or end emphasis inside its token, `far` over several tokens."""

    run: Run
    opens_near: bool = False
    closes_near: bool = False
    opens_far: bool = False
    closes_far: bool = False
    token: int = 0
    is_segment: bool = False
    left: int = 0  # units that are in no pair yet
    closed: int = 0  # units that ended emphasis, before the run could begin some
    is_over: bool = False


def _signs(text: str, start: int, stop: int, runs: Sequence[Run], spans: Spans) -> list[_Sign]:
    """The runs of the token from `start` to `stop`."""
    signs = [_Sign(run, left=run.units) for run in runs]
    before, after = _beside(text[start - 1 : start]), _beside(text[stop : stop + 1])
    opening = _OPENING_ONLY if before == "unspaced" else _OPENING
    closing = _CLOSING_ONLY if after == "unspaced" else _CLOSING
    begin, end = start, stop
    while begin < stop and text[begin] in opening:
        begin += 1
    while end > begin and text[end - 1] in closing:
        end -= 1
    behind = runs[-1].stop
    is_suffix = 1 < end - behind <= 4 and text[behind] in "'’" and text[behind + 1 : end].isalpha()
    if is_suffix and runs[-1].start > begin:
        end = behind  # *Hamlet*'s
    head, inner = 0, begin
    while head < len(runs) and runs[head].start == inner:
        inner = runs[head].stop
        head += 1
    tail, outer = len(runs), end
    while tail > head and runs[tail - 1].stop == outer:
        tail -= 1
        outer = runs[tail].start
    if inner >= outer:
        left = before if begin == start else "blank" if text[begin - 1] in _OPENING_ONLY else "mark"
        right = after if end == stop else "blank" if text[end] in _CLOSING_ONLY else "mark"
        _judge_lone(signs, left, right)
        return signs
    outside = _outside(text, start, stop, runs)
    for number, sign in enumerate(signs):
        if sign.run.is_strong:
            _judge_strong(sign, *outside[number], text[sign.run.stop : min(sign.run.stop + 1, stop)])
            sign.is_segment = sign.run.sign == "*" and _is_segment(text, sign.run, begin, end)
            sign.opens_far = number < head
            sign.closes_far = number >= tail and not sign.is_segment
    is_word = (
        _is_word(text[inner]) or text[inner] in _FIRST or spans.holds(inner),
        _is_word(text[outer - 1]) or text[outer - 1] in _LAST or spans.holds(outer - 1),
    )
    _judge_weak(signs[:head], signs[head:tail], signs[tail:], is_word, text[outer - 1] == ".", (before, after))
    if after == "unspaced" and (last := signs[-1]).run.stop == stop and last.run.sign != "_":
        last.opens_far = last.closes_far
    if before == "unspaced" and (first := signs[0]).run.start == start and first.run.sign != "_":
        first.closes_far = first.opens_far
    return signs


def _beside(character: str) -> str:
    """The neighbour of a token: `blank` (also the edge of the text), a letter that is `unspaced`, or a `mark`."""
    if not character or character.isspace():
        return "blank"
    return "unspaced" if _UNSPACED_LETTER.match(character) else "mark"


def _is_word(character: str) -> bool:
    return character.isalnum() or category(character)[0] == "M"


def _judge_lone(signs: list[_Sign], left: str, right: str) -> None:
    """Nothing else is in the token: `「` is not of it, nor is a dash."""
    opens = right == "unspaced" or (right == "mark" and left == "blank")
    closes = left == "unspaced" or (left == "mark" and right == "blank")
    for sign in signs:
        sign.opens_far = opens and not (sign.run.sign == "_" and left == "unspaced")
        sign.closes_far = closes and not (sign.run.sign == "_" and right == "unspaced")


def _outside(text: str, start: int, stop: int, runs: Sequence[Run]) -> list[tuple[str, str]]:
    """The characters before and behind each run within the token, across other signs that touch it."""
    befores: list[str] = []
    afters: list[str] = []
    for number, run in enumerate(runs):
        touches = number > 0 and runs[number - 1].stop == run.start
        befores.append(befores[-1] if touches else text[max(start, run.start - 1) : run.start])
    for number in reversed(range(len(runs))):
        run = runs[number]
        touches = number + 1 < len(runs) and runs[number + 1].start == run.stop
        afters.append(afters[-1] if touches else text[run.stop : min(run.stop + 1, stop)])
    return list(zip(befores, reversed(afters), strict=True))


def _judge_strong(sign: _Sign, before: str, after: str, follows: str) -> None:
    """`**`, `***` and `~~` within a token: at the edge of a word, and no operator between two of them."""
    if follows and follows not in ")]},;":
        sign.opens_near = not (before and (_is_word(before) or before in ")]}"))
    if before and before not in "([{":
        sign.closes_near = _is_word(before) or before == OPAQUE or not (after and _is_word(after))


def _is_segment(text: str, run: Run, begin: int, end: int) -> bool:
    """Is it a whole segment of a path, as in `src/**` and `**/*.py`?"""
    slash_before, slash_after = text[run.start - 1 : run.start] == "/", text[run.stop : run.stop + 1] == "/"
    return (slash_before or slash_after) and (slash_before or run.start == begin) and (slash_after or run.stop == end)


def _judge_weak(
    head: list[_Sign],
    middle: list[_Sign],
    tail: list[_Sign],
    is_word: tuple[bool, bool],
    ends_sentence: bool,
    beside: tuple[str, str],
) -> None:
    """A lone `*` and any `_`. Does what stands between `head` and `tail` begin, and end, as a word does?"""
    (begins, ends), (before, after) = is_word, beside
    opening = [sign for sign in head if not sign.run.is_strong]
    closing = [sign for sign in tail if not sign.run.is_strong]
    if len(opening) > 1 or len(closing) > 1:
        return  # `*_test.py`
    held = {sign.run.sign for sign in middle}
    if opening and closing:
        one, other = opening[0].run, closing[0].run
        joined = one.sign == "_" and (before == "unspaced" or after == "unspaced")
        if one.sign == other.sign and one.units == other.units == 1 and not held and begins and ends and not joined:
            opening[0].opens_near = closing[0].closes_near = True
    elif opening:
        sign = opening[0].run.sign
        opening[0].opens_far = begins and sign not in held and not (sign == "_" and before == "unspaced")
        opening[0].opens_near = begins and ends and not held and sign == "*" and bool(tail)  # `*it***`
    elif closing:
        sign = closing[0].run.sign
        closing[0].closes_far = (
            (ends or ends_sentence) and sign not in held and not (sign == "_" and after == "unspaced")
        )
        closing[0].closes_near = begins and ends and not held and sign == "*" and bool(head)


class _Pairing:
    """Finds to each closing run the nearest opening one of its length; a run of three or more goes with any."""

    def __init__(self) -> None:
        self._token = 0
        self._open: list[_Sign] = []
        self._near: defaultdict[tuple[str, int], list[_Sign]] = defaultdict(list)
        self._far: defaultdict[tuple[str, int], list[_Sign]] = defaultdict(list)

    def next_token(self) -> None:
        self._token += 1
        self._near.clear()

    def pair(self, sign: _Sign) -> Iterator[tuple[int, int]]:
        """The pairs that a run closes; then it may open others with what is left of it."""
        sign.token = self._token
        run = sign.run
        while sign.left and (opener := self._opener(sign)) is not None:
            while self._open[-1] is not opener:
                self._open.pop().is_over = True
            both = 2 if run.sign != "~" and min(opener.left, sign.left) > 1 else 1
            for _ in range(both):
                opener.left -= 1
                yield opener.run.first + opener.closed + opener.left, run.first + sign.closed
                sign.closed += 1
                sign.left -= 1
            if opener.left:
                self._put(opener)
            else:
                self._open.pop().is_over = True
        if sign.left and (sign.opens_near or sign.opens_far):
            self._open.append(sign)
            self._put(sign)

    def _put(self, sign: _Sign) -> None:
        where = (sign.run.sign, min(sign.left, 3))
        if sign.opens_near and sign.token == self._token:
            self._near[where].append(sign)
        if sign.opens_far:
            self._far[where].append(sign)

    def _opener(self, sign: _Sign) -> _Sign | None:
        if sign.closes_near and (near := self._nearest(self._near, sign)) is not None:
            return None if near.is_segment and sign.is_segment else near
        far = self._nearest(self._far, sign) if sign.closes_far else None
        return far if far is not None and far.token != sign.token else None

    def _nearest(self, openers: dict[tuple[str, int], list[_Sign]], sign: _Sign) -> _Sign | None:
        length = min(sign.left, 3)
        found: _Sign | None = None
        for other in (1, 2, 3) if length == 3 else (length, 3):
            stack = openers[sign.run.sign, other]
            while stack and (stack[-1].is_over or min(stack[-1].left, 3) != other):
                stack.pop()
            if stack and (found is None or stack[-1].run.start > found.run.start):
                found = stack[-1]
        return found
