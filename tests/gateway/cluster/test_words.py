"""Words to all processes: at once, whole, in order; where some were lost, what they told of is read again."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from sqlalchemy import text

from agent.core.clock import SystemClock
from agent.core.ids import ConversationId
from agent.storage.database import PROCESS
from agent.storage.postgres import PostgresDatabase
from gateway.cluster.cluster import Cluster
from gateway.cluster.roles import roles_of
from gateway.cluster.schema import EVERYBODY
from gateway.cluster.words import LONGEST
from tests.fakes.agents import House
from tests.fakes.clock import FakeClock
from tests.fakes.running import running
from tests.fakes.waiting import until
from tests.gateway.cluster.process import Other, other_process
from tests.gateway.delivery.world import World, key

WEB = "web"
CHAT = ConversationId("telegram:77")


class Page:
    """The account of this process that hears what another tells."""

    def __init__(self, cluster: Cluster) -> None:
        self.heard: list[tuple[str, str]] = []
        self.read_again = 0
        cluster.hear_account = lambda channel_type, words: self.heard.append((channel_type, words))
        cluster.hear_accounts_anew = self._anew

    async def _anew(self) -> None:
        self.read_again += 1


@asynccontextmanager
async def beside(
    database: PostgresDatabase, url: str, *, roles: str = "ingress"
) -> AsyncIterator[tuple[Page, Other, Cluster]]:
    """A page here, and another process that tells."""
    cluster = Cluster(database, database.url, SystemClock(), roles_of(roles))
    page = Page(cluster)

    async def run() -> None:
        async with anyio.create_task_group() as tasks:
            for name, loop in cluster.loops:
                tasks.start_soon(loop, name=name)

    async with other_process(url) as other, running(run):
        await cluster.ready()
        await until(lambda: page.read_again == 1)  # after each connect: nobody knows what was lost before
        yield page, other, cluster


@pytest.mark.requirement("G-162")
async def test_what_another_process_tells_is_heard_in_order(joined: PostgresDatabase, postgres_url: str) -> None:
    async with beside(joined, postgres_url) as (page, other, cluster):
        for number in range(5):
            await other.asked("tell", WEB, f"word {number} with spaces")
        await until(lambda: len(page.heard) == 5)
        assert page.heard == [(WEB, f"word {number} with spaces") for number in range(5)]
        cluster.words.tell(WEB, "our own")
        await other.asked("tell", WEB, "last")
        await until(lambda: page.heard[-1] == (WEB, "last"))
        assert len(page.heard) == 6, "a process does not hear itself"


@pytest.mark.parametrize(
    "words",
    [
        pytest.param("x" * 8_001, id="more than a notification holds"),
        pytest.param("ä" * 4_001, id="fewer characters, but more bytes"),
        pytest.param("x" * LONGEST, id="as long as may be"),
        pytest.param("x" * 3_000_000, id="megabytes"),
        pytest.param("#5 is no name of a row", id="as if it were the name of a row"),
        pytest.param("", id="nothing"),
    ],
)
@pytest.mark.requirement("G-162")
async def test_long_words_arrive_whole(joined: PostgresDatabase, postgres_url: str, words: str) -> None:
    async with beside(joined, postgres_url) as (page, other, _):
        await other.asked("tell", WEB, words)
        await other.asked("tell", WEB, "behind it")
        await until(lambda: (WEB, "behind it") in page.heard)
        assert page.heard == ([(WEB, words)] if words else []) + [(WEB, "behind it")]


@pytest.mark.requirement("G-162")
async def test_where_long_words_are_gone_all_is_read_again(joined: PostgresDatabase, postgres_url: str) -> None:
    async with beside(joined, postgres_url) as (page, other, _):
        notify = text("select pg_notify(:channel, :told)")
        told = {"channel": EVERYBODY, "told": f"account {other.id} {WEB} #4711"}
        await joined.write(lambda conn: conn.execute(notify, told))
        await until(lambda: page.read_again == 2)
        await other.asked("tell", WEB, "later")
        await until(lambda: page.heard == [(WEB, "later")])


@pytest.mark.requirement("G-162")
async def test_a_word_that_nobody_can_take_in_does_not_end_the_process(
    joined: PostgresDatabase, postgres_url: str
) -> None:
    async with beside(joined, postgres_url) as (page, other, _):
        notify = text("select pg_notify(:channel, :told)")
        for told in ("receipt none", f"account {other.id} {WEB} #row", "", "unheard of"):
            given = {"channel": EVERYBODY, "told": told}
            await joined.write(lambda conn, given=given: conn.execute(notify, given))  # type: ignore[misc]
        await other.asked("tell", WEB, "later")
        await until(lambda: page.heard == [(WEB, "later")])
        assert page.read_again > 1


@pytest.mark.requirement("G-162")
async def test_words_that_the_database_refused_are_read_again(joined: PostgresDatabase, postgres_url: str) -> None:
    async with beside(joined, postgres_url) as (page, other, _):
        await other.asked("tell", WEB, "no \0 goes into a notification")
        await until(lambda: page.read_again == 2)
        await other.asked("tell", WEB, "later")
        await until(lambda: page.heard == [(WEB, "later")])


@pytest.mark.requirement("G-162")
async def test_words_that_came_while_nobody_listened_are_read_again(
    joined: PostgresDatabase, postgres_url: str
) -> None:
    async with beside(joined, postgres_url) as (page, other, _):
        end = "select pg_terminate_backend(pid) from pg_stat_activity where query like 'listen%' or query = 'select 1'"
        await joined.write(lambda conn: conn.execute(text(end)))
        await until(lambda: page.read_again == 2)
        await other.asked("tell", WEB, "later")
        await until(lambda: page.heard == [(WEB, "later")])


@pytest.mark.requirement("G-163")
async def test_what_could_not_be_read_again_is_tried_until_it_is(joined: PostgresDatabase, postgres_url: str) -> None:
    """A right that was taken away would go on to hold here."""
    async with beside(joined, postgres_url) as (_, other, cluster):
        tries: list[str] = []

        async def read_again(place: str) -> None:
            tries.append(place)
            if len(tries) < 3:
                await joined.read(lambda conn: conn.execute(text("select 1 from nowhere")))

        cluster.when_changed("access_grant", read_again)
        notify = text("select pg_notify(:channel, :told)")
        told = {"channel": EVERYBODY, "told": f"changed access_grant {other.id} {CHAT}"}
        await joined.write(lambda conn: conn.execute(notify, told))
        await until(lambda: len(tries) == 3)
        assert set(tries) == {CHAT}
        told = {"channel": EVERYBODY, "told": f"lost {other.id}"}
        await joined.write(lambda conn: conn.execute(notify, told))
        await until(lambda: tries[3:] == [""])


@pytest.mark.requirement("G-161")
async def test_after_lost_notifications_what_we_send_to_is_looked_at(
    joined: PostgresDatabase, postgres_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """A wake-up names whoever holds the outlet, and nobody else looks."""
    async with beside(joined, postgres_url, roles="ingress,delivery") as (_, other, cluster):
        world = World(joined, clock, tmp_path, outlets=cluster.outlets)
        cluster.hosted_by(House(joined, worker=PROCESS, is_alone=False).dispatcher)
        cluster.connect(admit=anyio.sleep, delivery=world.delivery, is_awake=lambda conversation: False)
        async with world.process():
            await cluster.outlets.take(ConversationId(str(key())))
            await joined.write(lambda conn: conn.execute(text("alter table outbox disable trigger user")))
            await world.commit("its wake-up was lost")
            await world.still()
            notify = text("select pg_notify(:channel, :told)")
            told = {"channel": EVERYBODY, "told": f"lost {other.id}"}
            await joined.write(lambda conn: conn.execute(notify, told))
            await world.until(lambda: world.screen().texts == ["its wake-up was lost"])
