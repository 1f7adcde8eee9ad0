"""Long chats of several people over weeks, with questions and the messages that hold the answers; the same every time.

What is told once stands among chatter, and the same kinds of things told by others. `read` takes files of that shape.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.bench.memory.topics import CHATTER, REACTIONS, TOPICS, Topic

MESSAGES = 340  # of one history, at least
WEEKS = 13
GROUPS: dict[str, tuple[str, ...]] = {
    "flat share": ("Ann", "Bob", "Cem", "Dora"),
    "mountain club": ("Erik", "Fatma", "Greta", "Hugo", "Inés"),
    "choir": ("Jonas", "Keiko", "Luca", "Mila"),
    "family": ("Nora", "Otto", "Paula", "Quentin", "Rosa"),
    "old friends": ("Sven", "Tilda", "Umar", "Vera"),
    "garden": ("Wanda", "Xaver", "Yara", "Zoltan"),
}
TOLD = {"single": 14, "time": 6, "change": 5, "several": 5}  # topics of one history


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    id: str
    speaker: str
    at: datetime
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    text: str
    kind: str
    evidence: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    id: str
    messages: tuple[Said, ...]
    questions: tuple[Asked, ...]


@dataclass(slots=True)
class _Line:
    """A message that has no place yet; `where` is 0..1 of the whole time."""

    where: float
    speaker: str
    text: str


@dataclass(slots=True)
class _Question:
    text: str
    kind: str
    evidence: list[_Line]


def in_tree() -> dict[str, tuple[History, ...]]:
    """Every set of this tree: chats of several kinds and languages, and those that are made of topics and chatter."""
    here = Path(__file__).parent
    written = {path.stem: read(path) for path in sorted((here / "sets").glob("*.json"))}
    return written | {"more": read(here / "more_histories.json"), "topics": own()}


def own() -> tuple[History, ...]:
    """6 histories made of topics and chatter, 180 questions."""
    return tuple(_history(name, people, random.Random(name)) for name, people in GROUPS.items())


def read(path: Path) -> tuple[History, ...]:
    """Histories that others wrote: a JSON list of {"id", "messages": [{"id", "speaker", "at", "text"}],
    "questions": [{"text", "kind", "evidence": [message ids]}]}. `at` is ISO 8601 or seconds since 1970.

    A question without evidence has nothing to do with the history.
    """
    return tuple(
        History(
            id=str(entry["id"]),
            messages=tuple(
                Said(id=str(one["id"]), speaker=str(one.get("speaker", "")), at=_moment(one["at"]), text=one["text"])
                for one in entry["messages"]
            ),
            questions=tuple(
                Asked(
                    text=one["text"],
                    kind=str(one.get("kind", "single")),
                    evidence=frozenset(map(str, one.get("evidence", ()))),
                )
                for one in entry["questions"]
            ),
        )
        for entry in json.loads(path.read_text("utf-8"))
    )


def _moment(value: str | float) -> datetime:
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    moment = datetime.fromisoformat(value)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _history(name: str, people: Sequence[str], draw: random.Random) -> History:
    lines: list[_Line] = []
    questions: list[_Question] = []
    for kind, count in TOLD.items():
        topics = [topic for topic in TOPICS if topic.kind == kind]
        for topic in draw.sample(topics, count):
            made, question = _told(topic, people, draw)
            lines += made
            questions.append(question)
    while len(lines) < MESSAGES:
        text = draw.choice(CHATTER if draw.random() < 0.85 else REACTIONS)
        lines.append(_Line(draw.random(), draw.choice(people), text))
    lines.sort(key=lambda line: line.where)
    begins = datetime(2026, 2, 2, 7, tzinfo=UTC)
    numbered: dict[int, str] = {}
    messages = []
    for number, line in enumerate(lines):
        numbered[id(line)] = f"m{number}"
        at = begins + timedelta(weeks=WEEKS) * line.where
        messages.append(Said(id=f"m{number}", speaker=line.speaker, at=at, text=line.text))
    return History(
        id=name,
        messages=tuple(messages),
        questions=tuple(
            Asked(text=one.text, kind=one.kind, evidence=frozenset(numbered[id(line)] for line in one.evidence))
            for one in questions
        ),
    )


def _told(topic: Topic, people: Sequence[str], draw: random.Random) -> tuple[list[_Line], _Question]:
    """The messages about a topic, of the person asked about and of others, and the question."""
    values = draw.sample(topic.values, len(topic.values))
    tellers = draw.sample(people, min(3, len(people)))
    ask = draw.choice(topic.asks)
    if topic.kind == "several":
        told = [
            _Line(0.3 + draw.random() * 0.1, person, draw.choice(topic.says).format(v=value))
            for person, value in zip(tellers, values, strict=False)
        ]
        return told, _Question(ask, topic.kind, told)
    lines = []
    for person, value in zip(tellers, values, strict=False):
        lines.append(_Line(draw.random() * 0.45, person, draw.choice(topic.says).format(v=value)))
    about = tellers[0]
    evidence = lines[0]
    if topic.kind == "change":
        text = draw.choice(topic.changes).format(v=values[-1], old=values[0])
        evidence = _Line(0.55 + draw.random() * 0.4, about, text)
        lines.append(evidence)
    lines.append(_Line(min(1.0, evidence.where + 0.001), draw.choice(people), draw.choice(REACTIONS)))
    return lines, _Question(ask.format(name=about), topic.kind, [evidence])
