"""The gateway as `gateway.composition` builds it, in this process: real database, fake accounts, the model double.

The screens of the accounts outlive a restart, as those of platforms do.
"""

import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import anyio
from sqlalchemy import Connection, func, select

from adapters.api import ApiSettings
from agent.core.clock import SystemClock
from agent.core.events import Event, EventBus
from agent.core.outbox import OutgoingMessage
from agent.storage.database import Database
from agent.storage.tables import conversation, inbox, outbox
from gateway.channels.adapter import AdapterContext, ChannelSettings
from gateway.channels.inbound import (
    Attachment,
    ButtonClicked,
    ChatType,
    Inbound,
    Mention,
    MessageReceived,
    Receipt,
    Sender,
)
from gateway.channels.keys import ConversationKey, UserId
from gateway.composition import build
from gateway.config.live import Live
from gateway.config.read import ALWAYS, load
from gateway.config.settings import Sections, Settings
from gateway.phrases.catalogue import marked, read_catalogue
from gateway.router.ports import Notices
from gateway.running.foundation import open_all
from gateway.services import Services
from gateway.storage import grants
from gateway.storage.grants import Grant
from gateway.storage.repair import open_database
from gateway.telemetry.metrics import COUNTED, LoopLag, Metrics
from gateway.telemetry.trouble import Troubles
from tests.fakes.channel import FakeAdapter, FakeChannel, Screen
from tests.fakes.llm_server import LlmServer
from tests.fakes.running import running
from tests.fakes.starting import started
from tests.fakes.waiting import until

ANN, BOB, ZOE = "77", "78", "99"  # the owner, a member, a stranger
GROUP = "-1005"
CONFIG = """
[access]
allow = ["telegram:78"]
allow_groups = ["telegram:-1005"]
admins = [{admins}]
{access}
[queue]
linger_ms = 0
merge_ms = 0
{queue}
[delivery]
acknowledge = ""
"""


class SkippingClock(SystemClock):
    """The real clock, that a test can set forward; who sleeps is not woken by that.

    `stepped_s` is how wrong the wall clock was set; no stopwatch notices.
    """

    def __init__(self) -> None:
        self.ahead_s = self.stepped_s = 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.ahead_s + self.stepped_s)

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s


class Account(FakeAdapter):
    """A signed-in account of the platform it is called after."""

    def __init__(self, settings: "AccountSettings", adapter_context: AdapterContext) -> None:
        super().__init__(settings.channel_type)
        self.adapter_context = adapter_context
        self.screens = SCREENS[str(adapter_context.home)]

    def channel(self, channel_id: str) -> FakeChannel:
        key = ConversationKey(self.channel_type, channel_id)
        return FakeChannel(key, self.capabilities, screen=self.screens.setdefault(key, Screen()))

    async def take(self, inbound: Inbound) -> Receipt:
        """Something arrives from the platform; what became of it."""
        await self._running.wait()
        assert self._admit is not None
        return await self._admit(inbound)


class AccountSettings(ChannelSettings):
    adapter: ClassVar[str] = "tests.gateway.world:Account"


class TopicSettings(AccountSettings):
    """As Telegram's: everybody in a chat can read its topics."""

    place_parts: ClassVar[int | None] = 1


class ThreadSettings(AccountSettings):
    """As Slack's: everybody in a team's channel can read its threads."""

    place_parts: ClassVar[int | None] = 2


KINDS: Mapping[str, type[ChannelSettings]] = {
    "telegram": TopicSettings,
    "slack": ThreadSettings,
    "api": ApiSettings,  # the product's own, which reaches no platform
}

# Adapters are opened by name and get no more than settings and surroundings: their screens are found by the home.
SCREENS: dict[str, dict[ConversationKey, Screen]] = {}


