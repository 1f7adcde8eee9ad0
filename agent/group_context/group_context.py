"""The talk around a question in a group, as the store has it and as a turn may see it."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta, tzinfo

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from agent.core.clock import Clock
from agent.core.errors import ToolError
from agent.core.ids import PersonId
from agent.group_context import rows
from agent.group_context.settings import GroupContextSettings
from agent.group_context.window import Overheard, lines_within
from agent.inbox import GroupPlace
from agent.storage.database import Database
from agent.storage.errors import StorageError
from agent.storage.timestamps import to_timestamp

MOST_CHARS = 24_000
NOTHING = "Nothing was said in that time, or nothing is kept of it."

Blocked = Callable[[GroupPlace, Collection[PersonId]], Collection[PersonId]]


def nobody(place: GroupPlace, people: Collection[PersonId]) -> Collection[PersonId]:
    """None of them is blocked."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """Messages around a question, without those of blocked people. `read_to` is the newest one's id, 0 for none."""

    said: Sequence[Overheard] = ()
    read_to: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupContext:
    """Shared by all agents. `blocked` gives those of some people whose words in a place nobody is shown by now."""

    database: Database
    clock: Clock
    settings: Callable[[], GroupContextSettings] = GroupContextSettings
    blocked: Blocked = nobody

    async def around(
        self, place: GroupPlace, *, hours: float | None = None, unread: bool = False, but: str | None = None
    ) -> Around:
        """The newest of it, as `rows.said_around` has it. Raises StorageError and SQLAlchemyError."""
        settings = self.settings()
        lately = timedelta(hours=min(hours or settings.hours, settings.hours))
        since = to_timestamp(self.clock.now() - lately)

        def read(conn: Connection) -> Sequence[Overheard]:
            return rows.said_around(conn, place, since=since, unread=unread, but=but, most=settings.messages)

        found = await self.database.read(read)
        gone = self.blocked(place, {PersonId(one.person) for one in found})
        said = [one for one in found if one.person not in gone]
        return Around(said=said, read_to=found[-1].id if found else 0)

    async def read(self, place: GroupPlace, zone: tzinfo, hours: float) -> str:
        """The same as lines for a model that asks for more. Raises ToolError."""
        try:
            around = await self.around(place, hours=hours)
        except (StorageError, SQLAlchemyError) as error:
            raise ToolError(f"it cannot be read now: {type(error).__name__}") from error
        return "\n".join(lines_within(around.said, zone, count=len, most=MOST_CHARS)) or NOTHING
