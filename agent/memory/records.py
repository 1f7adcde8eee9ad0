"""What the memory keeps and what it gives back."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Kind = Literal["fact", "said", "code"]
Source = Literal["chat", "tool", "person"]
Strategy = Literal["keyword", "semantic", "graph", "hybrid"]

LONGEST_FACT = 1_000  # characters
LONGEST_SAID = 4_000  # of one message; longer ones are kept in pieces
LONGEST_QUERY = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One thing to keep. `message_id` and `inbox_id` tell where it comes from; `piece` counts those of one message."""

    kind: Kind
    text: str
    source: Source
    person: str | None = None
    speaker: str = ""
    confidence: float = 1.0
    session: str | None = None
    message_id: int | None = None
    inbox_id: int | None = None
    piece: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing that was kept. `score` orders what a search found; the best has the highest.

    `slot` is its place in the index, next to its neighbours'. `sure` (0..1): that the question is about it.
    """

    id: int
    audience: str
    kind: Kind
    conversation: str
    person: str | None
    speaker: str
    text: str
    source: Source
    confidence: float
    session: str | None
    message_id: int | None
    inbox_id: int | None
    at: datetime
    slot: int | None = None
    score: float = 0.0
    sure: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """One relation of the graph; `hops` is how far from what was asked for it was found."""

    subject: str
    word: str
    object: str
    confidence: float
    memory_id: int
    hops: int = 0
    score: float = 0.0

    @property
    def text(self) -> str:
        return f"{self.subject} {self.word} {self.object}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recollected:
    """What one look into the memory gave, best first; `strategy` is the one that was taken.

    `around` is what was said just before and just after `items`.
    """

    strategy: Strategy
    items: tuple[Item, ...] = ()
    around: tuple[Item, ...] = ()
    code: tuple[Item, ...] = ()
    edges: tuple[Edge, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.items or self.code or self.edges)
