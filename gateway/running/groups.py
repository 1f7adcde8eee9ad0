"""Reading along in groups: whose words nobody is shown, and what goes because it is old or not wanted any more."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from sqlalchemy import Connection

from agent.core.ids import ConversationId, PersonId
from agent.group_context import rows
from agent.group_context.group_context import GroupContext
from agent.inbox import GroupPlace
from agent.storage.timestamps import to_timestamp
from gateway.access.policy import Role, blocked_account
from gateway.channels.keys import ConversationKey
from gateway.commands.kept.memory import MEMORY_SETTING
from gateway.commands.place.fields import CONTEXT, reads_along
from gateway.conversations.place_settings import Declared, PlaceSettings, account_of
from gateway.running.basics import Basics
from gateway.running.rights import Rights


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Keeps the promises that docs/group-context.md makes to people in groups."""

    basics: Basics
    rights: Rights
    place_settings: PlaceSettings
    group_context: GroupContext

    async def tidy(self) -> None:
        """Remove what is older than `[group_context] hours`, what blocked people said, and all of places that are not
        read along in any more. Raises StorageError."""
        database, blocked = self.basics.database, self._blocked_everywhere()
        hours = self.basics.settings.group_context.hours
        before = to_timestamp(self.basics.clock.now() - timedelta(hours=hours))
        await self._forget_all(partial(rows.said_before, moment=before))
        if blocked:
            await self._forget_all(partial(rows.said_by, people=blocked))
        await database.write(partial(rows.forget_ambient, before=before))
        await self._forget_unwanted(await database.read(rows.streams))

    async def heed(self, setting: Declared[object], place: ConversationKey) -> None:
        """Somebody chose something there: what is not wanted any more goes at once."""
        if setting.key not in (CONTEXT.key, MEMORY_SETTING.key):
            return
        streams = await self.basics.database.read(rows.streams)
        keys = {stream: ConversationKey.parse(stream) for stream in streams}
        around = self.place_settings.around
        await self._forget_unwanted(
            [stream for stream, key in keys.items() if place in (key, *around(key), account_of(key))]
        )

    async def _forget_all(self, found: Callable[[Connection], Sequence[int]]) -> None:
        """Remove the messages that it finds, some at a time: the search holds up no writer."""
        while ids := await self.basics.database.read(found):
            await self.basics.database.write(partial(rows.forget, ids=ids))

    async def _forget_unwanted(self, streams: Iterable[ConversationId]) -> None:
        """Remove, one by one, what is kept of those streams in which nothing is read any more."""
        for stream in streams:
            if not reads_along(self.place_settings, ConversationKey.parse(stream)):
                await self.basics.database.write(partial(rows.forget_stream, stream=stream))

    def _blocked_everywhere(self) -> Collection[PersonId]:
        grants = self.rights.book.grants
        blocked = {name for name, role in grants.everywhere.items() if role is Role.BLOCKED}
        named = blocked | set(self.rights.access().block)
        return {account for name in named for account in grants.identities.accounts(name)}


def blocked_in(rights: Rights, place: GroupPlace, people: Collection[PersonId]) -> Collection[PersonId]:
    """The people among these who are blocked there, or everywhere."""
    access, grants = rights.access(), rights.book.grants
    key = ConversationKey.parse(place.channel)
    here = frozenset({f"{key.platform}:{key.channel_id}"})
    return {one for one in people if blocked_account(one, access, grants) or grants.role(one, here) is Role.BLOCKED}


def install_groups(basics: Basics, rights: Rights, place_settings: PlaceSettings) -> Groups:
    """Nothing is read yet."""
    group_context = GroupContext(
        database=basics.database,
        clock=basics.clock,
        settings=lambda: basics.settings.group_context,
        blocked=lambda place, people: blocked_in(rights, place, people),
    )
    groups = Groups(basics=basics, rights=rights, place_settings=place_settings, group_context=group_context)
    place_settings.listen(groups.heed)
    return groups
