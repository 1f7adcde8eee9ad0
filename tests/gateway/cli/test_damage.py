"""A database with damaged pages: every command says so in one line, with the way back."""

from pathlib import Path

import aiohttp
import anyio
import pytest

from agent.storage.errors import DatabaseDamaged
from gateway.storage.repair import open_database
from tests.fakes.damage import damage
from tests.gateway.cli.conftest import Tieline
from tests.program.running import Program

FILE = "tieline.db"


@pytest.fixture
def made(tieline: Tieline) -> None:
    """The database is there."""
    tieline("doctor", "--fix", "--offline")


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(
    ("args", "table"),
    [
        (["inbox"], "inbox"),
        (["inbox", "retry", "1"], "inbox"),
        (["outbox"], "outbox"),
        (["outbox", "drop", "1"], "outbox"),
        (["dead"], "inbox"),
        (["find", "60db5234"], "inbox"),
        (["misses"], "skill_outcomes"),
        (["audit"], "tool_call"),
        (["usage"], "usage"),
        (["export", "telegram:1"], "conversation"),
        (["pair", "list"], "pairing"),
        (["pair", "approve", "AAAA2222"], "pairing"),
        (["pair", "approve", "telegram:77", "--admin"], "access_grant"),
    ],
    ids=lambda given: given if isinstance(given, str) else " ".join(given),
)
def test_a_command_that_meets_damage_says_so_in_one_line(
    tieline: Tieline, home: Path, args: list[str], table: str
) -> None:
    damage(home / FILE, table, *(["outbox", "conversation"] if args == ["dead"] else []))
    ran = tieline(*args)
    assert (ran.exit_code, ran.stdout) == (1, "")
    (line,) = ran.stderr.splitlines()
    assert line.startswith(f"{home / FILE} is damaged")
    assert f"restore FILE --home {home}`" in line


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("table", ["inbox", "message"])
def test_the_doctor_tells_of_damage_and_goes_on(tieline: Tieline, home: Path, table: str) -> None:
    """`message`: a table that no other check of the doctor reads."""
    damage(home / FILE, table)
    ran = tieline("doctor", "--offline")
    assert ran.exit_code == 1
    assert f"✗ database: {home / FILE} is damaged" in ran.stdout
    assert f"restore FILE --home {home}`" in ran.stdout
    assert "✓ data directory" in ran.stdout
    assert "✓ web pages" in ran.stdout, "what comes after the database is looked at as well"


@pytest.mark.usefixtures("made")
def test_what_the_doctor_has_mended_is_told_although_the_database_is_damaged(tieline: Tieline, home: Path) -> None:
    damage(home / FILE, "inbox")
    (home / "backups").mkdir(exist_ok=True)
    (home / "backups").chmod(0o755)
    ran = tieline("doctor", "--offline", "--fix")
    assert ran.exit_code == 1
    assert f"⚒ {home / 'backups'} is for this account alone" in ran.stdout
    assert f"✗ not mended: {home / FILE} is damaged" in ran.stdout
    assert "✓ web pages" in ran.stdout


@pytest.mark.usefixtures("made")
def test_a_backup_takes_the_place_of_a_damaged_database(tieline: Tieline, home: Path) -> None:
    assert tieline("backup", str(home / "copy.db")).exit_code == 0
    damage(home / FILE, "inbox")
    ran = tieline("restore", str(home / "copy.db"))
    assert ran.exit_code == 0, ran.output
    assert tieline("inbox").stdout == "No message waits.\n"


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("args", [["status"], ["sign-in"]])
def test_where_no_gateway_runs_the_command_that_starts_this_one_is_told(
    tieline: Tieline, home: Path, args: list[str]
) -> None:
    ran = tieline(*args)
    assert ran.exit_code == 1
    assert f" run --home {home}`" in ran.stderr