class World:
    """One process after another on the same home. `services` is the one that runs."""

    starts_the_program: ClassVar[bool] = True

    def __init__(
        self,
        home: Path,
        template: Path,
        llm: LlmServer,
        *,
        config: str = "",
        accounts: Sequence[str] = ("telegram",),
        providers: Sequence[str] = ("a", "b"),
        window: int | None = 128_000,
    ) -> None:
        shutil.copyfile(template, home / "tieline.db")
        self.home, self.llm = home, llm
        self.clock = SkippingClock()
        self.screens = SCREENS.setdefault(str(home), {})
        self.accounts: dict[str, Account] = {}
        self.account_names = accounts
        self.providers = tuple(providers)
        self.config = config
        self.window = window  # of every provider, in tokens; None: nobody says
        self.access = "messages_per_minute = 1000"  # more of that section
        self.queue = ""  # more of that section
        self.admins = '"telegram:77", "discord:77"'
        self.environ: dict[str, str] = {}  # more of the process
        self.grants: tuple[Grant, ...] = ()  # given before the start
        self.events: list[Event] = []
        self.services: Services
        self.bus: EventBus  # of the process that runs
        self._ids = count(100)

    def settings(self) -> Settings:
        url = f"{self.llm.url}/v1"
        window = f"context_window = {self.window}\n" if self.window is not None else ""
        llm = "".join(
            f'[[llm.providers]]\nname = "{name}"\ntype = "openai"\nmodel = "model-{name}"\nbase_url = "{url}"\n'
            f'api_key = "sk-double"\n{window}'
            for name in self.providers
        )
        path = self.home / "gateway.toml"
        path.write_text(
            f"{CONFIG.format(access=self.access, queue=self.queue, admins=self.admins)}{self.config}\n{llm}"
        )
        return self.load(path)

    def load(self, path: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
        """The settings of the file, with the accounts of this world besides those that it names."""
        loaded = load(path, {"TIELINE_HOME": str(self.home), **(environ or {})})
        sections = {name: getattr(loaded, name) for name in Sections.model_fields}
        channels = tuple(
            KINDS.get(kind, AccountSettings)(type=kind, account=account or "default")
            for kind, _, account in (name.partition("@") for name in self.account_names)
        )
        named = tuple(one for one in loaded.channels if one.type not in ALWAYS)
        return Settings.model_construct(**sections, channels=(*channels, *named), home=self.home, source=path)

    @asynccontextmanager
    async def process(self) -> AsyncIterator["World"]:
        """A process: started, and killed without a word at the end."""
        started()
        await self._give()
        bus = self.bus = EventBus(lambda error, event: None)
        bus.listen(lambda published: self.events.append(published.event))
        self.troubles, self.metrics = Troubles(self.clock), Metrics()
        bus.listen(self.metrics.listen, COUNTED)
        settings, phrase = self.settings(), read_catalogue(spell=marked)
        foundation = await open_all(
            settings, clock=self.clock, troubles=self.troubles, phrase=phrase, web_url="http://127.0.0.1:8080"
        )
        self.live = Live(settings, {"TIELINE_HOME": str(self.home), **self.environ}, load=self.load)
        self.services = await build(
            self.live,
            foundation,
            clock=self.clock,
            bus=bus,
            metrics=self.metrics,
            troubles=self.troubles,
            lag=LoopLag(self.clock),
            phrase=phrase,
            adapter_opened=self._opened,
            version="1",
        )
        ready = anyio.Event()

        async def serve() -> None:
            async with anyio.create_task_group() as tasks:
                await self.services.run(tasks)
                await self.services.ingest(tasks)
                ready.set()
                await anyio.sleep_forever()

        try:
            async with running(serve):
                await ready.wait()
                yield self
        finally:
            await self.services.aclose()

    async def _give(self) -> None:
        given, self.grants = self.grants, ()
        if given:
            database = await open_database("sqlite:///tieline.db", self.home)
            for grant in given:
                await database.write(partial(grants.give, grant=grant))
            await database.aclose()

    def _opened(self, adapter: Any) -> None:
        self.accounts[adapter.channel_type] = adapter

    def reload(self) -> tuple[str, ...]:
        """The configuration of now is written and read, as by the gateway when its file changes."""
        self.settings()
        return self.live.reload()

    @property
    def database(self) -> Database:
        return self.services.database

    async def notice(self, text: str, chat: str, on: str = "telegram") -> None:
        """The gateway says something there on its own account."""
        notices = Notices(self.database, self.clock, self.services.delivery.wake)
        await notices.say(ConversationKey(on, chat), OutgoingMessage(text=text, kind="notice"), dedup=f"{chat}:{text}")

    # -- what people do

    def said(
        self,
        text: str,
        *,
        person: str = ANN,
        chat: str | None = None,
        on: str = "telegram",
        id: str | None = None,
        mention: Mention = Mention.DIRECT,
        language: str | None = "en",
        **more: Any,
    ) -> MessageReceived:
        """A message; in a group when `chat` is negative, else in the person's own chat."""
        chat = person if chat is None else chat
        in_group = chat.startswith("-")
        now = self.clock.now()
        values: dict[str, Any] = {
            "key": ConversationKey(on, chat),
            "place": chat.partition(":")[0],
            "message_id": id or str(next(self._ids)),
            "sender": Sender(id=UserId(person), display=f"Person {person}", language=language),
            "received_at": now,
            "sent_at": now,
            "chat_type": ChatType.GROUP if in_group else ChatType.DIRECT,
            "text": text,
            "mention": mention,
        }
        return MessageReceived(**values | more)

    async def hears(self, inbound: Inbound) -> Receipt:
        return await self.accounts[inbound.key.channel_type].take(inbound)

    async def say(self, text: str, **fields: Any) -> Receipt:
        return await self.hears(self.said(text, **fields))

    async def press(
        self, action: str, *, person: str = ANN, chat: str | None = None, on: str = "telegram", id: str = "p1"
    ) -> Receipt:
        """Press a button that is on the screen."""
        screen = self.screen(chat or person, on)
        shown = next(shown for shown in screen.shown if action in shown.actions)
        said = self.said("", person=person, chat=chat, on=on)
        pressed = ButtonClicked(
            key=said.key,
            place=said.place,
            message_id=shown.id,
            sender=said.sender,
            received_at=said.received_at,
            chat_type=said.chat_type,
            interaction=id,
            action=action,
            interaction_id=id,
        )
        return await self.hears(pressed)

    # -- what they see

    def screen(self, chat: str = ANN, on: str = "telegram") -> Screen:
        return self.screens.setdefault(ConversationKey(on, chat), Screen())

    def texts(self, chat: str = ANN, on: str = "telegram") -> list[str]:
        return self.screen(chat, on).texts

    async def shows(self, words: str, chat: str = ANN, on: str = "telegram") -> str:
        """Wait for a message of the bot that holds these words."""
        try:
            await until(lambda: any(words in text for text in self.texts(chat, on)))
        except TimeoutError:
            raise AssertionError(f"{words!r} is not among {self.texts(chat, on)}") from None
        return next(text for text in reversed(self.texts(chat, on)) if words in text)

    async def asks(self, text: str, words: str | None = None, **fields: Any) -> str:
        """Say something and wait for an answer that was not there before."""
        said = self.said(text, **fields)
        chat, on = said.key.channel_id, said.key.channel_type
        before = len(self.screen(chat, on).made("send"))
        assert (await self.hears(said)).outcome == "accepted"
        await until(lambda: len(self.screen(chat, on).made("send")) > before)
        return await self.shows(words, chat, on) if words else self.texts(chat, on)[-1]

    async def answered(self, text: str, words: str | None = None, **fields: Any) -> str:
        """Say something to the model; its answer, when the turn is over and everything was sent."""
        said = self.said(text, **fields)
        assert (await self.hears(said)).outcome == "accepted"
        chat, on = said.key.channel_id, said.key.channel_type
        seen = await self.shows(text if words is None else words, chat, on)  # it may be a draft yet
        await self.settled()
        return next((shown for shown in reversed(self.texts(chat, on)) if (words or text) in shown), seen)

    async def settled(self) -> None:
        """Wait until nothing is left to be done or sent."""

        def left(conn: Connection) -> int:
            waiting = conn.execute(select(func.count()).select_from(inbox).where(inbox.c.status == "new")).scalar_one()
            open_rows = select(func.count()).select_from(outbox).where(outbox.c.status.in_(("new", "sending")))
            return int(waiting) + int(conn.execute(open_rows).scalar_one())

        async def nothing() -> bool:
            return not await self.database.read(left) and not self.services.dispatcher.running

        await until(nothing)

    async def nobody_works(self) -> bool:
        """Whether every conversation was given back; a turn is over a little before."""
        leases = select(func.count()).select_from(conversation).where(conversation.c.run_id.is_not(None))
        return await self.database.read(lambda conn: conn.execute(leases).scalar_one() == 0)

    async def rows(self) -> Sequence[tuple[str, str | None]]:
        """Status and note of everything in the inbox, oldest first."""
        query = select(inbox.c.status, inbox.c.note).order_by(inbox.c.id)
        return await self.database.read(lambda conn: [(row.status, row.note) for row in conn.execute(query)])

    @property
    def models_asked(self) -> list[str]:
        return [body["model"] for body in self.llm.bodies]

    def script(self, *rules: Mapping[str, Any]) -> None:
        """Set the model's replies, by rule; everything else is echoed."""
        self.llm.double.script = [dict(rule) for rule in rules]

    def go_on(self, contains: str = "slow") -> None:
        """The model answers what it took its time for, and does so from now on."""
        self.llm.double.released.add(contains)

    async def until_asked(self, calls: int = 1) -> None:
        """Until the model was called so often."""
        await until(lambda: len(self.llm.calls) >= calls)


def slowly(contains: str, text: str = "the slow answer") -> Mapping[str, Any]:
    """A rule: the model answers that when the world is told to `go_on`."""
    return {"match": {"contains": contains}, "reply": {"text": text, "hold": contains}}


def file(name: str, content: str = "content", *, size: int | None = None) -> Attachment:
    """A file whose content a fake channel hands over."""
    return Attachment(kind="file", handle=content, name=name, mime_type="text/plain", size=size)


def calling(words: str, tool: str, **given: object) -> Sequence[Mapping[str, Any]]:
    """Rules: the model answers these words with that call, and then says it is done."""
    block = {"type": "tool_use", "name": tool, "input": given}
    return (
        {"match": {"contains": words, "tool_result": False}, "reply": {"blocks": [block]}},
        {"match": {"contains": words, "tool_result": True}, "reply": {"text": f"Done: {words}"}},
    )
