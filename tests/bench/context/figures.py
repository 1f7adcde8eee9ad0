"""Figures of one strategy over a set of sessions at one window: money, values kept, questions."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.bench.context.replay import Measured
from tests.bench.context.summariser import Asked

# Dollars per million tokens of claude-sonnet-5, from litellm's price list
# (model_prices_and_context_window_backup.json of litellm 1.106.2, read 2026-11-23).
MODEL = "claude-sonnet-5"
INPUT, OUTPUT, CACHE_READ, CACHE_WRITE = 2.0, 10.0, 0.2, 2.5

RESAMPLES = 2_000
COLUMNS = (
    "strategy",
    "$ / 100 turns",
    "questions $",
    "sent",
    "cached",
    "provenance",
    "in window",
    "lowest",
    "questions / turn",
    "of tokens",
    "front",
    "asked",
)


@dataclass(frozen=True, slots=True)
class Figures:
    """One strategy at one window over a set of sessions. Shares are 0 to 1, money is US dollars per 100 turns."""

    strategy: str
    sessions: Sequence[Measured]

    @property
    def turns(self) -> int:
        return sum(one.turns for one in self.sessions)

    @property
    def tokens(self) -> int:
        """Tokens of all requests."""
        return sum(sum(one.sizes) for one in self.sessions)

    @property
    def sent(self) -> float:
        """Tokens of all requests, against no compaction."""
        return self.tokens / sum(sum(one.bare) for one in self.sessions)

    @property
    def cached(self) -> float:
        """The share of all tokens that a prompt cache gives back."""
        return sum(one.cached for one in self.sessions) / self.tokens

    @property
    def asked(self) -> Mapping[str, Asked]:
        """The engine's own questions by purpose."""
        found: dict[str, Asked] = {}
        for one in self.sessions:
            for purpose, asked in one.asked.items():
                sofar = found.get(purpose, Asked())
                found[purpose] = Asked(
                    sofar.count + asked.count, sofar.prompt + asked.prompt, sofar.output + asked.output
                )
        return found

    @property
    def questions_money(self) -> float:
        """Price of the engine's own questions and their answers; nothing of them is cached."""
        asked = self.asked.values()
        dollars = (sum(one.prompt for one in asked) * INPUT + sum(one.output for one in asked) * OUTPUT) / 1e6
        return dollars * 100 / self.turns

    @property
    def money(self) -> float:
        """Price of all requests and questions. Answers of the model to people are the same everywhere and left out."""
        cached = sum(one.cached for one in self.sessions)
        dollars = (cached * CACHE_READ + (self.tokens - cached) * CACHE_WRITE) / 1e6
        return dollars * 100 / self.turns + self.questions_money

    @property
    def questions_a_turn(self) -> float:
        return sum(one.count for one in self.asked.values()) / self.turns

    @property
    def questions_share(self) -> float:
        """Tokens of the questions and their answers, against those of all requests."""
        return sum(one.prompt + one.output for one in self.asked.values()) / self.tokens

    @property
    def values(self) -> int:
        return sum(len(one.values) for one in self.sessions)

    @property
    def in_window(self) -> float:
        """Of the values that calls took from earlier results: those still in the request."""
        return sum(one.in_window for one in self.sessions) / max(1, self.values)

    @property
    def provenance(self) -> float:
        """The facts in the request, or in the answer of one recall."""
        return sum(one.found for one in self.sessions) / max(1, self.values)

    def stands_on_front(self, others: Sequence["Figures"]) -> bool:
        """Whether none of the others is as good in money, provenance and in window, and better in one of them."""
        mine = self.point
        return not any(
            all(theirs >= own for theirs, own in zip(other.point, mine, strict=True)) and other.point != mine
            for other in others
        )

    @property
    def point(self) -> tuple[float, float, float]:
        """As they are printed: differences that no table shows decide nothing."""
        return -round(self.money, 3), round(self.provenance, 3), round(self.in_window, 3)

    def line(self, others: Sequence["Figures"]) -> tuple[str, ...]:
        lowest = min(one.in_window / max(1, len(one.values)) for one in self.sessions)
        return (
            self.strategy,
            f"{self.money:.3f}",
            f"{self.questions_money:.3f}",
            f"{self.sent:.1%}",
            f"{self.cached:.1%}",
            f"{self.provenance:.1%}",
            f"{self.in_window:.1%}",
            f"{lowest:.1%}",
            f"{self.questions_a_turn:.2f}",
            f"{self.questions_share:.1%}",
            "yes" if self.stands_on_front(others) else "no",
            ", ".join(f"{asked.count} {purpose}" for purpose, asked in sorted(self.asked.items())) or "nothing",
        )

    @property
    def stages(self) -> Counter[str]:
        """The number of events of the engine, by kind."""
        return sum((one.stages for one in self.sessions), Counter())

    def as_json(self, others: Sequence["Figures"]) -> dict[str, Any]:
        return {
            "strategy": self.strategy,
            "window": self.sessions[0].window,
            "turns": self.turns,
            "money_per_100_turns": round(self.money, 4),
            "questions_money_per_100_turns": round(self.questions_money, 4),
            "prices": {"model": MODEL, "input": INPUT, "output": OUTPUT, "read": CACHE_READ, "write": CACHE_WRITE},
            "sent": round(self.sent, 4),
            "cached": round(self.cached, 4),
            "provenance": round(self.provenance, 4),
            "in_window": round(self.in_window, 4),
            "values": self.values,
            "on_front": self.stands_on_front(others),
            "questions_per_turn": round(self.questions_a_turn, 4),
            "questions_share_of_tokens": round(self.questions_share, 4),
            "questions": {purpose: asked.count for purpose, asked in self.asked.items()},
            "stages": dict(self.stages),
            "sessions": [
                {
                    "id": one.id,
                    "messages": one.messages,
                    "turns": one.turns,
                    "peak": max(one.sizes),
                    "tokens_without": max(one.bare),
                    "values": len(one.values),
                    "in_window": one.in_window,
                    "found": one.found,
                    "missed": [value.text for value in one.values if not (value.in_window or value.recalled)],
                    "byte_equal": one.checked,
                }
                for one in self.sessions
            ],
        }


