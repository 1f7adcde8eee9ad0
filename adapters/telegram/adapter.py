"""One Telegram bot: signs in, listens by polling or webhook, and gives the channels of its chats."""

import logging
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

import anyio
from starlette.routing import BaseRoute

from adapters.telegram.account import Account
from adapters.telegram.channel import TelegramChannel
from adapters.telegram.diagnosis import diagnose, withheld_by
from adapters.telegram.parse import Context, Me, Roles, moved, roles_of
from adapters.telegram.polling import RETRYING, Intake, Polling, asked_s
from adapters.telegram.request import (
    POLL_SLACK_S,
    Api,
    InvalidToken,
    TelegramError,
    Unknown,
    in_channel_words,
    token_refused,
)
from adapters.telegram.settings import PUBLIC_API, TelegramSettings
from adapters.telegram.webhook import PROBE_S, Webhook
from agent.core.backoff import Retries
from gateway.channels.adapter import AdapterContext, Admit, Diagnosis, Health
from gateway.channels.channel import Channel
from gateway.channels.errors import ChannelFatal, GatewayUnavailable
from gateway.channels.keys import ConversationKey
from gateway.channels.kit.health import HealthMonitor
from gateway.channels.outbound import CommandSpec

# Command menu of the bot, changed only where it differs. The list is pure, the rest a short shell.

# Telegram shows the most special scope that fits a person and a chat. Privately everybody administers the chat.
SCOPES = {"default": False, "all_private_chats": True, "all_chat_administrators": True}  # with admins' commands?
_NAME = re.compile(r"[a-z0-9_]{1,32}")
LIMIT, DESCRIPTION_LIMIT = 100, 256


def menu(commands: Sequence[CommandSpec], *, admin: bool) -> list[dict[str, str]]:
    """The argument of setMyCommands: the everyday commands, without their grammar, for one line is seen of each.

    A name that Telegram cannot carry is left out (it still works as text).
    """
    entries: list[dict[str, str]] = []
    for command in commands:
        name = command.name.lower().replace("-", "_")
        if not command.menu or (command.admin and not admin) or not _NAME.fullmatch(name):
            continue
        entries.append({"command": name, "description": command.description[:DESCRIPTION_LIMIT] or name})
    return entries[:LIMIT]


async def publish(api: Api, commands: Sequence[CommandSpec]) -> None:
    """Raises ChannelError; what is registered by then is not written again by the next try."""
    for scope, admin in SCOPES.items():
        wanted = menu(commands, admin=admin)
        with in_channel_words():
            present = await api.call("getMyCommands", scope={"type": scope})
            if _pairs(present) == _pairs(wanted):
                continue
            if wanted:
                await api.call("setMyCommands", commands=wanted, scope={"type": scope})
            else:
                await api.call("deleteMyCommands", scope={"type": scope})


def _pairs(entries: Sequence[dict[str, str]]) -> list[tuple[str, str]]:
    return [(entry["command"], entry["description"]) for entry in entries]


log = logging.getLogger("tieline.telegram")

MOVES_WAITING = 100


