"""Disks and database servers that fail under the running program: nothing is lost, nothing is answered twice."""

import random
import resource
import shutil
import signal
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Set
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest
from sqlalchemy import URL, create_engine, text

from agent.core.failpoints import ENVIRONMENT
from agent.core.messages import Message
from agent.storage.payloads import decode_parts
from tests.doubles.limits import raised_limits
from tests.fakes.databases import restartable_postgres
from tests.fakes.shapes import refusals
from tests.faults.places import REPEATED
from tests.program import configs
from tests.program.doubles import Doubles, all_doubles, until
from tests.program.people import OnTelegram
from tests.program.running import Program

SECTIONS = "messages_per_minute = 6000\n[queue]\nmax_depth = 100\nmerge_ms = 0\n"
ONE_BY_ONE = {"queue.merge_ms"}


@dataclass(frozen=True, slots=True)
class Scene:
    doubles: Doubles
    program: Program
    config: str

    def person(self, number: int) -> OnTelegram:
        return OnTelegram(self.doubles, {"id": 1000 + number, "first_name": f"P{number}"})

    async def answers(self, number: int) -> list[str]:
        return [one for one in await self.person(number).texts() if "Waiting" not in one]

    async def answered(self, number: int, *words: str, seconds: float = 60.0) -> None:
        """Each once, in this order, and nothing else."""

        async def complete() -> bool:
            return await self.answers(number) == [f"answer to {word}" for word in words]

        try:
            await until(complete, seconds=seconds, what=f"the answers to {words}")
        except AssertionError as error:
            raise AssertionError(f"{error}; seen: {await self.answers(number)}") from None

    async def ready_is(self, status: int, seconds: float = 60.0) -> None:
        async with aiohttp.ClientSession() as client:

            async def found() -> bool:
                async with client.get(f"{self.program.url}/readyz") as answer:
                    return answer.status == status

            await until(found, seconds=seconds, what=f"readiness {status}")


@asynccontextmanager
async def on_telegram(
    home: Path, more: str = "", environ: Mapping[str, str] | None = None, *, about: Set[str] = frozenset()
) -> AsyncIterator[Scene]:
    """The program with one account; the model answers `say NAME` with `answer to NAME`. `more` sections are `about`."""
    async with all_doubles() as doubles:
        await doubles.telegram.post("settings", raised_limits())  # one person writes faster here than anybody does
        names = [f"m{number}" for number in range(60)]
        await doubles.llm.post("script", [rule(name) for name in reversed(names)])
        config = configs.ACCESS + SECTIONS + more + configs.models(doubles, "a") + configs.telegram(doubles)
        async with Program(home, config, environ, about=ONE_BY_ONE | about) as program:
            yield Scene(doubles, program, config)


def rule(name: str, **more: Any) -> dict[str, Any]:
    return {"match": {"contains": f"say {name}"}, "reply": {"text": f"answer to {name}", **more}}


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("h")


@pytest.mark.slow
@pytest.mark.requirement("B-48")
async def test_a_full_disk_holds_everything_up_and_loses_nothing(home: Path) -> None:
    async with on_telegram(home) as scene:
        ann, process = scene.person(1), scene.program.process
        await ann.say("say m1")
        await scene.answered(1, "m1")
        assert process is not None
        size = (home / "tieline.db-wal").stat().st_size
        before = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, before[1]))
        await ann.say("say m2")
        await scene.ready_is(503)
        await ann.say("say m3")
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, before)
        await scene.answered(1, "m1", "m2", "m3")
        await scene.ready_is(200)


@pytest.mark.slow
@pytest.mark.requirement("B-48")
async def test_a_database_that_somebody_locks_is_waited_for(home: Path) -> None:
    async with on_telegram(home) as scene:
        await scene.person(1).say("say m1")
        await scene.answered(1, "m1")
        with closing(sqlite3.connect(home / "tieline.db", isolation_level=None)) as other:
            other.execute("begin immediate")
            await scene.person(1).say("say m2")
            await anyio.sleep(8)  # longer than a statement waits for a lock
            other.execute("rollback")
        await scene.answered(1, "m1", "m2")


