"""A person's own sentences in a message, and which of their clauses ask for something. Pure.

What they quote, show as code or hand over as material ("translate this: …") is not their own. English and German are
known: a clause of another language asks.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from agent.memory.lexicon import pieces

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
