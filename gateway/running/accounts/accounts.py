"""The signed-in accounts: opened one after another, kept running, each on its own.

Those of platforms hear while the rest of the gateway is still being built.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Protocol

import anyio
from anyio.abc import TaskGroup
from sqlalchemy import Connection

from agent.core.backoff import Backoff, Retries
from agent.core.cancellation import first_error
from agent.core.clock import Clock
from agent.core.failpoints import failpoint
from agent.core.ids import ConversationId
from agent.storage.database import TROUBLE
from agent.storage.errors import DatabaseDamaged, StorageError, StorageTrouble
from gateway.channels.adapter import (
    Adapter,
    AdapterContext,
    Admit,
    ChannelSettings,
    Fullness,
    Health,
    State,
    nothing_to_suggest,
)
from gateway.channels.channel import Channel
from gateway.channels.entry_points import open_adapter
from gateway.channels.errors import ChannelBusy, ChannelError, ChannelFatal, ChannelUnsure, GatewayUnavailable
from gateway.channels.inbound import Inbound, MessageReceived, Receipt
from gateway.channels.keys import ConversationKey
from gateway.channels.outbound import CommandSpec
from gateway.storage import settings_rows
from gateway.telemetry.trouble import Troubles

RESTARTING = Backoff(first_s=1.0, longest_s=60.0)
PUBLISH_PAUSES_S = (5.0, 30.0, 120.0, 600.0)
CLOSE_WITHIN_S = 5.0
KEPT_CHANNELS = 512
NO_WORKER = "a terminal talks to a process that is ingress and worker in one: start it with --role ingress,worker"
HEARD_ELSEWHERE = "heard by another process"
PAUSED_SETTING = "paused"  # of an account, by its channel type: since when, in UTC microseconds

_log = logging.getLogger("tieline.accounts")


class Ownership(Protocol):
    """Whether and when this process hears accounts, where several processes might (G-137)."""

    hears: bool
    works: bool  # it has agents

    def is_held(self, name: str) -> bool:
        """Whether this process is that one."""

    async def take(self, name: str) -> None:
        """Return once this process is that one."""

    async def give_back(self, name: str) -> None:
        """Let another be it. Never raises for trouble."""


async def _forget_nothing(channel_type: str) -> None:
    """Of a gateway that keeps no pauses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """The port to the gateway, once it is built.

    `opened` hears of each adapter whose channels can be found, `closed` of each account that is closed while the rest
    goes on, and whether it is to come back, `unpaused` of each that was paused and is gone. `failed` hears of accounts
    that will not run, with the reason. `fullness`, `only_demo` and `suggest` are what `Surroundings` lends; of a
    gateway that is not built they tell nothing.
    """

    admit: Admit
    commands: Sequence[CommandSpec]
    opened: Callable[[Adapter], None]
    failed: Callable[[str, str], None]
    closed: Callable[[str, bool], None] = lambda channel_type, comes_back: None
    unpaused: Callable[[str], Awaitable[None]] = _forget_nothing
    fullness: Callable[[ConversationKey], Fullness | None] = lambda key: None
    only_demo: Callable[[], bool] = lambda: False
    suggest: Callable[[MessageReceived], Awaitable[Sequence[str]]] = nothing_to_suggest


def paused_accounts(conn: Connection) -> Mapping[str, int]:
    """Since when each account that is paused is."""
    found = settings_rows.everywhere(conn, PAUSED_SETTING)
    return {str(name): int(since) for name, since in found.items() if since.isdigit()}


def forget_pause(conn: Connection, channel_type: str) -> None:
    """From now on the account, and a later one of that name, is not paused."""
    settings_rows.clear(conn, ConversationId(channel_type), PAUSED_SETTING)


class _Task:
    """A task of one account, which can be ended and waited for."""

    def __init__(self) -> None:
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            with self._scope:
                await work()
        finally:
            self._ended.set()

    async def end(self) -> None:
        self._scope.cancel()
        await self._ended.wait()


