"""The signed-in accounts: opened one after another, kept running, each on its own.

Those of platforms hear while the rest of the gateway is still being built.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import anyio
from anyio.abc import TaskGroup

from agent.core.backoff import Backoff, Retries
from agent.core.cancellation import first_error
from agent.core.clock import Clock
from agent.core.failpoints import failpoint
from agent.storage.errors import DatabaseDamaged, StorageTrouble
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
from gateway.telemetry.trouble import Troubles

RESTARTING = Backoff(first_s=1.0, longest_s=60.0)
PUBLISH_PAUSES_S = (5.0, 30.0, 120.0, 600.0)
CLOSE_WITHIN_S = 5.0
KEPT_CHANNELS = 512

_log = logging.getLogger("tieline.accounts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """The port to the gateway, once it is built.

    `opened` hears of each adapter whose channels can be found. `failed` hears of accounts that will not run, with the
    reason. `fullness`, `only_demo` and `suggest` are what `Surroundings` lends; of a gateway that is not built they
    tell nothing.
    """

    admit: Admit
    commands: Sequence[CommandSpec]
    opened: Callable[[Adapter], None]
    failed: Callable[[str, str], None]
    fullness: Callable[[ConversationKey], Fullness | None] = lambda key: None
    only_demo: Callable[[], bool] = lambda: False
    suggest: Callable[[MessageReceived], Awaitable[Sequence[str]]] = nothing_to_suggest


class Accounts:
    """Finds the channel of a conversation; keeps every account going until cancelled."""

    def __init__(self, settings: Sequence[ChannelSettings], adapter_context: AdapterContext) -> None:
        self._settings = settings
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

    def is_refused(self, channel_type: str) -> bool:
        """Whether the account's login was refused, or it could not even be opened."""
        return self._health(channel_type).state is State.FAILED

    def _health(self, channel_type: str) -> Health:
        if channel_type in self._broken:
            return self._broken[channel_type]
        adapter = self._adapters.get(channel_type)
        return adapter.health() if adapter is not None else Health(state=State.STARTING)

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
        self._built.set()
        await self.open_all()
        for name, adapter in self._adapters.items():
            self._start(name, tasks)
            platform = name.partition("@")[0]
            known = [command for command in gateway.commands if command.platform in ("", platform)]
            tasks.start_soon(self._publish, adapter, known)

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
        if name in self._adapters or name in self._broken:
            return
        try:
            adapter = await anyio.to_thread.run_sync(open_adapter, settings, self._adapter_context)
        except ImportError as error:
            self._break(name, f"{error}; the library of this platform is not installed")
        except ChannelError as error:
            self._break(name, str(error))
        except Exception as error:  # noqa: BLE001 - the channel seam: the other accounts go on
            _log.exception("%s cannot be opened", name)
            # Its words may hold the token; the log is redacted, a chat is not.
            self._break(name, f"{type(error).__name__}; the log has more")
        else:
            self._adapters[name] = adapter
            if self._gateway is not None:
                self._gateway.opened(adapter)

    def _start(self, name: str, tasks: TaskGroup) -> None:
        """Start the account's own task, if it is open and has none."""
        if name in self._adapters and name not in self._running:
            self._running.add(name)
            tasks.start_soon(self._keep_running, self._adapters[name])

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

    def _fullness(self, key: ConversationKey) -> Fullness | None:
        return self._gateway.fullness(key) if self._gateway is not None else None

    def _only_demo(self) -> bool:
        return self._gateway is not None and self._gateway.only_demo()

    async def _suggest(self, said: MessageReceived) -> Sequence[str]:
        try:
            return await self._gateway.suggest(said) if self._gateway is not None else ()
        except StorageTrouble as error:
            _log.warning("nothing could be suggested: %s", error, extra={"conversation": str(said.key)})
            return ()
        except Exception:  # noqa: BLE001 - the channel seam: somebody types on without a list
            _log.exception("nothing could be suggested", extra={"conversation": str(said.key)})
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
            try:
                await adapter.publish(commands)
            except (ChannelBusy, ChannelUnsure) as error:
                _log.info("%s: the commands are not registered yet: %s", adapter.channel_type, error)
                wait_s = max(pause_s, error.after_s) if isinstance(error, ChannelBusy) else pause_s
                await self._adapter_context.clock.sleep(wait_s)
            except ChannelError as error:
                _log.warning("%s: the commands were not registered: %s", adapter.channel_type, error)
                return
            except Exception:  # noqa: BLE001 - the channel seam: typed commands work without it
                _log.exception("%s: the commands were not registered", adapter.channel_type)
                return
            else:
                return
        _log.warning("%s: the commands were not registered, its platform could not be reached", adapter.channel_type)

    async def _close(self, adapter: Adapter) -> None:
        with anyio.move_on_after(CLOSE_WITHIN_S, shield=True) as scope:
            try:
                await adapter.aclose()
            except ChannelError as error:
                _log.warning("%s did not close well: %s", adapter.channel_type, error)
            except Exception:  # noqa: BLE001 - the channel seam: the others must be closed too
                _log.exception("%s did not close well", adapter.channel_type)
        if scope.cancelled_caught:
            _log.warning("%s took more than %g s to close", adapter.channel_type, CLOSE_WITHIN_S)

    def _break(self, channel_type: str, reason: str) -> None:
        _log.error("%s cannot sign in: %s", channel_type, reason)
        self._broken[channel_type] = Health(state=State.FAILED, detail=reason)
        if self._gateway is not None:
            self._gateway.failed(channel_type, reason)


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
