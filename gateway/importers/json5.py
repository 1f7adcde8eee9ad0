"""Reads JSON5 (https://spec.json5.org): JSON with comments, names without quotes, commas at the end. Pure."""

import json
import re
from typing import Any

DEEPEST = 100
_SPACE = re.compile(r"(?:[\s\ufeff]+|//[^\n]*|/\*.*?\*/)*+", re.DOTALL)
_NAME = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")
_NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|Infinity|NaN)")
_PLAIN = re.compile(r"[^\\'\"\n]+")
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0", "\n": ""}
_WORDS = {"true": True, "false": False, "null": None}


def loads(text: str) -> Any:
    """The value. Raises json.JSONDecodeError (with the place, as for JSON) or RecursionError."""
    try:
        return json.loads(text)  # most are plain JSON, which the library reads faster
    except json.JSONDecodeError:
        reader = _Reader(text)
        value = reader.value(0)
        if not reader.is_over():
            raise reader.wrong() from None
        return value


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def value(self, depth: int) -> Any:
        if depth > DEEPEST:
            raise RecursionError("nested too deeply")
        match self._next():
            case "{":
                return self._table(depth)
            case "[":
                return self._list(depth)
            case '"' | "'" as quote:
                return self._string(quote)
            case _:
                return self._word()

    def is_over(self) -> bool:
        return not self._next()

    def wrong(self) -> json.JSONDecodeError:
        return json.JSONDecodeError("not JSON5", self._text, min(self._at, len(self._text)))

    def _next(self) -> str:
        """The next sign that is neither space nor comment, which stays; "" at the end."""
        found = _SPACE.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._text[self._at : self._at + 1]

    def _take(self, sign: str) -> bool:
        if self._next() != sign:
            return False
        self._at += 1
        return True

    def _table(self, depth: int) -> dict[str, Any]:
        self._at += 1
        found: dict[str, Any] = {}
        while not self._take("}"):
            first = self._next()
            name = self._string(first) if first in ("'", '"') else self._matched(_NAME)
            if not self._take(":"):
                raise self.wrong()
            found[name] = self.value(depth + 1)
            if not self._take(",") and self._next() != "}":
                raise self.wrong()
        return found

    def _list(self, depth: int) -> list[Any]:
        self._at += 1
        found: list[Any] = []
        while not self._take("]"):
            found.append(self.value(depth + 1))
            if not self._take(",") and self._next() != "]":
                raise self.wrong()
        return found

    def _string(self, quote: str) -> str:
        self._at += 1
        pieces = []
        while True:
            if plain := _PLAIN.match(self._text, self._at):
                pieces.append(plain[0])
                self._at = plain.end()
            sign = self._text[self._at : self._at + 1]
            self._at += 1
            if sign == quote:
                return "".join(pieces)
            if sign == "\\":
                pieces.append(self._escaped())
            elif sign in ("'", '"'):
                pieces.append(sign)
            else:
                self._at -= 1
                raise self.wrong()

    def _escaped(self) -> str:
        sign = self._text[self._at : self._at + 1]
        self._at += 1
        length = {"u": 4, "x": 2}.get(sign, 0)
        if not length:
            return _ESCAPES.get(sign, sign)
        digits = self._text[self._at : self._at + length]
        if not re.fullmatch(r"[0-9a-fA-F]+", digits) or len(digits) < length:
            raise self.wrong()
        self._at += length
        return chr(int(digits, 16))

    def _word(self) -> Any:
        if number := _NUMBER.match(self._text, self._at):
            self._at = number.end()
            written = number[0].lstrip("+")
            if "x" in written.lower():
                return int(written, 16)
            return int(written) if re.fullmatch(r"-?\d+", written) else float(written)
        word = self._matched(_NAME)
        if word not in _WORDS:
            raise self.wrong()
        return _WORDS[word]

    def _matched(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise self.wrong()
        self._at = found.end()
        return found[0]
