"""Remarks of people on answers (/feedback), for `tieline feedback`."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.sessions import store
from agent.sessions.store import text_of
from agent.storage import feedback_rows
from agent.storage.database import Database
from agent.storage.timestamps import from_timestamp, to_timestamp

LONGEST_ANSWER = 200  # characters of the answer that is meant


class Remarks:
    """Over one open database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def list(self, arguments: Mapping[str, Any]) -> Any:
        """The remarks of the last `days`, newest first, with the beginning of the answer that each is about."""
        days, most = int(arguments.get("days") or 30), int(arguments.get("most") or 100)
        named = arguments.get("conversation")
        conversation = ConversationId(str(named)) if named else None
        since = to_timestamp(self._clock.now() - timedelta(days=days))

        def read(conn: Connection) -> list[dict[str, Any]]:
            found = feedback_rows.newest(conn, since=since, conversation=conversation, most=most)
            return [
                {
                    "at": from_timestamp(one.at).isoformat(),
                    "conversation": one.conversation,
                    "person": one.person,
                    "rating": "up" if one.up else "down",
                    "text": one.text,
                    "answer": _answer(conn, one.inbox_id),
                }
                for one in found
            ]

        return await self._database.read(read)


def _answer(conn: Connection, inbox_id: int) -> str:
    said = [one.message for one in store.messages_of_run(conn, inbox_id) if one.message.role == "assistant"]
    return text_of(said[-1])[:LONGEST_ANSWER] if said else ""
