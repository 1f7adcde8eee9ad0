"""Settings of a place: what people chose there, else in a place around it, else what the configuration says.

The table `channel_setting` is the truth. What it holds is read once at the start, so that no message asks the database;
a change is stored first and counts here afterwards, and a place is read anew whenever its agent wakes.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp
from gateway.channels.keys import ConversationKey
from gateway.config.live import Live
from gateway.config.settings import Settings
from gateway.storage import settings_rows
from gateway.storage.settings_rows import Rows

PARENT = "parent"  # the row that keeps the place of a thread whose key does not tell it
DEEPEST = 4  # places within places

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_log = logging.getLogger("tieline.gateway")


class Declared(Protocol[T_co]):
    """A setting as its feature declares it (`gateway.commands.command.Setting`)."""

    @property
    def key(self) -> str:
        """Its name in the table."""

    @property
    def inherits(self) -> bool:
        """Whether a choice in a place counts in the topics and threads of that place."""

    @property
    def default(self) -> Callable[[Settings, ConversationKey], T_co]:
        """The configured value for a place."""

    @property
    def parse(self) -> Callable[[str], T_co]:
        """The value of a stored text. Raises ValueError."""


@dataclass(frozen=True, slots=True)
class InForce(Generic[T]):
    """The value that counts, and the place where somebody chose it; None: it is the configuration's."""

    value: T
    chosen_in: ConversationKey | None


@dataclass(frozen=True, slots=True)
class PlaceRows:
    """The rows of some places, read when this process had made so many `changes`."""

    places: tuple[ConversationId, ...]
    rows: Rows
    changes: int


class PlaceSettings:
    """The one record of them. `live` holds the configuration of now."""

    def __init__(
        self,
        declared: Collection[Declared[object]],
        database: Database,
        clock: Clock,
        live: Live,
    ) -> None:
        self._declared = {one.key: one for one in declared}
        self._names = (*self._declared, PARENT)
        self._database = database
        self._clock = clock
        self._live = live
        self._kept: dict[ConversationId, Mapping[str, str]] = {}
        self._changes = 0

    async def load(self) -> None:
        """Read what earlier processes stored, in one query."""
        rows = await self._database.read(partial(settings_rows.all_of, names=self._names))
        self._kept = {conversation: self._readable(conversation, row) for conversation, row in rows.items()}

    def get(self, setting: Declared[T], place: ConversationKey) -> T:
        """The value that counts there."""
        return self.find(setting, place).value

    def find(
        self, setting: Declared[T], place: ConversationKey, snapshot: PlaceRows | None = None, *, own: bool = True
    ) -> InForce[T]:
        """The value and where it is from. With a snapshot by its rows; without `own` as if nothing were set there."""
        kept = self._kept if snapshot is None else snapshot.rows
        if kept:  # else nobody has chosen anything anywhere
            places = (place, *self.around(place)) if setting.inherits else (place,)
            for at in places if own else places[1:]:
                text = kept.get(ConversationId(str(at)), {}).get(setting.key)
                if text is not None:
                    return InForce(setting.parse(text), at)
        return InForce(setting.default(self._live.settings, place), None)

    async def put(self, setting: Declared[object], place: ConversationKey, text: str) -> None:
        """Somebody chose it there: stored, and it counts from now on. Raises ValueError for a text without a value."""
        setting.parse(text)
        await self._put(setting.key, place, text)

    async def clear(self, setting: Declared[object], place: ConversationKey) -> None:
        """Nothing is chosen there any more."""
        conversation = ConversationId(str(place))
        await self._database.write(lambda conn: settings_rows.clear(conn, conversation, setting.key))
        self._changes += 1
        self._kept[conversation] = {
            key: text for key, text in self._kept.get(conversation, {}).items() if key != setting.key
        }

    # What another process may have changed

    def snapshot(self, conn: Connection, place: ConversationKey) -> PlaceRows:
        """The rows of a place and of those around it as they stand in the caller's transaction, in one query."""
        changes = self._changes
        places = tuple(ConversationId(str(one)) for one in (place, *self.around(place)))
        rows = settings_rows.all_of(conn, self._names, places)
        return PlaceRows(places, {one: self._readable(one, row) for one, row in rows.items()}, changes)

    def keep(self, snapshot: PlaceRows) -> None:
        """Let its rows count, unless something was changed here while it was read."""
        if snapshot.changes != self._changes:
            return
        for one in snapshot.places:
            self._kept.pop(one, None)
        self._kept |= snapshot.rows

    async def refresh(self, place: ConversationKey) -> None:
        """Read a place anew."""
        self.keep(await self._database.read(partial(self.snapshot, place=place)))

    # Which place is part of which

    def around(self, key: ConversationKey) -> Sequence[ConversationKey]:
        """The places that it is part of, the nearest first."""
        found: list[ConversationKey] = []
        place = key
        while len(found) < DEEPEST:
            parent = place.around or self._learnt(place)
            if parent is None or parent == key or parent in found:
                break
            found.append(parent)
            place = parent
        return tuple(found)

    def parent_of(self, conversation: ConversationId) -> str | None:
        """The channel id of the place that an adapter said this is a thread of: a Discord thread's key tells none."""
        return self._kept.get(conversation, {}).get(PARENT)

    async def learn_parent(self, key: ConversationKey, parent: str) -> None:
        """An adapter told that `key` is a thread of the place with that channel id."""
        await self._put(PARENT, key, parent)

    def _learnt(self, key: ConversationKey) -> ConversationKey | None:
        parent = self.parent_of(ConversationId(str(key)))
        return ConversationKey(key.channel_type, parent) if parent is not None else None

    async def _put(self, name: str, place: ConversationKey, text: str) -> None:
        conversation, at = ConversationId(str(place)), to_timestamp(self._clock.now())
        await self._database.write(lambda conn: settings_rows.put(conn, conversation, name, text, at=at))
        self._changes += 1
        self._kept[conversation] = {**self._kept.get(conversation, {}), name: text}

    def _readable(self, conversation: ConversationId, row: Mapping[str, str]) -> Mapping[str, str]:
        """Without texts that have no value any more: an older version knew it, or somebody wrote into the database."""
        readable = dict(row)
        for key, text in row.items():
            try:
                if key != PARENT:
                    self._declared[key].parse(text)
            except ValueError as error:
                _log.warning("the setting %s of %s is not used: %s", key, conversation, error)
                del readable[key]
        return readable