class TelegramAdapter:
    """The contract of `Adapter`. Nothing Telegram keeps for us is ever dropped, however long we were away.

    May be built in a thread without a loop. Raises ChannelFatal for a proxy it cannot use.
    """

    def __init__(self, settings: TelegramSettings, adapter_context: AdapterContext) -> None:
        proxy = settings.proxy or adapter_context.proxy
        if proxy is not None and not proxy.startswith(("http://", "https://")):
            shown = proxy.partition("@")[2] or proxy
            raise ChannelFatal(f"Telegram cannot use the proxy {shown!r}; give one like http://host:port")
        self.channel_type = settings.channel_type
        self._settings = settings
        self._clock = adapter_context.clock
        self._api = Api(settings, proxy)
        store = adapter_context.store(settings.type)
        rates = adapter_context.shared_rates
        shared_rates = rates(self.channel_type) if rates is not None else None
        self._account = Account(settings, self._api, self._clock, store, self._announce_move, shared_rates)
        polls = settings.mode == "polling"
        deaf_after_s = settings.poll_timeout_s + POLL_SLACK_S if polls else 3 * PROBE_S
        self._health_monitor = HealthMonitor(self._clock, "Telegram", deaf_after_s=deaf_after_s)
        self._webhook = None if polls else Webhook(settings, _webhook_url(settings, adapter_context.public_url))
        self.routes: Sequence[BaseRoute] = [self._webhook.route] if self._webhook else []
        self._moves, self._moves_in = anyio.create_memory_object_stream[tuple[int, int]](MOVES_WAITING)
        self._me: Me | None = None

    async def run(self, admit: Admit) -> None:
        self._me = await self._sign_in()
        self._account.signed_in = True
        intake = Intake(
            admit,
            self._context,
            self._clock,
            administrators=self._administrators,
            look_around=self._look_around,
        )
        fatal: ChannelFatal | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._tell_moves, admit)
            await tasks.start(intake.queue.run)
            try:
                await self._listen(intake)
            except ChannelFatal as error:
                fatal = error
            tasks.cancel_scope.cancel()
        if fatal is not None:
            self._health_monitor.failed(str(fatal))
            raise fatal

    async def speak(self, admit: Admit) -> None:
        """Be ready to send, while another process hears. Raises ChannelFatal when the token is refused."""
        self._me = await self._sign_in()
        self._account.signed_in = True
        await self._tell_moves(admit)

    async def _listen(self, intake: Intake) -> None:
        if self._webhook is None:
            timeout_s = self._settings.poll_timeout_s
            await Polling(self._api, intake, self._health_monitor, self._clock, timeout_s).run()
            return
        self._webhook.open(intake, self._health_monitor)
        try:
            await self._webhook.keep(self._api, self._health_monitor, self._clock)
        finally:
            self._webhook.close()

    def channel(self, channel_id: str) -> Channel:
        """Raises ValueError for what is no chat of Telegram."""
        chat, _, topic = channel_id.partition(":")
        key = ConversationKey(self.channel_type, channel_id)
        return TelegramChannel(self._account, key, int(chat), int(topic) if topic else None)

    def health(self) -> Health:
        return self._health_monitor.health()

    async def publish(self, commands: Sequence[CommandSpec]) -> None:
        await publish(self._api, commands)

    async def diagnose(self) -> Sequence[Diagnosis]:
        url = self._webhook.url if self._webhook else None
        return await diagnose(self._api, self._settings, self._clock, url)

    async def aclose(self) -> None:
        self._moves.close()
        self._moves_in.close()
        await self._api.aclose()

    async def _sign_in(self) -> Me:
        retries = Retries(RETRYING)
        while True:
            try:
                me = await self._api.call("getMe")
            except (InvalidToken, Unknown) as error:
                refusal = token_refused()
                self._health_monitor.failed(str(refusal))
                raise refusal from error
            except TelegramError as error:
                self._health_monitor.trouble(error.message)
                wait_s = retries.failed(asked_s(error))
                log.warning("cannot sign in", extra={"reason": error.message, "again_in_s": wait_s})
                await self._clock.sleep(wait_s)
            else:
                self._health_monitor.withheld = withheld_by(me)
                return Me(id=me["id"], username=me.get("username", ""))

    async def _administrators(self, chat: str) -> Roles:
        """Raises the errors of a channel, and ValueError."""
        with in_channel_words():
            return roles_of(await self._api.call("getChatAdministrators", chat_id=int(chat)))

    async def _look_around(self) -> None:
        """Ask again what Telegram keeps from the bot. A new privacy mode counts from when it is brought to a group."""
        try:
            self._health_monitor.withheld = withheld_by(await self._api.call("getMe"))
        except TelegramError as error:
            log.info("whether privacy mode is on is not known anew: %s", error.message)

    def _context(self) -> Context:
        assert self._me is not None
        return Context(channel_type=self.channel_type, me=self._me, received_at=self._clock.now())

    def _announce_move(self, old: int, new: int) -> bool:
        """Found out while sending; told from the listening side, which no delivery waits for."""
        try:
            self._moves.send_nowait((old, new))
        except anyio.WouldBlock:
            return False
        return True

    async def _tell_moves(self, admit: Admit) -> None:
        async for old, new in self._moves_in:
            retries = Retries(RETRYING)
            # Telegram tells it only who sends to the old id, and we have stopped doing so.
            while not await self._is_told(admit, old, new):
                await self._clock.sleep(retries.failed())

    async def _is_told(self, admit: Admit, old: int, new: int) -> bool:
        try:
            await admit(moved(str(old), str(new), self._context()))
        except GatewayUnavailable as error:
            log.warning("the move of a group is told again: %s", error, extra={"chat": old})
            return False
        return True


def _is_local(url: str) -> bool:
    """An address that only this machine can call: Telegram itself cannot."""
    return urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")


def _webhook_url(settings: TelegramSettings, public_url: str | None) -> str | None:
    if settings.webhook_url is not None:
        return settings.webhook_url
    if public_url is None or (_is_local(public_url) and settings.api_base_url == PUBLIC_API):
        return None
    return f"{public_url.rstrip('/')}/channels/{settings.channel_type}{settings.webhook_path}"
