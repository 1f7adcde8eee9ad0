"""Matching of skills with a message: by triggers, names, words, and meaning where vectors exist. Pure.

A score is 0 to 1. A trigger or a name that stands in a sentence that asks for something is sure; words are weighed as
BM25 does, rare ones more, against the most that the sentence could reach; nearness in meaning counts as it is, where it
is sure. A sentence that tells ("the translation was terrible") counts a quarter. Quotations, code and what follows
"translate this:" are material, and bring up nothing.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from agent.memory.lexicon import ENGLISH, REQUESTS, Lexicon, is_stop, language_of, pieces, plain
from agent.skills.settings import SkillSettings
from agent.skills.skill import Skill

# Sentences of the person in a message, and the clauses among them that ask for something. Pure.

GERMAN = "german"
_COLONS = (":", "：")
INTRODUCES = 3  # words of a sentence before a colon behind which the material begins

_QUOTED = re.compile(r"\"[^\"\n]*\"|„[^„“”\n]*[“”]|“[^“”\n]*”|«[^«»\n]*»|`[^`\n]+`|(?<!\w)['‘][^'‘’\n]*['’](?!\w)")
_SENTENCE_ENDS = re.compile(r"([.!?…。！？;](?=\s|$)|\n|:(?=\s|$)|：)")
_CLAUSE_ENDS = re.compile(r"[,，、–—]|\s-\s")


def word_set(words: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(words.split())


_POLITE = word_set("please pls bitte thanks thank you danke dir")
_OPENERS = word_set("hi hey hello ok okay so and also then now well hallo moin und dann jetzt nun also bot but aber")
# A sentence that begins so tells something, or asks for a fact, unless it says what somebody needs.
_TELLING = word_set(
    """
    a an the my our your his her its their this that these those it he she we they i there nobody everybody somebody
    who whose when where why was were is are did does has had
    der die das den dem ein eine einen einem mein meine meinen meinem meiner unser unsere unseren dein deine sein seine
    seinen ihr ihre ihren dieser diese dieses diesen ich du er sie es wir man jemand niemand wer wessen wann wo wohin
    warum wieso weshalb war waren ist sind hat
    """
)
_NEEDS = word_set(
    """
    please bitte need needs want would looking brauche brauchen bräuchte möchte möchten hätte hätten gern gerne suche
    kannst könntest könnt könntet würdest
    """
)
_GERMAN_NEEDS = word_set("will wollen")


@dataclass(frozen=True, slots=True)
class Clause:
    """Some words of a sentence, in lower case, and whether they ask for something."""

    words: tuple[str, ...]
    asks: bool


def sentences(text: str, language: str) -> Iterator[Sequence[Clause]]:
    """The person's own sentences, without what they quote or hand over as material; all of it where that is nothing."""
    own = _own(text)
    material: Literal["", "line", "lines"] = ""  # "lines": up to an empty one
    given = False
    parts = _SENTENCE_ENDS.split(own)
    for place in range(0, len(parts), 2):
        before, end = parts[place - 1] if place else "", parts[place + 1] if place + 1 < len(parts) else ""
        clauses = list(_clauses(parts[place], language))
        if clauses and not material:
            given = True
            yield clauses
        if end == "\n" and material == "line":
            material = "lines" if not clauses and before in _COLONS else ""
        elif end == "\n" and not clauses and before == "\n":
            material = ""
        elif end in _COLONS and not material and any(clause.asks for clause in clauses):
            material = "line" if sum(len(clause.words) for clause in clauses) >= INTRODUCES else ""
    if not given and own != text:
        yield tuple(_clauses(text, language))


def _own(text: str) -> str:
    """Without fenced code, quoted lines and quotations."""
    if "```" in text or ">" in text:
        lines, inside = [], False
        for line in text.split("\n"):
            stripped = line.lstrip()
            if stripped.startswith("```"):
                inside = not inside
            elif not inside and not stripped.startswith(">"):
                lines.append(line)
        text = "\n".join(lines)
    return _QUOTED.sub(" ", text)


def _clauses(sentence: str, language: str) -> Iterator[Clause]:
    """A clause of "please" alone belongs to the one before it."""
    waiting: Clause | None = None
    for part in _CLAUSE_ENDS.split(sentence):
        words = tuple(pieces(part))
        if not words:
            continue
        if waiting is not None and _POLITE.issuperset(words):
            waiting = Clause(waiting.words, waiting.asks or "please" in words or "bitte" in words)
            continue
        if waiting is not None:
            yield waiting
        waiting = Clause(words, _asks(words, language))
    if waiting is not None:
        yield waiting