class Accounts:
    """Finds the channel of a conversation; keeps every account going until cancelled.

    Accounts of platforms may be opened, closed and paused at any time. One that is paused takes nothing in and has no
    channel, so what is due to it waits in the outbox.
    """

    def __init__(
        self,
        settings: Sequence[ChannelSettings],
        adapter_context: AdapterContext,
        paused: Mapping[str, datetime] | None = None,
        ownership: Ownership | None = None,
    ) -> None:
        """`paused` are the accounts that stay closed, by channel type, and since when.

        `ownership` None: all accounts are heard by this process alone.
        """
        self._ownership = ownership
        self._settings = tuple(settings)
        names = {one.channel_type for one in settings}
        self._since = {name: at for name, at in (paused or {}).items() if name in names}
        self._paused = set(self._since)
        self._tasks: TaskGroup | None = None
        self._own: dict[str, list[_Task]] = {}
        self._changing = anyio.Lock()
        self._wanted: Sequence[ChannelSettings] | None = None  # what the file has said since
        self._has_news = anyio.Event()
        self._adapter_context = replace(
            adapter_context, fullness=self._fullness, only_demo=self._only_demo, suggest=self._suggest
        )
        self._gateway: Gateway | None = None
        self._built = anyio.Event()
        self._adapters: dict[str, Adapter] = {}
        self._running: set[str] = set()
        self._broken: dict[str, Health] = {}
        self._channels: dict[ConversationKey, Channel] = {}
        self._open = anyio.Event()
        self._taking_in = True

    def channel(self, key: ConversationKey) -> Channel | None:
        """The place where the conversation is; None when no such account is configured."""
        channel = self._channels.get(key)
        if channel is None:
            adapter = self._adapters.get(key.channel_type)
            if adapter is None:
                return None
            if len(self._channels) >= KEPT_CHANNELS:
                del self._channels[next(iter(self._channels))]
            channel = self._channels[key] = adapter.channel(key.channel_id)
        return channel

    def health(self) -> Mapping[str, Health]:
        """Every configured account's, also of those that are not open yet."""
        return {settings.channel_type: self._health(settings.channel_type) for settings in self._settings}

    def told(self, channel_type: str, words: str) -> None:
        """The account tells something in another process."""
        told = getattr(self._adapters.get(channel_type), "told", None)
        if told is not None and words:
            with _seam(f"{channel_type} could not take in what it told"):  # words of another version, perhaps
                told(words)

    async def told_anew(self) -> None:
        """Such words may have been lost."""
        for adapter in list(self._adapters.values()):
            told_anew = getattr(adapter, "told_anew", None)
            if told_anew is not None:
                with _seam(f"{adapter.channel_type} could not look anew", but=TROUBLE):  # that is tried again
                    await told_anew()

    @property
    def settings(self) -> Sequence[ChannelSettings]:
        """The settings of all accounts, as they run."""
        return self._settings

    def since(self, channel_type: str) -> datetime | None:
        """When the account was opened, or paused; None before."""
        return self._since.get(channel_type)

    def is_refused(self, channel_type: str) -> bool:
        """Whether the account's login was refused, or it could not even be opened."""
        return self._health(channel_type).state is State.FAILED

    def _health(self, channel_type: str) -> Health:
        if channel_type in self._paused:
            return Health(state=State.PAUSED, detail="paused by an operator")
        if channel_type in self._broken:
            return self._broken[channel_type]
        adapter = self._adapters.get(channel_type)
        if adapter is None:
            return Health(state=State.STARTING)
        found = adapter.health()
        if found.state is State.STARTING and self._ownership is not None and not self._hears(channel_type):
            return Health(state=State.CONNECTED, detail=HEARD_ELSEWHERE)
        return found

    def _hears(self, channel_type: str) -> bool:
        ownership = self._ownership
        if ownership is None or (ownership.hears and self._is_for_many(channel_type)):
            return True
        return ownership.is_held(f"account:{channel_type}")

    async def listen(self, tasks: TaskGroup) -> None:
        """Open the accounts of platforms, and let each hear as soon as it is open; what it hears waits for `serve`.

        Accounts behind an entrance of ours have nobody to sign in to: `serve` opens them.
        """
        for settings in self._settings:
            if settings.entrance == "platform":
                await self._open_one(settings)
                self._start(settings.channel_type, tasks)

    async def serve(self, gateway: Gateway, tasks: TaskGroup) -> None:
        """Hand over to `gateway` what was heard and will be; open and start the accounts that are not open yet."""
        self._gateway = gateway
        for name, health in self._broken.items():
            if health.state is State.FAILED:
                gateway.failed(name, health.detail)
        for adapter in self._adapters.values():
            gateway.opened(adapter)
        for name in self._paused:
            gateway.closed(name, True)
        self._built.set()
        async with self._changing:
            self._tasks = tasks
            await self.open_all()
            for name in list(self._adapters):
                self._start(name, tasks)
                self._announce(name, tasks)
        tasks.start_soon(self._follow_settings)

    def follow(self, settings: Sequence[ChannelSettings]) -> None:
        """Bring the accounts of platforms in line with these, as soon as may be."""
        self._wanted = tuple(settings)
        self._has_news.set()

    async def apply(self, settings: Sequence[ChannelSettings]) -> None:
        """Close accounts of platforms that are gone or different, open those that are new or different."""
        async with self._changing:
            before = {one.channel_type: one for one in self._settings}
            wanted = {one.channel_type: one for one in settings}
            own = [one for one in self._settings if one.entrance != "platform"]
            changed = [name for name, one in before.items() if one.entrance == "platform" and wanted.get(name) != one]
            for name in changed:
                await self._shut(name, comes_back=name in wanted)
            self._settings = (*(one for one in settings if one.entrance == "platform"), *own)
            gone = [name for name in changed if name not in wanted]
            unpaused = self._paused.intersection(gone)
            for name in gone:
                self._paused.discard(name)
                self._since.pop(name, None)
            for one in self._settings:
                if one.entrance == "platform" and before.get(one.channel_type) != one:
                    await self._open_and_start(one)
            for name in sorted(unpaused):
                await self._forget_pause(name)

    async def reconnect(self, channel_type: str) -> None:
        """Close the account and open it anew. Raises LookupError for one that is not there."""
        async with self._changing:
            settings = self._of_platform(channel_type)
            await self._shut(channel_type, comes_back=True)
            await self._open_and_start(settings)

    async def pause(self, channel_type: str) -> None:
        """Close the account until `resume`. Raises LookupError for one that is not there."""
        async with self._changing:
            self._of_platform(channel_type)
            self._paused.add(channel_type)
            await self._shut(channel_type, comes_back=True)
            self._since[channel_type] = self._adapter_context.clock.now()

    async def resume(self, channel_type: str) -> None:
        """Open an account that is paused. Raises LookupError for one that is not there."""
        async with self._changing:
            settings = self._of_platform(channel_type)
            self._paused.discard(channel_type)
            await self._open_and_start(settings)

    async def _forget_pause(self, name: str) -> None:
        """Else a later account of that name would be paused from the next start on."""
        if self._gateway is None:
            return
        try:
            await self._gateway.unpaused(name)
        except StorageError as error:
            _log.warning("%s is gone, and that it was paused stays noted: %s", name, error)

    def _of_platform(self, channel_type: str) -> ChannelSettings:
        for one in self._settings:
            if one.channel_type == channel_type and one.entrance == "platform":
                return one
        raise LookupError(f"There is no account {channel_type} any more.")

    async def _follow_settings(self) -> None:
        while True:
            await self._has_news.wait()
            self._has_news = anyio.Event()
            wanted, self._wanted = self._wanted, None
            if wanted is not None:
                await self.apply(wanted)

    async def _open_and_start(self, settings: ChannelSettings) -> None:
        await self._open_one(settings)
        if self._tasks is not None and settings.channel_type in self._adapters:
            self._start(settings.channel_type, self._tasks)
            self._announce(settings.channel_type, self._tasks)

    async def _shut(self, name: str, *, comes_back: bool) -> None:
        """End the account's tasks, then close it: nothing is taken in or sent with it afterwards."""
        self._channels = {key: channel for key, channel in self._channels.items() if key.channel_type != name}
        adapter = self._adapters.pop(name, None)
        if self._gateway is not None:
            self._gateway.closed(name, comes_back)
        try:
            for task in self._own.pop(name, ()):
                await task.end()
        finally:  # also when the process ends meanwhile: `aclose` does not know it any more
            self._running.discard(name)
            self._broken.pop(name, None)
            if adapter is not None:
                await self._close(adapter)

    def _announce(self, name: str, tasks: TaskGroup) -> None:
        """Register the commands in the background."""
        assert self._gateway is not None
        platform = name.partition("@")[0]
        known = [command for command in self._gateway.commands if command.platform in ("", platform)]
        self._spawn(name, tasks, partial(self._publish, self._adapters[name], known))

    def _spawn(self, name: str, tasks: TaskGroup, work: Callable[[], Awaitable[None]]) -> None:
        task = _Task()
        self._own.setdefault(name, []).append(task)
        tasks.start_soon(task.run, work)

    async def open_all(self) -> None:
        """Open what is not open yet, the light ones first."""
        for settings in sorted(self._settings, key=lambda one: one.entrance == "platform"):
            await self._open_one(settings)
        self._open.set()

    async def wait_open(self) -> None:
        """Return once all accounts are open, or cannot be."""
        await self._open.wait()

    async def _open_one(self, settings: ChannelSettings) -> None:
        """Import and build the adapter, in a thread."""
        name = settings.channel_type
        if settings.entrance == "control" and self._ownership is not None and not self._ownership.works:
            self._broken[name] = Health(state=State.PAUSED, detail=NO_WORKER)
            return
        if name in self._adapters or name in self._broken or name in self._paused:
            return
        try:
            adapter = await anyio.to_thread.run_sync(open_adapter, settings, self._adapter_context)
        except ImportError as error:
            self._break(name, f"{error}; update this platform's package, or install what it needs")
        except ChannelError as error:
            self._break(name, str(error))
        except Exception as error:  # noqa: BLE001 - the channel seam: the other accounts go on
            _log.exception("%s cannot be opened", name)
            # Its words may hold the token; the log is redacted, a chat is not.
            self._break(name, f"{type(error).__name__}; the log has more")
        else:
            self._adapters[name] = adapter
            self._since[name] = self._adapter_context.clock.now()
            if self._gateway is not None:
                self._gateway.opened(adapter)

    def _start(self, name: str, tasks: TaskGroup) -> None:
        """Start the account's own task, if it is open and has none."""
        if name in self._adapters and name not in self._running:
            self._running.add(name)
            self._spawn(name, tasks, partial(self._keep_hearing, self._adapters[name]))

    async def _keep_hearing(self, adapter: Adapter) -> None:
        """Keep it running; where others may hear it as well, only while it is ours, and send with it meanwhile."""
        ownership, name = self._ownership, adapter.channel_type
        if ownership is None or (ownership.hears and self._is_for_many(name)):
            await self._keep_running(adapter)
        elif not ownership.hears:
            await self._keep_speaking(adapter)
        else:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._keep_speaking, adapter)
                await ownership.take(f"account:{name}")
                tasks.cancel_scope.cancel()
            try:
                await self._keep_running(adapter)
            finally:
                await ownership.give_back(f"account:{name}")

    async def _keep_speaking(self, adapter: Adapter) -> None:
        """Sign in as far as sending needs; another process hears the account."""
        name, retries = adapter.channel_type, Retries(RESTARTING)
        speak = getattr(adapter, "speak", None)
        while speak is not None:
            with _seam(f"{name} stopped sending"):
                try:
                    await speak(self._ingest)
                except ChannelFatal as error:
                    self._break(name, str(error))
                return
            await self._adapter_context.clock.sleep(retries.failed())

    def _is_for_many(self, name: str) -> bool:
        """Whether each process that hears has the account: it is an entrance of ours, or the platform comes to us."""
        return any(
            one.channel_type == name and (one.entrance != "platform" or one.heard_by_many) for one in self._settings
        )

    async def _ingest(self, inbound: Inbound) -> Receipt:
        """The `admit` of adapters. Raises GatewayUnavailable."""
        while (gateway := self._gateway) is None:
            await self._built.wait()
        if not self._taking_in:
            # Neither stored nor acknowledged: the platform keeps it for the next start (G-27).
            await anyio.sleep_forever()
        try:
            receipt = await gateway.admit(inbound)
        except StorageTrouble as error:
            _log.warning("what came could not be stored: %s", error, extra={"conversation": str(inbound.key)})
            raise GatewayUnavailable("it could not be stored") from error
        except Exception as error:  # the channel seam: a defect of the gateway in the one word that adapters know
            _log.exception("what came could not be taken in", extra={"conversation": str(inbound.key)})
            raise GatewayUnavailable(f"it could not be taken in ({type(error).__name__})") from error
        failpoint("acknowledge")
        return receipt

    async def admit(self, inbound: Inbound) -> Receipt:
        """Take in what came by no adapter. Raises GatewayUnavailable, also while the gateway ends."""
        if not self._taking_in:
            raise GatewayUnavailable("the gateway is stopping")
        return await self._ingest(inbound)

    def _fullness(self, key: ConversationKey) -> Fullness | None:
        return self._gateway.fullness(key) if self._gateway is not None else None

    def _only_demo(self) -> bool:
        return self._gateway is not None and self._gateway.only_demo()

    async def _suggest(self, said: MessageReceived) -> Sequence[str]:
        with _seam("nothing could be suggested", conversation=str(said.key)):  # somebody types on without a list
            try:
                return await self._gateway.suggest(said) if self._gateway is not None else ()
            except StorageTrouble as error:
                _log.warning("nothing could be suggested: %s", error, extra={"conversation": str(said.key)})
        return ()

    def stop_taking_in(self) -> None:
        """From now on nothing new is accepted; sending goes on."""
        self._taking_in = False

    async def aclose(self) -> None:
        async with anyio.create_task_group() as tasks:
            for adapter in self._adapters.values():
                tasks.start_soon(self._close, adapter)

    async def _keep_running(self, adapter: Adapter) -> None:
        """Start it again whenever it stops, later each time; one that went well for a while begins anew."""
        name, clock = adapter.channel_type, self._adapter_context.clock
        retries = Retries(RESTARTING)
        while True:
            self._broken.pop(name, None)
            began = clock.monotonic()
            try:
                await adapter.run(self._ingest)
                reason = "it ended by itself"
            except ChannelFatal as error:
                self._break(name, str(error))
                return
            except Exception as error:  # noqa: BLE001 - the channel seam
                _log.exception("%s stopped", name)
                reason = f"it stopped ({type(error).__name__})"
            if clock.monotonic() - began > RESTARTING.longest_s:
                retries.succeeded()
            pause_s = retries.failed()
            detail = f"{reason}; started again in {pause_s:g} s"
            _log.error("%s: %s", name, detail)
            self._broken[name] = Health(state=State.RECONNECTING, detail=detail)
            await clock.sleep(pause_s)

    async def _publish(self, adapter: Adapter, commands: Sequence[CommandSpec]) -> None:
        """Register the commands; a platform that cannot take them now is asked again, one that refuses is not."""
        for pause_s in PUBLISH_PAUSES_S:
            with _seam(f"{adapter.channel_type}: the commands were not registered"):  # typed ones work without it
                try:
                    await adapter.publish(commands)
                except (ChannelBusy, ChannelUnsure) as error:
                    _log.info("%s: the commands are not registered yet: %s", adapter.channel_type, error)
                    wait_s = max(pause_s, error.after_s) if isinstance(error, ChannelBusy) else pause_s
                    await self._adapter_context.clock.sleep(wait_s)
                    continue
                except ChannelError as error:
                    _log.warning("%s: the commands were not registered: %s", adapter.channel_type, error)
            return
        _log.warning("%s: the commands were not registered, its platform could not be reached", adapter.channel_type)

    async def _close(self, adapter: Adapter) -> None:
        with anyio.move_on_after(CLOSE_WITHIN_S, shield=True) as scope:
            with _seam(f"{adapter.channel_type} did not close well"):  # the others must be closed too
                try:
                    await adapter.aclose()
                except ChannelError as error:
                    _log.warning("%s did not close well: %s", adapter.channel_type, error)
        if scope.cancelled_caught:
            _log.warning("%s took more than %g s to close", adapter.channel_type, CLOSE_WITHIN_S)

    def _break(self, channel_type: str, reason: str) -> None:
        _log.error("%s cannot sign in: %s", channel_type, reason)
        self._broken[channel_type] = Health(state=State.FAILED, detail=reason)
        if self._gateway is not None:
            self._gateway.failed(channel_type, reason)


