"""One Discord bot: signs in, stays connected, hears, catches up. Decides nothing about who may talk."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anyio
from starlette.routing import BaseRoute

from adapters.discord import diagnosis
from adapters.discord.account import Bot
from adapters.discord.channel import DiscordChannel
from adapters.discord.commands import differs, payload_of
from adapters.discord.connection import RECONNECTING, Link
from adapters.discord.intake import Intake
from adapters.discord.places import Places
from adapters.discord.rest import Trouble, asked_s, login_error
from adapters.discord.settings import DiscordSettings
from agent.core.backoff import Retries
from agent.core.cancellation import first_error
from gateway.channels.adapter import AdapterContext, Admit, Diagnosis, Health, State
from gateway.channels.errors import ChannelBusy, ChannelFatal
from gateway.channels.keys import ConversationKey
from gateway.channels.kit.health import HealthMonitor
from gateway.channels.outbound import CommandSpec

log = logging.getLogger("tieline.discord")

STEADY_S = 60.0  # a connection that held so long makes the next failure the first one
CLOSE_WITHIN_S = 3.0
PUBLISH_WAITS_S = 30.0  # for the login, when commands are to be registered before it is done


class DiscordAdapter:
    """The account of one token."""

    def __init__(self, settings: DiscordSettings, adapter_context: AdapterContext) -> None:
        self.channel_type = settings.channel_type
        self.routes: Sequence[BaseRoute] = ()
        self._settings = settings
        self._adapter_context = adapter_context
        self._clock = adapter_context.clock
        rates = adapter_context.shared_rates
        shared_rates = rates(settings.channel_type) if rates is not None else None
        self._bot = Bot(settings, adapter_context.clock, adapter_context.proxy, shared_rates)
        self._places = Places(self._bot.rest)
        self._link: Link | None = None
        self._intake: Intake | None = None
        self._health_monitor = HealthMonitor(adapter_context.clock, "Discord")

    async def run(self, admit: Admit) -> None:
        """Until cancelled. Raises ChannelFatal when the login is refused."""
        try:
            with first_error():
                await self._sign_in()
                async with anyio.create_task_group() as group:
                    self._intake = Intake(self._bot, self._places, self._adapter_context, admit, group)
                    await group.start(self._intake.run)
                    await self._stay_connected(self._intake)
        except ChannelFatal as error:
            self._health_monitor.failed(str(error))
            raise
        finally:
            self._link = self._intake = None
            if self._health_monitor.state is not State.FAILED:
                self._health_monitor.trouble("not running")
            await self.aclose()

    async def speak(self, admit: Admit) -> None:
        """Be ready to send, while another process hears. Raises ChannelFatal when the token is refused."""
        await self._sign_in()

    def channel(self, channel_id: str) -> DiscordChannel:
        return DiscordChannel(ConversationKey(self.channel_type, channel_id), self._bot, self._places.locate)

    def health(self) -> Health:
        return replace(self._health(), withheld=diagnosis.withheld_by(self._settings))

    def _health(self) -> Health:
        link, known = self._link, self._health_monitor.health()
        if link is None:
            return known
        state = link.state
        if state is State.STARTING and known.state is State.RECONNECTING:
            state = State.RECONNECTING  # not the first connection of this account
        detail = "" if state is State.CONNECTED else known.detail
        left = self._intake.catch_up.left if self._intake else 0
        if left and not detail:
            detail = f"{left} messages from before the start or a pause were too old to be answered"
        return Health(state=state, detail=detail, last_event_at=link.last_event_at())

    async def publish(self, commands: Sequence[CommandSpec]) -> None:
        """Register the slash commands, everywhere or in `guild_ids`; only where something differs."""
        with anyio.move_on_after(PUBLISH_WAITS_S):
            await self._bot.rest.signed_in.wait()
        if not self._bot.rest.signed_in.is_set():
            raise ChannelBusy("not signed in to Discord yet: the commands are not registered", after_s=PUBLISH_WAITS_S)
        wanted = payload_of(commands)
        for guild_id in self._settings.guild_ids or (None,):
            path = "/applications/{application_id}" + ("/guilds/{guild_id}" if guild_id else "") + "/commands"
            names = {"application_id": self._bot.rest.application_id}
            names |= {"guild_id": str(guild_id)} if guild_id else {}
            registered: list[dict[str, Any]] = await self._bot.rest.call("GET", path, names, closes=False)
            if differs(registered, wanted):
                await self._bot.rest.call("PUT", path, names, wanted, closes=False)
                log.info("registered %d slash commands", len(wanted), extra={"guild_id": guild_id or "all"})

    async def diagnose(self) -> Sequence[Diagnosis]:
        return await diagnosis.diagnose(self._settings, self._adapter_context.proxy)

    async def aclose(self) -> None:
        with anyio.move_on_after(CLOSE_WITHIN_S, shield=True):
            await self._bot.rest.aclose()

    # -- the connection

    async def _sign_in(self) -> None:
        retries = Retries(RECONNECTING)
        while True:
            try:
                return await self._bot.rest.sign_in()
            except Trouble as error:
                self._give_up_or_note(error)
                wait_s = retries.failed(asked_s(error))
            await self._clock.sleep(wait_s)

    async def _stay_connected(self, intake: Intake) -> None:
        """A link after the other: the library resumes by itself; what it cannot mend is built anew."""
        retries = Retries(RECONNECTING)
        while True:
            self._link = link = Link(
                self._settings,
                self._adapter_context.proxy,
                self._clock,
                hear=intake.hear,
                ready=lambda guilds: self._on_ready(intake, guilds),
            )
            self._places.attach(link.client)
            began = self._clock.monotonic()
            error = await link.run()
            self._health_monitor.trouble("no sign of life, connecting anew")
            if error is not None:
                self._give_up_or_note(error)
            if link.was_up and self._clock.monotonic() - began > STEADY_S:
                retries.succeeded()
            wait_s = retries.failed(asked_s(error)) if error is not None else 0.0
            await self._clock.sleep(wait_s)

    def _on_ready(self, intake: Intake, guilds: set[str]) -> None:
        intake.expect_guilds(guilds)
        intake.catch_up.begin()

    def _give_up_or_note(self, error: BaseException) -> None:
        fatal = login_error(error) if isinstance(error, Exception) else None
        if fatal is not None:
            raise fatal from None
        detail = f"no connection to Discord ({type(error).__name__}), trying again"
        self._health_monitor.trouble(detail)
        log.warning("%s", detail, extra={"channel_type": self.channel_type})
