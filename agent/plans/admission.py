"""Admission of a goal as a plan, the workflow gate, and the estimate of what it takes. Pure.

Asked before any model is: what is refused here costs nothing and is told nowhere.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent.core.untrusted_text import defused, whole
from agent.goals.driver import smuggles
from agent.plans.plan import Estimate, Task
from agent.providers.provider import Prices, Usage
from agent.providers.usage import cost_of

LEAST_CHARS = 10
MOST_BYTES = 8_192

_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+")
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b")
_CARD = re.compile(r"(?<![\d-])\d(?:[ -]?\d){12,18}(?![\d-])")
_PHONE = re.compile(r"(?<![\w+.,/-])(?:\+|00)\d{1,3}[ ./-]?(?:\(\d{1,5}\)[ ./-]?)?\d(?:[ ./-]?\d){5,12}(?![\w-])")
_SOCIAL = re.compile(r"(?<![\d-])\d{3}-\d{2}-\d{4}(?![\d-])")


class NotAdmitted(ValueError):
    """No plan is made. `key` names the sentence that says why."""

    def __init__(self, key: str, **values: object) -> None:
        super().__init__(key)
        self.key = key
        self.values = values


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """The goal as every model and every page sees it; `redacted`: something was taken out of it."""

    goal: str
    redacted: bool


def admit(words: str, redact: Callable[[str], str] = lambda text: text) -> Admitted:
    """The goal, without what identifies people and without secrets (`redact` finds those). Raises NotAdmitted."""
    goal = whole(words.strip())
    if len(goal) < LEAST_CHARS:
        raise NotAdmitted("plan_short", least=LEAST_CHARS)
    size = len(goal.encode())
    if size > MOST_BYTES:
        raise NotAdmitted("plan_long", size=f"{size:,}", most=f"{MOST_BYTES:,}")
    if smuggles(goal) or defused(goal) != goal:
        raise NotAdmitted("plan_smuggles")
    clean = without_people(redact(goal))
    return Admitted(goal=clean, redacted=clean != goal)


def without_people(text: str) -> str:
    """Without addresses, telephone, card, account and social security numbers."""
    text = _EMAIL.sub("[email]", text)
    text = _IBAN.sub(lambda found: "[account]" if _is_iban(found[0]) else found[0], text)
    text = _CARD.sub(lambda found: "[card]" if _is_card(found[0]) else found[0], text)
    text = _SOCIAL.sub("[number]", text)
    return _PHONE.sub("[phone]", text)


def _is_card(digits: str) -> bool:
    """Luhn's check (ISO/IEC 7812-1)."""
    numbers = [int(digit) for digit in reversed(digits) if digit.isdigit()]
    doubled = (number * 2 - 9 if number > 4 else number * 2 for number in numbers[1::2])
    return (sum(numbers[::2]) + sum(doubled)) % 10 == 0


def _is_iban(text: str) -> bool:
    """The remainder by 97 (ISO 13616)."""
    plain = text.replace(" ", "")
    return int("".join(str(int(letter, 36)) for letter in plain[4:] + plain[:4])) % 97 == 1


# Workflow gate: whether a message sounds like work in many steps. Words and lists, no model. Pure.

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


# Estimate of a plan's cost and time, told before a person confirms it. Pure; a guess, and called one.

# Our guess: a worker asks the model a few times, and each time the request has grown by a result.
CALLS_PER_TASK = 4
PROMPT_PER_CALL = 5_000  # tokens: instructions, tools, the task, what it has seen so far
OUTPUT_PER_CALL = 400
PROMPT_PER_RESULT = 600  # of the last call, which puts the results together
OUTPUT_AT_THE_END = 1_000


def estimated(tasks: Sequence[Task], prices: Prices | None) -> Estimate:
    """Calls, tokens and USD for these tasks and the call that puts their results together."""
    calls = CALLS_PER_TASK * len(tasks)
    prompt = calls * PROMPT_PER_CALL + len(tasks) * PROMPT_PER_RESULT
    output = calls * OUTPUT_PER_CALL + OUTPUT_AT_THE_END
    usage = Usage(prompt=prompt, output=output)
    return Estimate(calls=calls + 1, tokens=prompt + output, usd=cost_of(usage, prices))
