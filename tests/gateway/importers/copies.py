"""Copies of the kept homes that a test may change, and the plan of their import."""

import json
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gateway.importers.plan import Planned, planned

HOMES = Path(__file__).parent / "homes"
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
TELEGRAM = "1234567:AAfixture-of-a-telegram-token-000000"
DISCORD = "MTIzNDU2Nzg5MDEyMzQ1Njc4.GfIxTu.fixture-of-a-discord-token-000000000000"


def copy_of(program: str, folder: Path) -> Path:
    """The home of that program, below the folder; OpenClaw's database is made of its text."""
    home = folder / f".{program}"
    shutil.copytree(HOMES / program, home)
    text = home / "state" / "openclaw.sql"
    if text.exists():
        with closing(sqlite3.connect(text.with_suffix(".sqlite"))) as database:
            database.executescript(text.read_text("utf-8"))
        text.unlink()
    return home


def change_json(path: Path, change: Callable[[Any], None]) -> None:
    """Change the value in a JSON file."""
    value = json.loads(path.read_text("utf-8"))
    change(value)
    path.write_text(json.dumps(value), "utf-8")


def plan_of(
    program: str, source: Path, home: Path, *, person: str = "", environ: Mapping[str, str] | None = None
) -> Planned:
    """The plan to move the home `source` into the data directory `home`."""
    return planned(
        program, source, file=home / "gateway.toml", home=home, environ=environ or {}, person=person, now=NOW
    )