@contextmanager
def _seam(failed: str, *, but: tuple[type[BaseException], ...] = (), **about: str) -> Iterator[None]:
    """The channel seam: a defect of one account is logged as `failed`, and ends nothing else; `but` is the caller's."""
    try:
        yield
    except but:
        raise
    except Exception as error:  # noqa: BLE001 - the channel seam
        _log.exception("%s: %s", failed, type(error).__name__, extra=about)


# Background loops of the gateway: a broken one is reported, waits, and runs again. None ends the process.

BROKEN = Backoff(first_s=1.0, longest_s=60.0)
WELL_AFTER_S = 300.0  # who has run for so long runs

_log_loop = logging.getLogger("tieline.gateway")


class Loops:
    """Loops that chats can go on without. Loops that the gateway needs (delivery, dispatch) are not kept here."""

    def __init__(self, clock: Clock, troubles: Troubles, tell: Callable[[str, dict[str, object]], None]) -> None:
        """`tell` says a sentence of the catalogue to the owners; the same one once an hour."""
        self._clock = clock
        self._troubles = troubles
        self._tell = tell

    async def keep(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run it until it returns or is cancelled, however often it breaks. `name` is what operators read."""
        retries, broken = Retries(BROKEN), False
        while True:
            began = self._clock.monotonic()
            try:
                await self._watched(name, run, broken=broken)
            except StorageTrouble as error:  # told as the database's own, as damage is, and blocks readiness as that
                _log_loop.warning("%s: waits for the storage: %s", name, error)
            except DatabaseDamaged as error:
                _log_loop.error("%s: %s", name, error)
            except Exception as error:  # noqa: BLE001 - the channel seam, for loops that nobody waits for
                _log_loop.exception("%s: broke, and is started again", name)
                broken = True
                self._report(name, type(error).__name__)
            else:
                self._troubles.over("loop", name)
                return
            if self._clock.monotonic() - began >= WELL_AFTER_S:
                retries.succeeded()
            await self._clock.sleep(retries.failed())

    async def _watched(self, name: str, run: Callable[[], Awaitable[None]], *, broken: bool) -> None:
        """Run it; one that was `broken` is well again after a while."""
        with first_error():
            if not broken:
                await run()
                return
            async with anyio.create_task_group() as group:
                group.start_soon(self._well_later, name)
                await run()
                group.cancel_scope.cancel()

    async def _well_later(self, name: str) -> None:
        await self._clock.sleep(WELL_AFTER_S)
        self._troubles.over("loop", name)

    def _report(self, name: str, defect: str) -> None:
        # The class alone: the words of an error may be somebody's.
        self._troubles.report("loop", name, f"broke: {defect}", fix="it is started again by itself; the log has more")
        self._tell("owner_loop", {"part": name, "defect": defect})
