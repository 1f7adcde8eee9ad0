"""Databases and homes that older versions left are taken over by this one, on SQLite and PostgreSQL (Z-69).

The start that migrates is the ordinary one. The fixtures were killed at work, so much is open in them.
"""

import json
import re
import signal
import sqlite3
import tomllib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from typing import Any

import pytest
from sqlalchemy import Engine

from agent.core.failpoints import ENVIRONMENT
from agent.storage import migrate
from gateway.config.read import FORMER_KEYS
from gateway.storage.repair import SCHEMA
from tests.fakes.waiting import PATIENCE_S
from tests.faults.places import PLACES, Place
from tests.program.doubles import Doubles, all_doubles, until
from tests.program.people import GROUP, OnTelegram
from tests.program.running import Program
from tests.upgrade import doors
from tests.upgrade.comparing import INDEX, differences
from tests.upgrade.fixture import Fixture, fixtures, go_on, still_open
from tests.upgrade.home import NAMES, TOPIC, environment
from tests.upgrade.play import RULES, when
from tests.upgrade.rows import Table, engine_of, query, read_all, revision
from tests.upgrade.test_fixtures import laid_out

GROUP_ID, GROWING_ID = -1005, -1007
# The version of 08a01c2 left the run of a message open when it put the message aside as a dead letter.
DEAD_LETTER = "⚒ the database: runs that nobody takes up again are ended (1)"
AT_REST = "select 1 from inbox where status = 'new' union all select 1 from outbox where status in ('new', 'sending')"


# On PostgreSQL a process has rows there while it runs, and takes them away when it stops. Each start may log.
LIVING = frozenset({"process", "process_claim", "procrastinate_workers", "log_entry"})


def is_quick(commit: str, kind: str = "sqlite") -> bool:
    """The version before this one is taken over in `make test`; the others take as long again each."""
    return (commit, kind) == ("f855fe18", "sqlite")


def rewound(engine: Engine) -> None:
    """Take the newest migration back where none has come since the fixture was made, so that there is one to run."""
    if revision(engine) == SCHEMA.head:
        with engine.connect() as conn:
            if engine.dialect.name == "sqlite":
                conn.exec_driver_sql("PRAGMA foreign_keys = OFF")
                conn.commit()
            with conn.begin():
                migrate.downgrade(conn, SCHEMA.migrations, migrate.known_revisions(SCHEMA.migrations)[1])


def counts(tables: Mapping[str, Table]) -> dict[str, int]:
    """The number of rows of each table, without those of the process, and the index of recall, which is being made."""
    return {name: len(rows) for name, rows in tables.items() if name not in INDEX | LIVING}


async def finds(engine: Engine, sql: str, *, nothing: bool = False) -> None:
    async def found() -> bool:
        return bool(query(engine, sql)) is not nothing

    await until(found, what=sql)


async def shows(place: Place, words: str, *, in_group: bool = False) -> None:
    async def found() -> bool:
        return any(words in text for text in await place.shown(in_group=in_group))

    await until(found, what=f"{words!r} on {place.name}")


async def request_with(doubles: Doubles, words: str) -> Mapping[str, Any]:
    """The first request to a model whose newest message of a person holds these words."""
    for call in (await doubles.llm.get("calls"))["calls"]:
        said = [one["content"] for one in call["body"].get("messages", ()) if one["role"] == "user"]
        if said and words in json.dumps(said[-1], ensure_ascii=False):
            body: Mapping[str, Any] = call["body"]
            return body
    raise AssertionError(f"no model was asked {words!r}")


@asynccontextmanager
async def platforms(commit: str) -> AsyncIterator[Doubles]:
    async with all_doubles() as doubles:
        await go_on(doubles, commit)
        slow = when("[autonomous]", {"text": "not again"})
        await doubles.llm.post("script", [slow, RULES[1], *(rule for rule in RULES if "note it" in str(rule))])
        yield doubles