@dataclass(frozen=True, slots=True)
class Interval:
    """A difference of two shares and the bounds that hold 95 % of its resamples."""

    difference: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.difference * 100:+.2f} points ({self.low * 100:+.2f} to {self.high * 100:+.2f})"


def paired(first: Figures, last: Figures, *, in_window: bool) -> Interval:
    """By how much `first` finds more of the values than `last`; subgoals of sessions are resampled as pairs."""
    groups: dict[tuple[int, int], tuple[int, int]] = {}
    for number, (one, other) in enumerate(zip(first.sessions, last.sessions, strict=True)):
        for mine, theirs in zip(one.values, other.values, strict=True):
            gained, size = groups.get((number, mine.subgoal), (0, 0))
            here = mine.in_window or (mine.recalled and not in_window)
            there = theirs.in_window or (theirs.recalled and not in_window)
            groups[number, mine.subgoal] = gained + here - there, size + 1
    pairs, dice = [*groups.values()], Random(1)

    def share(chosen: Sequence[tuple[int, int]]) -> float:
        return sum(gained for gained, _ in chosen) / max(1, sum(size for _, size in chosen))

    drawn = sorted(share(dice.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES)) if pairs else [0.0]
    return Interval(share(pairs), drawn[int(len(drawn) * 0.025)], drawn[int(len(drawn) * 0.975)])


def table(lines: Sequence[Figures], bold: str = "") -> str:
    """All strategies below each other, as Markdown; the one named `bold` stands out."""
    rows = [COLUMNS, tuple("---" for _ in COLUMNS)]
    for figures in lines:
        name, *rest = figures.line(lines)
        rows.append((f"**{name}**" if name == bold else name, *rest))
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    )
