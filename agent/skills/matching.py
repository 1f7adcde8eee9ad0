"""Which skills fit what somebody has just written: by triggers, by words, and by meaning where vectors exist. Pure.

A score is 0 to 1. A trigger that stands in the message gives 1; words are weighed as BM25 does, against the most that
this message could reach; nearness in meaning counts as it is, where it is sure.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agent.memory.words import STOP, stem, telling, words_of
from agent.skills.settings import SkillSettings
from agent.skills.skill import Skill

K1, B = 1.2, 0.75  # BM25's usual ones
LEAST_HITS = 2  # words in common; one alone tells too little
MOST_HOLDERS = 50  # a word that more skills have tells nothing, and a search must not cost more with each
BEGINNING, END = 1_000, 500  # characters of a message that are looked at: what is wanted stands there
_CALLED = re.compile(r"@@skill=([\w-]{1,100})[ \t]*")


@dataclass(frozen=True, slots=True)
class _Document:
    skill: Skill
    counts: Mapping[str, int]
    length: int
    triggers: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Index:
    """The words of some skills, counted once; a search costs what the message has of them, not their number.

    Triggers and words that few skills have lead to these alone.
    """

    skills: tuple[Skill, ...]
    documents: tuple[_Document, ...] = field(init=False)
    holders: Mapping[str, tuple[int, ...]] = field(init=False)  # of a word: the documents that have it
    starts: Mapping[str, tuple[int, ...]] = field(init=False)  # of a trigger's first word
    named: Mapping[str, Skill] = field(init=False)
    average: float = field(init=False)

    def __post_init__(self) -> None:
        documents = tuple(_document(skill) for skill in self.skills)
        holders: dict[str, list[int]] = {}
        starts: dict[str, list[int]] = {}
        for place, document in enumerate(documents):
            for word in document.counts:
                holders.setdefault(word, []).append(place)
            for trigger in document.triggers:
                starts.setdefault(trigger[0], []).append(place)
        object.__setattr__(self, "documents", documents)
        object.__setattr__(self, "holders", {word: tuple(places) for word, places in holders.items()})
        object.__setattr__(self, "starts", {word: tuple(dict.fromkeys(places)) for word, places in starts.items()})
        object.__setattr__(self, "named", {skill.name: skill for skill in self.skills})
        lengths = [document.length for document in documents]
        object.__setattr__(self, "average", sum(lengths) / len(lengths) if lengths else 1.0)

    def scores(self, text: str) -> dict[str, float]:
        """How well each skill fits, by name; those that do not at all are left out."""
        if len(text) > BEGINNING + END:
            text = f"{text[:BEGINNING]} {text[-END:]}"
        said = words_of(text)
        stems = {word: stem(word) for word in set(said)}
        found = self._by_words(dict.fromkeys(stems[word] for word in telling(text) if word not in STOP))
        said = tuple(stems[word] for word in said)
        for at, word in enumerate(said):
            for place in self.starts.get(word, ()):
                document = self.documents[place]
                if any(tuple(said[at : at + len(trigger)]) == trigger for trigger in document.triggers):
                    found[document.skill.name] = 1.0
        return found

    def _by_words(self, wanted: Iterable[str]) -> dict[str, float]:
        weights = {word: self._weight(word) for word in wanted if len(self.holders.get(word, ())) <= MOST_HOLDERS}
        reachable = sum(weights.values()) * (K1 + 1)
        scores: dict[int, float] = {}
        hits: Counter[int] = Counter()
        for word in weights:
            for place in self.holders.get(word, ()):
                document = self.documents[place]
                count = document.counts[word]
                norm = K1 * (1 - B + B * document.length / self.average)
                scores[place] = scores.get(place, 0.0) + weights[word] * count * (K1 + 1) / (count + norm)
                hits[place] += 1
        return {
            self.documents[place].skill.name: min(1.0, score / reachable)
            for place, score in scores.items()
            if hits[place] >= LEAST_HITS
        }

    def _weight(self, word: str) -> float:
        """How much the word tells (inverse document frequency)."""
        having = len(self.holders.get(word, ()))
        return math.log(1 + (len(self.documents) - having + 0.5) / (having + 0.5))


def chosen(
    index: Index, text: str, settings: SkillSettings, meanings: Mapping[str, float] | None = None
) -> tuple[Skill, ...]:
    """The skills to put before the model for this message, the best first; `meanings` are surely near ones, by name."""
    scores = index.scores(text)
    for name, score in (meanings or {}).items():
        scores[name] = max(score, scores.get(name, 0.0))
    if not scores:
        return ()
    least = max(settings.min_score, max(scores.values()) - settings.clearly_better)
    fitting = [index.named[name] for name, score in scores.items() if score and score >= least and name in index.named]
    fitting.sort(key=lambda skill: (-scores[skill.name], skill.name))
    return tuple(fitting[: settings.max_active])


def called_in(text: str) -> str | None:
    """The skill that a message itself asks for, as `/skill NAME` writes it: `@@skill=NAME`."""
    found = _CALLED.search(text) if "@@skill=" in text else None
    return found[1].lower() if found else None


def calling(name: str, words: str) -> str:
    """The message that asks for the skill."""
    return f"@@skill={name} {words}".rstrip()


def without_call(text: str) -> str:
    """The message without what asks for a skill."""
    return _CALLED.sub("", text).strip() if "@@skill=" in text else text


def _document(skill: Skill) -> _Document:
    written = " ".join((skill.name.replace("-", " "), *skill.triggers, skill.description, skill.when_to_use))
    words = [stem(word) for word in words_of(written) if word not in STOP]
    triggers: Sequence[tuple[str, ...]] = [tuple(map(stem, words_of(trigger))) for trigger in skill.triggers]
    return _Document(skill, Counter(words), len(words), tuple(filter(None, triggers)))
