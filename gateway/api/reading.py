"""Reading for other programs: what was said in chats that a key reaches, and their schedules."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection

from agent.core.ids import ConversationId
from agent.core.untrusted_text import one_line
from agent.sessions.store import read_parts
from agent.storage.database import Database
from agent.storage.timestamps import from_timestamp
from gateway.api.keys import EVERYWHERE, Key
from gateway.api.refusals import BadRequest
from gateway.channels.keys import ConversationKey
from gateway.delivery.egress import Guard
from gateway.scheduler import store as schedules
from gateway.storage import conversation_list

MOST_FOUND = 20
MOST_SCHEDULES = 100
LONGEST_WORDS, LONGEST_SHOWN = 200, 500  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A message with the words: when (ISO 8601, UTC), where, by whom (user or assistant), and how it begins."""

    at: str
    place: str
    role: str
    text: str


class Reading:
    """Everything raises BadRequest and StorageError."""

    def __init__(self, database: Database, guard: Guard) -> None:
        """`guard` keeps secrets from leaving with the words."""
        self._database = database
        self._guard = guard

    async def search(self, key: Key, words: str, place: ConversationKey | None) -> Sequence[Found]:
        """The newest messages with these words, in the place or in all that the key reaches."""
        words = one_line(words, LONGEST_WORDS)
        if not words:
            raise BadRequest("words: is empty", param="words")
        within = [str(place)] if place is not None else sorted(key.places)
        if EVERYWHERE in within:
            within = []

        def read(conn: Connection) -> list[Found]:
            return [
                Found(
                    at=from_timestamp(one.created_at).isoformat(timespec="seconds"),
                    place=one.key,
                    role=one.role,
                    text=self._guard.text(_text(one)),
                )
                for one in conversation_list.with_words(conn, words, within=within, most=MOST_FOUND)
            ]

        return await self._database.read(read)

    async def schedules(self, place: ConversationKey) -> Sequence[str]:
        """One line for each schedule there, the next first."""
        conversation = ConversationId(str(place))
        found = await self._database.read(
            partial(schedules.of_conversation, conversation=conversation, most=MOST_SCHEDULES)
        )
        return [
            f"{one.id}: {one.title} ({one.plan.said}), {one.state}"
            + (f", next {one.next_at.isoformat(timespec='minutes')}" if one.next_at else "")
            for one in found
        ]


def _text(found: conversation_list.FoundMessage) -> str:
    parts = read_parts(found.parts, found.id)
    return one_line(" ".join(part.text for part in parts if part.kind == "text"), LONGEST_SHOWN)
