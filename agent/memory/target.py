"""What is to be erased, and how much it was. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from agent.core.ids import ConversationId, PersonId
from agent.memory.audience import Scope

T = TypeVar("T")

FORGOTTEN = "[forgotten]"  # what stands in place of the words
PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is to be erased in the scope's own audience: what holds `words`, one `item`, what was said in one
    `session`, or (none of them) everything. Of a session the facts stay that were kept from it.

    `only_by`: what that person said or was answered, and nothing of others.
    """

    scope: Scope
    words: str = ""
    item: int | None = None
    session: str = ""
    only_by: PersonId | None = None

    @property
    def everything(self) -> bool:
        return not self.words and self.item is None and not self.session

    def holds(self, text: str) -> bool:
        """Whether the words stand in it, in whatever case."""
        return bool(self.words) and self.words.casefold() in text.casefold()


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """How much it was: things that were kept, messages of transcripts.

    `texts` is what people said in messages that went with one `item` or `session`. `left` are files that could not be
    removed or looked through, by their paths below the data directory.
    """

    items: int
    messages: int
    conversations: tuple[ConversationId, ...] = ()
    texts: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def chunks(ids: Sequence[T]) -> Iterator[Sequence[T]]:
    """So many at a time as a statement takes."""
    for begin in range(0, len(ids), PAGE):
        yield ids[begin : begin + PAGE]
