"""Vectors without a model: texts that share words, or words that `same` says mean the same, point the same way."""

import math
import zlib
from collections.abc import Mapping, Sequence

from agent.core.ids import CostAttribution
from agent.memory.lexicon import stem, telling
from agent.memory.vectors import unit

WIDTH = 64


class FakeEmbedder:
    """`agent.memory.vectors.Embedder`. `error` is raised by every call while it is set."""

    def __init__(self, name: str = "fake", *, least: float = 0.3, same: Mapping[str, str] | None = None) -> None:
        self.name, self.least, self.sure = name, least, least
        self.same = dict(same or {})
        self.error: Exception | None = None
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str], *, as_query: bool, attribution: CostAttribution) -> Sequence[bytes]:
        if self.error is not None:
            raise self.error
        self.texts += texts
        return [self._of(text) for text in texts]

    def _of(self, text: str) -> bytes:
        numbers = [math.ulp(1.0)] * WIDTH
        for word in telling(text):
            numbers[zlib.crc32(stem(self.same.get(word, word)).encode()) % WIDTH] += 1.0
        return unit(numbers)