@pytest.mark.timeout(300)
@pytest.mark.requirement("W-12", "B-52")
async def test_a_power_cut_at_any_moment_leaves_a_sound_database(home: Path, tmp_path: Path) -> None:
    """Frozen under load, its files copied as the disk has them; a copy whose log lost its unsynced end is sound too."""
    chance = random.Random(7)
    copies: list[tuple[Path, set[str]]] = []
    async with on_telegram(home) as scene, anyio.create_task_group() as tasks:

        async def people() -> None:
            for number in range(30):
                await scene.person(number % 3).say(f"say m{number}")
                await anyio.sleep(0.03)  # a load, not a flood

        tasks.start_soon(people)
        process = scene.program.process
        assert process is not None
        for cut in range(8):
            await anyio.sleep(chance.uniform(0.02, 0.3))
            seen = {one for person in range(3) for one in await scene.answers(person)}
            process.send_signal(signal.SIGSTOP)
            copies.append((copied(home, tmp_path / str(cut)), seen))
            process.send_signal(signal.SIGCONT)
        for person in range(3):
            await scene.answered(person, *(f"m{number}" for number in range(30) if number % 3 == person))
    for copy, seen in copies:
        wal = copy.with_name("tieline.db-wal")
        whole = wal.read_bytes()
        shorter = copied(copy.parent, copy.parent / "cut")
        shorter.with_name("tieline.db-wal").write_bytes(torn(whole, chance))
        assert seen <= sound(copy), "what people had seen was on the disk"
        sound(shorter)


