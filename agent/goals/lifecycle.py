"""What a session is after, as far as its words tell: idle, active, completed. Pure; it never holds anything up.

It is followed only where the operator wants the model to read it (`track_in_system_prompt`); no model is told which of
the three it is (Z-95, Z-96).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from agent.goals.claims import claims

State = Literal["idle", "active", "completed"]

LONGEST_GOAL = 2_000  # characters of a goal (SPEC §10.2)
UNLIKE = 0.2  # below this share of common words a new request is another goal (SPEC §10.1)

_WORD = re.compile(r"\w+")
_GOES_ON = re.compile(r"(?:also|and|then|auch|und|dann|außerdem)\b", re.IGNORECASE)
_POLITE = re.compile(
    r"(?:(?:please|bitte|now|jetzt|instead|stattdessen|can you|could you|kannst du|let's)\b[\s,]*)+", re.IGNORECASE
)
# Words that requests begin with. A list misses some: then the goal keeps its text, which is the harmless mistake.
_REQUESTS = """
add analyse analyze answer book build calculate change check clean collect compare convert count create delete
deploy describe design draft explain extract fetch find finish fix generate get give help implement improve
install investigate list look make monitor move open order organise organize plan prepare print produce read
refactor remind remove rename repair replace research review rewrite run search send set show solve sort start
stop summarise summarize teach tell test transcribe translate update upload verify watch write analysiere baue
berechne beschreibe erkläre erstelle erzähle finde fasse gib hilf installiere korrigiere lies lösche mach mache
organisiere plane prüfe schicke schreib schreibe sende sortiere suche teste übersetze vergleiche zähle zeig
zeige
"""
_IMPERATIVES = frozenset(_REQUESTS.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionGoal:
    """`text` is "" exactly while it is idle."""

    state: State = "idle"
    text: str = ""


IDLE = SessionGoal()


def after_message(goal: SessionGoal, words: str) -> SessionGoal:
    """The goal once a person has said this (Z-84, Z-86, Z-97). One-word replies say nothing about it."""
    said = " ".join(words.split())
    if len(_WORD.findall(said)) < 2:
        return goal
    if goal.state != "active":
        return SessionGoal(state="active", text=said[:LONGEST_GOAL])
    if _GOES_ON.match(said):
        return replace(goal, text=f"{goal.text}\n{said}"[:LONGEST_GOAL])
    if is_request(said) and similarity(said, goal.text) < UNLIKE:
        return SessionGoal(state="active", text=said[:LONGEST_GOAL])
    return goal


def after_reply(goal: SessionGoal, text: str, *, tool_calls: bool, completion: re.Pattern[str] | None) -> SessionGoal:
    """Completed when the last answer says so and its turn called no tool (Z-89)."""
    return completed(goal) if not tool_calls and claims(text, completion) else goal


def completed(goal: SessionGoal) -> SessionGoal:
    """By a phrase, a finished plan or /done; what is not active stays as it is (Z-85, Z-91, Z-92)."""
    return replace(goal, state="completed") if goal.state == "active" else goal


def completion_pattern(phrases: Iterable[str]) -> re.Pattern[str] | None:
    """Finds any of the phrases as whole words, in any letter case; None where there are none (Z-90)."""
    words = [r"\s+".join(map(re.escape, phrase.split())) for phrase in phrases]
    return re.compile(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)", re.IGNORECASE) if words else None


def is_worth_telling(goal: SessionGoal) -> bool:
    """Whether people are told that an answer reached it: what nobody asked for ("Hello there") ends without a word."""
    return goal.text != "" and is_request(goal.text)


def is_request(words: str) -> bool:
    """Whether it begins as something that one asks for."""
    rest = words[match.end() :] if (match := _POLITE.match(words)) else words
    first = _WORD.search(rest)
    return first is not None and first[0].casefold() in _IMPERATIVES


def similarity(one: str, other: str) -> float:
    """The share of words that both have, 0..1."""
    mine, theirs = set(_WORD.findall(one.casefold())), set(_WORD.findall(other.casefold()))
    return len(mine & theirs) / len(mine | theirs) if mine | theirs else 1.0
