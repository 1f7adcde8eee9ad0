"""The connection to Discord's gateway, and verdicts on its health from heartbeats and sequence numbers."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from time import perf_counter
from typing import Any, cast

import anyio
import discord

from adapters.discord.parse import Payload
from adapters.discord.rest import Trouble, open_http
from adapters.discord.settings import DiscordSettings
from agent.core.backoff import Backoff
from agent.core.clock import Clock
from gateway.channels.adapter import State

RECONNECTING = Backoff(first_s=1.0, longest_s=60.0, jitter=0.5)


class Verdict(Enum):
    WELL = "well"
    PROBE = "probe"  # nothing came for long: ask for something that must come
    DEAF = "deaf"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionStats:
    """One shard. `heard_s`: since anything came; `acked_s`: since a heartbeat was answered; `quiet_s`: since an event
    came; `down_s`: for how long it has not been signed in (0: it is)."""

    shard_id: int
    heard_s: float
    acked_s: float
    quiet_s: float
    down_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """`rebuild_s` bounds a reconnect of the library's own: past it the connection is built anew."""

    deaf_s: float
    probe_s: float
    rebuild_s: float


def verdict(stats: ConnectionStats, timeouts: Timeouts) -> Verdict:
    if stats.down_s > 0:
        return Verdict.DEAF if stats.down_s > timeouts.rebuild_s else Verdict.WELL
    if stats.acked_s > timeouts.deaf_s:
        return Verdict.DEAF
    return Verdict.PROBE if stats.quiet_s > timeouts.probe_s else Verdict.WELL


# One gateway connection: discord.py's sharded client, its raw events handed on in order, its pulse read.

log = logging.getLogger("tieline.discord")

Hear = Callable[[str, Payload], None]

# Handled by us alone: building the library's message objects costs more than everything we do with a message.
OURS = ("MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_DELETE", "MESSAGE_DELETE_BULK", "INTERACTION_CREATE")
BEFORE = ("CHANNEL_DELETE", "THREAD_DELETE", "GUILD_DELETE")  # while the cache still knows what goes
AFTER = ("GUILD_CREATE", "GUILD_UPDATE", "GUILD_ROLE_CREATE", "GUILD_ROLE_UPDATE", "GUILD_ROLE_DELETE")

SILENCE_S = 60.0  # the library resumes by itself when not even a heartbeat was answered for so long
CONNECT_WITHIN_S = 60.0
REBUILD_AFTER_S = 180.0
CLOSE_WITHIN_S = 3.0
PROBE_WITHIN_S = 30.0
CHECKS = 20  # looks at the pulse within the time a deaf connection may go unnoticed


class Client(discord.AutoShardedClient):
    """The library's client, telling what becomes of its shards."""

    def __init__(self, *, shard_down: Callable[[int], None], intents: discord.Intents) -> None:
        discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False  # nobody asked for voice
        super().__init__(
            intents=intents,
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            guild_ready_timeout=0.5,
            heartbeat_timeout=SILENCE_S,
            shard_connect_timeout=CONNECT_WITHIN_S,
        )
        self._shard_down = shard_down

    def dispatch(self, event: str, /, *args: Any, **kwargs: Any) -> None:
        if event == "shard_disconnect":
            self._shard_down(args[0])
        super().dispatch(event, *args, **kwargs)


