"""Messages and answers that are being given up, as those hear of it who write of it in the same transaction."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection

from agent.core.ids import ConversationId


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """A row that becomes a dead letter. `queue` is the inbox or the outbox, `at` when, in UTC microseconds.

    `why` may quote what a platform has answered; `inbox_id` is the message that it is of, None for none.
    """

    queue: Literal["in", "out"]
    id: int
    conversation: ConversationId
    inbox_id: int | None
    attempts: int
    why: str
    at: int

    @property
    def number(self) -> str:
        """Its number as `tieline dead` lists it."""
        return f"{self.queue}-{self.id}"


Buried = Callable[[Connection, GivenUp], None]  # called within the transaction that gives it up; may be run again


def untold(conn: Connection, letter: GivenUp) -> None:
    """The `Buried` of who writes nothing."""
