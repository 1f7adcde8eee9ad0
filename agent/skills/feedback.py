"""Hears in a person's words whether the answer before was what they wanted. Pure; words alone count."""

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["rejection", "alternative", "repetition", "standing"]

LONGEST_HEARD = 2_000  # characters that are looked at: people correct in their first words
LONGEST_KEPT, LONGEST_BEFORE = 300, 120
LONGEST_PRAISE = 200
PREFIX = "Correction: "  # how a correction is kept among the facts


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionSignal:
    """`confidence` 0..1 that it is one."""

    kind: Kind
    confidence: float


def _words(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE)


# The first word decides most: "no" within a sentence says little.
_SIGNALS: tuple[tuple[Kind, float, re.Pattern[str]], ...] = (
    (
        "rejection",
        0.9,
        _words(
            r"^\W*(?:no|nope|wrong)\b[\s,.!:–-]+(?:that|this|it|you|i\b|not)",
            r"\b(?:that|this|it)(?:'s| is| was|’s) (?:not (?:right|correct|what i)|n[o']t what i|wrong|incorrect)\b",
            r"\byou (?:got|have|had) (?:it|that|this) wrong\b",
            r"^\W*(?:nein|falsch)\b[\s,.!:–-]+(?:das|es|du|ich|nicht|so)",
            r"\bdas (?:ist|war|stimmt) (?:so )?(?:nicht(?: richtig| korrekt|,? was ich)?|falsch)\b",
        ),
    ),
    (
        "standing",
        0.85,
        _words(
            r"^\W*(?:please )?(?:don'?t|don’t|do not|never|stop)\b.{0,80}\b(?:again|anymore|any more|in future)\b",
            r"\b(?:from now on|in future)\b.{0,80}\b(?:use|write|answer|don'?t|do not|never|always)\b",
            r"\b(?:ab jetzt|in zukunft|künftig)\b.{0,80}\b(?:nicht|kein\w*|immer|nie|nur)\b",
            r"\b(?:nie|nicht) (?:wieder|mehr)\b.{0,40}\b(?:machen|schreiben|sagen|tun|verwenden)\b",
        ),
    ),
    (
        "alternative",
        0.75,
        _words(
            r"^\W*(?:no,? )?(?:i (?:meant|wanted|asked for|said))\b",
            r"^\W*(?:actually|rather)[, ].{0,120}\binstead\b",
            r"\binstead of (?:that|this|what you)\b",
            r"^\W*ich (?:meinte|wollte|hatte .{0,40}gefragt|habe .{0,40}gesagt)\b",
            r"^\W*(?:nein,? )?(?:sondern|stattdessen|lieber)\b",
        ),
    ),
    (
        "repetition",
        0.7,
        _words(
            r"\b(?:i (?:already|just) (?:told|said|asked)|(?:as|like) i (?:already )?said|once again)\b",
            r"\b(?:(?:habe|hatte) ich (?:doch |dir )?(?:schon|bereits|gerade)|wie (?:schon )?gesagt|noch einmal)\b",
        ),
    ),
)

_PRAISE = re.compile(
    r"\W*(?:thanks|thank you|thx|perfect|excellent|great|awesome|brilliant|well done|nice one|exactly|love it|danke"
    r"|vielen dank|herzlichen dank|perfekt|super|klasse|toll|prima|spitze|genau so|sehr gut)\b|\s*[👍👏🙏❤💯🎉]",
    re.IGNORECASE,
)
_BUT = re.compile(r"\b(?:but|though|however|except|aber|allerdings|jedoch|nur dass)\b", re.IGNORECASE)


def signals_in(text: str) -> tuple[CorrectionSignal, ...]:
    """What of it sounds like a correction, the surest first (Z-05). Words in fenced or quoted lines are not theirs."""
    own = "\n".join(_own_lines(text[:LONGEST_HEARD]))
    return tuple(
        CorrectionSignal(kind=kind, confidence=confidence)
        for kind, confidence, pattern in _SIGNALS
        if pattern.search(own)
    )


def heard(text: str, threshold: float) -> CorrectionSignal | None:
    """The surest signal, if it is sure enough."""
    signals = signals_in(text)
    return signals[0] if signals and signals[0].confidence >= threshold else None


def pleased(text: str) -> bool:
    """Whether somebody begins with thanks or praise for the answer before, and takes nothing of it back."""
    beginning = text[:LONGEST_PRAISE].split("\n", 1)[0]
    return _PRAISE.match(beginning) is not None and _BUT.search(beginning) is None


def kept_as(text: str, before: str = "") -> str:
    """The correction as it is kept, with what was asked `before` it: one line, a fact like any other."""
    asked = f' (it had been asked: "{_line(before, LONGEST_BEFORE)}")' if before.strip() else ""
    return f"{PREFIX}{_line(text, LONGEST_KEPT)}{asked}"


def _line(text: str, longest: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def _own_lines(text: str) -> list[str]:
    own, inside = [], False
    for line in text.splitlines():
        stripped = line.lstrip()
        if stripped.startswith("```"):
            inside = not inside
        elif not inside and not stripped.startswith(">"):
            own.append(line)
    return own
