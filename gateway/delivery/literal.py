"""What stays as it was written in a text without code marks: addresses, Windows paths, and signs inside words. Pure.

CommonMark takes `__init__.py` for bold and `(a)*b*(c)` for italics, because to it every sign beside punctuation begins
or ends emphasis. Here a sign is emphasis only at the edge of a phrase: `run_at` judges a run of signs by what stands
around it, `may_pair` two of them by what stands between them.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple
from unicodedata import category

SIGNS = "*_~"
LONGEST_NAME = 200  # characters between two signs without a blank; more is no name of anything

# Where people write without blanks between words, a sign cannot stand "inside a word".
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\ua4cf\ua960-\ua97f\uac00-\ud7ff"
    "\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U0001b000-\U0001b2ff\U00020000-\U0003ffff]"
)
_NO_LETTERS = frozenset("\u20e3\ufe0e\ufe0f")  # they belong to the emoji before them

_LITERAL = re.compile(
    r"(?P<address>(?<![A-Za-z0-9])(?:[A-Za-z][A-Za-z0-9+.\-]{1,15}+://|www\.)"
    '[^\\s<>"`\\[\\]\u3000-\u303f\uff01\uff08\uff09\uff0c\uff1a\uff1b\uff1f\u201c\u201d]+)'
    r"|(?P<mail>(?<![\w.%+\-])[A-Za-z0-9._%+\-]{1,64}+@[A-Za-z0-9\-]+(?:\.[A-Za-z0-9\-]+)+)"
    r"|(?P<path>(?:(?<!\w)[A-Za-z]:|(?<!\S)\\\\[\w.$\-]+)\\[^\s<>\"`|\[\]]*)"
)
_BEHIND = "?!.,:;*_~'"  # at the end of an address these belong to the sentence, as GFM's literal autolinks have it

# Names that are written between two underscores at each end; any other word in them is bold.
_SPECIAL_WORDS = (
    "abs add aenter aexit aiter all and anext annotations await bases bool bytes cached call ceil class code "
    "complex contains copy cpp debug deepcopy defaults del delattr delete delitem dict dir divmod doc enter eq "
    "exit file float floor floordiv format func future ge get getattr getattribute getitem getnewargs getstate "
    "globals gt hash hook iadd iand imul index init int invert ior isub iter ixor kwdefaults le len loader "
    "lshift lt main matmul metadata missing mocks mod module mro mul name ne neg new next or package path pos "
    "pow prepare proto public pycache qualname radd reduce repr reversed rmul ror round rshift rsub self set "
    "setattr setitem setstate sizeof slots spec static str sub subclasses subclasshook test tests truediv "
    "trunc typename unused version weakref wrapped xor "
    "CLASS COUNTER DATE DIR FILE FUNCTION LINE METHOD MODULE NAMESPACE PACKAGE TIME TIMESTAMP TRAIT VERSION "
)
_SPECIAL = frozenset(_SPECIAL_WORDS.split())


class Run(NamedTuple):
    """Signs of one kind in a row, and whether emphasis may begin or end with them."""

    sign: str
    start: int
    stop: int
    opens: bool
    closes: bool


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
    found = [(match.start(), _end(match), match.lastgroup == "path") for match in _LITERAL.finditer(text)]
    if not found:
        return _NOTHING
    starts, stops, is_path = zip(*found, strict=True)
    return Spans(starts, stops, is_path)


def _end(match: re.Match[str]) -> int:
    """Where it ends, without what belongs to the sentence around it."""
    text, stop = match[0], len(match[0])
    excess = text.count(")") - text.count("(")
    while stop and (text[stop - 1] in _BEHIND or (text[stop - 1] == ")" and excess > 0)):
        excess -= text[stop - 1] == ")"
        stop -= 1
    return match.start() + stop


@lru_cache(maxsize=4096)
def _kind(character: str) -> str:
    """`blank` (also the edge of the text), `sign` for punctuation and symbols, `unspaced` or `word`."""
    if not character or character.isspace():
        return "blank"
    if _UNSPACED.match(character):
        return "unspaced"
    kind = category(character)
    return "sign" if kind[0] in "PS" or kind in ("Cf", "Me") or character in _NO_LETTERS else "word"


def run_at(text: str, start: int, end: int) -> Run:
    """The run of signs that begins there; the text counts up to `end`."""
    sign, stop = text[start], start + 1
    while stop < end and text[stop] == sign:
        stop += 1
    before = text[start - 1] if start else ""
    after = text[stop] if stop < end else ""
    left, right = _kind(before), _kind(after)
    opens = right != "blank" and (right != "sign" or left != "word")
    closes = left != "blank" and (left != "sign" or right != "word")
    if before and before == after and left == "sign":
        opens = closes = False  # "*", COUNT(*) and a/**/b: it stands alone
    strict = sign == "_" or (sign == "*" and stop - start == 1)
    return Run(
        sign,
        start,
        stop,
        opens and _may_open(text, start, stop, end, strict=strict),
        closes and _may_close(text, start, stop, end, strict=strict),
    )


def _may_open(text: str, start: int, stop: int, end: int, *, strict: bool) -> bool:
    at = start - 1
    while at >= 0 and text[at] in SIGNS and start - at < 8:
        at -= 1
    before, after = text[at] if at >= 0 else "", text[stop] if stop < end else ""
    kind = _kind(before)
    if kind == "word" and _kind(after) != "unspaced":
        return False  # 2*3, snake_case
    if before and before in ")]}":
        return False  # f(x)*g(y), a[0]**b[1]
    if after in ")]},;":
        return False  # COUNT(*)
    beyond = text[stop + 1] if stop + 1 < end else ""
    if after in "./" and beyond and beyond in "*{[":
        return False  # **/*.py
    if not strict:
        return True
    if before and before in "./\\@#$%&+-=^":
        return False  # src/*.py, 100%_sure
    if text[start] == "_":
        return kind in ("blank", "sign") and before != ":"
    return after not in "./" or _kind(beyond) != "word"  # *.py


def _may_close(text: str, start: int, stop: int, end: int, *, strict: bool) -> bool:
    before = text[start - 1]
    if before in "([{":
        return False
    if not strict:
        return True
    at = stop
    while at < end and text[at] in SIGNS and at - stop < 8:
        at += 1
    after, beyond = text[at] if at < end else "", text[at + 1] if at + 1 < end else ""
    kind = _kind(after)
    if kind == "word" and _kind(before) != "unspaced":
        return False
    if after and (after in "/\\" or (after in ".-@#$%&+=^:" and _kind(beyond) == "word")):
        return False  # __init__.py, *foo*/bar
    return text[start] == "*" or (kind in ("blank", "sign") and not (after and after in "([{="))


def may_pair(text: str, opener: Run, closer: Run) -> bool:
    """Is what stands between them a phrase? A name, a pattern of files and a product are none."""
    inside = text[opener.stop : closer.start]
    if not inside or len(inside) > LONGEST_NAME or inside.split(maxsplit=1)[0] != inside:
        return True
    first, last = inside[0], inside[-1]
    if opener.sign == "_":
        dunder = opener.stop - opener.start > 1 and closer.stop - closer.start > 1
        return "_" not in inside.replace("\\_", "") and not (dunder and inside in _SPECIAL)
    if opener.sign == "~":
        return True
    if opener.stop - opener.start > 1 and closer.stop - closer.start > 1:
        return not (first == last == "/")  # **/tests/**
    if "*" in inside.replace("\\*", "") or last in "/\\-":
        return False  # *a*b*
    if first == "_" or last == "_":
        return first == last
    return first not in "/-?{" and (first != "." or inside.startswith(".."))
