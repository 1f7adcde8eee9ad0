"""The fixtures beside this file: where they are, and how one is laid out as a home and a database that can be started.

Each is a folder named after the commit whose program made it (`make.py`), with a half for each database.
"""

import gzip
import itertools
import shutil
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

from sqlalchemy import Engine, text

from tests.doubles.limits import raised_limits
from tests.program.doubles import TELEGRAM_TOKEN, Doubles
from tests.program.people import GROUP
from tests.upgrade.home import CHATS

HERE = Path(__file__).parent
KINDS = ("sqlite", "postgresql")
WIDTHS = {"08a01c2": 64}  # numbers of a vector, where the model double gave fewer at that time
AHEAD = (
    1_000_000  # the numbers of a platform go on where they were, so those of new updates are far beyond the kept ones
)


@dataclass(frozen=True, slots=True)
class Fixture:
    """One half of a kept state: `commit` made it, on the database `kind`."""

    commit: str
    kind: str

    @property
    def folder(self) -> Path:
        return HERE / self.commit / self.kind

    @property
    def config(self) -> str:
        return (self.folder / "home" / "gateway.toml").read_text("utf-8")

    def lay_out(self, home: Path, database: str | None) -> None:
        """Make `home` what it was; and the database, which is empty yet where `database` is its address."""
        shutil.copytree(self.folder / "home", home, dirs_exist_ok=True)
        home.chmod(0o700)
        if database is None:
            (home / "tieline.db").write_bytes(gzip.decompress((self.folder / "tieline.db.gz").read_bytes()))
        else:
            _load(gzip.decompress((self.folder / "dump.sql.gz").read_bytes()).decode(), database)

    def backup(self, to: Path) -> Path:
        """The backup that `tieline backup` of that commit wrote."""
        to.write_bytes(gzip.decompress((self.folder / "backup.db.gz").read_bytes()))
        return to


def fixtures() -> Sequence[Fixture]:
    """All there are, oldest name first."""
    commits = sorted(folder.parent.name for folder in HERE.glob("*/sqlite"))
    return [Fixture(commit, kind) for commit in commits for kind in KINDS]


def _load(dump: str, database: str) -> None:
    """Play a plain dump in. The settings of a session at its head are for `psql` and for the server that wrote it."""
    head, create, tables = dump.partition("CREATE ")
    kept = [line for line in head.splitlines() if not line.startswith(("SET ", "SELECT ", "\\"))]
    body = [line for line in (create + tables).splitlines() if not line.startswith(("\\unrestrict", "SET default_"))]
    with import_module("psycopg").connect(database, autocommit=True) as conn:
        conn.execute("\n".join([*kept, *body]).encode())


def still_open(engine: Engine) -> None:
    """Let questions and requests be an hour old, however old the fixture is: none of them waits for more than a day."""
    now = int(datetime.now(UTC).timestamp() * 1e6)
    hour = {"made": now - 3600 * 10**6, "ends": now + 3600 * 10**6}
    with engine.begin() as conn:
        for statement in (
            "update approval set created_at = :made, expires_at = :ends where status = 'pending'",
            "update pairing set created_at = :made, expires_at = :ends",
            "update pairing_attempt set at = :made",
        ):
            conn.execute(text(statement), {key: hour[key] for key in hour if f":{key}" in statement})


async def go_on(doubles: Doubles, commit: str) -> None:
    """Let the platforms be those of the fixture, as far as it matters: they know the chats, and their numbers go on."""
    for double in (doubles.telegram, doubles.discord, doubles.slack):
        await double.post("settings", raised_limits())
    if commit in WIDTHS:
        await doubles.llm.post("settings", {"vector": WIDTHS[commit]})
    bot = doubles.telegram.double.bot(TELEGRAM_TOKEN)
    bot.next_update, bot.next_message = AHEAD, defaultdict(lambda: AHEAD)
    doubles.slack.double.ids = itertools.count(AHEAD)
    for chat in ({"id": 77, "type": "private", "first_name": "Ann"}, GROUP, *CHATS):
        await doubles.telegram.post("chats", {"chat": chat})