def _asks(words: Sequence[str], language: str) -> bool:
    """Whether a clause asks for something to be done; of languages but English and German every one does."""
    rest = [word for word in words if word not in _OPENERS]
    if not rest or rest[0] not in _TELLING or (rest[0] == "was" and language == GERMAN):
        return bool(rest)
    if rest[0] in ("is", "are") and "there" in rest[1:2]:
        return True
    return any(word in _NEEDS or (language == GERMAN and word in _GERMAN_NEEDS) for word in rest)


K1, B = 1.2, 0.4  # BM25's; the length counts less than usual, since some describe a skill at length
UNKNOWN = 0.5  # what a word of no skill weighs, of one that a single skill has: it says what about, not what to do
LEAST_HITS = 2  # words in common; one alone tells too little
MOST_HOLDERS = 50  # a word that more skills have tells nothing, and a search must not cost more with each
BEGINNING, END = 1_000, 500  # characters of a message that are looked at: what is wanted stands there
MOST_BETWEEN = 6  # other words between those of a trigger: "fass mir das bitte zusammen"
SURE, SCATTERED, NAMED, NAMED_BY_ONE = 1.0, 0.9, 0.9, 0.5  # a trigger, one with words between, a whole name
TELLS = 0.25  # what a sentence counts that asks for nothing: enough to be put before the model, for a trigger
COMPOUND, PART = 9, 5  # letters of a German word that may be made of several, and of one of these
PART_COUNTS = 0.75
REMEMBERED = 5_000  # words of messages whose forms are at hand
# How often a word of each of them counts.
_COUNTS = {"name": 3.0, "trigger": 2.0, "description": 1.0, "when": 1.0, "heading": 0.5}
_HEAD = 3  # letters that all forms of a word have in common

_CALLED = re.compile(r"@@skill=([\w-]{1,100})[ \t]*")
_HEADING = re.compile(r"^#{1,6} (.{1,200})$", re.MULTILINE)


# Words that every request and every skill may hold. They tell nothing of which is meant.
_GENERIC = REQUESTS | word_set(
    """
    make makes making create creates creating do help helps want wants use uses used using user users need work works
    somebody someone person people skill skills ask asks asked request requests task tasks try thing things new
    mache macht machen erstelle erstellen gib hilf hilfe jemand leute möchte brauche
    """
)


@dataclass(frozen=True, slots=True)
class _Trigger:
    """Words that call a skill up, each in all of its forms. `name`: it is the skill's own name."""

    place: int
    words: tuple[frozenset[str], ...]
    score: float
    name: bool = False

    def found_in(self, said: Sequence[tuple[str, ...]], every: frozenset[str], language: str) -> float:
        """Its score in a clause that has its rarest word; 0.0 where it does not stand there.

        `said` are the forms of each word, `every` all of them.
        """
        if len(self.words) == 1:
            return self.score
        if any(word.isdisjoint(every) for word in self.words):
            return 0.0
        if self.name:
            return self.score
        starts = (at for at, forms in enumerate(said) if not self.words[0].isdisjoint(forms))
        between = [count for at in starts if (count := _between(self.words, said, at)) is not None]
        if between:
            return self.score if min(between) == 0 else SCATTERED
        return SCATTERED if language == GERMAN else 0.0  # "Reise planen" is "plane eine Reise"


class Index:
    """The words of some skills, counted once; a search costs what the message has of them, not their number.

    They are counted by `warm`, or when somebody first asks: stems take some milliseconds, and the library that makes
    them 10 MB, which a process that nobody talks to need not have. Any thread may ask.
    """

    def __init__(self, skills: Sequence[Skill]) -> None:
        self.skills = tuple(skills)
        self.named: Mapping[str, Skill] = {skill.name: skill for skill in self.skills}
        self._counted: _Counted | None = None

    @property
    def is_warm(self) -> bool:
        """Whether they are counted."""
        return self._counted is not None

    def warm(self) -> None:
        """Count them now, so that no turn has to."""
        if self._counted is None:
            self._counted = _Counted(self.skills)

    def scores(self, text: str) -> dict[str, float]:
        """The score of each skill that fits, by name."""
        if not self.skills:
            return {}
        self.warm()
        assert self._counted is not None
        found = self._counted.scores(text)
        return {self.skills[place].name: score for place, score in found.items()}