@pytest.mark.timeout(180)
@pytest.mark.requirement("Z-69")
@pytest.mark.parametrize(
    "fixture",
    [
        pytest.param(
            one, id=f"{one.commit}-{one.kind}", marks=() if is_quick(one.commit, one.kind) else pytest.mark.slow
        )
        for one in fixtures()
    ],
)
async def test_the_state_before_goes_on(
    fixture: Fixture, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> None:
    home = tmp_path_factory.mktemp("h")
    with laid_out(fixture, home, request) as (engine, url):
        still_open(engine)
        rewound(engine)
        before, old = read_all(engine), revision(engine)
        async with platforms(fixture.commit) as doubles, doors.receivers() as receivers:
            config = fixture.config if "[[events]]" in fixture.config else fixture.config + doors.CONFIG
            environ = {**environment(doubles, url), **receivers.environ, ENVIRONMENT: str(home / "crash")}
            program = Program(home, config, environ, about={"upgrade"})
            (home / "crash").write_text("migration.within")
            program.start()
            assert program.process is not None
            assert program.process.wait(PATIENCE_S) == -signal.SIGKILL, "killed in the migration"
            assert revision(engine) == old
            assert not list(differences(before, read_all(engine), live=False)), "nothing of it is half done"
            async with program:
                assert revision(engine) == SCHEMA.head
                await what_waited_is_done(doubles, program, engine)
                await what_was_said_is_known(doubles, program)
                former_keys_are_read(fixture, program)
                caller = await doors.with_key(program, "after")
                answer = await doors.use_all(caller, doubles, engine, receivers)
                await finds(engine, AT_REST, nothing=True)
                after = read_all(engine)
                assert set(after) >= doors.TABLES | doors.OF_PROCESSES | doors.OF_FILES
                assert bool(after["file"]) is bool(url), "PostgreSQL has the files of the doors, too"
                fired = {
                    f"schedule {key}" for key, row in before["schedule"].items() if row["text"] == "the late reminder"
                }
                assert not list(differences(before, after, ended=fired))
                assert dead_in(before) == dead_in(after) != set(), "the dead stay dead, and no more of them"
                await program.stop()
            doctor = await program.cli("doctor", "--fix", "--offline")
            assert doctor.returncode == 0, doctor.stdout
            assert "database: there and up to date" in doctor.stdout, doctor.stdout
            mended = [line for line in doctor.stdout.splitlines() if "⚒ the database" in line]
            assert mended in ([], [DEAD_LETTER]), doctor.stdout
            settled = read_all(engine)
            async with program:
                await finds(engine, AT_REST, nothing=True)
                assert not list(differences(settled, read_all(engine)))
                assert counts(read_all(engine)) == counts(settled), "a second start adds nothing"
                assert await caller.asks() == answer, "the key and the turn of its program are there"
                assert counts(read_all(engine)) == counts(settled), "and it was asked once"
                await program.stop()


def former_keys_are_read(fixture: Fixture, program: Program) -> None:
    """Each with a warning, and what it asks for happens."""
    written = tomllib.loads(fixture.config)
    log = program.log.read_text()
    for (section, former), name in FORMER_KEYS.items():
        if former in written.get(section, {}):
            assert f"{section}.{former}: is called {section}.{name} now" in log
    assert (program.home / "traces").is_dir() is bool(written.get("logging", {}).get("traces"))


def dead_in(tables: Mapping[str, Table]) -> set[str]:
    """The dead letters, by table and number."""
    return {
        f"{name} {key}" for name in ("inbox", "outbox") for key, row in tables[name].items() if row["status"] == "dead"
    }


async def what_waited_is_done(doubles: Doubles, program: Program, engine: Engine) -> None:
    """Each thing once: by the platform's record of what it was sent."""
    ann = OnTelegram(doubles)

    async def on_telegram(id: int, words: str) -> str:
        return await OnTelegram(doubles, {"id": id}).hears(words)

    await on_telegram(406, "an answer that the platform puts off")
    await ann.hears("hold on", chat=GROWING_ID)
    await ann.hears("the words behind it", chat=GROWING_ID)
    assert "(Late: this was due at " in await on_telegram(407, "the late reminder")
    await on_telegram(302, "the last words before the kill")
    await on_telegram(404, "was restarted while I worked on it")
    await on_telegram(403, "was restarted while I worked on it")
    await ann.hears("Hide ", chat=GROUP_ID)
    await ann.say("@double_bot no", chat=GROUP)
    await ann.hears("Nothing was hidden", chat=GROUP_ID)
    dan = OnTelegram(doubles, {"id": 401, "first_name": NAMES[401]})
    await dan.say("/approve")
    await dan.hears("There you are.")
    await finds(engine, "select 1 from approval where conv = 'telegram:401' and status = 'executed'")
    eve = OnTelegram(doubles, {"id": 402, "first_name": NAMES[402]})
    await eve.say("/plan cancel")
    await eve.hears("is cancelled")
    await finds(engine, AT_REST, nothing=True)
    once = {
        406: "an answer that the platform puts off", 407: "the late reminder", 302: "the last words before the kill",
        404: "was restarted", 403: "was restarted", 401: "There you are.",
    }  # fmt: skip
    for id, words in once.items():
        texts = await OnTelegram(doubles, {"id": id}).texts()
        assert sum(words in text for text in texts) == 1, (id, texts)
    for words in ("hold on", "the words behind it"):
        assert sum(words in text for text in await ann.texts(GROWING_ID)) == 1, words
    assert not await OnTelegram(doubles, {"id": 405}).texts(), "the dead stay dead"
    assert not await OnTelegram(doubles, {"id": 410}).texts(), "what was refused is not sent again"
    assert len(list((program.home / "workspaces").glob("*/tea/times.txt"))) == 2


async def what_was_said_is_known(doubles: Doubles, program: Program) -> None:
    """In each channel the transcript goes on, with the provider that was chosen there."""
    ann = OnTelegram(doubles)
    await ann.say("the words after the upgrade")
    await ann.hears("the words after the upgrade")
    asked = await request_with(doubles, "the words after the upgrade")
    assert asked["model"] == "model-b"
    assert "the words before the upgrade" in json.dumps(asked["messages"])
    assert "Ann sails on Saturdays." in json.dumps(asked)
    for name, make in PLACES.items():
        if name == "telegram":
            continue
        place = make(doubles, program)
        await place.say(f"later on {name}")
        await shows(place, f"later on {name}")
        asked = await request_with(doubles, f"later on {name}")
        assert asked["model"] == "model-a"
        assert f"the first words on {name}" in json.dumps(asked["messages"]), name
    for chat, more, model in ((GROUP_ID, {"chat": GROUP}, "model-b"), (-1006, TOPIC, "model-a")):
        kind = "group" if chat == GROUP_ID else "topic"
        await ann.say(f"@double_bot later in the {kind}", **more)
        await ann.hears(f"later in the {kind}", chat=chat)
        asked = await request_with(doubles, f"later in the {kind}")
        assert asked["model"] == model, kind
        assert f"the first words of a {kind}" in json.dumps(asked["messages"]), kind
    for number, (id, words) in enumerate({78: "mend the fence", 77: "the far reminder"}.items()):
        person = OnTelegram(doubles, {"id": id, "first_name": "P"})
        await person.say(("/goal", "/schedules")[number])
        await person.hears(words)
    cara = OnTelegram(doubles, {"id": 301, "first_name": NAMES[301]})
    await cara.say("what did we book")
    await cara.hears("what did we book")
    asked = await request_with(doubles, "what did we book")
    assert asked["model"] == "model-small"
    assert "HAT-4471" in json.dumps(asked["messages"])


@pytest.mark.timeout(120)
@pytest.mark.requirement("Z-69")
@pytest.mark.parametrize(
    "commit",
    [
        pytest.param(commit, marks=() if is_quick(commit) else pytest.mark.slow)
        for commit in sorted({one.commit for one in fixtures()})
    ],
)
async def test_a_backup_of_the_version_before_can_be_restored(
    commit: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Open rows in it become dead letters, and the conversations go on."""
    home = tmp_path_factory.mktemp("h")
    fixture = Fixture(commit, "sqlite")
    copy = fixture.backup(home / "copy.db")
    with closing(sqlite3.connect(copy)) as opened:
        ((open_messages,),) = opened.execute(
            "select count(*) from inbox where status = 'new' and kind in ('message', 'reminder')"
        )
    async with platforms(commit) as doubles:
        program = Program(home, fixture.config, environment(doubles), about={"upgrade"})
        restored = await program.cli("restore", str(copy))
        assert restored.returncode == 0, restored.stderr
        told = re.search(r"put aside: (\d+) messages, (\d+) answers", restored.stdout)
        assert told
        assert int(told[1]) == open_messages > 0
        async with program:
            ann = OnTelegram(doubles)
            await ann.say("the words after the upgrade")
            await ann.hears("the words after the upgrade")
            asked = await request_with(doubles, "the words after the upgrade")
            assert asked["model"] == "model-b"
            assert "the words before the upgrade" in json.dumps(asked["messages"])
            assert not await OnTelegram(doubles, {"id": 406}).texts(), "what was open is not sent"
            engine = engine_of(home, None)
            assert revision(engine) == SCHEMA.head
            engine.dispose()
