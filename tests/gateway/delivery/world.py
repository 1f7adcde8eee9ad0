"""A delivery on a real database, with fake places whose screens survive a restart, and a clock that moves when told."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
from sqlalchemy import Connection, select

from agent.core.ids import ConversationId, PersonId
from agent.core.outbox import Answer, Audience, OutgoingMessage, Question
from agent.storage import conversation_rows, outbox_rows
from agent.storage.database import Database
from agent.storage.tables import outbox
from agent.storage.timestamps import to_timestamp
from gateway.channels.channel import Capabilities
from gateway.channels.keys import ConversationKey
from gateway.delivery.egress import Guard
from gateway.delivery.outbox import rows
from gateway.delivery.outbox.call_journal import CallJournal, open_journal
from gateway.delivery.outbox.delivery import Delivery, Outlets
from gateway.delivery.outbox.rows import Claimed
from gateway.delivery.settings import Settings
from gateway.phrases.catalogue import read_catalogue
from tests.fakes.channel import DEFAULT, FakeChannel, Screen
from tests.fakes.clock import FakeClock
from tests.fakes.running import running

ANN = PersonId("fake:ann")
BOB = PersonId("fake:bob")
QUIET = Settings(acknowledge="")


def key(name: str = "1") -> ConversationKey:
    return ConversationKey("fake", name)


phrase = read_catalogue()


class Reports:
    def __init__(self) -> None:
        self.dead_rows: list[tuple[str, int, str]] = []
        self.gone_places: list[str] = []
        self.logins: list[tuple[str, bool]] = []

    def dead(self, key: ConversationKey, outbox_id: int, reason: str) -> None:
        self.dead_rows.append((str(key), outbox_id, reason))

    def gone(self, key: ConversationKey, reason: str) -> None:
        self.gone_places.append(str(key))

    def login_refused(self, channel_type: str, reason: str) -> None:
        self.logins.append((channel_type, False))

    def login_accepted(self, channel_type: str) -> None:
        self.logins.append((channel_type, True))


class World:
    """One process after another over the same database and the same screens."""

    def __init__(
        self,
        database: Database,
        clock: FakeClock,
        home: Path,
        capabilities: Capabilities = DEFAULT,
        *,
        streams: bool = False,
        settings: Settings = QUIET,
        outlets: Outlets | None = None,
    ) -> None:
        self.database = database
        self.clock = clock
        self.home = home
        self.capabilities = capabilities
        self.streams = streams
        self.settings = settings
        self.outlets = outlets
        self.screens: dict[ConversationKey, Screen] = {}
        self.reports = Reports()
        self.absent: set[ConversationKey] = set()
        self.is_busy = False
        self.guard = Guard()
        self._count = 0
        self.journals: Callable[[Path], CallJournal] = partial(open_journal, dialect=database.dialect)
        self.journal = CallJournal(home)
        self.delivery = self._new()

    def _new(self) -> Delivery:
        self.journal.close()
        self.journal = self.journals(self.home)
        return Delivery(
            self.database,
            self.channel,
            self.clock,
            home=self.home,
            journal=self.journal,
            phrase=phrase,
            reports=self.reports,
            settings=self.settings,
            is_busy=lambda: self.is_busy,
            guard=self.guard,
            outlets=self.outlets,
        )

    def screen(self, name: str = "1") -> Screen:
        return self.screens.setdefault(key(name), Screen())

    def channel(self, place: ConversationKey) -> FakeChannel | None:
        if place in self.absent:
            return None
        screen = self.screens.setdefault(place, Screen())
        return FakeChannel(place, self.capabilities, screen=screen, streams=self.streams)

    @asynccontextmanager
    async def process(self) -> AsyncIterator[Delivery]:
        """A process: started, and killed without a word at the end."""
        self.delivery = self._new()
        async with running(self.delivery.run):
            await self.delivery.ready()
            yield self.delivery

    def dies(self) -> None:
        """This process is gone, and the next one has not begun to send."""
        self.delivery = self._new()

    async def take(self, name: str = "1") -> Claimed:
        """The commit of a turn marks its first row; then this process dies, unless the test goes on for it."""
        place = ConversationId(str(key(name)))
        taking = partial(
            rows.claim, key=place, now=to_timestamp(self.clock.now()), journal=self.journal, is_free=lambda row: True
        )
        claimed = await self.database.write(taking)
        assert isinstance(claimed, Claimed)
        return claimed

    async def commit(self, *says: OutgoingMessage | str, name: str = "1") -> None:
        """A turn commits what it has to say, and tells."""
        place = key(name)
        rows = [OutgoingMessage(text=say, kind="reply") if isinstance(say, str) else say for say in says]
        at = to_timestamp(self.clock.now())
        for row in rows:
            self._count += 1
            number = self._count
            await self.database.write(
                lambda conn, row=row, number=number: outbox_rows.add(  # type: ignore[misc]
                    conn,
                    conversation=ConversationId(str(place)),
                    inbox_id=number,
                    part=0,
                    dedup=f"test:{number}",
                    say=row,
                    at=at,
                )
            )
        self.delivery.wake(place)

    async def set_gone(self, *, gone: bool) -> None:
        """The router's part when a platform reports it."""
        place = ConversationId(str(key()))

        def work(conn: Connection) -> None:
            conversation_rows.ensure(conn, place, to_timestamp(self.clock.now()))
            conversation_rows.set_gone(conn, place, gone=gone)

        await self.database.write(work)
        self.delivery.wake(key())

    async def statuses(self) -> list[str]:
        return await self.database.read(
            lambda conn: list(conn.execute(select(outbox.c.status).order_by(outbox.c.id)).scalars())
        )

    async def notes(self) -> int:
        """The number of ephemeral messages noted as shown."""
        return len(await self.database.read(outbox_rows.all_for))

    async def until_forgotten(self) -> None:
        """Until nothing is noted any more."""
        end = self.clock.monotonic() + 100.0
        while await self.notes():
            assert self.clock.monotonic() < end, "a note stays"
            await self.pass_time(1.0, step_s=0.25)

    async def until(self, holds: Callable[[], bool], *, step_s: float = 0.05, within_s: float = 200.0) -> None:
        """Let time pass in small steps until it holds; fails when `within_s` (of the fake clock) were not enough."""
        end = self.clock.monotonic() + within_s
        real_end = anyio.current_time() + 60
        while not holds():
            assert self.clock.monotonic() < end, "it did not happen in time"
            assert anyio.current_time() < real_end, "it did not happen"
            await anyio.sleep(0.001)
            if self.clock.sleepers:
                self.clock.advance(step_s)

    async def until_idle(self, *, step_s: float = 0.05) -> None:
        """Until everything was sent."""
        done: list[bool] = []

        async def drain() -> None:
            done.append(await self.delivery.drain(1000))

        async with running(drain):
            await self.until(lambda: bool(done), step_s=step_s, within_s=100_000)

    async def still(self, turns: int = 30) -> None:
        """Let everything run that can without time passing."""
        for _ in range(turns):
            await self._written()

    async def pass_time(self, seconds: float, *, step_s: float = 0.1) -> None:
        for _ in range(round(seconds / step_s)):
            self.clock.advance(step_s)
            await self._written()

    async def _written(self) -> None:
        """Until the database has done what it was asked for so far, however slow the machine, and a moment more."""
        await self.database.write(lambda conn: None)
        await anyio.sleep(0.001)  # what follows in the loop


async def ask(delivery: Delivery, question: Question) -> Answer:
    """Ask in the first place, as a command does."""
    channel = delivery.channel_for(key())
    assert channel is not None
    return await delivery.questions.ask(channel, question, "en")


def audience(**values: object) -> Audience:
    return replace(Audience(person=ANN, message="m1", reply_to="m1", inbox_id=1), **values)  # type: ignore[arg-type]


def joined(texts: Iterable[str]) -> str:
    return "|".join(texts)
