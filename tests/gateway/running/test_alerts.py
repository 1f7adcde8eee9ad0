"""Alerts for owners: their text, their place and their rate."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial

import anyio
import pytest
from sqlalchemy import select
from sqlalchemy import text as sql

from agent.storage.database import Database, RetryingDatabase
from agent.storage.payloads import decode_outgoing
from agent.storage.tables import outbox
from gateway.channels.adapter import Health, State
from gateway.channels.entry_points import ids_of, installed
from gateway.channels.keys import ConversationKey
from gateway.phrases.catalogue import read_catalogue
from gateway.router.ports import Notices
from gateway.running.monitoring.alerts import DEAF_AFTER_S, LOOK_EVERY_S, Alerts
from gateway.scheduler.process_scheduler import ProcessScheduler
from gateway.telemetry.trouble import Troubles
from tests.fakes.clock import FakeClock
from tests.fakes.running import running
from tests.fakes.waiting import until
from tests.gateway.world import BOB, World

CONNECTED = Health(state=State.CONNECTED)


class Rounds(FakeClock):
    """Counts how often somebody lay down to sleep."""

    rounds = 0

    async def sleep(self, seconds: float) -> None:
        self.rounds += 1
        await super().sleep(seconds)


@pytest.fixture
def clock() -> Rounds:
    return Rounds()


class Desk:
    """Alerts over a real database; what they say stays in the outbox."""

    def __init__(self, database: Database, clock: Rounds, *owners: str, accounts: tuple[str, ...]) -> None:
        self.database, self.clock = database, clock
        self.healths = dict.fromkeys(accounts, CONNECTED)
        self.troubles = Troubles(clock)
        self.owners = owners
        self.alerts = self.new()

    def new(self) -> Alerts:
        return Alerts(
            database=self.database,
            clock=self.clock,
            scheduler=ProcessScheduler(self.clock, late_s=0.0),
            troubles=self.troubles,
            health=lambda: self.healths,
            owners=lambda: self.owners,
            ids=partial(ids_of, installed()),
            notices=Notices(self.database, self.clock, lambda key: None),
            phrase=read_catalogue(),
        )

    @asynccontextmanager
    async def process(self) -> AsyncIterator[Alerts]:
        self.alerts, before = self.new(), self.clock.rounds
        async with running(self.alerts.run):
            await until(lambda: self.clock.rounds > before)
            yield self.alerts
            await self.look()

    async def look(self, seconds: float = LOOK_EVERY_S) -> None:
        """Let so much time pass, in steps in which the alerts look around."""
        for _ in range(round(seconds / LOOK_EVERY_S)):
            before = self.clock.rounds
            self.clock.advance(LOOK_EVERY_S)
            await until(lambda before=before: self.clock.rounds > before)

    async def told(self) -> list[tuple[str, str]]:
        """Place and text of each alert, in order."""
        query = select(outbox.c.conv, outbox.c.payload).order_by(outbox.c.id)
        rows = await self.database.read(lambda conn: conn.execute(query).all())
        return [(row.conv, decode_outgoing(row.payload).text) for row in rows]


def service(database: Database, clock: Rounds, *owners: str, accounts: tuple[str, ...] = ("telegram", "slack")) -> Desk:
    return Desk(database, clock, *owners, accounts=accounts)


def key(text: str) -> ConversationKey:
    return ConversationKey.parse(text)


async def test_an_owner_on_telegram_is_told_in_their_own_chat(sqlite_database: Database, clock: Rounds) -> None:
    services = service(sqlite_database, clock, "telegram:77")
    async with services.process() as alerts:
        alerts.tell("owner_dead", {"chat": "telegram:78"})
        await services.look()
        ((chat, text),) = await services.told()
    assert chat == "telegram:77"
    assert text.startswith("⚠️ A message in telegram:78 could not be answered")


async def test_what_is_noted_is_told_before_the_next_look(sqlite_database: Database, clock: Rounds) -> None:
    services = service(sqlite_database, clock, "telegram:77")
    async with services.process() as alerts:
        alerts.tell("owner_dead", {"chat": "telegram:78"})

        async def told() -> bool:
            return len(await services.told()) == 1

        await until(told)


async def test_owners_elsewhere_are_told_where_they_were_met_in_their_language_also_after_a_restart(
    sqlite_database: Database, clock: Rounds
) -> None:
    services = service(sqlite_database, clock, "slack:U0ANN", "discord:5")
    async with services.process() as alerts:
        alerts.met("slack:U0ANN", key("slack:T1:D1"), "de")
        alerts.met("web:operator", key("web:operator:main"), "en")
    async with services.process() as alerts:
        alerts.tell("owner_dead", {"chat": "telegram:78"})
        await services.look()
        told = dict(await services.told())
    assert set(told) == {"slack:T1:D1", "web:operator:main"}, "where discord:5 talks to us is not known"
    assert told["slack:T1:D1"].startswith("⚠️ Eine Nachricht in telegram:78")


async def test_the_chat_of_the_last_meeting_counts(sqlite_database: Database, clock: Rounds) -> None:
    services = service(sqlite_database, clock, "slack:U0ANN")
    async with services.process() as alerts:
        alerts.met("slack:U0ANN", key("slack:T1:D1"), "en")
        await services.look()
        alerts.met("slack:U0ANN", key("slack:T1:D2"), "en")
    async with services.process() as alerts:
        alerts.tell("owner_dead", {"chat": "telegram:78"})
        await services.look()
    assert [chat for chat, _ in await services.told()] == ["slack:T1:D2"]


async def test_who_is_no_owner_any_more_is_not_told(sqlite_database: Database, clock: Rounds) -> None:
    services = service(sqlite_database, clock)
    async with services.process() as alerts:
        alerts.met("slack:U0ANN", key("slack:T1:D1"), "en")
        alerts.tell("owner_dead", {"chat": "telegram:78"})
        await services.look()
    assert await services.told() == []


@pytest.mark.parametrize(
    ("accounts", "chats"),
    [
        pytest.param(("slack",), [], id="without an account on Telegram"),
        pytest.param(("telegram@work",), ["telegram@work:77"], id="by the account there is"),
    ],
)
async def test_a_private_chat_needs_an_account(
    sqlite_database: Database, clock: Rounds, accounts: tuple[str, ...], chats: list[str]
) -> None:
    services = service(sqlite_database, clock, "telegram:77", "telegram:77", accounts=accounts)
    async with services.process() as alerts:
        alerts.tell("owner_dead", {"chat": "x"})
        await services.look()
    assert [chat for chat, _ in await services.told()] == chats


async def test_the_same_is_told_once_an_hour(sqlite_database: Database, clock: Rounds) -> None:
    services = service(sqlite_database, clock, "telegram:77")
    async with services.process() as alerts:
        for _ in range(5):
            alerts.tell("owner_dead", {"chat": "a"})
        alerts.tell("owner_dead", {"chat": "b"})
        await services.look(3600)
        alerts.tell("owner_dead", {"chat": "a"})
        await services.look()
    assert [text.split()[4] for _, text in await services.told()] == ["a", "b", "a"]


async def test_a_deaf_account_is_told_once_whatever_it_says_about_it(sqlite_database: Database, clock: Rounds) -> None:
    services = service(sqlite_database, clock, "telegram:77")
    async with services.process():
        for seconds in range(0, 300, 10):
            services.healths["slack"] = Health(state=State.RECONNECTING, detail=f"again in {seconds} s")
            await services.look()
            assert bool(services.troubles.blocking) is (seconds >= DEAF_AFTER_S)
        services.healths["slack"] = CONNECTED
        await services.look()
        assert services.troubles.open == ()
        (_, text), (_, back) = await services.told()
        assert text.startswith("⚠️ slack hears nothing since 2 min: again in")
        assert back == "✅ slack hears again."


@pytest.mark.parametrize("state", [State.STARTING, State.RECONNECTING])
async def test_one_that_never_came_up_is_deaf_too(sqlite_database: Database, clock: Rounds, state: State) -> None:
    services = service(sqlite_database, clock, "telegram:77")
    services.healths["slack"] = Health(state=state)
    async with services.process():
        await services.look(DEAF_AFTER_S - 20)
        assert await services.told() == []
        services.healths |= {"slack": CONNECTED}
        await services.look()
        services.healths |= {"slack": Health(state=state)}
        await services.look(DEAF_AFTER_S)
        assert await services.told() == [], "a short break in between is a new beginning"
        await services.look(20)
        assert len(await services.told()) == 1


async def test_a_refused_login_is_told_once_and_makes_the_process_not_ready(
    sqlite_database: Database, clock: Rounds
) -> None:
    services = service(sqlite_database, clock, "telegram:77")
    async with services.process() as alerts:
        services.healths["slack"] = Health(state=State.FAILED, detail="invalid_auth")
        alerts.login_refused("slack", "invalid_auth")
        await services.look(DEAF_AFTER_S * 3)
        (trouble,) = services.troubles.blocking
        assert "cannot sign in: invalid_auth" in trouble.text
        assert [text for _, text in await services.told()] == ["⚠️ slack cannot sign in: invalid_auth"]


async def test_an_answer_that_cannot_be_delivered_is_told(sqlite_database: Database, clock: Rounds) -> None:
    services = service(sqlite_database, clock, "telegram:77")
    async with services.process() as alerts:
        alerts.undeliverable(key("slack:T1:D1"), 5, "msg_too_long")
        await services.look()
        assert [text for _, text in await services.told()] == [
            "⚠️ An answer in slack:T1:D1 could not be delivered: msg_too_long"
        ]
        assert services.troubles.recent()[0].subject == "slack:T1:D1"


async def test_what_the_disk_refuses_is_told_later_and_once(sqlite_database: Database, clock: Rounds) -> None:
    class Full:
        """The disk is full for a while."""

        dialect = "sqlite"
        full = True

        async def write(self, work: object) -> object:
            if self.full:
                raise OSError(28, "No space left on device")
            return await sqlite_database.write(work)  # type: ignore[arg-type]

        async def read(self, work: object) -> object:
            return await sqlite_database.read(work)  # type: ignore[arg-type]

        async def aclose(self) -> None:
            pass

    class Impatient(FakeClock):
        async def sleep(self, seconds: float) -> None:
            await anyio.lowlevel.checkpoint()

    full = Full()
    steady = RetryingDatabase(full, clock=Impatient(), on_trouble=lambda reason: None)  # type: ignore[arg-type]
    services = service(steady, clock, "telegram:77", "telegram:78")
    async with services.process() as alerts:
        alerts.met("telegram:77", key("telegram:77"), "en")
        alerts.tell("owner_dead", {"chat": "a"})
        await services.look(30)
        full.full = False
        await services.look(30)
        assert sorted(chat for chat, _ in await services.told()) == ["telegram:77", "telegram:78"]


async def test_the_router_tells_where_an_admin_talks_to_us(world: World) -> None:
    await world.answered("hello from Ann", language="de")
    await world.answered("hello from Bob", person=BOB)
    values = sql("select conv, value from channel_setting where key = 'owner'")

    async def kept() -> list[Mapping[str, str]]:
        rows = await world.database.read(lambda conn: conn.execute(values).all())
        return [row._asdict() for row in rows]

    await world.services.alerts.save()
    assert await kept() == [{"conv": "telegram:77", "value": "telegram:77 de"}]
