"""An import into a data directory: all of it or nothing, and nothing twice. On real databases."""

import os
import sqlite3
import stat
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, select

from agent.storage.database import Database
from agent.storage.errors import StorageTrouble
from agent.storage.tables import memory
from gateway.importers.moved import ImportRefused
from gateway.importers.plan import Planned
from gateway.importers.writer import Rows, rows_of, write
from gateway.phrases.catalogue import read_catalogue
from gateway.storage.tables import schedule
from tests.gateway.importers.copies import NOW, TELEGRAM, change_json, copy_of, plan_of

PHRASE = read_catalogue()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return copy_of("nanobot", tmp_path / "theirs")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "ours"


def _files(home: Path) -> dict[str, bytes]:
    return {str(path.relative_to(home)): path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file()}


def _put(home: Path, config: str) -> None:
    home.mkdir()
    (home / "gateway.toml").write_text(config)


async def _rows(database: Database) -> tuple[Sequence[Any], Sequence[Any]]:
    def read(conn: Connection) -> tuple[Sequence[Any], Sequence[Any]]:
        notes = conn.execute(select(memory.c.id, memory.c.text, memory.c.audience, memory.c.created_at)).all()
        return notes, conn.execute(select(schedule.c.id, schedule.c.name, schedule.c.conv, schedule.c.state)).all()

    return await database.read(read)


async def _imported(database: Database, plan: Planned) -> Rows:
    return await write(database, plan, PHRASE, NOW)


@pytest.mark.requirement("G-157", "G-158")
async def test_a_second_import_changes_nothing(database: Database, source: Path, home: Path) -> None:
    await _imported(database, plan_of("nanobot", source, home, person="telegram:77"))
    files, rows = _files(home), await _rows(database)
    assert {"gateway.toml", "agents/nanobot/AGENT.md", "skills/imported/weekly-report/SKILL.md"} <= files.keys()
    assert {(text, audience) for _, text, audience, _ in rows[0]} >= {
        ("Home: The spare key lies under the blue flowerpot.", "person:telegram:77")
    }
    assert {(name, conv, state) for _, name, conv, state in rows[1]} == {
        ("morning", "telegram:77", "active"),
        ("passport", "telegram:77", "active"),
        ("build", "telegram:77", "active"),
    }
    again = plan_of("nanobot", source, home, person="telegram:77")
    assert (again.new, again.differing) == ([], [])
    found = await _imported(database, again)
    assert (found.notes, found.jobs) == ([], [])
    assert (_files(home), await _rows(database)) == (files, rows)


@pytest.mark.requirement("G-158")
async def test_a_database_that_fails_leaves_nothing(database: Database, source: Path, home: Path) -> None:
    class Full:
        """A database whose disk is full at the commit."""

        dialect = database.dialect
        read = staticmethod(database.read)

        async def write(self, work: Any) -> Any:
            raise StorageTrouble("the disk is full")

        async def aclose(self) -> None: ...

    _put(home, "# mine\n")
    before = _files(home)
    with pytest.raises(StorageTrouble):
        await write(Full(), plan_of("nanobot", source, home, person="telegram:77"), PHRASE, NOW)
    assert {name: text for name, text in _files(home).items() if not name.endswith(".bak")} == before
    assert await _rows(database) == ([], [])


@pytest.mark.requirement("G-158")
@pytest.mark.parametrize("error", [UnicodeEncodeError("utf-8", "x", 0, 1, "half"), RuntimeError(), KeyboardInterrupt()])
async def test_whatever_fails_leaves_nothing(
    error: BaseException, database: Database, source: Path, home: Path
) -> None:
    class Failing:
        """A database that fails in a way that nobody has thought of."""

        dialect = database.dialect
        read = staticmethod(database.read)

        async def write(self, work: Any) -> Any:
            raise error

        async def aclose(self) -> None: ...

    with pytest.raises(type(error)):
        await write(Failing(), plan_of("nanobot", source, home, person="telegram:77"), PHRASE, NOW)
    assert _files(home) == {}
    assert not (home / "secrets").exists()


@pytest.mark.requirement("G-158")
async def test_a_text_without_bytes_leaves_no_file(database: Database, source: Path, home: Path) -> None:
    plan = plan_of("nanobot", source, home, person="telegram:77")
    plan.draft.text += "# \ud83d\n"
    with pytest.raises(ImportRefused, match="no form in UTF-8"):
        await _imported(database, plan)
    assert _files(home) == {}
    assert await _rows(database) == ([], [])


