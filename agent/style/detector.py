"""A person's style of writing, in four numbers made of their last ten messages. Pure; keeps counts, no words."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

WINDOW = 10  # messages
LONG_WORD = 6  # characters, from which on a word counts as long
LONGEST = 4_000  # characters of a message that are looked at: nobody's style needs more, and every turn pays for it

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_EMOJI = re.compile("[\U0001f300-\U0001f9ff\u2600-\u27bf\U0001fa70-\U0001faff]")
_FENCE = re.compile(r"^(?:```|~~~)")


class Signals(NamedTuple):
    """Counts of one message; a tuple, because ten of them are read and written in every turn."""

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
        signals = signals_of(text)
        return StyleDetector((*self.window, signals)[-WINDOW:]) if is_measurable(signals, text) else self

    def filled_up(self, others: Sequence["StyleDetector"]) -> "StyleDetector":
        """With messages of the same person from elsewhere, as far as there is room for older ones."""
        older = tuple(signals for other in others for signals in other.window)
        return StyleDetector((*older, *self.window)[-WINDOW:]) if older else self

    @property
    def style(self) -> Style:
        return style_of(self.window)


def is_measurable(signals: Signals, text: str) -> bool:
    """Whether it was written, in letters with case and words with spaces: of Chinese these numbers say nothing."""
    if not (signals.words or signals.emoji or signals.exclamations):
        return False
    return (signals.capitals + sum(map(str.islower, text[:LONGEST]))) * 2 >= signals.letters


def signals_of(text: str) -> Signals:
    """The counts of one message. Lines of fenced code are counted apart: they are nobody's way of writing."""
    lines, code_lines = _prose_of(text[:LONGEST])
    prose = "\n".join(lines)
    words = _WORD.findall(prose)
    return Signals(
        words=len(words),
        long_words=sum(len(word) >= LONG_WORD for word in words),
        letters=sum(map(str.isalpha, prose)),
        capitals=sum(map(str.isupper, prose)),
        exclamations=prose.count("!"),
        emoji=len(_EMOJI.findall(prose)),
        parentheses=prose.count("("),
        code_lines=code_lines,
    )


def style_of(window: Sequence[Signals]) -> Style:
    """The four numbers, of all messages of the window together."""
    if not window:
        return Style()

    every = Signals(*map(sum, zip(*window, strict=True)))
    long_ratio = every.long_words / every.words if every.words else 0.0
    upper_ratio = every.capitals / every.letters if every.letters else 0.0
    shouting = min(1.0, every.exclamations / 3)
    return Style(
        formality=_clamp(0.8 * long_ratio + 0.2 * (1 - upper_ratio)),
        energy=_clamp(0.5 * shouting + 0.3 * upper_ratio + 0.2 * min(1.0, every.emoji / 5)),
        terseness=_clamp(1 / max(1.0, every.words / len(window) / 5)),
        emoji_use=_clamp(every.emoji / 5),
    )


def unpacked(rows: object) -> tuple[Signals, ...]:
    """A window that was read as JSON. Raises ValueError for anything else."""
    if not isinstance(rows, list) or len(rows) > WINDOW:
        raise ValueError("no window of a style")
    for row in rows:
        if not isinstance(row, list) or len(row) != len(Signals._fields) or {*map(type, row)} != {int} or min(row) < 0:
            raise ValueError("no counts of a message")
    return tuple(map(Signals._make, rows))


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


# The line about a person's style for the model, if something stands out. Pure.

ENOUGH = 5  # messages, before anything is said

# From where on each number says something. The middles are not 0.5 for all of them: plain English chat has a formality
# of about 0.4, German one of 0.5, hardly anybody an energy above 0.2, and ten words a message are a terseness of 0.5.
CASUAL, FORMAL = 0.33, 0.65
LIVELY = 0.65
LONG, SHORT = 0.25, 0.75  # 20 words a message, 6.7
EMOJI = 0.6  # three in the window


def traits_of(style: Style) -> tuple[str, ...]:
    """The traits that stand out, in a word each."""
    found = (
        (style.formality <= CASUAL, "casual"),
        (style.formality >= FORMAL, "formal"),
        (style.energy >= LIVELY, "lively"),
        (style.terseness >= SHORT, "short messages"),
        (style.terseness <= LONG, "long messages with detail"),
        (style.emoji_use >= EMOJI, "emoji"),
    )
    return tuple(words for holds, words in found if holds)


def line_of(detector: StyleDetector) -> str:
    """The line for the newest message's reminder; "" where there is nothing to say (W-69)."""
    count = len(detector.window)
    traits = traits_of(detector.style) if count >= ENOUGH else ()
    if not traits:
        return ""
    lately = f"their last {min(count, WINDOW)} messages"
    return f"How they write ({lately}): {', '.join(traits)}. Let tone and detail suit that where the task allows."
