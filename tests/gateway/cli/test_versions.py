"""Another version than the installed one: it has written the database, or it still runs."""

import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread
from click.testing import Result

from gateway.storage.repair import SCHEMA
from gateway.web.control import Control, Json, Operation
from tests.fakes.running import running
from tests.gateway.cli.conftest import Tieline

HERE = version("tieline")
OLDER = "0015_forgetting"
FINE: Mapping[str, Any] = {
    "headline": "All is well", "ready": True, "reasons": [], "attention": [], "provider": "demo", "accounts": {},
    "figures": [],
}  # fmt: skip


@pytest.fixture
def made(tieline: Tieline) -> None:
    """The database is there."""
    tieline("doctor", "--fix", "--offline")


def stamp(home: Path, revision: str) -> None:
    with closing(sqlite3.connect(home / "tieline.db")) as database:
        database.execute("update alembic_version set version_num = ?", [revision])
        database.commit()


async def beside(home: Path, operations: Mapping[str, Operation], tieline: Tieline, *args: str) -> Result:
    """A command beside a gateway that knows these operations."""
    control = Control(home, operations)
    control.bind()
    async with running(control.run):
        return await to_thread.run_sync(lambda: tieline(*args))


def answering(answer: Json) -> Operation:
    async def operation(_: Mapping[str, Json]) -> Json:
        return answer

    return operation


@pytest.mark.usefixtures("made")
def test_the_doctor_refuses_a_database_of_a_newer_version_as_a_start_does(tieline: Tieline, home: Path) -> None:
    stamp(home, "0099_future")
    ran = tieline("doctor", "--offline")
    assert ran.exit_code == 1
    assert "✗ database: the database was written by a newer Tieline (revision 0099_future" in ran.stdout
    assert "install that version again" in ran.stdout
    assert f"copies are in {home / 'backups'}" in ran.stdout
    assert "will be migrated" not in ran.stdout
    mended = tieline("doctor", "--offline", "--fix").stdout
    assert "✗ not mended: the database was written by a newer Tieline" in mended


@pytest.mark.usefixtures("made")
def test_the_doctor_says_how_a_database_between_two_revisions_is_brought_up_to_date(
    tieline: Tieline, home: Path
) -> None:
    stamp(home, "0018_models")
    ran = tieline("doctor", "--offline")
    assert ran.exit_code == 1
    assert "✗ database: the database is of an older Tieline (revision 0018_models)" in ran.stdout
    assert "start it once with the program of commit f855fe18" in ran.stdout
    assert "copies are in" not in ran.stdout, "a copy of that revision would be of no more use"
    mended = tieline("doctor", "--offline", "--fix").stdout
    assert "✗ not mended: the database is of an older Tieline" in mended


@pytest.mark.usefixtures("made")
def test_the_copy_that_the_newer_version_made_is_named(tieline: Tieline, home: Path) -> None:
    (home / "backups").mkdir(exist_ok=True)
    copy = home / "backups" / f"tieline-{SCHEMA.head}.db"
    shutil.copyfile(home / "tieline.db", copy)
    stamp(home, "0099_future")
    assert f"restore {copy} --home {home}`" in tieline("doctor", "--offline").stdout
    assert tieline("restore", str(copy)).exit_code == 0
    assert "✓ database: there and up to date" in tieline("doctor", "--offline").stdout


@pytest.mark.usefixtures("made")
def test_a_database_of_an_older_version_will_be_migrated(tieline: Tieline, home: Path) -> None:
    stamp(home, OLDER)
    ran = tieline("doctor", "--offline")
    assert (ran.exit_code, "✓ database: will be migrated at the next start" in ran.stdout) == (0, True)


@pytest.mark.usefixtures("made")
async def test_the_doctor_tells_of_an_older_gateway_that_runs(tieline: Tieline, home: Path) -> None:
    stamp(home, OLDER)
    older = {"version": answering("0.0.9"), "status": answering({**FINE, "version": "0.0.9"})}
    ran = await beside(home, older, tieline, "doctor", "--offline")
    assert f"! gateway: version: Tieline 0.0.9 runs, {HERE} is installed\n    → restart the gateway" in ran.stdout
    assert "! database: held by a running gateway of an older version, and will be migrated" in ran.stdout
    assert "busy" not in ran.stdout


@pytest.mark.usefixtures("made")
async def test_an_operation_that_an_older_gateway_lacks_is_no_start_of_it(tieline: Tieline, home: Path) -> None:
    older = {"version": answering("0.0.9")}
    ran = await beside(home, older, tieline, "doctor", "--offline")
    said = f"Tieline 0.0.9 runs, {HERE} is installed: it knows no operation 'status'"
    assert f"! gateway: runs; {said}\n    → restart the gateway" in ran.stdout
    assert "busy" not in ran.stdout
    for command in ("status", "inbox"):
        ran = await beside(home, older, tieline, command)
        assert ran.exit_code == 1
        assert f"Tieline 0.0.9 runs, {HERE} is installed: it knows no operation" in ran.stderr
        assert "restart the gateway" in ran.stderr


async def test_status_tells_of_another_version(tieline: Tieline, home: Path) -> None:
    said = f"  version: Tieline 0.0.9 runs, {HERE} is installed\n    → restart the gateway\n"
    for running_version, is_told in (("0.0.9", True), (HERE, False)):
        status = {"status": answering({**FINE, "version": running_version})}
        ran = await beside(home, status, tieline, "status")
        assert ran.exit_code == 0, "it serves"
        assert (said in ran.stdout) is is_told


@pytest.mark.usefixtures("made")
async def test_beside_a_gateway_of_this_version_nothing_is_said_of_versions(tieline: Tieline, home: Path) -> None:
    same = {"version": answering(HERE), "status": answering({**FINE, "version": HERE})}
    ran = await beside(home, same, tieline, "doctor", "--offline")
    assert "✓ gateway: runs, and all is well" in ran.stdout
    assert "✓ database: held by the running gateway" in ran.stdout
