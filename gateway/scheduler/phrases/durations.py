"""Reads spans from words: 20 min, 1h30m, an hour and a half, 2 weeks. Pure."""

import re
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import TypeVar

from gateway.phrases.catalogue import UsageError
from gateway.scheduler.phrases import vocabulary as say

# Words of a text, read one after another and put back. Pure.

T = TypeVar("T")

_WORD = re.compile(r"[^\s,]+|,")
_DOTTED = re.compile(r"[\d.]+")  # 24.12. is a day, 24.12 none


class Words:
    """`at` is the number of the next word."""

    def __init__(self, text: str, at: int = 0) -> None:
        self._text = text
        self._found = list(_WORD.finditer(text))
        self._plain = [_plain(found[0].lower()) for found in self._found]
        self.at = at

    def __len__(self) -> int:
        return len(self._found)

    @property
    def is_done(self) -> bool:
        return self.at >= len(self._found)

    @property
    def next(self) -> str:
        """The next word in lower case, "" at the end; its closing punctuation is left out."""
        return "" if self.is_done else self._plain[self.at]

    @property
    def before(self) -> str:
        """The word before the next one, in the same form; "" at the beginning."""
        return self._plain[self.at - 1] if self.at else ""

    def take(self, words: Container[str]) -> str:
        """The next word, if it is one of these; else ""."""
        word = self.next
        if word and word in words:
            self.at += 1
            return word
        return ""

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """The next word, if it has this form as a whole."""
        found = pattern.fullmatch(self.next) if not self.is_done else None
        if found:
            self.at += 1
        return found

    def try_to(self, read: Callable[[], T]) -> T:
        """The result of `read`; when that is None, nothing was read."""
        at = self.at
        value = read()
        if value is None:
            self.at = at
        return value

    def between(self, first: int, last: int) -> str:
        """The words from one number to another, which is left out, as they were written."""
        if first >= min(last, len(self._found)):
            return ""
        return self._text[self._found[first].start() : self._found[min(last, len(self._found)) - 1].end()].strip(" ,:;")

    @property
    def rest(self) -> str:
        """The unread rest, as it was written."""
        return "" if self.is_done else self._text[self._found[self.at].start() :].strip()


def _plain(word: str) -> str:
    return word if len(word) < 2 or _DOTTED.fullmatch(word) else word.rstrip(".;:!?")


_NUMBER = re.compile(r"\d{1,6}(?:\.\d{1,3})?")
_PLUS = re.compile(r"\+((?:\d++(?:\.\d++)?[a-zäöü]++)+)")
_COMPACT = re.compile(r"(?:\d++(?:\.\d++)?[a-zäöü]++)+")
_COMPACT_PART = re.compile(r"(?<![\d.])(\d++(?:\.\d++)?)([a-zäöü]++)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """A span: what is of fixed length in seconds, and what only a calendar knows."""

    seconds: float = 0
    days: int = 0
    months: int = 0

    @property
    def is_of_the_calendar(self) -> bool:
        return not self.seconds


def read_amount(words: Words) -> Amount | None:
    """A span: 20 min, 1h30m, an hour and a half, half an hour, 2 days. Raises UsageError for an unknown unit."""
    total = words.try_to(lambda: _one_amount(words))
    while total is not None:
        more = words.try_to(lambda: _more(words))
        if more is None:
            return total
        total = _sum(total, more)
    return None


def read_plus(words: Words) -> Amount | None:
    """+1h30m."""
    found = words.match(_PLUS)
    return read_amount(Words(found[1])) if found else None


def _more(words: Words) -> Amount | None:
    words.take(say.AND)
    return _one_amount(words)


def _one_amount(words: Words) -> Amount | None:
    if (compact := words.try_to(lambda: _compact(words))) is not None:
        return compact
    number = read_number(words)
    half = bool(words.take(say.HALF))
    words.take({"a", "an"})
    unit = words.take(say.UNITS)
    if not unit or (number is None and not half):
        return None
    if half:
        number = 0.5 if number in (None, 1) else (number or 0) + 0.5
    elif words.try_to(lambda: _and_a_half(words)):
        number = (number or 0) + 0.5
    return amount_of(number or 0, say.UNITS[unit])


def _compact(words: Words) -> Amount | None:
    """1h30m, but not 2nd."""
    found = words.match(_COMPACT)
    if found is None:
        return None
    total = Amount()
    for number, unit in _COMPACT_PART.findall(found[0]):
        if unit not in say.UNITS:
            return None
        total = _sum(total, amount_of(float(number), say.UNITS[unit]))
    return total


def _and_a_half(words: Words) -> bool | None:
    return bool(words.take(say.AND) and words.take({"a"}) and words.take(say.HALF)) or None


def read_number(words: Words) -> float | None:
    """A number in digits or as a word."""
    if found := words.match(_NUMBER):
        return float(found[0])
    word = words.take(say.NUMBERS)
    return say.NUMBERS[word] if word else None


def amount_of(number: float, unit: str) -> Amount:
    """The amount in that unit. Raises UsageError for half a month."""
    if unit in ("seconds", "minutes", "hours"):
        return Amount(seconds=number * say.SECONDS[unit])
    whole = number * {"days": 1, "weeks": 7, "months": 1, "years": 12}[unit]
    if whole != int(whole):
        if unit in ("days", "weeks"):
            return Amount(seconds=number * say.SECONDS[unit])
        raise UsageError("when_whole", unit=unit)
    return Amount(months=int(whole)) if unit in ("months", "years") else Amount(days=int(whole))


def _sum(one: Amount, other: Amount) -> Amount:
    return Amount(seconds=one.seconds + other.seconds, days=one.days + other.days, months=one.months + other.months)
