"""Whether a goal may become a plan, and with which words (SPEC §13.3). Pure.

Asked before any model is: what is refused here costs nothing and is told nowhere.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from agent.core.framing import defused
from agent.core.whole_text import whole
from agent.goals.prompts import smuggles

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
