"""How much two texts have to do with each other: shared words, weighted by how often they occur (SPEC §8.9). Pure."""

import re
from collections import Counter
from collections.abc import Mapping

_WORD = re.compile(r"\w{3,}")  # shorter ones tell nothing

# Words that say nothing about a subject: articles and the like, keywords of languages, noise of compilers and shells.
STOP_WORDS = frozenset(
    """
    the and for with that this from are was were has have had not but you your our their its his her they them then than
    there here what which who whom when where why how all any some each will would can could should may might into onto
    out over under about after before between also just only very more most such too own same other
    def class return import self none true false null let var const function func static public private void int str
    string bool float fn pub use mod impl struct enum match else elif while break continue try except catch finally
    raise throw new async await lambda yield pass
    error warning note info debug line file help compiling finished running target warnings unused
    """.split()  # noqa: SIM905 - as lines of words they can be read
)

Frequencies = Mapping[str, float]


def telling_words(text: str) -> list[str]:
    """The words that say something about a subject, in lower case, in order."""
    return [word for word in _WORD.findall(text.lower()) if word not in STOP_WORDS]


def frequencies(text: str) -> dict[str, float]:
    """The share of each telling word among all of them; empty for a text without any."""
    words = Counter(telling_words(text))
    total = words.total()
    return {word: count / total for word, count in words.items()} if total else {}


def similarity(one: Frequencies, other: Frequencies) -> float:
    """Weighted Jaccard, 0 (nothing shared) to 1: what both share over what either holds."""
    union = sum(one.values()) + sum(weight for word, weight in other.items() if word not in one)
    if not union:
        return 0.0
    small, large = (one, other) if len(one) <= len(other) else (other, one)
    return sum(min(weight, large[word]) for word, weight in small.items() if word in large) / union
