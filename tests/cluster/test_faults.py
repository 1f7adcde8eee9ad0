"""A cluster when a process dies, freezes, or loses its database."""

import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import httpx2
import pytest

from tests.cluster.processes import FIVE, Member, Members, running
from tests.fakes.databases import away, restartable_postgres
from tests.program import configs
from tests.program.doubles import Doubles, all_doubles, until
from tests.program.people import OnTelegram
from tests.program.stage import Stage

TAKEN_OVER_WITHIN_S = 10.0
AWAY_S = 30.0


@asynccontextmanager
async def cluster(folder: Path, database: str, roles: tuple[str, ...] = FIVE) -> AsyncIterator[tuple[Members, Stage]]:
    async with all_doubles() as doubles:
        config = configs.ACCESS + configs.models(doubles, "a") + configs.telegram(doubles)
        members = Members(folder, database, config, roles)
        try:
            async with running(members):
                yield members, Stage(doubles, members.all[0])
        except BaseException:
            print(members.logs())
            for query in ("select id, conv, status, attempts, not_before, note from inbox where status = 'new'",):
                print(query, members.rows(query))
            for query in ("select id, conv, status, attempts, not_before from outbox where status <> 'sent'",):
                print(query, members.rows(query))
            for table in ("arrival", "procrastinate_jobs", "process", "conversation_host", "conversation_outlet"):
                print(table, members.rows(f"select * from {table}"))
            raise


def host_of(members: Members, conversation: str = "telegram:77") -> int:
    """The number, among all, of the process that has the conversation."""
    rows = members.rows(
        f"select pid from process join conversation_host on process = process.id where conv = '{conversation}'"
    )
    ((pid,),) = rows
    return next(at for at, one in enumerate(members.all) if one.process is not None and one.process.pid == pid)


async def finals(doubles: Doubles, text: str) -> int:
    return (await OnTelegram(doubles).texts()).count(text)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "frozen"])
async def test_another_worker_goes_on_where_one_is_gone(tmp_path: Path, postgres_url: str, how: str) -> None:
    async with cluster(tmp_path, postgres_url) as (members, stage):
        ann = OnTelegram(stage.doubles)
        await stage.script("a long story", "Once upon a time.", hold="story", hold_after=1)
        await ann.say("a long story")
        await stage.asking("a long story")
        lost = members.all[host_of(members)]
        assert lost.process is not None
        began = time.monotonic()
        lost.process.send_signal(signal.SIGKILL if how == "killed" else signal.SIGSTOP)

        async def asked_again() -> bool:
            return len(await stage.asked("a long story")) > 1

        await until(asked_again, seconds=30)
        took_s = time.monotonic() - began
        await stage.release("story")
        assert await ann.hears("Once upon") == "Once upon a time."
        if how == "frozen":
            lost.process.send_signal(signal.SIGCONT)
            assert await anyio.to_thread.run_sync(lost.process.wait, 30) != 0, "it was buried, and ends"
            assert "found this one dead" in lost.log.read_text()
        await ann.say("and then?")
        await anyio.sleep(1.0)  # a second answer would have come by then
        assert await finals(stage.doubles, "Once upon a time.") == 1
        assert took_s < TAKEN_OVER_WITHIN_S, f"taken over after {took_s:.1f} s"


@pytest.mark.slow
async def test_another_ingress_polls_where_one_is_gone(tmp_path: Path, postgres_url: str) -> None:
    roles = ("ingress", "ingress", "worker", "scheduler,delivery")
    async with cluster(tmp_path, postgres_url, roles) as (members, stage):
        ann = OnTelegram(stage.doubles)
        await stage.script("hello", "Hello, Ann.")
        await ann.say("hello")
        await ann.hears("Hello, Ann.")
        holder = "select pid from process join process_claim on process = id where name = 'account:telegram'"
        ((pid,),) = members.rows(holder)
        lost = next(one for one in members.all if one.process is not None and one.process.pid == pid)
        lost.kill()
        began = time.monotonic()
        await stage.script("still there", "Still here.")
        await ann.say("still there")
        await ann.hears("Still here.", seconds=30)
        assert time.monotonic() - began < TAKEN_OVER_WITHIN_S


@pytest.mark.slow
@pytest.mark.requirement("G-139")
async def test_nothing_is_lost_or_doubled_when_the_server_of_the_database_crashes(tmp_path: Path) -> None:
    with restartable_postgres() as (url, restart):
        database = url.set(drivername="postgresql").render_as_string(hide_password=False)
        async with cluster(tmp_path, database) as (members, stage):
            people = [OnTelegram(stage.doubles, {"id": 700 + number, "first_name": "Ann"}) for number in range(8)]
            for number, person in enumerate(people):
                await stage.script(f"question {number}", f"Answer {number}.")
                await person.say(f"question {number}")
            await anyio.to_thread.run_sync(restart)
            for number, person in enumerate(people):
                await person.hears(f"Answer {number}.", seconds=60)
            for person in people:
                await person.say("and now?")
                await person.hears("and now?", seconds=60)
            await anyio.sleep(3.0)  # second answers would have come by then
            for number, person in enumerate(people):
                assert (await person.texts()).count(f"Answer {number}.") == 1
            assert members.rows("select count(*) from arrival") == [(0,)]


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.requirement("G-138", "G-139")
async def test_half_a_minute_without_the_database_loses_nothing(tmp_path: Path, postgres_url: str) -> None:
    """As where its primary fails over. What people write meanwhile waits at the platform."""
    async with cluster(tmp_path, postgres_url) as (members, stage):
        ann = OnTelegram(stage.doubles)
        await ann.say("one of before")
        await ann.hears("one of before")
        async with away(postgres_url):
            began = time.monotonic()
            await ann.say("one of meanwhile")
            for member in (members.of("ingress")[0], members.of("worker")[0]):
                await until(partial(_is_unready, member), what=f"that {member.roles} is not ready")
            await anyio.sleep(AWAY_S - (time.monotonic() - began))
        await ann.hears("one of meanwhile")
        for member in members.all:
            await member.ready()
        await ann.say("one of afterwards")
        await ann.hears("one of afterwards")
        told = [text for text in await ann.texts() if "one of" in text]
        assert [sum(f"one of {when}" in text for text in told) for when in ("before", "meanwhile", "afterwards")] == [
            1
        ] * 3


async def _is_unready(member: Member) -> bool:
    async with httpx2.AsyncClient(trust_env=False, timeout=20) as client:
        return (await client.get(f"{member.url}/readyz")).status_code == 503