@pytest.mark.usefixtures("made")
def test_a_backup_of_another_data_directory_is_not_restored_unasked(
    tieline: Tieline, home: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    assert tieline("doctor", "--fix", "--offline", "--home", str(other)).exit_code == 0
    copy = other / "backups" / "copy.db"
    copy.parent.mkdir(exist_ok=True)
    assert tieline("backup", str(copy), "--home", str(other)).exit_code == 0
    before = (home / FILE).read_bytes()
    ran = tieline("restore", str(copy))
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert f"{copy} is a backup of the data directory {other}" in ran.stderr
    assert f"give --home {other}" in ran.stderr
    assert "--yes" in ran.stderr
    assert (home / FILE).read_bytes() == before
    assert tieline("restore", str(copy), "--home", str(other)).exit_code == 0, "its own"
    assert tieline("restore", str(copy), "--yes").exit_code == 0


@pytest.mark.usefixtures("made")
def test_a_folder_called_backups_is_no_data_directory(tieline: Tieline, tmp_path: Path) -> None:
    copy = tmp_path / "backups" / "copy.db"
    copy.parent.mkdir()
    assert tieline("backup", str(copy)).exit_code == 0
    assert tieline("restore", str(copy)).exit_code == 0


@pytest.mark.parametrize("table", [pytest.param("goal", marks=pytest.mark.slow), "inbox"])
async def test_a_start_on_a_damaged_database_ends_with_one_line(home: Path, table: str) -> None:
    tieline = Program(home, "")
    assert (await tieline.cli("doctor", "--fix", "--offline")).returncode == 0
    damage(home / FILE, table)
    ran = await tieline.cli("run")
    assert ran.returncode == 1
    (line,) = [line for line in ran.stderr.splitlines() if not line.startswith("{")]
    assert line.startswith("tieline has ended: ")
    assert f"{home / FILE} is damaged" in line
    assert f"restore FILE --home {home}`" in line
    assert "Traceback" not in ran.stdout + ran.stderr


@pytest.mark.slow  # a program and two commands beside it
async def test_beside_a_gateway_that_met_damage_every_command_tells_of_it(home: Path) -> None:
    """Damage to what no start reads: chats go on, and the operator is told."""
    tieline = Program(home, "")
    assert (await tieline.cli("doctor", "--fix", "--offline")).returncode == 0
    damage(home / FILE, "tool_call")
    async with tieline:
        ran = await tieline.cli("audit")
        assert (ran.returncode, ran.stdout) == (1, "")
        (line,) = ran.stderr.splitlines()
        assert line.startswith(f"{home / FILE} is damaged")
        status = await tieline.cli("status")
        assert status.returncode == 1
        assert f"{home / FILE} is damaged" in status.stdout
        assert status.stdout.count(f"restore FILE --home {home}`") == status.stdout.count("restore FILE") > 0
        async with aiohttp.ClientSession() as client, client.get(f"{tieline.url}/readyz") as answer:
            told = await answer.text()
        assert told.count(f"restore FILE --home {home}`") == told.count("restore FILE") > 0


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("beside", ["backups/tieline-2026.db", "workspaces/telegram-1", "files/photo.png"])
def test_an_emptied_database_is_not_taken_for_a_new_one(tieline: Tieline, home: Path, beside: str) -> None:
    (home / beside).parent.mkdir(exist_ok=True)
    (home / beside).write_bytes(b"x")
    for left in home.glob(f"{FILE}*"):
        left.unlink()
    (home / FILE).touch()
    ran = tieline("doctor", "--offline")
    assert ran.exit_code == 1
    assert f"✗ database: {home / FILE} is damaged or no SQLite database (the file is empty)" in ran.stdout
    assert "will be made" not in ran.stdout
    with pytest.raises(DatabaseDamaged, match="restore FILE"):
        anyio.run(open_database, f"sqlite:///{FILE}", home)
    assert (home / FILE).stat().st_size == 0, "nothing is made in its place"


async def test_an_empty_file_beside_nothing_is_a_start_that_was_killed(home: Path) -> None:
    (home / FILE).touch()
    await (await open_database(f"sqlite:///{FILE}", home)).aclose()
    assert (home / FILE).stat().st_size > 0