def copied(home: Path, folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name in ("tieline.db", "tieline.db-wal"):
        shutil.copyfile(home / name, folder / name)
    return folder / "tieline.db"


def torn(log: bytes, chance: random.Random) -> bytes:
    """Its end lost, and the last sector torn."""
    end = chance.randrange(len(log) // 2, len(log) + 1)
    return log[:end] + chance.randbytes(512)


def sound(path: Path) -> set[str]:
    """See that the database is whole and says one thing; what it holds as answers."""
    with closing(sqlite3.connect(path)) as database:
        (state,) = database.execute("pragma integrity_check").fetchone()
        assert state == "ok"
        assert database.execute("pragma foreign_key_check").fetchall() == []
        done = "select id from inbox where status = 'done' and id not in (select inbox_id from outbox)"
        assert database.execute(done).fetchall() == [], "done without an answer"
        unsaid = "select id from outbox where inbox_id not in (select id from inbox where status = 'done')"
        assert database.execute(unsaid).fetchall() == [], "an answer to what is not done"
        words = "select id from turn where inbox_id not in (select inbox_id from message where position = 0)"
        assert database.execute(words).fetchall() == [], "a turn without the person's words"
        sessions: dict[str, list[Message]] = {}
        for session, role, parts in database.execute("select session_id, role, parts from message order by id"):
            sessions.setdefault(session, []).append(Message(role=role, parts=decode_parts(parts)))
        for messages in sessions.values():
            assert not refusals(messages)
        rows = database.execute("select json_extract(payload, '$.text') from outbox").fetchall()
        return {answer for (answer,) in rows}


# --- PostgreSQL ---


@pytest.fixture(scope="module")
def postgres() -> Iterator[tuple[URL, Callable[[], None]]]:
    with restartable_postgres() as server:
        yield server


def section(url: URL) -> str:
    return f'[database]\nurl = "{url.set(drivername="postgresql").render_as_string(hide_password=False)}"\n'


def fresh(url: URL, name: str) -> URL:
    """A database of its own."""
    run(url, f"create database {name}")
    return url.set(database=name)


def run(url: URL, statement: str) -> list[Any]:
    engine = create_engine(url.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as conn:
            found = conn.execute(text(statement))
            return list(found) if found.returns_rows else []
    finally:
        engine.dispose()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.requirement("B-48")
async def test_a_server_that_crashes_and_comes_back_under_load(
    home: Path, postgres: tuple[URL, Callable[[], None]]
) -> None:
    server, restart = postgres
    url = fresh(server, "restarted")
    async with on_telegram(home, section(url)) as scene:

        async def person(number: int) -> None:
            for each in range(10):
                await scene.person(number).say(f"say m{10 * number + each}")
                await anyio.sleep(0.2)  # a load, not a flood

        async with anyio.create_task_group() as tasks:
            for number in range(3):
                tasks.start_soon(person, number)
            await anyio.sleep(0.8)  # in the middle of it
            await anyio.to_thread.run_sync(restart)
        for number in range(3):
            await scene.answered(number, *(f"m{10 * number + each}" for each in range(10)), seconds=120)
        await scene.ready_is(200)
        await until(owned(url), seconds=30, what="the owner's lock")
        assert scene.program.process is not None
        assert scene.program.process.poll() is None


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.requirement("B-88")
async def test_a_frozen_process_whose_database_another_took_over_writes_nothing_and_ends(
    home: Path, tmp_path_factory: pytest.TempPathFactory, postgres: tuple[URL, Callable[[], None]]
) -> None:
    url = fresh(postgres[0], "taken")
    async with on_telegram(home, section(url)) as scene:
        ann, first = scene.person(1), scene.program.process
        assert first is not None
        await ann.say("say m1")
        await scene.answered(1, "m1")
        await scene.doubles.llm.post("script", [rule("m2", ttft=3.0), rule("m3")])
        await ann.say("say m2")
        await until(lambda: asked(scene.doubles, "say m2"), what="the model call")
        first.send_signal(signal.SIGSTOP)
        run(url, "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'tieline%'")
        second = Program(tmp_path_factory.mktemp("h"), scene.config, about=ONE_BY_ONE)
        async with second:
            await scene.answered(1, "m1", "m2")
            first.send_signal(signal.SIGCONT)
            assert await anyio.to_thread.run_sync(first.wait, 60) != 0
            assert "has ended" in scene.program.log.read_text()
            await ann.say("say m3")
            await scene.answered(1, "m1", "m2", "m3", seconds=100)  # two pollers: the platform makes one wait
        fenced = run(url, "select count(*) from message where position > 0 group by inbox_id having count(*) > 1")
        assert fenced == []


@pytest.mark.slow
@pytest.mark.requirement("W-13", "B-52", "G-148")
async def test_what_a_killed_process_had_begun_is_known_with_a_server_too(
    home: Path, postgres: tuple[URL, Callable[[], None]]
) -> None:
    order = home / "crash"
    async with on_telegram(home, section(fresh(postgres[0], "begun")), {ENVIRONMENT: str(order)}) as scene:
        ann, program = scene.person(1), scene.program
        await ann.say("say m1")
        await scene.answered(1, "m1")
        for point, word in (("send.before", "m2"), ("send.noted", "m3")):
            await anyio.Path(order).write_text(point)
            await ann.say(f"say {word}")
            assert program.process is not None
            assert await anyio.to_thread.run_sync(program.process.wait, 60) == -signal.SIGKILL
            program.start()
            await ann.hears(f"answer to {word}")
        said = [f"answer to {word}" for word in ("m1", "m2", "m3")]
        said[-1] = f"{REPEATED}\n{said[-1]}"
        assert await scene.answers(1) == said
    assert not (home / "calls").exists(), "the database alone knows it: the next one may have another home"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.requirement("G-148")
@pytest.mark.parametrize(("point", "begun"), [("send.before", False), ("send.noted", True)])
async def test_a_program_on_another_machine_goes_on_where_one_was_killed(
    home: Path,
    tmp_path_factory: pytest.TempPathFactory,
    postgres: tuple[URL, Callable[[], None]],
    point: str,
    begun: bool,
) -> None:
    """It has nothing but the database, knows which call had begun, and what the killed one's calls may have cost."""
    url, order = fresh(postgres[0], f"gone_{begun}".lower()), home / "crash"
    async with on_telegram(home, section(url), {ENVIRONMENT: str(order)}) as scene:
        ann, first = scene.person(1), scene.program.process
        assert first is not None
        await ann.say("say m1")
        await scene.answered(1, "m1")
        await anyio.Path(order).write_text(point)
        await ann.say("say m2")
        assert await anyio.to_thread.run_sync(first.wait, 60) == -signal.SIGKILL
        async with Program(tmp_path_factory.mktemp("h"), scene.config, about=ONE_BY_ONE):
            await ann.hears("answer to m2")
            await ann.say("say m3")
            await ann.hears("answer to m3")
        said = ["answer to m1", f"{REPEATED}\n" * begun + "answer to m2", "answer to m3"]
        assert await scene.answers(1) == said
        assert run(url, "select count(*) from usage") == [(3,)]
        assert run(url, "select count(*) from usage_hold") == [(0,)]


def owned(url: URL) -> Callable[[], Any]:
    async def found() -> bool:
        query = "select count(*) from pg_locks l join pg_database d on d.oid = l.database"
        query += " where l.locktype = 'advisory' and l.granted and d.datname = current_database()"
        return bool(await anyio.to_thread.run_sync(run, url, query) == [(1,)])

    return found


async def asked(doubles: Doubles, words: str) -> bool:
    return any(words in str(call.get("body")) for call in (await doubles.llm.get("calls"))["calls"])
