"""Copies under load, what comes back from one, what the doctor mends, and the operator's hand on the queues."""

import re
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import create_engine, update

from agent.storage import migrate
from gateway.storage.repair import SCHEMA
from gateway.storage.tables import schedule
from tests.doubles.limits import raised_limits
from tests.fakes.databases import PostgresServer
from tests.program import configs
from tests.program.conftest import Start
from tests.program.doubles import Doubles, until
from tests.program.people import OnTelegram
from tests.program.running import Program

PEOPLE = tuple({"id": 3000 + number, "first_name": f"P{number}"} for number in range(5))
BUSY = "messages_per_minute = 6000\n"


BEFORE = migrate.known_revisions(SCHEMA.migrations)[1]


def config(doubles: Doubles) -> str:
    return configs.ACCESS + BUSY + configs.models(doubles, "a") + configs.telegram(doubles)


def rows(program: Program, query: str) -> Sequence[tuple[Any, ...]]:
    with closing(sqlite3.connect(program.home / "tieline.db")) as database:
        found = database.execute(query).fetchall()
        database.commit()
        return found


async def talk(person: OnTelegram, lines: int) -> None:
    for number in range(lines):
        await person.say(f"line {number}")
        await person.hears(f"line {number}")


@dataclass(frozen=True, slots=True)
class Restoring:
    """A gateway with two reminders of Ann's, an archive made of it while people talk, and what is made of that."""

    doubles: Doubles
    people: Sequence[OnTelegram]

    async def remind(self) -> None:
        """A single one and a recurring one, both hours away."""
        for when, what in (("in 2 hours", "stretch"), ("every 2h", "drink")):
            await self.people[0].say(f"/remind {when} {what}")
            await self.people[0].hears(what)

    async def archive(self, tieline: Program, path: str) -> str:
        """Made in the middle of what people say and are answered; what it says of itself."""
        await self.doubles.telegram.post("settings", raised_limits())
        async with anyio.create_task_group() as tasks:
            for person in self.people:
                tasks.start_soon(talk, person, 4)
            await self.people[0].hears("line 2")
            copied = await tieline.cli("backup", path)
        assert copied.returncode == 0, copied.stderr
        verified = await tieline.cli("backup", "--verify", path)
        assert "is whole: " in verified.stdout, verified.stderr
        return verified.stdout

    async def goes_on(self, restored: Program, database: str) -> None:
        """The restored gateway answers each next message once, and fires each reminder once when its time has come."""
        sooner(database)
        ann, bob = self.people[:2]
        async with restored:
            await ann.say("do you remember")
            await ann.hears("do you remember")
            asked_with = str((await self.doubles.llm.get("calls"))["calls"][-1]["body"]["messages"])
            assert "line 2" in asked_with

            async def fired() -> bool:
                return all(count == 1 for count in (await self.fired()).values())

            await until(fired, what="both reminders")
            await bob.say("and me")
            await bob.hears("and me")
            await self.stays_so(restored)
            assert list((await self.fired()).values()) == [1, 1]
            for person, said in ((ann, "do you remember"), (bob, "and me")):
                assert sum(said in text for text in await person.texts()) == 1, said
            listed = await self.schedules(ann)
            assert "drink" in listed
            assert "stretch" not in listed, "a single one is done"
            await restored.stop()

    async def fired(self) -> Mapping[str, int]:
        """How often each has come, without its confirmation."""
        told = await self.people[0].texts()
        return {what: sum(f"⏰ {what}" in text for text in told) for what in ("stretch", "drink")}

    async def schedules(self, person: OnTelegram) -> str:
        await person.say("/schedules")
        return await person.hears("every 2")

    async def stays_so(self, restored: Program) -> None:
        """The runner looks each second: whatever would come twice has come by then."""
        await anyio.sleep(2.5)  # nothing shows that something does not come
        assert restored.process is not None
        assert restored.process.poll() is None


