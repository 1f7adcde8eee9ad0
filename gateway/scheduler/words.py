"""A text as words that can be read one after another and put back. Pure."""

import re
from collections.abc import Callable, Container
from typing import TypeVar

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
        """What `read` gives; when it gives None, nothing was read."""
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
        """What is not read, as it was written."""
        return "" if self.is_done else self._text[self._found[self.at].start() :].strip()


def _plain(word: str) -> str:
    return word if len(word) < 2 or _DOTTED.fullmatch(word) else word.rstrip(".;:!?")