@pytest.mark.requirement("G-158")
async def test_a_secret_that_was_made_meanwhile_stays(database: Database, source: Path, home: Path) -> None:
    plan = plan_of("nanobot", source, home, person="telegram:77")
    (home / "secrets").mkdir(parents=True)
    (home / "secrets" / "telegram-token").write_text("mine")
    with pytest.raises(ImportRefused, match="secrets/telegram-token was made meanwhile"):
        await _imported(database, plan)
    assert _files(home) == {"secrets/telegram-token": b"mine"}


@pytest.mark.requirement("G-158", "G-159")
@pytest.mark.parametrize("program", ["openclaw", "hermes", "nanobot"])
async def test_half_an_emoji_is_replaced(database: Database, program: str, tmp_path: Path, home: Path) -> None:
    source = copy_of(program, tmp_path / "cut")
    half = "Look \\ud83d"
    for path in source.rglob("*.json"):
        path.write_text(path.read_text("utf-8").replace("Look at", half).replace('"Nano"', f'"{half}"'), "utf-8")
    if program == "hermes":
        with (source / "config.yaml").open("a") as config:
            config.write(f'timezone: "{half}"\n')
    if program == "openclaw":
        with closing(sqlite3.connect(source / "state" / "openclaw.sqlite")) as stored, stored:
            stored.execute(f"update cron_jobs set job_json = replace(job_json, 'Look at', '{half}')")
    await _imported(database, plan_of(program, source, home, person="telegram:77"))
    rows = await database.read(lambda conn: conn.execute(select(schedule.c.text)).scalars().all())
    assert program == "hermes" or "Look \ufffd the build." in rows


@pytest.mark.requirement("G-158")
async def test_a_file_that_cannot_be_written_leaves_nothing(database: Database, source: Path, home: Path) -> None:
    plan = plan_of("nanobot", source, home, person="telegram:77")
    _put(home, "# written meanwhile\n")
    with pytest.raises(ImportRefused, match="was changed meanwhile"):
        await _imported(database, plan)
    assert _files(home) == {"gateway.toml": b"# written meanwhile\n"}
    assert await _rows(database) == ([], [])


@pytest.mark.requirement("G-160")
async def test_secrets_are_files_for_their_owner_alone(database: Database, source: Path, home: Path) -> None:
    plan = plan_of("nanobot", source, home, person="telegram:77")
    await _imported(database, plan)
    folder = home / "secrets"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert (folder / "telegram-token").read_text() == f"{TELEGRAM}\n"
    assert TELEGRAM not in repr(plan)
    assert not any(TELEGRAM.encode() in text for name, text in _files(home).items() if not name.startswith("secrets"))


async def test_what_is_here_stays_as_it_is(database: Database, source: Path, home: Path) -> None:
    (home / "agents" / "nanobot").mkdir(parents=True)
    (home / "agents" / "nanobot" / "AGENT.md").write_text("---\nname: Mine\n---\nMine.")
    (home / "skills" / "weekly-report").mkdir(parents=True)
    (home / "skills" / "weekly-report" / "SKILL.md").write_text("Mine.")
    plan = plan_of("nanobot", source, home, person="telegram:77")
    assert [one.what for one in plan.differing] == ["character Nano (SOUL.md)"]
    assert "skills/weekly-report is here already and counts before it" in [one.why for one in plan.left]
    await _imported(database, plan)  # as with --keep
    assert (home / "agents" / "nanobot" / "AGENT.md").read_text() == "---\nname: Mine\n---\nMine."
    assert not (home / "skills" / "imported").exists()


async def test_a_paused_job_is_paused_and_a_taken_name_is_no_matter(
    database: Database, source: Path, home: Path
) -> None:
    def change(store: Any) -> None:
        for job in store["jobs"]:
            job["name"] = "morning"
        store["jobs"][0]["enabled"] = False

    change_json(source / "workspace" / "cron" / "jobs.json", change)
    await _imported(database, plan_of("nanobot", source, home, person="telegram:77"))
    _, jobs = await _rows(database)
    assert [(name, state) for _, name, _, state in jobs] == [
        ("morning", "paused"),
        ("morning (nanobot)", "active"),
        (None, "active"),
    ]


