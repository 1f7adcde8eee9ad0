"""The place of a channel id: read from discord.py's cache of servers, else asked from Discord."""

from dataclasses import replace

import discord

from adapters.discord.parse import ADMINISTRATOR, MANAGE_GUILD, Payload, Where, where_of_channel
from adapters.discord.rest import RestClient
from agent.core.bounded_map import BoundedMap

REMEMBERED = 1024  # channels that had to be asked for: direct ones and old threads


class Places:
    """The channels of one account. `attach` gives it the cache of the connection in use."""

    def __init__(self, rest: RestClient) -> None:
        self._rest = rest
        self._client: discord.Client | None = None
        self._asked: BoundedMap[str, Where] = BoundedMap(REMEMBERED)
        self._roles: dict[str, tuple[frozenset[str], frozenset[str]]] = {}  # of a guild: admins' roles, our own

    def attach(self, client: discord.Client) -> None:
        self._client = client
        self._roles.clear()

    def forget_roles(self, guild_id: str) -> None:
        """Something about the guild changed."""
        self._roles.pop(guild_id, None)
        for channel_id in [known for known, where in self._asked.items() if where.guild_id == guild_id]:
            del self._asked[channel_id]

    def forget(self, channel_id: str) -> None:
        self._asked.pop(channel_id, None)

    async def locate(self, channel_id: str) -> Where:
        """Raises ChannelGone when it is closed to us, ChannelBusy when Discord cannot be asked."""
        known = self.cached(channel_id) or self._asked.get(channel_id)
        if known is not None:
            return known
        where = self._with_guild(where_of_channel(await self._rest.channel(channel_id), me=self._rest.user_id))
        self._remember(where)
        return where

    async def of_event(self, event: Payload) -> Where:
        """Where a message event comes from; a direct one tells so by naming no guild."""
        channel_id = str(event["channel_id"])
        if event.get("guild_id"):
            return await self.locate(channel_id)
        return Where(channel_id=channel_id, place=channel_id)

    def of_interaction(self, interaction: Payload) -> Where:
        """An interaction brings its channel along."""
        channel_id = str(interaction["channel_id"])
        cached = self.cached(channel_id)
        if cached is not None:
            return cached
        channel = {"id": channel_id, **(interaction.get("channel") or {})}
        guild_id = interaction.get("guild_id")
        return self._with_guild(where_of_channel(channel | {"guild_id": guild_id}, me=self._rest.user_id))

    def cached(self, channel_id: str) -> Where | None:
        channel = self._client.get_channel(int(channel_id)) if self._client and channel_id.isdecimal() else None
        match channel:
            case discord.Thread():
                thread = Where(
                    channel_id=channel_id,
                    place=str(channel.parent_id),
                    guild_id=str(channel.guild.id),
                    title=f"{channel.guild.name} #{channel.name}",
                    own_thread=str(channel.owner_id) == self._rest.user_id,
                )
                return self._with_guild(thread)
            case discord.abc.GuildChannel():
                title = f"{channel.guild.name} #{channel.name}"
                found = Where(channel_id=channel_id, place=channel_id, guild_id=str(channel.guild.id), title=title)
                return self._with_guild(found)
            case _:
                return None

    def in_guild(self, guild_id: str) -> set[str]:
        """The channels and threads of a guild that are known."""
        guild = self._guild(guild_id)
        if guild is None:
            return set()
        return {str(channel.id) for channel in (*guild.channels, *guild.threads)}

    def threads_of(self, channel_id: str, guild_id: str) -> set[str]:
        guild = self._guild(guild_id)
        return {str(t.id) for t in guild.threads if str(t.parent_id) == channel_id} if guild else set()

    def _guild(self, guild_id: str) -> discord.Guild | None:
        return self._client.get_guild(int(guild_id)) if self._client else None

    def _with_guild(self, where: Where) -> Where:
        guild = self._guild(where.guild_id) if where.guild_id else None
        if guild is None:
            return where
        admins, own = self._roles_of(guild)
        owner = str(guild.owner_id) if guild.owner_id else None
        return replace(where, owner_id=owner, admin_roles=admins, own_roles=own)

    def _roles_of(self, guild: discord.Guild) -> tuple[frozenset[str], frozenset[str]]:
        guild_id = str(guild.id)
        known = self._roles.get(guild_id)
        if known is None:
            powers = ADMINISTRATOR | MANAGE_GUILD
            admins = frozenset(str(role.id) for role in guild.roles if role.permissions.value & powers)
            own = frozenset(
                str(role.id) for role in guild.roles if role.tags and str(role.tags.bot_id) == self._rest.user_id
            )
            known = self._roles[guild_id] = (admins - {guild_id}, own)
        return known

    def _remember(self, where: Where) -> None:
        self._asked[where.channel_id] = where
