"""Which MCP tools the model is shown of many: those that fit the task, and those used lately (SPEC §12.7). Pure.

What was shown stays shown, in the order it came, so that the beginning of the request stays the same.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from agent.core.tools import ToolSpec

K1, B = 1.5, 0.75
SHORTEST = 4  # letters of a word that counts
PER_USE = 0.5  # what one recent use adds


def curated(
    specs: Sequence[ToolSpec], message: str, uses: Mapping[str, int], *, most: int, kept: Sequence[str]
) -> tuple[str, ...]:
    """The names to show: those of `kept` that are still there, then the best `most`; all where `most` is 0 or enough.

    Only MCP tools are to be given; no others are ever left out (W-34).
    """
    names = [spec.name for spec in specs]
    if most == 0 or len(names) <= most:
        return tuple(names)
    still = [name for name in kept if name in set(names)]
    fitting = ranked(specs, message, uses)[:most]
    return (*still, *(name for name in fitting if name not in set(still)))


def ranked(specs: Sequence[ToolSpec], message: str, uses: Mapping[str, int]) -> list[str]:
    """The names, the best first: BM25 of the message against name and description, plus half a point for each use."""
    documents = {spec.name: Counter(words_of(f"{spec.name} {spec.description}")) for spec in specs}
    lengths = {name: sum(words.values()) for name, words in documents.items()}
    average = sum(lengths.values()) / max(1, len(lengths)) or 1.0
    asked = set(words_of(message))
    holding = {word: sum(word in words for words in documents.values()) for word in asked}

    def score(name: str) -> float:
        words, total = documents[name], 0.0
        for word in asked & words.keys():
            idf = math.log(1 + (len(documents) - holding[word] + 0.5) / (holding[word] + 0.5))
            count = words[word]
            total += idf * count * (K1 + 1) / (count + K1 * (1 - B + B * lengths[name] / average))
        return total + PER_USE * uses.get(name, 0)

    return sorted(documents, key=lambda name: (-score(name), name))


def words_of(text: str) -> list[str]:
    """Words of more than three letters, small; `_` and `-` part them, as in names of tools."""
    return [word for word in re.findall(r"[^\W_]+", text.lower()) if len(word) >= SHORTEST]
