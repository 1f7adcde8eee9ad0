"""Places: chats, groups and threads with what holds there and why, and which groups are let in."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection
from starlette.requests import Request

from agent.core.ids import ConversationId
from agent.storage.database import Database
from agent.storage.timestamps import from_timestamp
from gateway.access.changes import AccessChanges
from gateway.access.grants import AccessBook
from gateway.access.policy import Role
from gateway.access.settings import AccessSettings
from gateway.channels.keys import ConversationKey
from gateway.commands.all import all_commands
from gateway.commands.command import Setting
from gateway.commands.place.provider import PROVIDER_SETTING
from gateway.conversations.place_settings import InForce, PlaceSettings, account_of
from gateway.dashboard.frame.listing import PAGE, asked, listing
from gateway.dashboard.frame.readings import Readings
from gateway.dashboard.frame.shell import Done, Page, Section, action, person_of, rights_of, view
from gateway.phrases.catalogue import Catalogue
from gateway.storage import conversation_list, grants
from gateway.storage.conversation_list import ConversationEntry
from gateway.storage.grants import Grant
from gateway.storage.settings_rows import Change
from gateway.web.control import OperationError

MOST_CHANGES = 200  # that are looked through for who chose what holds
LONGEST_VALUE = 2_000  # characters
HIDDEN = "words of people, for who may read transcripts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A setting as it holds in a place: its value, where that is from, and who chose it when.

    `behind` are other values that were set around the place, with their sources.
    """

    key: str
    about: str
    value: str
    source: str
    is_default: bool
    chosen: Change | None
    behind: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A place of the list. `let_in`: how a group is let in, "" where it is not; None: no group."""

    entry: ConversationEntry
    let_in: str | None
    provider: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacePages:
    """The list, one place with its settings, and the letting in of groups."""

    database: Database
    access: Callable[[], AccessSettings]
    book: AccessBook
    changes: AccessChanges
    place_settings: PlaceSettings
    switched_off: Callable[[], Collection[str]]
    phrase: Catalogue
    readings: Readings

    def section(self) -> Section:
        """The section."""
        return Section(
            title="Places",
            group="People",
            entries=(
                view("/places", self.all),
                view("/places/{key:path}", self.one),
                action("/place/allow/{key:path}", self.allow, name="places.allow", needs="configure"),
                action("/place/forget/{subject:path}", self.forget, name="places.forget", needs="configure"),
            ),
        )

    async def all(self, request: Request) -> Page:
        """The list, the one used last first, and the groups that were let in."""
        on = await self.database.read(conversation_list.platforms)
        look = asked(request.query_params, filters={"on": on} if on else {"on": ("",)})

        def read(
            conn: Connection,
        ) -> tuple[Sequence[ConversationEntry], Sequence[Grant], Mapping[ConversationId, str], Mapping[str, str]]:
            found = conversation_list.newest(conn, find=look.find, on=look.chosen["on"], most=PAGE + 1, skip=look.skip)
            given = [one for one in grants.all_grants(conn) if one.kind == "place"]
            names = conversation_list.names(conn, [ConversationId(one.subject) for one in given])
            return found, given, names, conversation_list.known_as(conn, sorted({one.granted_by for one in given}))

        entries, given, names, people = await self.database.read(read)
        values = {
            "listing": listing([self._known(entry) for entry in entries], look),
            "given": given,
            "configured": self.access().allow_groups,
            "groups": self.access().groups,
            "names": names,
            "people": people,
            "platforms": [(name, name) for name in on],
            "at": from_timestamp,
        }
        return Page(template="places.html", values=values, live=True)

    async def one(self, request: Request) -> Page:
        """A place, with all settings as they hold there."""
        key, entry = await self._entry(request)
        may_read = "transcripts" in rights_of(request)
        changes = await self.place_settings.history(key, "", MOST_CHANGES)
        declared = self._declared()
        held = [self._held(setting, key, changes, may_read=may_read) for setting in declared]
        pairs = zip(declared, held, strict=True)
        if may_read and any(setting.takes_text and not one.is_default for setting, one in pairs):
            await self.readings.note(request, "places.read", entry.key)
        values = {
            "title": entry.place or entry.name or entry.key,
            "one": self._known(entry),
            "key": key,
            "subject": self._subject(key),
            "around": self.place_settings.around(key),
            "held": held,
            "may_read": may_read,
            "is_given": self._subject(key) in self.book.grants.places,
            "at": from_timestamp,
        }
        return Page(template="place.html", values=values, live=True)

    def _known(self, entry: ConversationEntry) -> Known:
        key = ConversationKey.parse(entry.key)
        return Known(
            entry=entry,
            let_in=self._let_in(key) if entry.chat_type == "group" else None,
            provider=self.place_settings.get(PROVIDER_SETTING, key),
        )

    def _let_in(self, key: ConversationKey) -> str:
        """How the group is let in: as by `gateway.access.policy.is_let_in`, as far as the key tells its names."""
        access, given = self.access(), self.book.grants
        ids = [one.channel_id for one in (key, *self.place_settings.around(key))]
        names = {f"{key.platform}:{name}" for id in ids for name in (id, id.rpartition(":")[2])}
        if access.groups == "closed":
            return ""
        if any(given.everywhere.get(name) is Role.BLOCKED for name in names):
            return ""
        if names & set(access.allow_groups):
            return "in the configuration"
        if names & given.places or any(name in given.everywhere for name in names):
            return "given"
        return "open to all" if access.groups == "open" else ""

    def _subject(self, key: ConversationKey) -> str:
        """The name by which the group of this place is let in: threads and topics are in what is around them."""
        parent = self.place_settings.parent_of(ConversationId(str(key)))
        return f"{key.platform}:{parent or (key.around or key).channel_id}"

    # -- settings

    def _declared(self) -> Sequence[Setting[Any]]:
        """All but those of features that are switched off, as /settings shows them."""
        off = self.switched_off()
        return [setting for command in all_commands().all if command.feature not in off for setting in command.settings]

    def _held(self, setting: Setting[Any], key: ConversationKey, changes: Sequence[Change], *, may_read: bool) -> Held:
        found, *others = self.place_settings.layers(setting, key) or [self.place_settings.find(setting, key)]
        where = str(found.chosen_in) if found.chosen_in is not None else None
        chosen = next((one for one in changes if one.conversation == where and one.key == setting.key), None)
        is_hidden = setting.takes_text and not may_read

        def shown(layer: InForce[Any]) -> str:
            return HIDDEN if is_hidden and setting.show(layer.value) else setting.show(layer.value)[:LONGEST_VALUE]

        return Held(
            key=setting.key,
            about=self.phrase(f"setting.{setting.key}", "en"),
            value=shown(found),
            source=self._source(found, key),
            is_default=found.chosen_in is None and not found.section,
            chosen=chosen,
            behind=[(shown(other), self._source(other, key)) for other in others],
        )

    def _source(self, found: InForce[Any], key: ConversationKey) -> str:
        where = found.chosen_in
        if found.section:
            return f'in [[places]] match = "{found.section}"'
        if where is None:
            return "default"
        if where == key:
            return "chosen here"
        return "chosen for the whole account" if where == account_of(key) else f"chosen in {where}"

    # -- changes

    async def allow(self, request: Request) -> Done:
        """Let the group in."""
        key, entry = await self._entry(request)
        subject = self._subject(key)
        if entry.chat_type != "group":
            raise OperationError("this is no group", fix="people are let in one by one, under People")
        if subject in self.book.grants.places:
            raise OperationError("the group is let in already")
        await self.changes.let_in_place(subject, by=f"web:{person_of(request).id}")
        return Done(text="The group is let in.", subject=subject)

    async def forget(self, request: Request) -> Done:
        """Take back that a group was let in."""
        subject = request.path_params["subject"]
        if subject not in self.book.grants.places:
            if subject in self.access().allow_groups:
                raise OperationError("the configuration lets it in", fix="take it out of allow_groups in [access]")
            raise OperationError("it was not let in")
        await self.changes.take(subject)
        return Done(text="The group is no longer let in.", subject=subject)

    async def _entry(self, request: Request) -> tuple[ConversationKey, ConversationEntry]:
        name = ConversationId(request.path_params["key"])
        entry = await self.database.read(lambda conn: conversation_list.find(conn, name))
        if entry is None:
            raise LookupError(f"There is no place {name}.")
        return ConversationKey.parse(entry.key), entry
