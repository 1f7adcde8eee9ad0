"""`tieline migrate`: what it says, what it refuses, and that it may be killed at any moment."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Engine, inspect, make_url, text

from agent.core.failpoints import ENVIRONMENT
from agent.storage import migrate
from agent.storage.connect import State, create, state_of
from agent.storage.copies.transfer import BATCH
from agent.storage.sqlite import OwnerLock
from gateway.storage.repair import SCHEMA
from tests.gateway.cli.conftest import Tieline
from tests.upgrade.fixture import Fixture
from tests.upgrade.moved import COMMIT, at_head, change, here, many, rows_of

DEATHS = (
    "transfer.within:1",
    "transfer.after:4",
    "transfer.within:20",
    "transfer.after:2",
    "transfer.verified",
    "transfer.finish",
)
PATIENCE_S = 60


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = at_head(tmp_path_factory.mktemp("h"))
    (home / "gateway.toml").write_text("")
    return home


def secret(home: Path, target: str) -> str:
    """Put the address into a file of the data directory, with a password that a local server does not ask for."""
    (home / "secrets").mkdir(mode=0o700, exist_ok=True)
    address = make_url(target).set(password="hidden").render_as_string(hide_password=False)
    (home / "secrets" / "database").write_text(address + "\n")
    (home / "secrets" / "database").chmod(0o600)
    return "file:secrets/database"


@pytest.mark.requirement("G-154")
def test_it_copies_tells_what_it_compared_and_what_to_change(tieline: Tieline, home: Path, target: str) -> None:
    change(home, "INSERT INTO guideline VALUES ('telegram:1', '', 'a' || char(0), 1)", "CREATE TABLE mine (id INT)")
    ran = tieline("migrate", "--to", secret(home, target), config="")
    assert (ran.exit_code, ran.stderr) == (0, ""), ran.output
    inbox = re.search(r"^inbox +(\d+) +(\w{12}) +(\w{12}) +equal$", ran.stdout, re.MULTILINE)
    assert inbox
    assert int(inbox[1]) == len(here(home)["inbox"])
    assert inbox[2] == inbox[3]
    assert re.search(r"\n\d+ tables with rows, \d+ without\.\n", ran.stdout)
    assert "U+FFFD stands for them there: guideline 1." in ran.stdout
    assert "Not copied, since they are not Tieline's: mine." in ran.stdout
    assert f"holds all that {home / 'tieline.db'} holds." in ran.stdout
    assert '    [database]\n    url = "file:secrets/database"\n' in ran.stdout
    assert f"The way back: stop the gateway and let url name the old file again, {home / 'tieline.db'}" in ran.stdout
    assert "hidden" not in ran.output
    again = tieline("migrate", "--to", "file:secrets/database")
    assert again.exit_code == 0, again.output
    assert "was filled from" in again.stdout
    assert 'url = "file:secrets/database"' in again.stdout


@pytest.mark.parametrize("way", ["the address", "env:NAME"])
def test_an_address_with_a_password_is_not_shown(way: str, tieline: Tieline, home: Path, target: str) -> None:
    secret(home, target)
    address = (home / "secrets" / "database").read_text().strip()
    to = address if way == "the address" else "env:MOVE_TO"
    ran = tieline("migrate", "--to", to, config="", MOVE_TO=address)
    assert ran.exit_code == 0, ran.output
    assert "hidden" not in ran.output
    proposed = "file:secrets/database" if way == "the address" else "env:MOVE_TO"
    assert f'url = "{proposed}"' in ran.stdout
    assert ("secrets/database in the data directory, mode 0600, holds the address" in ran.stdout) is (to == address)


def test_an_address_without_a_password_is_what_to_write(tieline: Tieline, home: Path, target: str) -> None:
    address = re.sub(r":@", "@", target)
    ran = tieline("migrate", "--to", address, config="")
    assert ran.exit_code == 0, ran.output
    assert f'url = "{address}"' in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        pytest.param([], 2, "give either --to URL or --check", id="nothing"),
        pytest.param(["--to", "postgresql://h/x", "--check"], 2, "give either --to URL or --check", id="both"),
        pytest.param(["--to", "x"], 1, "--to names no address of a database", id="no address"),
        pytest.param(["--to", "env:NOT_SET"], 78, "the environment variable NOT_SET is not set", id="no variable"),
        pytest.param(["--to", "file:secrets/none"], 78, "cannot read", id="no file"),
        pytest.param(["--to", "mysql://h/x"], 1, "names 'mysql', which is not supported", id="another server"),
        pytest.param(["--to", "sqlite:///x.db"], 1, "--to names a file", id="a file"),
        pytest.param(["--to", "mysql://h/x"], 1, "--to names 'mysql'", id="the option and not a setting"),
        pytest.param(["--to", "env:WRONG"], 1, "--to env:WRONG holds an address that cannot be read", id="a port"),
        pytest.param(["--to", "env:A_FILE"], 1, "--to env:A_FILE names a file", id="a file with a host"),
    ],
)
def test_what_is_no_target_is_refused(arguments: list[str], code: int, said: str, tieline: Tieline, home: Path) -> None:
    wrong = {"WRONG": "postgresql://me:hidden@h:port/x", "A_FILE": "sqlite://me:hidden@h/x"}
    ran = tieline("migrate", *arguments, config="", **wrong)
    assert ran.exit_code == code, ran.output
    assert said in ran.stderr
    assert "hidden" not in ran.output
    assert "database.url" not in ran.output


@pytest.mark.requirement("G-155")
def test_a_row_that_the_server_does_not_take_is_named_without_its_words(
    tieline: Tieline, home: Path, target: str
) -> None:
    change(
        home,
        "INSERT INTO guideline VALUES ('telegram:7' || char(0), '', 'secret words', 1)",
        "INSERT INTO guideline VALUES ('telegram:7' || char(65533), '', 'secret words', 1)",
    )
    ran = tieline("migrate", "--to", target, config="")
    assert ran.exit_code == 1, ran.output
    assert "the server does not take a row of guideline, by its rule " in ran.stderr
    assert "correct or remove the row in SQLite" in ran.stderr
    assert "telegram:7" not in ran.output
    assert "secret words" not in ran.output
    change(home, "DELETE FROM guideline WHERE conv = 'telegram:7' || char(0)")
    again = tieline("migrate", "--to", target)
    assert again.exit_code == 0, again.output


@pytest.mark.requirement("G-155")
def test_while_a_gateway_runs_nothing_is_copied(tieline: Tieline, home: Path, target: str, there: Engine) -> None:
    lock = OwnerLock.take(home / "tieline.db.lock")
    ran = tieline("migrate", "--to", target, config="")
    lock.release()
    assert ran.exit_code == 1, ran.output
    assert "is in use by process" in ran.stderr
    assert inspect(there).get_table_names() == []


@pytest.mark.requirement("G-155")
def test_where_the_rows_differ_it_fails_and_names_the_table(
    tieline: Tieline, home: Path, target: str, there: Engine
) -> None:
    died = killed(home, target, "transfer.verified")
    assert died == -signal.SIGKILL
    with there.begin() as conn:
        conn.execute(text("UPDATE session SET title = title || '.'"))
        conn.execute(text("UPDATE database_transfer SET state = 'copying' WHERE name = ''"))
    ran = tieline("migrate", "--to", target, config="")
    assert ran.exit_code == 1, ran.output
    assert re.search(r"^session +\d+ +(\w{12}) +(?!\1)\w{12} +DIFFERS$", ran.stdout, re.MULTILINE)
    assert ran.stderr.startswith("session: postgresql://")
    assert "Name an empty database and copy once more. The old one is as it was." in ran.stderr
    with there.connect() as conn:
        assert state_of(conn, SCHEMA) is State.FOREIGN


def killed(home: Path, target: str, point: str) -> int:
    """The exit code of a copy that is killed at a point, in a process of its own."""
    crash = home / "crash"
    crash.write_text(point)
    environ = {"PATH": os.environ["PATH"], "TIELINE_HOME": str(home), ENVIRONMENT: str(crash)}
    command = [sys.executable, "-m", "gateway", "migrate", "--to", target]
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert not crash.exists(), f"{point} was not passed: {ran.stdout}{ran.stderr}"
    return ran.returncode


def test_a_terminal_shows_how_far_it_has_come(home: Path, target: str) -> None:
    shown, terminal = os.openpty()
    environ = {"PATH": os.environ["PATH"], "TIELINE_HOME": str(home)}
    command = [sys.executable, "-m", "gateway", "migrate", "--to", target]
    with subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=terminal) as running:
        os.close(terminal)
        pieces = []
        try:
            while piece := os.read(shown, 65_536):
                pieces.append(piece)
        except OSError:  # the other side of a terminal is gone
            pass
        assert running.wait(PATIENCE_S) == 0
    os.close(shown)
    lines = [line.strip() for line in b"".join(pieces).decode().split("\r")]
    inbox = len(here(home)["inbox"])
    assert f"copying inbox: {inbox} of {inbox}" in lines
    assert f"comparing inbox: {inbox} of {inbox}" in lines
    assert lines[-1] == "", "the line is cleared for what comes after"


@pytest.mark.requirement("G-155")
def test_killed_at_any_point_the_same_command_goes_on(tieline: Tieline, home: Path, target: str, there: Engine) -> None:
    change(home, "DELETE FROM channel_setting")
    many(home, 3 * BATCH)
    before = here(home)
    copied = -1
    for point in DEATHS:
        assert killed(home, target, point) == -signal.SIGKILL
        with there.connect() as conn:
            assert state_of(conn, SCHEMA) is State.FOREIGN, point
            rows = conn.execute(text("SELECT sum(rows) FROM database_transfer")).scalar_one()
        assert int(rows) >= copied, "nothing that was stored is copied again"
        copied = int(rows)
    refused = tieline("dead", "list", config=f'[database]\nurl = "{target}"\n')
    assert refused.exit_code == 1, refused.output
    assert "does not hold all of the former database yet: give `" in refused.stderr
    assert tieline("migrate", "--to", target, config="").exit_code == 0
    assert rows_of(there) == before
    with there.connect() as conn:
        assert state_of(conn, SCHEMA) is State.CURRENT


@pytest.mark.requirement("G-155")
def test_the_copy_of_an_older_database_that_a_kill_leaves_is_made_anew_and_removed(
    tieline: Tieline, home: Path, target: str, there: Engine
) -> None:
    (home / "tieline.db").unlink()
    Fixture(COMMIT, "sqlite").lay_out(home, None)
    (home / "gateway.toml").write_text("")
    copy = home / ".tieline.db.transfer"
    assert killed(home, target, "transfer.within:9") == -signal.SIGKILL
    assert copy.exists()
    tieline("doctor", "--fix", "--offline")
    assert not copy.exists()
    assert killed(home, target, "transfer.after:9") == -signal.SIGKILL
    ran = tieline("migrate", "--to", target)
    assert ran.exit_code == 0, ran.output
    assert "copied anew" not in ran.stdout, "the same migrations make the same rows"
    assert not list(home.glob(".tieline.db*"))
    assert len(rows_of(there)["inbox"]) == len(here(home)["inbox"]) > 0


# Rolling upgrades

PROCESS = "CREATE TABLE process (id TEXT PRIMARY KEY, version TEXT NOT NULL, ended_at BIGINT)"
EXPANDING, CONTRACTING = "0041_spending", "0031_expiry"  # revisions behind which migrations of one kind, or both, wait


def standing_at(engine: Engine, revision: str) -> None:
    """Let the database be of an older version."""
    with engine.begin() as conn:
        migrate.upgrade(conn, SCHEMA.migrations, revision)


@pytest.mark.requirement("G-156")
def test_migrations_that_only_expand_allow_a_rolling_upgrade(tieline: Tieline, target: str, there: Engine) -> None:
    standing_at(there, EXPANDING)
    ran = tieline("migrate", "--check", config=f'[database]\nurl = "{target}"\n')
    assert ran.exit_code == 0, ran.output
    assert f"✓ database: of revision {EXPANDING}: 6 migrations will run" in ran.stdout
    assert "✓ migration 0042_alerts: expand: old processes can run beside it. Table of alerts" in ran.stdout
    assert "✓ processes: are not registered in this database" in ran.stdout
    assert ran.stdout.endswith("Old and new processes may run side by side. Nothing was changed.\n")
    with there.connect() as conn:
        assert conn.execute(text("SELECT version_num FROM alembic_version")).scalar_one() == EXPANDING


@pytest.mark.requirement("G-156")
@pytest.mark.parametrize(
    ("version", "ended", "code", "said"),
    [
        pytest.param(None, None, 1, "processes: are not registered", id="nobody tells who runs"),
        pytest.param("0.0.1", None, 1, "processes: of other versions than", id="an old process runs"),
        pytest.param("0.0.1", 5, 0, "processes: none of another version", id="the old process has ended"),
    ],
)
def test_a_migration_that_contracts_waits_for_old_processes_to_end(
    version: str | None, ended: int | None, code: int, said: str, tieline: Tieline, target: str, there: Engine
) -> None:
    standing_at(there, CONTRACTING)
    if version is not None:
        with there.begin() as conn:
            conn.execute(text(PROCESS))
            values = {"version": version, "ended": ended}
            conn.execute(text("INSERT INTO process VALUES ('a', :version, :ended)"), values)
    ran = tieline("migrate", "--check", config=f'[database]\nurl = "{target}"\n')
    assert ran.exit_code == code, ran.output
    mark = "✗" if code else "✓"
    assert f"{mark} migration 0032_places: contract: no old process may run" in ran.stdout
    assert "✓ migration 0033_models: expand" in ran.stdout
    assert said in ran.stdout
    assert ("No rolling upgrade: stop all old processes first." in ran.stdout) is bool(code)


@pytest.mark.requirement("G-156")
def test_where_nothing_is_migrated_or_made_yet_a_rolling_upgrade_is_safe(
    tieline: Tieline, target: str, there: Engine
) -> None:
    ran = tieline("migrate", "--check", config=f'[database]\nurl = "{target}"\n')
    assert (ran.exit_code, "will be made at the first start" in ran.stdout) == (0, True), ran.output
    with there.begin() as conn:
        create(conn, SCHEMA)
    ran = tieline("migrate", "--check")
    assert (ran.exit_code, "nothing is migrated" in ran.stdout) == (0, True), ran.output


@pytest.mark.requirement("G-156")
def test_sqlite_has_no_rolling_upgrade(tieline: Tieline, home: Path) -> None:
    ran = tieline("migrate", "--check", config="")
    assert ran.exit_code == 1, ran.output
    assert "✗ database: SQLite belongs to one process, so none can run beside it" in ran.stdout


@pytest.mark.requirement("G-156")
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        pytest.param("CREATE TABLE invoices (id INT)", "holds tables that are not ours", id="tables of others"),
        pytest.param(
            "CREATE TABLE alembic_version AS SELECT '0099_future' AS version_num",
            "written by a newer Tieline",
            id="a newer revision",
        ),
    ],
)
def test_what_cannot_be_judged_has_a_code_of_its_own(
    statement: str, said: str, tieline: Tieline, target: str, there: Engine
) -> None:
    with there.begin() as conn:
        conn.execute(text(statement))
    ran = tieline("migrate", "--check", config=f'[database]\nurl = "{target}"\n')
    assert ran.exit_code == 2, ran.output
    assert said in ran.stderr


def test_a_mistake_in_the_configuration_or_a_server_that_is_away_has_that_code_too(tieline: Tieline) -> None:
    assert tieline("migrate", "--check", config="[database]\nurl = 5\n").exit_code == 2
    ran = tieline("migrate", "--check", config='[database]\nurl = "postgresql://a:hidden@127.0.0.1:1/x"\n')
    assert (ran.exit_code, "hidden" in ran.output) == (2, False), ran.output
