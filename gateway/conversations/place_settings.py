"""Settings of a place: what is set for it, else for a place around it, else for its account, else for all.

At each of these what people chose counts before what `[[places]]` says.

The table `channel_setting` is the truth. What it holds is read once at the start, so that no message asks the database;
a change is stored first and counts here afterwards, and a place is read anew whenever its agent wakes.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, Protocol, TypeVar

from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp
from gateway.channels.keys import ConversationKey
from gateway.config.live import Live
from gateway.config.places import PlaceRules
from gateway.config.settings import Settings
from gateway.storage import settings_rows
from gateway.storage.settings_rows import Change, Row, Rows, Source

ACCOUNT = "*"  # stands for a place: what is kept under it holds for every chat of an account
PARENT = "parent"  # the row that keeps the place of a thread whose key does not tell it
GROUP = "group"  # the row that keeps the server or workspace of a place
DEEPEST = 4  # places within places

Listener = Callable[["Declared[object]", ConversationKey], Awaitable[None]]

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
        """Whether a choice in a place counts in the topics and threads of that place, too."""

    @property
    def default(self) -> Callable[[Settings, ConversationKey], T_co]:
        """The configured value for a place."""

    @property
    def parse(self) -> Callable[[str], T_co]:
        """The value of a stored text. Raises ValueError."""


@dataclass(frozen=True, slots=True)
class InForce(Generic[T]):
    """The value that counts, and its source: the place where people chose it, or the section of the file, or neither.

    `source` tells whether an admin chose it for others or a person for themselves.
    """

    value: T
    chosen_in: ConversationKey | None = None
    section: str = ""  # its `match`
    source: Source | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceRows:
    """The rows of some places, read when this process had made so many `changes`."""

    places: tuple[ConversationId, ...]
    rows: Rows
    changes: int


NO_ROWS = PlaceRows(places=(), rows={}, changes=0)  # as if nobody had chosen anything


def account_of(key: ConversationKey) -> ConversationKey:
    """The place under which the settings of an account as a whole are kept."""
    return ConversationKey(key.channel_type, ACCOUNT)


@dataclass(frozen=True, slots=True)
class PlaceView:
    """All values that hold, by place: the rows that people chose and the sections of the file. Pure."""

    kept: Rows
    rules: PlaceRules
    _chains: dict[ConversationKey, Sequence[ConversationKey]] = field(default_factory=dict)

    def layers(self, setting: Declared[T], place: ConversationKey, *, own: bool = True) -> Iterator[InForce[T]]:
        """Each value that was set for the place or around it, the nearest first. At each place the choice of people
        counts before the file; without `own` as if nothing were chosen in the place itself."""
        if not self.kept and not self.rules:  # nobody has chosen anything anywhere
            return
        if own:
            yield from self.at(setting, place)
        elif found := self._in_file(setting, place):
            yield found
        if setting.inherits:
            chain = self._chains.get(place)
            if chain is None:
                wide = (*self.around(place), account_of(place))
                chain = self._chains[place] = [at for at in wide if at != place]
            for at in chain:
                yield from self.at(setting, at)
        yield from self.everywhere(setting)

    def at(self, setting: Declared[T], place: ConversationKey) -> Iterator[InForce[T]]:
        """Values that were set for exactly this place."""
        row = self.kept.get(ConversationId(str(place)), {}).get(setting.key)
        if row is not None:
            yield InForce(setting.parse(row.value), place, source=row.source)
        if found := self._in_file(setting, place):
            yield found

    def everywhere(self, setting: Declared[T]) -> Iterator[InForce[T]]:
        """The value that the file gives all places together."""
        if found := self._in_file(setting, None):
            yield found

    def around(self, key: ConversationKey) -> Sequence[ConversationKey]:
        """The places that it is part of, the nearest first: channel, then server or workspace."""
        found: list[ConversationKey] = []
        place = key
        while len(found) < DEEPEST:
            around = place.around or self._learnt(place, PARENT) or self._learnt(place, GROUP)
            if around is None or around == key or around in found:
                break
            found.append(around)
            place = around
        return tuple(found)

    def text(self, conversation: ConversationId, name: str) -> str | None:
        """The stored text of exactly this place."""
        row = self.kept.get(conversation, {}).get(name)
        return row.value if row is not None else None

    def _learnt(self, key: ConversationKey, name: str) -> ConversationKey | None:
        text = self.text(ConversationId(str(key)), name)
        return ConversationKey(key.channel_type, text) if text is not None else None

    def _in_file(self, setting: Declared[T], place: ConversationKey | None) -> InForce[T] | None:
        found = self.rules.find(setting.key, place)
        return InForce(setting.parse(found[0]), section=found[1].match) if found is not None else None


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
        self._names = (*self._declared, PARENT, GROUP)
        self._database = database
        self._clock = clock
        self._live = live
        self._kept: dict[ConversationId, Mapping[str, Row]] = {}
        self._changes = 0
        self._listeners: list[Listener] = []

    def listen(self, listener: "Listener") -> None:
        """Be told of each setting that people chose in a place, or took back there, once that counts."""
        self._listeners.append(listener)

    @property
    def configuration(self) -> Settings:
        """The configuration of now."""
        return self._live.settings

    @property
    def is_plain(self) -> bool:
        """Whether nothing was set for any place: all is as the configuration has it."""
        return not self._kept and not self._live.settings.place_rules

    async def load(self) -> None:
        """Read what earlier processes stored, in one query."""
        changes = None
        while changes != self._changes:  # what is chosen here meanwhile may not be among the rows
            changes = self._changes
            rows = await self._database.read(partial(settings_rows.all_of, names=self._names))
        self._kept = {conversation: self._readable(conversation, row) for conversation, row in rows.items()}

    def get(self, setting: Declared[T], place: ConversationKey) -> T:
        """The value that counts there."""
        return self.find(setting, place).value

    def find(
        self, setting: Declared[T], place: ConversationKey, snapshot: PlaceRows | None = None, *, own: bool = True
    ) -> InForce[T]:
        """The value and its source. With a snapshot by its rows; without `own` as if nothing were set there."""
        if snapshot is None and self.is_plain:
            return InForce(setting.default(self._live.settings, place))
        nearest = next(self._view(snapshot).layers(setting, place, own=own), None)
        return nearest or InForce(setting.default(self._live.settings, place))

    def layers(
        self, setting: Declared[T], place: ConversationKey, snapshot: PlaceRows | None = None
    ) -> Sequence[InForce[T]]:
        """All values that were set for the place and what it is part of, the nearest first."""
        return tuple(self._view(snapshot).layers(setting, place))

    def at(self, setting: Declared[T], place: ConversationKey) -> Iterator[InForce[T]]:
        """Values that were set for exactly this place."""
        return self._view().at(setting, place)

    def everywhere(self, setting: Declared[T]) -> Iterator[InForce[T]]:
        """The value that the file gives all places together."""
        return self._view().everywhere(setting)

    def view(self) -> PlaceView:
        """All that holds now, for several looks at one place."""
        return self._view()

    def _view(self, snapshot: PlaceRows | None = None) -> PlaceView:
        return PlaceView(self._kept if snapshot is None else snapshot.rows, self._live.settings.place_rules)

    async def put(
        self, setting: Declared[object], place: ConversationKey, text: str, *, by: str, source: Source | None = None
    ) -> None:
        """Somebody chose it there: stored, and it counts from now on. Raises ValueError for a text without a value."""
        setting.parse(text)
        conversation, at = ConversationId(str(place)), to_timestamp(self._clock.now())

        def work(conn: Connection) -> None:
            settings_rows.put(conn, conversation, setting.key, text, at=at, source=source)
            settings_rows.note(conn, Change(conversation, setting.key, text, by, at))

        await self._database.write(work)
        self._keep(conversation, setting.key, Row(text, source))
        await self._tell(setting, place)

    async def clear(self, setting: Declared[object], place: ConversationKey, *, by: str) -> bool:
        """Nothing is chosen there any more; False where nothing was."""
        conversation, at = ConversationId(str(place)), to_timestamp(self._clock.now())

        def work(conn: Connection) -> bool:
            had = settings_rows.clear(conn, conversation, setting.key)
            if had:
                settings_rows.note(conn, Change(conversation, setting.key, None, by, at))
            return had

        had = await self._database.write(work)
        self._changes += 1
        self._kept[conversation] = {
            key: text for key, text in self._kept.get(conversation, {}).items() if key != setting.key
        }
        if had:
            await self._tell(setting, place)
        return had

    async def _tell(self, setting: Declared[object], place: ConversationKey) -> None:
        for listener in self._listeners:
            await listener(setting, place)

    async def history(self, place: ConversationKey, key: str, most: int) -> Sequence[Change]:
        """Changes made by people to the place and what it is part of, the newest first; `key` "": of all settings."""
        places = [ConversationId(str(one)) for one in (place, *self.around(place), account_of(place))]
        return await self._database.read(partial(settings_rows.changes, conversations=places, key=key, most=most))

    # What another process may have changed

    def snapshot(self, conn: Connection, place: ConversationKey) -> PlaceRows:
        """The rows of a place and of those around it as they stand in the caller's transaction, in one query."""
        changes = self._changes
        places = tuple(ConversationId(str(one)) for one in (place, *self.around(place), account_of(place)))
        rows = settings_rows.all_of(conn, self._names, places)
        readable = {one: self._readable(one, row) for one, row in rows.items()}
        return PlaceRows(places=places, rows=readable, changes=changes)

    def keep(self, snapshot: PlaceRows) -> bool:
        """Let its rows count, unless something was changed here while it was read."""
        if snapshot.changes != self._changes:
            return False
        for one in snapshot.places:
            self._kept.pop(one, None)
        self._kept |= snapshot.rows
        return True

    async def refresh(self, place: ConversationKey) -> None:
        """Read a place anew."""
        while not self.keep(await self._database.read(partial(self.snapshot, place=place))):
            pass

    # Which place is part of which

    def around(self, key: ConversationKey) -> Sequence[ConversationKey]:
        """The places that it is part of, the nearest first: channel, then server or workspace."""
        return self._view().around(key)

    def parent_of(self, conversation: ConversationId) -> str | None:
        """The channel id of the place that an adapter said this is a thread of: a Discord thread's key tells none."""
        return self._view().text(conversation, PARENT)

    def group_of(self, conversation: ConversationId) -> str | None:
        """The id of the server or workspace that an adapter said this place is in."""
        return self._view().text(conversation, GROUP)

    async def learn_parent(self, key: ConversationKey, parent: str) -> None:
        """An adapter told that `key` is a thread of the place with that channel id."""
        await self._learn(PARENT, key, parent)

    async def learn_group(self, key: ConversationKey, group: str) -> None:
        """An adapter told that `key` is in the server or workspace with that id."""
        await self._learn(GROUP, key, group)

    async def _learn(self, name: str, place: ConversationKey, text: str) -> None:
        conversation, at = ConversationId(str(place)), to_timestamp(self._clock.now())
        await self._database.write(lambda conn: settings_rows.put(conn, conversation, name, text, at=at))
        self._keep(conversation, name, Row(text))

    def _keep(self, conversation: ConversationId, name: str, row: Row) -> None:
        self._changes += 1
        self._kept[conversation] = {**self._kept.get(conversation, {}), name: row}

    def _readable(self, conversation: ConversationId, rows: Mapping[str, Row]) -> Mapping[str, Row]:
        """Without texts that have no value any more: an older version knew it, or somebody wrote into the database."""
        readable = dict(rows)
        for key, row in rows.items():
            try:
                if key not in (PARENT, GROUP):
                    self._declared[key].parse(row.value)
            except ValueError as error:
                _log.warning("the setting %s of %s is not used: %s", key, conversation, error)
                del readable[key]
        return readable