class Link:
    """`run` until it ends; then make another one. `ready` is called at each new session, never at a resumed one."""

    def __init__(
        self,
        settings: DiscordSettings,
        proxy: str | None,
        clock: Clock,
        *,
        hear: Hear,
        ready: Callable[[set[str]], None],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._hear = hear
        self._ready = ready
        self._up: set[int] = set()
        self._down_since: dict[int, float] = {}
        self._events: dict[int, tuple[int | None, float]] = {}  # of a shard: last sequence, since when
        self._began = clock.monotonic()
        self.was_up = False
        self.client = Client(shard_down=self._on_down, intents=intents(settings))
        self.client.http = open_http(settings, proxy)
        self.client._connection.http = self.client.http
        self._tap(self.client._connection.parsers)

    async def run(self) -> Exception | None:
        """Connected until cancelled, deaf or refused; gives what ended it (None: it went deaf)."""
        ended: Exception | None = None
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._keep_watch, group.cancel_scope)
                try:
                    await self.client.start(self._settings.token.get_secret_value())
                    ended = ConnectionError("the connection was closed")
                except Trouble as error:
                    ended = cast(Exception, error)
                except Exception as error:  # the channel loop: whatever it was, the next link starts afresh
                    log.exception("the connection to Discord broke down")
                    ended = error
                group.cancel_scope.cancel()
        finally:
            await self._close()
        return ended

    @property
    def state(self) -> State:
        if self._up and len(self._up) == (self.client.shard_count or 1):
            return State.CONNECTED
        return State.RECONNECTING if self.was_up else State.STARTING

    def last_event_at(self) -> datetime | None:
        """The last sign of life on any shard, heartbeats included."""
        heard = [stats.heard_s for stats in self._stats() if stats.down_s == 0]
        return self._clock.now() - timedelta(seconds=min(heard)) if heard else None

    # -- events

    def _tap(self, parsers: dict[str, Callable[[Any], None]]) -> None:
        for name in OURS:
            parsers[name] = self._telling(name)
        for name in BEFORE:
            parsers[name] = _both(self._telling(name), parsers[name])
        for name in AFTER:
            parsers[name] = _both(parsers[name], self._telling(name))
        parsers["READY"] = _both(parsers["READY"], self._on_ready)
        parsers["RESUMED"] = _both(parsers["RESUMED"], self._on_resumed)

    def _telling(self, name: str) -> Callable[[Any], None]:
        def tell(data: Any) -> None:
            try:
                self._hear(name, data)
            except Exception:  # an event listener; raising would tear down the library's shard
                log.exception("an event of Discord could not be read and is lost: %s", name)

        return tell

    def _on_ready(self, data: Any) -> None:
        self._on_up(int((data.get("shard") or (0, 1))[0]))
        self._ready({str(guild["id"]) for guild in data.get("guilds") or ()})

    def _on_resumed(self, data: Any) -> None:
        self._on_up(int(data.get("__shard_id__") or 0))

    def _on_up(self, shard_id: int) -> None:
        self._up.add(shard_id)
        self._down_since.pop(shard_id, None)
        self._events.pop(shard_id, None)
        self.was_up = True

    def _on_down(self, shard_id: int) -> None:
        self._up.discard(shard_id)
        self._down_since.setdefault(shard_id, self._clock.monotonic())

    # -- pulse

    async def _keep_watch(self, scope: anyio.CancelScope) -> None:
        """Ends the link when a shard hears nothing any more, or does not come back."""
        timeouts = Timeouts(
            deaf_s=self._settings.deaf_after_s, probe_s=self._settings.probe_idle_s, rebuild_s=REBUILD_AFTER_S
        )
        every_s = min(timeouts.deaf_s, timeouts.probe_s) / CHECKS
        while True:
            await self._clock.sleep(every_s)
            for stats in self._stats():
                found = verdict(stats, timeouts)
                if found is Verdict.PROBE and not await self._answers(stats.shard_id):
                    found = Verdict.DEAF
                if found is Verdict.DEAF:
                    self._up.clear()  # taking it down lasts seconds in which nobody is heard
                    log.warning("Discord is deaf on shard %d, connecting anew", stats.shard_id)
                    scope.cancel()
                    return

    def _stats(self) -> list[ConnectionStats]:
        now, tick = self._clock.monotonic(), perf_counter()  # the library counts heartbeats by perf_counter
        found: list[ConnectionStats] = []
        for shard_id in self.client.shards:
            socket = self.client._get_websocket(shard_id=shard_id)
            beat = socket._keep_alive
            last, since = self._events.get(shard_id, (None, now))
            if last != socket.sequence or shard_id not in self._events:
                last, since = self._events[shard_id] = (socket.sequence, now)
            down_s = 0.0 if shard_id in self._up else max(now - self._down_since.get(shard_id, self._began), 0.001)
            found.append(
                ConnectionStats(
                    shard_id=shard_id,
                    heard_s=tick - beat._last_recv if beat else 0.0,
                    acked_s=tick - beat._last_ack if beat else 0.0,
                    quiet_s=now - since,
                    down_s=down_s,
                )
            )
        if not found:
            down_s = now - self._began
            found.append(
                ConnectionStats(shard_id=0, heard_s=down_s, acked_s=down_s, quiet_s=down_s, down_s=max(down_s, 0.001))
            )
        return found

    async def _answers(self, shard_id: int) -> bool:
        """Asks a server of the shard for the bot's own membership: the answer is an event, as messages are."""
        guild = next((g for g in self.client.guilds if g.shard_id == shard_id and not g.unavailable), None)
        if guild is None or self.client.user is None:
            return True  # nobody to ask; the heartbeats have to do
        try:
            with anyio.fail_after(min(PROBE_WITHIN_S, self._settings.deaf_after_s)):
                await guild.query_members(user_ids=[self.client.user.id], cache=False)
        except (TimeoutError, OSError, RuntimeError, discord.DiscordException):
            return False
        return True

    async def _close(self) -> None:
        """Within a time limit: a half-open connection does not answer our goodbye."""
        with anyio.move_on_after(CLOSE_WITHIN_S, shield=True):
            await self.client.close()
        with anyio.move_on_after(CLOSE_WITHIN_S, shield=True):
            await self.client.http.close()


def intents(settings: DiscordSettings) -> discord.Intents:
    """Only what is used: fewer events, less memory."""
    wanted = discord.Intents.none()
    wanted.guilds = True
    wanted.guild_messages = True
    wanted.dm_messages = True
    wanted.message_content = settings.message_content
    return wanted


def _both(first: Callable[[Any], None], second: Callable[[Any], None]) -> Callable[[Any], None]:
    def parse(data: Any) -> None:
        first(data)
        second(data)

    return parse
