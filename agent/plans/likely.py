"""Whether a message sounds like work in many steps (SPEC §13.4): words and lists, no model. Pure."""

import re
from dataclasses import dataclass

CANDIDATE = 2  # of score
CERTAIN = 4  # a score at which the confidence is whole

# Weight 2 each.
_STRONG = re.compile(
    r"\b(?:every (?:single )?file|all (?:the )?files|across (?:all|every|the (?:whole|entire))|for each|for every"
    r"|in parallel|migrate (?:all|every|everything)|(?:audit|review|refactor|rewrite|analy[sz]e) the (?:entire|whole)"
    r"|jede (?:einzelne )?datei|alle dateien|über alle|für jede[nrs]?|parallel|migriere alle"
    r"|(?:prüfe|überarbeite|analysiere) (?:das|die|den) (?:ganze|gesamte)[nrs]?)\b",
    re.IGNORECASE,
)
# Weight 1 each.
_WEAK = re.compile(
    r"\b(?:audit|migration|comprehensive(?:ly)?|thorough(?:ly)?|end[- ]to[- ]end|step (?:1|one)|multi[- ]step"
    r"|several steps|umfassend|gründlich|schritt (?:1|eins)|mehrere schritte)\b",
    re.IGNORECASE,
)
_ORDINALS = re.compile(
    r"\b(?:first(?:ly)?|second(?:ly)?|third(?:ly)?|finally|erstens|zweitens|drittens|zuletzt)\b", re.IGNORECASE
)
_NUMBERED = re.compile(r"^[ \t]*\d{1,2}[.)][ \t]+\S", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Likely:
    """`confidence` is 0..1."""

    score: int
    confidence: float

    @property
    def candidate(self) -> bool:
        return self.score >= CANDIDATE


def judged(words: str) -> Likely:
    """Each strong phrase counts 2, each weak one 1, a numbered list and one in words 1 each; twice is once."""
    score = 2 * _different(_STRONG, words) + _different(_WEAK, words)
    score += len(_NUMBERED.findall(words)) >= 2
    score += _different(_ORDINALS, words) >= 2
    return Likely(score=score, confidence=min(1.0, score / CERTAIN))


def may_ask(mode: str, *, approver: bool, writer: bool, words: str) -> bool:
    """Whether the gate makes a plan of a message: it is live, somebody could approve and would see it, and it sounds
    like one (W-17). What costs nothing is looked at first."""
    return mode == "live" and approver and writer and judged(words).candidate


def _different(pattern: re.Pattern[str], words: str) -> int:
    return len({" ".join(found[0].casefold().split()) for found in pattern.finditer(words)})