async def test_jobs_that_cannot_be_kept_are_told_of(database: Database, source: Path, home: Path) -> None:
    def change(store: Any) -> None:
        store["jobs"][0]["payload"]["message"] = "x" * 513
        store["jobs"][1]["schedule"]["atMs"] = 1_000
        store["jobs"][2]["schedule"]["everyMs"] = 2_000

    change_json(source / "workspace" / "cron" / "jobs.json", change)
    plan = plan_of("nanobot", source, home, person="telegram:77")
    found = await database.read(lambda conn: rows_of(conn, plan, PHRASE, NOW))
    assert found.jobs == []
    why = {one.what: one.why for one in [*plan.left, *found.left]}
    assert "513 characters" in why["schedule morning"]
    assert why["schedule passport"] == "its moment is past"
    assert "5" in why["schedule build"]


async def test_without_an_account_no_schedule_moves(database: Database, source: Path, home: Path) -> None:
    change_json(source / "config.json", lambda config: config["channels"]["telegram"].update(enabled=False))
    plan = plan_of("nanobot", source, home, person="telegram:77")
    found = await database.read(lambda conn: rows_of(conn, plan, PHRASE, NOW))
    assert {one.why for one in found.left} == {"no account here serves telegram:77"}


async def test_memory_that_is_switched_off_keeps_nothing(database: Database, source: Path, home: Path) -> None:
    _put(home, "[memory.recall]\nenabled = false\n")
    plan = plan_of("nanobot", source, home, person="telegram:77")
    found = await database.read(lambda conn: rows_of(conn, plan, PHRASE, NOW))
    assert found.notes == ()
    assert "switched off" in found.left[0].why


@pytest.mark.requirement("G-159")
async def test_a_link_in_the_way_is_not_followed(database: Database, source: Path, home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (home / "skills").mkdir(parents=True)
    os.symlink(elsewhere, home / "skills" / "imported")
    with pytest.raises(ImportRefused):
        await _imported(database, plan_of("nanobot", source, home, person="telegram:77"))
    assert list(elsewhere.iterdir()) == []
    assert not (home / "gateway.toml").exists()


@pytest.mark.requirement("G-157")
@pytest.mark.parametrize(("limit", "said"), [("per_conversation", "here"), ("per_person", "")])
async def test_limits_of_schedules_count_those_of_the_import(
    limit: str, said: str, database: Database, source: Path, home: Path
) -> None:
    _put(home, f"[scheduler]\n{limit} = 2\n")
    plan = plan_of("nanobot", source, home, person="telegram:77")
    for found in (rows_of(None, plan, PHRASE, NOW), await _imported(database, plan)):
        assert [job.name for job, _ in found.jobs] == ["morning", "passport"]
        (left,) = found.left
        assert left.what == "schedule build"
        assert "2" in left.why
    assert len((await _rows(database))[1]) == 2


@pytest.mark.requirement("G-157")
async def test_two_jobs_with_one_id_are_two(database: Database, source: Path, home: Path) -> None:
    def change(store: Any) -> None:
        for job in store["jobs"]:
            job["id"] = 7

    change_json(source / "workspace" / "cron" / "jobs.json", change)
    await _imported(database, plan_of("nanobot", source, home, person="telegram:77"))
    assert len((await _rows(database))[1]) == 3
    again = await _imported(database, plan_of("nanobot", source, home, person="telegram:77"))
    assert again.jobs == []


@pytest.mark.requirement("G-157", "G-159")
async def test_a_script_stays_a_program_for_its_owner(database: Database, source: Path, home: Path) -> None:
    (source / "workspace" / "skills" / "weekly-report" / "scripts" / "figures.sh").chmod(0o755)
    (source.parent / "data").mkdir()
    os.symlink(source.parent / "data", home)
    await _imported(database, plan_of("nanobot", source, home, person="telegram:77"))
    folder = home / "skills" / "imported" / "weekly-report"
    assert stat.S_IMODE((folder / "scripts" / "figures.sh").stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "SKILL.md").stat().st_mode) == 0o600


@pytest.mark.requirement("G-159")
def test_skills_that_are_a_link_are_refused_in_words(source: Path, home: Path, tmp_path: Path) -> None:
    home.mkdir()
    (home / "skills").symlink_to(tmp_path)
    with pytest.raises(ImportRefused, match="symbolic link"):
        plan_of("nanobot", source, home, person="telegram:77")
