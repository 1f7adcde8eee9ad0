"""One Slack app in one workspace: signs in, listens by Socket Mode or signed HTTP, makes channels."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import anyio
from anyio.abc import TaskGroup
from starlette.routing import BaseRoute

from adapters.slack.account import Account, Address
from adapters.slack.api import RECONNECTING, SlackApi
from adapters.slack.channel import SlackChannel, SlackInteractions
from adapters.slack.diagnosis import diagnose, withheld_by
from adapters.slack.directory import Directory, UserGroups
from adapters.slack.files import SlackFiles
from adapters.slack.history import SlackHistory
from adapters.slack.intake import Arrival, Intake
from adapters.slack.posting import Posting
from adapters.slack.presence import SlackPresence, Statuses
from adapters.slack.settings import SlackSettings
from adapters.slack.socket_mode import Listening
from adapters.slack.streams import SlackStreams, StreamLedger
from agent.core.backoff import Retries
from gateway.channels.adapter import AdapterContext, Admit, Diagnosis, Health
from gateway.channels.errors import ChannelError, ChannelFatal, GatewayUnavailable
from gateway.channels.keys import ConversationKey
from gateway.channels.kit.health import HealthMonitor
from gateway.channels.kit.keyed_queue import KeyedQueue
from gateway.channels.outbound import CommandSpec

log = logging.getLogger("tieline.slack")

PROBE_EVERY_S = 300.0  # signed HTTP has no connection to watch, so the token is tried now and then


class SlackAdapter:
    """See `gateway.channels.adapter.Adapter`."""

    def __init__(self, settings: SlackSettings, adapter_context: AdapterContext) -> None:
        self.channel_type = settings.channel_type
        self._settings = settings
        self._adapter_context = adapter_context
        self._clock = adapter_context.clock
        self._api = SlackApi(settings, adapter_context)
        self._health_monitor = HealthMonitor(adapter_context.clock, "Slack")
        self._queues = KeyedQueue(adapter_context.clock, log)
        self._files = SlackFiles(self._api, settings)
        self._interactions = SlackInteractions(self._api)
        self._intake = Intake(
            settings,
            adapter_context,
            Directory(self._api, adapter_context),
            UserGroups(self._api, adapter_context, self._queues.beside),
            self._uninstalled,
            queues=self._queues,
            history_of=self._history,
            describe=self._files.described,
            look_up=self._message,
            tell=self._interactions.acknowledge,
        )
        self._statuses = Statuses(self._api, adapter_context)
        self._streams = StreamLedger(adapter_context.clock)
        self._group: TaskGroup | None = None
        self.routes: Sequence[BaseRoute] = ()
        if not settings.socket_mode:
            secret = settings.signing_secret
            assert secret is not None  # the settings see to it
            from adapters.slack.webhook import SlackWebhook  # only here: it brings slack-bolt along

            self.routes = SlackWebhook(secret.get_secret_value().strip(), self._posted_by_slack).routes()

    async def run(self, admit: Admit) -> None:
        """See `Adapter.run`."""
        self._intake.admit = admit
        fatal: ChannelFatal | None = None
        try:
            async with anyio.create_task_group() as self._group:
                await self._run(self._group)
        except* ChannelFatal as failures:
            fatal = _first(failures)
        finally:
            self._group = None
            self._intake.admit = None
        if fatal is not None:
            self._health_monitor.failed(str(fatal))
            raise fatal

    async def speak(self, admit: Admit) -> None:
        """Be ready to send, while another process hears. Raises ChannelFatal when the token is refused."""
        async with anyio.create_task_group() as group:
            await group.start(self._queues.run)
            group.start_soon(self._statuses.fade)
            if not await self._sign_in():
                await self._sign_in_until_it_works()
            await anyio.sleep_forever()

    def channel(self, channel_id: str) -> SlackChannel:
        """Raises ValueError for what is no Slack conversation."""
        address = Address.parse(channel_id)
        posting = Posting(address, self._api, self._settings, self._wrote)
        streams = SlackStreams(address, self._api, self._settings, posting, self._streams, self._statuses.over)
        return SlackChannel(
            ConversationKey(self.channel_type, channel_id),
            address,
            settings=self._settings,
            posting=posting,
            files=self._files,
            history=self._history(address),
            presence=SlackPresence(address, self._api, self._statuses),
            interactions=self._interactions,
            streams=streams if address.thread_ts is not None else None,
        )

    def health(self) -> Health:
        withheld = tuple(withheld_by(self._api.granted, self._settings))
        return replace(self._health_monitor.health(), withheld=withheld)

    async def publish(self, commands: Sequence[CommandSpec]) -> None:
        """Slack's slash commands live in the app's manifest; here only their names are learned."""
        self._intake.commands = frozenset(command.name for command in commands)
        log.info("slack takes its slash commands from the app manifest: `tieline slack-manifest` prints it")

    async def diagnose(self) -> Sequence[Diagnosis]:
        return await diagnose(self._api, self._settings, self._adapter_context)

    async def aclose(self) -> None:
        await self._api.aclose()

    async def _run(self, group: TaskGroup) -> None:
        await group.start(self._queues.run)
        group.start_soon(self._statuses.fade)
        group.start_soon(self._intake.catch_up.run)
        if not await self._sign_in():
            group.start_soon(self._sign_in_until_it_works)
        if self._settings.socket_mode:
            listening = Listening(
                self._settings,
                self._adapter_context,
                api=self._api,
                queues=self._queues,
                health_monitor=self._health_monitor,
                intake=self._intake,
            )
            await listening.run()
        else:
            await self._keep_probing()

    async def _sign_in(self) -> bool:
        """Learn who the bot is. Raises ChannelFatal when the token is refused."""
        try:
            answer = await self._api.call("auth.test")
        except ChannelFatal:
            raise
        except ChannelError as error:
            log.warning("slack does not tell who the bot is yet; going on", extra={"why": str(error)})
            return False
        self._intake.account = Account(
            channel_type=self.channel_type,
            team=str(answer.get("team_id") or ""),
            bot_user=str(answer.get("user_id") or ""),
            bot_id=str(answer.get("bot_id") or ""),
            app_id=self._intake.account.app_id,
        )
        return True

    async def _sign_in_until_it_works(self) -> None:
        retries = Retries(RECONNECTING)
        while True:
            await self._clock.sleep(retries.failed())
            if await self._sign_in():
                return

    async def _keep_probing(self) -> None:
        """Signed HTTP: Slack comes to us, so being able to hear means that the login holds."""
        caught_up = False
        retries = Retries(RECONNECTING)
        while True:
            if await self._sign_in():
                self._health_monitor.connected()
                retries.succeeded()
                if not caught_up:
                    self._intake.catch_up.begin()
                    caught_up = True
                await self._clock.sleep(PROBE_EVERY_S)
            else:
                self._health_monitor.trouble("Slack's Web API does not answer")
                await self._clock.sleep(retries.failed())
                caught_up = False

    async def _posted_by_slack(self, kind: str, payload: Mapping[str, Any]) -> None:
        """Returns when it is stored; raises RuntimeError when it is not, so that Slack sends it again.

        Its place is kept for it all the same, so that nothing overtakes it meanwhile.
        """
        self._health_monitor.heard()
        arrival = Arrival(kind=kind, payload=payload, received_at=self._clock.now())
        self._intake.twins.note(arrival)
        stored, waits, tried = False, True, anyio.Event()

        async def job() -> None:
            nonlocal stored
            try:
                await self._intake.ingest(arrival)
                stored = True
            except GatewayUnavailable:
                if not waits and not arrival.is_ordered:  # Slack was told that it is done
                    await self._intake.regret(arrival)
                raise
            finally:
                tried.set()

        await self._queues.put(arrival.queue, job, holds=arrival.is_ordered)
        try:
            await tried.wait()
        finally:
            waits = False
        if not stored:
            raise RuntimeError("the request was not stored")

    async def _message(self, address: Address, ts: str) -> Mapping[str, Any] | None:
        return await self._history(address).message(ts)

    def _history(self, address: Address) -> SlackHistory:
        return SlackHistory(
            address, self._api, self._adapter_context, lambda: self._intake.account, self._intake.joined
        )

    def _wrote(self, address: Address) -> None:
        self._intake.join(address)
        self._statuses.replied(address)

    def _uninstalled(self) -> None:
        if self._group is not None:
            self._group.start_soon(self._sign_in)


def _first(failures: BaseExceptionGroup[ChannelFatal]) -> ChannelFatal:
    failure: BaseException = failures
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    assert isinstance(failure, ChannelFatal)
    return failure
