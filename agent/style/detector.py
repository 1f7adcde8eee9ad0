"""How somebody writes, in four numbers made of their last ten messages (SPEC §15.1). Pure; keeps counts, no words."""

import re
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields

WINDOW = 10  # messages
LONG_WORD = 6  # characters, from which on a word counts as long

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_EMOJI = re.compile("[\U0001f300-\U0001f9ff\u2600-\u27bf\U0001fa70-\U0001faff]")
_FENCE = re.compile(r"^(?:```|~~~)")


@dataclass(frozen=True, slots=True)
class Signals:
    """What is counted of one message."""

    words: int = 0
    long_words: int = 0
    letters: int = 0
    capitals: int = 0
    exclamations: int = 0
    emoji: int = 0
    parentheses: int = 0
    code_lines: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """Each from 0 to 1. These are the values of somebody who has not written yet."""

    formality: float = 0.5
    energy: float = 0.5
    terseness: float = 0.5
    emoji_use: float = 0.0


@dataclass(frozen=True, slots=True)
class StyleDetector:
    """The newest messages of one person in one place, oldest first, at most ten."""

    window: tuple[Signals, ...] = ()

    def observe(self, text: str) -> "StyleDetector":
        """With one message more. What cannot be measured changes nothing."""
        if not is_measurable(text):
            return self
        return StyleDetector((*self.window, signals_of(text))[-WINDOW:])

    @property
    def style(self) -> Style:
        return style_of(self.window)


def is_measurable(text: str) -> bool:
    """Whether letters have case and words have spaces between them: of Chinese or Arabic these numbers say nothing."""
    letters = [char for char in text if char.isalpha()]
    cased = sum(char.islower() or char.isupper() for char in letters)
    return bool(text.strip()) and cased * 2 >= len(letters)


def signals_of(text: str) -> Signals:
    """The counts of one message. Lines of fenced code are counted apart: they are nobody's way of writing."""
    lines, code_lines = _prose_of(text)
    prose = "\n".join(lines)
    words = _WORD.findall(prose)
    return Signals(
        words=len(words),
        long_words=sum(len(word) >= LONG_WORD for word in words),
        letters=sum(char.isalpha() for char in prose),
        capitals=sum(char.isupper() for char in prose),
        exclamations=prose.count("!"),
        emoji=len(_EMOJI.findall(prose)),
        parentheses=prose.count("("),
        code_lines=code_lines,
    )


def style_of(window: Sequence[Signals]) -> Style:
    """The four numbers, of all messages of the window together."""
    if not window:
        return Style()

    def total(count: Callable[[Signals], int]) -> int:
        return sum(map(count, window))

    words, letters = total(lambda one: one.words), total(lambda one: one.letters)
    emoji = total(lambda one: one.emoji)
    long_ratio = total(lambda one: one.long_words) / words if words else 0.0
    upper_ratio = total(lambda one: one.capitals) / letters if letters else 0.0
    shouting = min(1.0, total(lambda one: one.exclamations) / 3)
    return Style(
        formality=_clamp(0.8 * long_ratio + 0.2 * (1 - upper_ratio)),
        energy=_clamp(0.5 * shouting + 0.3 * upper_ratio + 0.2 * min(1.0, emoji / 5)),
        terseness=_clamp(1 / max(1.0, words / len(window) / 5)),
        emoji_use=_clamp(emoji / 5),
    )


def packed(window: Sequence[Signals]) -> list[list[int]]:
    """The counts alone, for the database."""
    return [list(astuple(one)) for one in window]


def unpacked(rows: object) -> tuple[Signals, ...]:
    """What `packed` gave. Raises ValueError for anything else."""
    width = len(fields(Signals))
    if not isinstance(rows, list) or len(rows) > WINDOW:
        raise ValueError("no window of a style")
    for row in rows:
        if not isinstance(row, list) or len(row) != width or any(type(one) is not int or one < 0 for one in row):
            raise ValueError("no counts of a message")
    return tuple(Signals(*row) for row in rows)


def _prose_of(text: str) -> tuple[list[str], int]:
    """The lines that are no code, and how many are."""
    if "```" not in text and "~~~" not in text:
        return [text], 0
    prose: list[str] = []
    code, inside = 0, False
    for line in text.splitlines():
        if _FENCE.match(line.lstrip()):
            inside = not inside
        elif inside:
            code += 1
        else:
            prose.append(line)
    return prose, code


def _clamp(value: float) -> float:
    return min(1.0, max(0.0, value))