def sooner(database: str) -> None:
    """Each reminder is due in two seconds, as if the time until then had passed."""
    at = int((time.time() + 2) * 1e6)
    engine = create_engine(database)
    with engine.begin() as conn:
        assert conn.execute(update(schedule).values(due_at=at, next_at=at)).rowcount == 2
    engine.dispose()


@pytest.mark.alone
@pytest.mark.requirement("G-36")
async def test_an_archive_made_under_load_is_a_whole_gateway_in_an_empty_home(
    doubles: Doubles, program: Start, tmp_path: Path
) -> None:
    """Encrypted, with its token: nothing but the passphrase is needed."""
    tieline = program(config(doubles), TIELINE_BACKUP_PASSPHRASE="correct horse")
    scene = Restoring(doubles, [OnTelegram(doubles, person) for person in PEOPLE])
    archive = str(tmp_path / "all.tar.encrypted")
    async with tieline:
        await scene.remind()
        assert "with secrets" in await scene.archive(tieline, archive)
        await tieline.stop()
    await anyio.to_thread.run_sync(tieline.home.rename, tmp_path / "lost")
    restored = await tieline.cli("restore", archive)
    assert restored.returncode == 0, restored.stderr
    assert "Put back: " in restored.stdout
    assert tieline.home.stat().st_mode & 0o777 == 0o700
    await scene.goes_on(tieline, f"sqlite:///{tieline.home}/tieline.db")


