"""The signed-in accounts: opened one after another, kept running, each on its own; what they say goes to `admit`."""

import logging
from collections.abc import Callable, Mapping, Sequence

import anyio
from anyio.abc import TaskGroup

from agent.core.crash_points import passing
from agent.storage.errors import StorageTrouble
from gateway.channels.adapter import Adapter, Admit, ChannelSettings, Health, State, Surroundings
from gateway.channels.channel import Channel
from gateway.channels.errors import ChannelBusy, ChannelError, ChannelFatal, ChannelUnsure, HouseTrouble
from gateway.channels.inbound import Inbound, Receipt
from gateway.channels.keys import ConversationKey
from gateway.channels.loading import open_adapter
from gateway.channels.outbound import CommandSpec

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
PUBLISH_PAUSES_S = (5.0, 30.0, 120.0, 600.0)
CLOSE_WITHIN_S = 5.0
KEPT_CHANNELS = 512

_log = logging.getLogger("tieline.accounts")


class Accounts:
    """Finds the channel of a conversation; keeps every account going until cancelled."""

    def __init__(
        self,
        settings: Sequence[ChannelSettings],
        surroundings: Surroundings,
        *,
        opened: Callable[[Adapter], None],
        failed: Callable[[str, str], None],
    ) -> None:
        """`opened` hears of each adapter once its channels can be found and before it runs.

        `failed` hears of accounts that will not run, with the reason.
        """
        self._settings = settings
        self._surroundings = surroundings
        self._opened = opened
        self._failed = failed
        self._adapters: dict[str, Adapter] = {}
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

    def _health(self, channel_type: str) -> Health:
        if channel_type in self._broken:
            return self._broken[channel_type]
        adapter = self._adapters.get(channel_type)
        return adapter.health() if adapter is not None else Health(state=State.STARTING)

    async def open_all(self) -> None:
        """Import and build each adapter in a thread, in the order of the configuration, the light ones first."""
        for settings in sorted(self._settings, key=lambda one: one.type not in ("console", "web")):
            try:
                adapter = await anyio.to_thread.run_sync(open_adapter, settings, self._surroundings)
            except ImportError as error:
                self._break(settings.channel_type, f"{error}; the library of this platform is not installed")
            except ChannelError as error:
                self._break(settings.channel_type, str(error))
            except Exception as error:  # noqa: BLE001 - the channel seam of STYLE §6: the other accounts go on
                _log.exception("%s cannot be opened", settings.channel_type)
                # Its words may hold the token; the log is redacted, a chat is not.
                self._break(settings.channel_type, f"{type(error).__name__}; the log has more")
            else:
                self._adapters[adapter.channel_type] = adapter
                self._opened(adapter)
        self._open.set()

    async def wait_open(self) -> None:
        await self._open.wait()

    async def run(self, admit: Admit, commands: Sequence[CommandSpec], tasks: TaskGroup) -> None:
        """Start each account's own task."""

        async def take_in(inbound: Inbound) -> Receipt:
            if not self._taking_in:
                # Neither stored nor acknowledged: the platform keeps it for the next start (G-27).
                await anyio.sleep_forever()
            try:
                receipt = await admit(inbound)
            except StorageTrouble as error:
                _log.warning("what came could not be stored: %s", error, extra={"conversation": str(inbound.key)})
                raise HouseTrouble("it could not be stored") from error
            except Exception as error:  # the channel seam: a defect of the house in the one word that adapters know
                _log.exception("what came could not be taken in", extra={"conversation": str(inbound.key)})
                raise HouseTrouble(f"it could not be taken in ({type(error).__name__})") from error
            passing("acknowledge")
            return receipt

        for adapter in self._adapters.values():
            tasks.start_soon(self._keep_running, adapter, take_in)
            tasks.start_soon(self._publish, adapter, commands)

    def stop_taking_in(self) -> None:
        """From now on nothing new is accepted; sending goes on."""
        self._taking_in = False

    async def aclose(self) -> None:
        async with anyio.create_task_group() as tasks:
            for adapter in self._adapters.values():
                tasks.start_soon(self._close, adapter)

    async def _keep_running(self, adapter: Adapter, admit: Admit) -> None:
        """Start it again whenever it stops, later each time; one that went well for a while begins anew."""
        name, clock = adapter.channel_type, self._surroundings.clock
        pause_s = FIRST_PAUSE_S
        while True:
            self._broken.pop(name, None)
            began = clock.monotonic()
            try:
                await adapter.run(admit)
                reason = "it ended by itself"
            except ChannelFatal as error:
                self._break(name, str(error))
                return
            except Exception as error:  # noqa: BLE001 - the channel seam of STYLE §6
                _log.exception("%s stopped", name)
                reason = f"it stopped ({type(error).__name__})"
            if clock.monotonic() - began > LONGEST_PAUSE_S:
                pause_s = FIRST_PAUSE_S
            detail = f"{reason}; started again in {pause_s:g} s"
            _log.error("%s: %s", name, detail)
            self._broken[name] = Health(state=State.RECONNECTING, detail=detail)
            await clock.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    async def _publish(self, adapter: Adapter, commands: Sequence[CommandSpec]) -> None:
        """Register the commands; a platform that cannot take them now is asked again, one that refuses is not."""
        for pause_s in PUBLISH_PAUSES_S:
            try:
                await adapter.publish(commands)
            except (ChannelBusy, ChannelUnsure) as error:
                _log.info("%s: the commands are not registered yet: %s", adapter.channel_type, error)
                wait_s = max(pause_s, error.after_s) if isinstance(error, ChannelBusy) else pause_s
                await self._surroundings.clock.sleep(wait_s)
            except ChannelError as error:
                _log.warning("%s: the commands were not registered: %s", adapter.channel_type, error)
                return
            except Exception:  # noqa: BLE001 - the channel seam of STYLE §6: typed commands work without it
                _log.exception("%s: the commands were not registered", adapter.channel_type)
                return
            else:
                return
        _log.warning("%s: the commands were not registered, its platform could not be reached", adapter.channel_type)

    async def _close(self, adapter: Adapter) -> None:
        with anyio.move_on_after(CLOSE_WITHIN_S, shield=True) as scope:
            try:
                await adapter.aclose()
            except Exception as error:  # noqa: BLE001 - the channel seam of STYLE §6: the others must be closed too
                _log.warning("%s did not close well: %r", adapter.channel_type, error)
        if scope.cancelled_caught:
            _log.warning("%s took more than %g s to close", adapter.channel_type, CLOSE_WITHIN_S)

    def _break(self, channel_type: str, reason: str) -> None:
        _log.error("%s cannot sign in: %s", channel_type, reason)
        self._broken[channel_type] = Health(state=State.FAILED, detail=reason)
        self._failed(channel_type, reason)
