"""Words of turns that processes with one database tell each other: events, windows, stops, and what was forgotten.

All of it may be lost: pages and programs then read what the database has.
"""

import json
from collections.abc import Callable, Mapping
from datetime import datetime

from pydantic import TypeAdapter

from agent.core.bounded_map import BoundedMap
from agent.core.events import (
    DecisionCompleted,
    Event,
    EventBus,
    LoopEnded,
    LoopFailed,
    LoopStarted,
    Published,
    StreamDelta,
)
from agent.core.ids import ConversationId
from agent.memory import erasure_rows
from agent.memory.records import ErasureNotice, Forgotten
from agent.storage.database import PROCESS, Database
from gateway.channels.adapter import Fullness
from gateway.channels.keys import ConversationKey
from gateway.delivery.outbox.rows import Claimed

# In the place of an account.
EVENTS, WINDOWS, TURNS, STOPS, ERASURES = "@events", "@windows", "@turns", "@stops", "@erasures"
KINDS: Mapping[str, type[Event]] = {
    kind.name: kind for kind in (LoopStarted, LoopEnded, LoopFailed, StreamDelta, DecisionCompleted)
}
REMEMBERED = 5_000

_EVENTS: Mapping[str, TypeAdapter[Event]] = {name: TypeAdapter(kind) for name, kind in KINDS.items()}
_WINDOW = TypeAdapter(tuple[str, Fullness])
_NOTICE = TypeAdapter(ErasureNotice)

Tell = Callable[[str, str], None]


class EventFeed:
    """Events of conversations that programs wait for (`platform`), whichever process has them."""

    def __init__(self, bus: EventBus, platform: str, tell: Tell) -> None:
        """`bus` is this process's own; what it carries is told to the others."""
        self._platform = platform
        self._tell = tell
        self.bus = EventBus(lambda error, event: None)
        bus.listen(self._hear, KINDS.values())

    def hear(self, told: str) -> None:
        """An event of another process: `<kind> <JSON>`."""
        name, _, body = told.partition(" ")
        if name in _EVENTS:
            self.bus.publish(_EVENTS[name].validate_json(body))

    def _hear(self, published: Published) -> None:
        event = published.event
        if event.conversation.startswith(f"{self._platform}:"):
            self.bus.publish(event)
            self._tell(EVENTS, f"{event.name} {_EVENTS[event.name].dump_json(event).decode()}")


class TurnsElsewhere:
    """Turns under way at other processes, so that a word said at this one can end them."""

    def __init__(self, bus: EventBus, tell: Tell) -> None:
        """`bus` is this process's own."""
        self._tell = tell
        self._running: BoundedMap[ConversationId, str] = BoundedMap(REMEMBERED)  # and the process
        bus.listen(self._hear, (LoopStarted, LoopEnded, LoopFailed))

    def is_running(self, conversation: ConversationId) -> bool:
        return conversation in self._running

    def stop(self, conversation: ConversationId, reason: str, said_at: datetime) -> bool:
        """Have the turn ended that was meant; False when none is known."""
        if conversation not in self._running:
            return False
        self._tell(STOPS, json.dumps([conversation, reason, said_at.isoformat()]))
        return True

    def stop_within(self, place: ConversationId, reason: str, said_at: datetime) -> bool:
        """The same for every topic and thread of a place."""
        within = [key for key in self._running if str(ConversationKey.parse(key).around) == place]
        return sum(self.stop(key, reason, said_at) for key in within) > 0

    def hear(self, told: str) -> None:
        """A turn began or ended at another process: `<+ or -> <process> <conversation>`."""
        sign, _, rest = told.partition(" ")
        process, _, name = rest.partition(" ")
        conversation = ConversationId(name)
        if sign == "+":
            self._running[conversation] = process
        elif self._running.get(conversation) == process:
            del self._running[conversation]

    def _hear(self, published: Published) -> None:
        event = published.event
        self._running.pop(event.conversation, None)  # it is here now
        sign = "+" if isinstance(event, LoopStarted) else "-"
        self._tell(TURNS, f"{sign} {PROCESS} {event.conversation}")


class Windows:
    """How full the model's window is in conversations that a page shows (`platform`), whichever process has them."""

    def __init__(self, here: Callable[[ConversationKey], Fullness | None], platform: str, tell: Tell) -> None:
        self._here = here
        self._platform = platform
        self._tell = tell
        self._elsewhere: BoundedMap[str, Fullness] = BoundedMap(REMEMBERED)

    def __call__(self, key: ConversationKey) -> Fullness | None:
        return self._here(key) or self._elsewhere.get(str(key))

    def settled(self, row: Claimed, sent: bool) -> None:
        """An answer has arrived: the window is another."""
        key = ConversationKey.parse(row.conversation)
        if sent and key.platform == self._platform and (full := self._here(key)) is not None:
            self._tell(WINDOWS, _WINDOW.dump_json((str(key), full)).decode())

    def hear(self, told: str) -> None:
        """The window of another process's conversation."""
        key, full = _WINDOW.validate_json(told)
        self._elsewhere[key] = full


class Erasures:
    """Notices of what was forgotten: who is awake at another process must neither keep nor store the words (G-164)."""

    def __init__(self, forgotten: Forgotten, database: Database, tell: Tell) -> None:
        self._forgotten = forgotten
        self._database = database
        self._newest: int | None = None
        forgotten.tell_others = lambda notice: tell(ERASURES, _NOTICE.dump_json(notice).decode())

    def hear(self, told: str) -> None:
        self._forgotten.hear(_NOTICE.validate_json(told))

    async def look_for_missed(self) -> None:
        """After notices may have been lost: whether something was forgotten since the last look."""
        newest = await self._database.read(erasure_rows.newest)
        if self._newest is not None and newest != self._newest:
            self._forgotten.missed()
        self._newest = newest