@pytest.mark.slow  # a server and eight processes
@pytest.mark.requirement("G-36")
async def test_an_archive_of_postgresql_made_under_load_goes_on_in_an_empty_home_and_database(
    doubles: Doubles, program: Start, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    scene = Restoring(doubles, [OnTelegram(doubles, person) for person in PEOPLE])
    archive = str(tmp_path / "all.tar")
    with postgres_server.database(empty=True) as first, postgres_server.database(empty=True) as second:
        tieline = program(config(doubles), TIELINE__DATABASE__URL=first)
        async with tieline:
            await scene.remind()
            await scene.archive(tieline, archive)
            copied = await tieline.cli("backup")
            assert "left out: 2 literal secrets in gateway.toml" in copied.stdout
            await tieline.stop()
        assert "PostgreSQL of revision" in (await tieline.cli("backup", "--verify", archive)).stdout
        refused = await tieline.cli("restore", archive)
        assert "holds tables already, which stay as they are" in refused.stderr
        other = program(config(doubles), TIELINE__DATABASE__URL=second)
        restored = await other.cli("restore", archive)
        assert restored.returncode == 0, restored.stderr
        await scene.goes_on(other, second.replace("postgresql://", "postgresql+psycopg://"))


@pytest.mark.slow  # five to ten processes, one after the other
async def test_a_copy_made_under_load_can_be_put_in_the_place_of_a_damaged_database(
    doubles: Doubles, program: Start
) -> None:
    await doubles.telegram.post("settings", raised_limits())  # one person writes faster here than anybody does
    tieline = program(config(doubles))
    people = [OnTelegram(doubles, person) for person in PEOPLE]
    async with tieline:
        async with anyio.create_task_group() as tasks:
            for person in people:
                tasks.start_soon(talk, person, 6)
            await people[0].hears("line 2")
            copied = await tieline.cli("backup")
        assert copied.returncode == 0, copied.stderr
        copy = copied.stdout.partition(" (")[0]
        assert (await tieline.cli("restore", copy)).returncode == 1, "not while it runs"
        await tieline.stop()

        (tieline.home / "tieline.db").write_bytes(b"not a database any more" * 1000)
        broken = await tieline.cli("run")
        assert "put a backup in its place" in broken.stderr
        restored = await tieline.cli("restore", copy)
        assert restored.returncode == 0, restored.stderr
        kept = re.search(r"is kept: (\S+)", restored.stdout)
        assert kept
        with open(kept[1], "rb") as damaged:  # noqa: ASYNC230 - a few bytes
            assert damaged.read(3) == b"not"
        assert rows(tieline, "select count(*) from inbox where status = 'new'") == [(0,)]
        assert rows(tieline, "select count(*) from outbox where status in ('new', 'sending')") == [(0,)]

        calls = len(await people[0].calls("sendMessage"))
        tieline.start()
        await tieline.ready()
        await people[0].say("do you remember")
        await people[0].hears("do you remember")
        history = str((await doubles.llm.get("calls"))["calls"][-1]["body"]["messages"])
        assert "line 2" in history
        assert len(await people[0].calls("sendMessage")) == calls + 1, "nothing that was open is sent a second time"


@pytest.mark.slow  # eight processes, one after the other
@pytest.mark.parametrize("settled", ["drop", "retry"])
async def test_a_run_that_was_open_in_the_copy_is_no_finding_of_the_doctor(
    doubles: Doubles, program: Start, settled: str
) -> None:
    """It has ended with its message, which became a dead letter; tried again, it is answered."""
    held = {"match": {"contains": "slow one"}, "reply": {"text": "slowly done", "hold": "gate"}, "times": 1}
    await doubles.llm.post("script", [held])
    telegram, tieline = OnTelegram(doubles), program(config(doubles))
    async with tieline:
        await telegram.say("slow one")
        await until(lambda: asked(doubles, "slow one"), what="the model call")
        copied = await tieline.cli("backup")
        tieline.kill()
        restored = await tieline.cli("restore", copied.stdout.partition(" (")[0])
        assert "put aside: 1 messages" in restored.stdout
        assert rows(tieline, "select state from turn") == [("failed",)]
        assert (await tieline.cli("dead", settled, "in-1")).returncode == 0
        assert "count as running" not in (await tieline.cli("doctor", "--offline")).stdout
        tieline.start()
        await tieline.ready()
        if settled == "retry":
            await telegram.hears("slow one")
        await tieline.settled()
        assert rows(tieline, "select state from turn") == [("done" if settled == "retry" else "failed",)]


@pytest.mark.slow  # seven to ten processes, one after the other
async def test_what_is_no_copy_is_refused_and_changes_nothing(doubles: Doubles, program: Start) -> None:
    tieline = program()
    async with tieline:
        copy = tieline.home / "copy.db"
        assert (await tieline.cli("backup", str(copy))).returncode == 0
        await tieline.stop()
        before = rows(tieline, "select count(*) from session")
        missing = await tieline.cli("restore", str(tieline.home / "nowhere.db"))
        assert "there is no file" in missing.stderr
        (tieline.home / "text.db").write_text("hello" * 500)
        assert "no backup of Tieline" in (await tieline.cli("restore", str(tieline.home / "text.db"))).stderr
        with closing(sqlite3.connect(copy)) as newer:
            newer.execute("update alembic_version set version_num = '9999'")
            newer.commit()
        refused = await tieline.cli("restore", str(copy))
        assert refused.returncode == 1
        assert "newer Tieline" in refused.stderr
        with closing(sqlite3.connect(copy)) as older:
            older.execute("update alembic_version set version_num = '0018_models'")
            older.commit()
        refused = await tieline.cli("restore", str(copy))
        assert refused.returncode == 1
        assert "start it once with the program of commit f855fe18" in refused.stderr
        assert rows(tieline, "select count(*) from session") == before


@pytest.mark.slow  # five to ten processes, one after the other
@pytest.mark.requirement("Z-69")
async def test_an_older_database_is_copied_migrated_and_goes_on_and_a_newer_one_is_refused(
    doubles: Doubles, program: Start
) -> None:
    telegram, tieline = OnTelegram(doubles), program(config(doubles))
    async with tieline:
        await telegram.say("my number is seven")
        await telegram.hears("my number is seven")
        await tieline.stop()
    await anyio.to_thread.run_sync(made_older, tieline.home / "tieline.db")
    tieline.start()
    await tieline.ready()
    copies = list((tieline.home / "backups").glob(f"tieline-{BEFORE}*.db"))
    assert len(copies) == 1
    with closing(sqlite3.connect(copies[0])) as copy:
        assert copy.execute("select version_num from alembic_version").fetchall() == [(BEFORE,)]
        assert copy.execute("select count(*) from inbox").fetchall() == [(1,)]
    assert rows(tieline, "select version_num from alembic_version") == [(SCHEMA.head,)]
    await telegram.say("what was it")
    await telegram.hears("what was it")
    assert "my number is seven" in str((await doubles.llm.get("calls"))["calls"][-1]["body"]["messages"])
    await tieline.stop()

    rows(tieline, "update alembic_version set version_num = '9999'")
    refused = await tieline.cli("run")
    assert refused.returncode == 1
    assert "install that version again, or go back to the backup" in refused.stderr
    assert rows(tieline, "select version_num from alembic_version") == [("9999",)], "it is left as it is"


def made_older(path: Path) -> None:
    """As the version before wrote it."""
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as conn:
        migrate.downgrade(conn, SCHEMA.migrations, BEFORE)
    engine.dispose()


@pytest.mark.slow  # seven to ten processes, one after the other
async def test_the_doctor_mends_what_a_killed_process_and_careless_hands_leave(
    doubles: Doubles, program: Start
) -> None:
    telegram, tieline = OnTelegram(doubles), program(config(doubles))
    async with tieline:
        await telegram.say("hello")
        await telegram.hears("hello")
        await tieline.settled()
        tieline.kill()
    tieline.home.chmod(0o755)
    (tieline.home / "gateway.toml").chmod(0o644)
    rows(tieline, "update turn set state = 'running'")
    rows(tieline, "update conversation set session_id = 'gone'")
    found = (await tieline.cli("doctor")).stdout
    assert "1 runs count as running although their message is done" in found
    assert "1 conversations point to a session that is not there" in found
    mended = (await tieline.cli("doctor", "--fix")).stdout
    assert f"⚒ {tieline.home} is for this account alone" in mended
    assert "⚒ the database: runs that nobody takes up again are ended (1)" in mended
    assert f"⚒ {tieline.home}/tieline.sock is removed" in mended
    assert "database: there and up to date" in mended
    assert tieline.home.stat().st_mode & 0o077 == 0
    assert "⚒" not in (await tieline.cli("doctor", "--fix")).stdout
    async with tieline:
        await telegram.say("and again")
        await telegram.hears("and again")


@pytest.mark.slow  # seven to ten processes, one after the other
async def test_the_operator_looks_into_the_boxes_and_takes_things_out(doubles: Doubles, program: Start) -> None:
    rules = [
        {"match": {"contains": "slow"}, "reply": {"text": "slowly done", "hold": "for ever"}},
        {"match": {"contains": "quick"}, "reply": {"text": "quickly done"}},
    ]
    await doubles.llm.post("script", rules)
    telegram, tieline = OnTelegram(doubles), program(config(doubles))
    async with tieline:
        assert (await tieline.cli("dead")).stdout == "No dead letters.\n"
        assert (await tieline.cli("outbox", "list")).stdout == "Everything is sent.\n"
        await telegram.say("quick one")
        await telegram.hears("quickly done")
        await telegram.say("slow one")
        await until(lambda: asked(doubles, "slow one"), what="the model call")
        await telegram.say("never to be answered")
        listed = (await tieline.cli("inbox")).stdout
        number = re.search(r"^(\d+) .* waits +never to be answered", listed, re.MULTILINE)
        assert number, listed
        assert "under work" in listed
        assert (await tieline.cli("inbox", "drop", number[1])).stdout == "Dropped, in telegram:77.\n"
        await telegram.say("/stop")
        await telegram.hears("Stopped.")
        assert (await tieline.cli("inbox", "drop", number[1])).returncode == 1
        await telegram.say("the next")
        await telegram.hears("the next")
        assert not any("never to be answered" in text for text in await telegram.texts())
        await tieline.settled()
        await tieline.stop()
        given_up = "status = 'dead', note = 'given up after 24.0 h', sent_refs = '[]'"
        rows(tieline, f"update outbox set {given_up} where id = 1")
        listed = (await tieline.cli("dead")).stdout
        assert re.search(r"^out-1 .* given up after 24.0 h +quickly done", listed, re.MULTILINE), listed
        assert (await tieline.cli("dead", "retry", "out-1")).stdout == "telegram:77 tries it again.\n"
        tieline.start()
        await tieline.ready()

        async def sent_again() -> bool:
            return (await telegram.texts()).count("quickly done") == 2

        await until(sent_again, what="the letter that was dead")


async def asked(doubles: Doubles, what: str) -> bool:
    return any(what in str(call["body"]) for call in (await doubles.llm.get("calls"))["calls"])


def buttons(message: dict[str, Any]) -> list[list[dict[str, Any]]]:
    rows: list[list[dict[str, Any]]] = message.get("reply_markup", {}).get("inline_keyboard", [])
    return rows


@pytest.mark.parametrize(
    "awake",
    [pytest.param(True, id="in the same process", marks=pytest.mark.slow), pytest.param(False, id="after a restart")],
)
@pytest.mark.slow
async def test_a_question_that_was_open_in_the_copy_is_closed_and_asked_anew(
    doubles: Doubles, program: Start, awake: bool
) -> None:
    """The outcome since then is unknown: neither earlier words nor the old buttons run the call."""
    call = {"type": "tool_use", "name": "shell", "input": {"command": "echo 42 >> ran"}}
    rules = [
        {"match": {"contains": "work it out", "tool_result": True}, "reply": {"text": "It is worked out."}},
        {"match": {"contains": "work it out", "tool_result": False}, "reply": {"blocks": [call]}, "times": 1},
    ]
    await doubles.llm.post("script", rules, append="1")
    ann, tieline = OnTelegram(doubles), program(config(doubles))

    async def asked_again() -> dict[str, Any] | None:
        return next((one for one in await ann.messages() if buttons(one)), None)

    async with tieline:
        await ann.say("work it out")
        await until(asked_again, what="a question with buttons")
        copied = await tieline.cli("backup")
        tieline.kill()
        restored = await tieline.cli("restore", copied.stdout.partition(" (")[0])
        assert "put aside: 1 messages" in restored.stdout
        tieline.start()
        await tieline.ready()
        assert "A backup was restored" in await ann.hears("A backup was restored")
        assert await asked_again() is None
        assert rows(tieline, "select status from approval") == [("cancelled",)]
        await ann.say("anything new?")
        await ann.hears("anything new?")
        if not awake:
            await tieline.settled()
            tieline.kill()
        assert (await tieline.cli("dead", "retry", "in-1")).returncode == 0
        if not awake:
            tieline.start()
        again = await until(asked_again, what="the question anew")
        await ann.press(again["message_id"], buttons(again)[0][0]["callback_data"])
        await ann.hears("It is worked out.")
        await tieline.settled()
        assert (await ann.texts())[-1] == "It is worked out."
        assert rows(tieline, "select status from approval order by created_at") == [("cancelled",), ("executed",)]
        last = (await doubles.llm.get("calls"))["calls"][-1]["body"]["messages"]
        said = [str(one["content"]).rpartition("\n")[2] for one in last if one["role"] == "user"]
        assert said == ["anything new?", "work it out"]
        assert [bool(one.get("tool_calls")) for one in last].count(True) == 1
        assert last[-1]["role"] == "tool", "what was retried stands behind what was said meanwhile"
