"""The signed-in accounts: opened one after another, kept running, each on its own; what they say goes to `admit`."""

import logging
from collections.abc import Callable, Mapping, Sequence

import anyio
from anyio.abc import TaskGroup

from gateway.channels.adapter import Adapter, Admit, ChannelSettings, Health, State, Surroundings
from gateway.channels.channel import Channel
from gateway.channels.errors import ChannelError, ChannelFatal
from gateway.channels.inbound import Inbound, Receipt
from gateway.channels.keys import ConversationKey
from gateway.channels.loading import open_adapter
from gateway.channels.outbound import CommandSpec

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
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
        """`opened` hears of each adapter once its channels can be found and before it runs, `failed` of logins that were refused, with the reason."""
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
        return {
            settings.channel_type: self._broken.get(settings.channel_type)
            or (
                self._adapters[settings.channel_type].health()
                if settings.channel_type in self._adapters
                else Health(state=State.STARTING)
            )
            for settings in self._settings
        }

    @property
    def adapters(self) -> Sequence[Adapter]:
        return tuple(self._adapters.values())

    async def open_all(self) -> None:
        """Import and build each adapter in a thread, in the order of the configuration, the light ones first."""
        for settings in sorted(self._settings, key=lambda one: one.type not in ("console", "web")):
            try:
                adapter = await anyio.to_thread.run_sync(open_adapter, settings, self._surroundings)
            except (ChannelError, ImportError, OSError) as error:
                self._break(settings.channel_type, str(error))
                continue
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
            return await admit(inbound)

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
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                await adapter.run(admit)
                return
            except ChannelFatal as error:
                self._break(adapter.channel_type, str(error))
                return
            except Exception:  # noqa: BLE001 - the channel seam of STYLE §6
                _log.exception("%s stopped; started again in %g s", adapter.channel_type, pause_s)
            await self._surroundings.clock.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    async def _publish(self, adapter: Adapter, commands: Sequence[CommandSpec]) -> None:
        try:
            await adapter.publish(commands)
        except ChannelError as error:
            _log.warning("%s: the commands were not registered: %s", adapter.channel_type, error)

    async def _close(self, adapter: Adapter) -> None:
        with anyio.move_on_after(CLOSE_WITHIN_S, shield=True) as scope:
            try:
                await adapter.aclose()
            except (ChannelError, OSError) as error:
                _log.warning("%s did not close well: %s", adapter.channel_type, error)
        if scope.cancelled_caught:
            _log.warning("%s took more than %g s to close", adapter.channel_type, CLOSE_WITHIN_S)

    def _break(self, channel_type: str, reason: str) -> None:
        _log.error("%s cannot sign in: %s", channel_type, reason)
        self._broken[channel_type] = Health(state=State.FAILED, detail=reason)
        self._failed(channel_type, reason)