@dataclass(slots=True)
class _Counted:
    """`holders` of a form of a word: the places of the skills that have it, and how often; `parts`: of long words."""

    skills: Sequence[Skill]
    holders: dict[str, dict[int, float]] = field(default_factory=dict)
    parts: dict[str, dict[int, float]] = field(default_factory=dict)
    lengths: list[float] = field(default_factory=list)
    triggers: dict[str, list[_Trigger]] = field(
        default_factory=dict
    )  # by each form of the word of theirs that fewest messages have
    heads: frozenset[str] = frozenset()  # what the forms of all words begin with
    leads: frozenset[str] = frozenset()  # what those begin with by which anything is found
    seen: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    average: float = 1.0
    lexicon: Lexicon = field(default_factory=Lexicon)

    def __post_init__(self) -> None:
        heads: set[str] = set()
        for place, skill in enumerate(self.skills):
            self._count(place, skill, heads)
        self.heads = frozenset(heads)
        self.leads = frozenset(form[:_HEAD] for words in (self.holders, self.triggers, self.parts) for form in words)
        self.average = sum(self.lengths) / len(self.lengths) if any(self.lengths) else 1.0

    # -- the skills

    def _count(self, place: int, skill: Skill, heads: set[str]) -> None:
        name = skill.name.replace("-", " ")
        texts = [("name", name), ("description", skill.description), ("when", skill.when_to_use)]
        texts += [("trigger", trigger) for trigger in skill.triggers]
        texts += [("heading", heading) for heading in _HEADING.findall(skill.told)]
        words: dict[str, float] = {}
        for kind, text in texts:
            said = list(pieces(text))
            language = language_of(said)
            for word in said:
                if word not in _GENERIC and not is_stop(word, language):
                    words[word] = words.get(word, 0.0) + _COUNTS[kind]
        self.lengths.append(sum(words.values()))
        for word, count in words.items():
            for form in self._every_form(word, heads):
                there = self.holders.setdefault(form, {})
                there[place] = there.get(place, 0.0) + count
            if len(word) >= COMPOUND and word.isalpha():
                for cut in range(PART, len(word) - PART + 1):
                    for part in (word[:cut], word[cut:]):
                        self.parts.setdefault(plain(part), {}).setdefault(place, count * PART_COUNTS)
        for trigger in skill.triggers:
            self._add(trigger, place, heads, SURE)
        named = [word for word in pieces(name) if not is_stop(word, ENGLISH)]
        self._add(" ".join(named), place, heads, NAMED if len(named) > 1 else NAMED_BY_ONE, name=True)

    def _add(self, text: str, place: int, heads: set[str], score: float, *, name: bool = False) -> None:
        words = list(pieces(text))
        if not words:
            return
        trigger = _Trigger(place, tuple(self._every_form(word, heads) for word in words), score, name)
        rarest = max(words, key=lambda word: (not (is_stop(word, ENGLISH) or is_stop(word, GERMAN)), len(word)))
        for form in self._every_form(rarest, heads):
            self.triggers.setdefault(form, []).append(trigger)

    def _every_form(self, word: str, heads: set[str]) -> frozenset[str]:
        """The stems of a word by its own language, English and German: a skill's texts mix languages."""
        forms = frozenset(self.lexicon.forms(word, (language_of((word,)), ENGLISH, GERMAN)))
        heads.update(form[:_HEAD] for form in forms)
        return forms

    # -- a message

    def scores(self, text: str) -> dict[int, float]:
        if len(text) > BEGINNING + END:
            text = f"{text[:BEGINNING]}\n\n{text[-END:]}"
        found: dict[int, float] = {}
        words = list(dict.fromkeys(pieces(text)))
        leading = [word for word in words if plain(word)[:_HEAD] in self.leads or len(word) >= COMPOUND]
        if not leading:
            return found
        language = language_of(words)
        if not self._may_find(words, leading, language):
            return found
        for sentence in sentences(text, language):
            for place, score in self._of_sentence(sentence, language).items():
                found[place] = max(score, found.get(place, 0.0))
        return found

    def _may_find(self, words: Sequence[str], leading: Sequence[str], language: str) -> bool:
        """Whether all words of a trigger or enough of one skill's are there at all; mostly no sentence needs a look."""
        hits: dict[int, int] = {}
        every = frozenset[str]()
        for word in leading:
            forms = self._forms(word, language)
            for form in forms:
                for trigger in self.triggers.get(form, ()):
                    every = every or frozenset(one for said in words for one in self._forms(said, language))
                    if not any(others.isdisjoint(every) for others in trigger.words):
                        return True
            if word not in _GENERIC and not is_stop(word, language):
                for place in self._holders(word, forms, language):
                    hits[place] = hits.get(place, 0) + 1
        return max(hits.values(), default=0) >= LEAST_HITS

    def _of_sentence(self, sentence: Sequence[Clause], language: str) -> dict[int, float]:
        forms: list[list[tuple[str, ...]]] = [
            [self._forms(word, language) for word in clause.words] for clause in sentence
        ]
        asks = any(clause.asks for clause in sentence)
        found = self._by_words(sentence, forms, language)
        if not asks:
            found = {place: score * TELLS for place, score in found.items()}
        for clause, said in zip(sentence, forms, strict=True):
            share = 1.0 if clause.asks else TELLS
            maybe = {id(one): one for forms in said for form in forms for one in self.triggers.get(form, ())}
            every = frozenset(form for forms in said for form in forms) if maybe else frozenset[str]()
            for trigger in maybe.values():
                if score := trigger.found_in(said, every, language) * share:
                    found[trigger.place] = max(score, found.get(trigger.place, 0.0))
        return found

    def _forms(self, word: str, language: str) -> tuple[str, ...]:
        """The forms of a word that a skill may have; () for most words, which then cost next to nothing."""
        known = self.seen.get((word, language))
        if known is None:
            if len(self.seen) >= REMEMBERED:
                self.seen.clear()
            known = ()
            if plain(word)[:_HEAD] in self.heads:
                known = self.lexicon.forms(word, (language, ENGLISH))
            self.seen[word, language] = known
        return known

    def _by_words(
        self, sentence: Sequence[Clause], forms: Sequence[Sequence[tuple[str, ...]]], language: str
    ) -> dict[int, float]:
        scores: dict[int, float] = {}
        hits: dict[int, int] = {}
        reachable, seen = 0.0, set[str]()
        for clause, some in zip(sentence, forms, strict=True):
            for word, own in zip(clause.words, some, strict=True):
                if word in seen or word in _GENERIC or is_stop(word, language):
                    continue
                seen.add(word)
                holders = self._holders(word, own, language)
                if len(holders) > MOST_HOLDERS:
                    continue
                weight = self._weight(len(holders)) if holders else self._weight(1) * UNKNOWN
                reachable += weight * (K1 + 1)
                for place, count in holders.items():
                    norm = K1 * (1 - B + B * self.lengths[place] / self.average)
                    scores[place] = scores.get(place, 0.0) + weight * count * (K1 + 1) / (count + norm)
                    hits[place] = hits.get(place, 0) + 1
        return {place: min(1.0, score / reachable) for place, score in scores.items() if hits[place] >= LEAST_HITS}

    def _holders(self, word: str, forms: Sequence[str], language: str) -> Mapping[int, float]:
        found: Mapping[int, float] = {}
        for form in forms:
            more = self.holders.get(form)
            if more is not None:
                found = {**found, **more} if found else more
        if found or language != GERMAN or len(word) < PART:
            return found
        joined: dict[int, float] = dict(self.parts.get(plain(word), ()))
        if len(word) >= COMPOUND:
            bare = plain(word)
            for cut in range(PART, len(bare) - PART + 1):
                for part in (bare[:cut], bare[cut:]):
                    for place, count in self.holders.get(part, {}).items():
                        joined.setdefault(place, count * PART_COUNTS)
        return joined

    def _weight(self, having: int) -> float:
        """How much a word tells that so many skills have (inverse document frequency)."""
        return math.log(1 + (len(self.skills) - having + 0.5) / (having + 0.5))


def chosen(
    index: Index, text: str, settings: SkillSettings, meanings: Mapping[str, float] | None = None
) -> tuple[Skill, ...]:
    """The skills to put before the model for this message, the best first; `meanings` are surely near ones, by name."""
    scores = index.scores(text)
    for name, score in (meanings or {}).items():
        scores[name] = max(score, scores.get(name, 0.0))
    return best_of(index, scores, settings)


def best_of(index: Index, scores: Mapping[str, float], settings: SkillSettings) -> tuple[Skill, ...]:
    """The skills that fit and score not clearly worse than the best, the best first, `max_active` at most."""
    fitting = _near_the_best(scores, settings.min_score, settings.clearly_better)
    return tuple(index.named[name] for name in fitting if name in index.named)[: settings.max_active]


def hintable(scores: Mapping[str, float], settings: SkillSettings) -> tuple[str, ...]:
    """The names of those that surely fit, the best first: one of them may be hinted. () for most messages."""
    return _near_the_best(scores, settings.learning.min_fit, settings.clearly_better)


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


def _near_the_best(scores: Mapping[str, float], least: float, clearly_better: float) -> tuple[str, ...]:
    if not scores:
        return ()
    least = max(least, max(scores.values()) - clearly_better)
    near = [name for name, score in scores.items() if score and score >= least]
    return tuple(sorted(near, key=lambda name: (-scores[name], name)))


def _between(trigger: Sequence[frozenset[str]], said: Sequence[tuple[str, ...]], at: int) -> int | None:
    """How many other words stand between those of the trigger, which begins at `at`; None: it does not stand there."""
    places = [at]
    for word in trigger[1:]:
        left = MOST_BETWEEN + len(places) - (places[-1] - at)  # that many further words may be looked at
        near = range(places[-1] + 1, min(len(said), places[-1] + 1 + left))
        next_one = next((place for place in near if not word.isdisjoint(said[place])), None)
        if next_one is None:
            return None
        places.append(next_one)
    return sum(later - earlier - 1 for earlier, later in pairwise(places))
