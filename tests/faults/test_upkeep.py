"""Retention on the running program: what is old goes by itself, what is open or young stays; people notice nothing."""

import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.faults.test_storage import on_telegram
from tests.program.doubles import until

DAY_S = 24 * 3600.0
RETENTION = "[retention]\ninbox_days = 2\noutbox_days = 2\nattachment_days = 2\noutput_days = 2\nbackups = 2\n"
OLD = ("files/telegram_1/0-a.txt", "exports/all.jsonl", "backups/tieline-20250101-000000.db")
KEPT = (
    "files/telegram_2/0-b.txt",
    "backups/tieline-20250102-000000.db",
    "backups/tieline-20250103-000000.db",
    "backups/tieline-0001_initial.db",
)


def sql(home: Path, query: str) -> Sequence[tuple[Any, ...]]:
    with closing(sqlite3.connect(home / "tieline.db", timeout=20)) as database:
        found = database.execute(query).fetchall()
        database.commit()
        return found


def laid_down(home: Path) -> None:
    """Files as days of work leave them."""
    for number, name in enumerate((*OLD, *KEPT)):
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        old = name in OLD or "backups" in name
        at = time.time() - (5 * DAY_S - number if old else 3600.0)
        os.utime(path, (at, at))


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_what_is_old_goes_while_people_talk(tmp_path: Path) -> None:
    home = tmp_path / "h"
    async with on_telegram(home, RETENTION, about={"retention"}) as scene:
        ann = scene.person(1)
        await ann.say("say m1")
        await scene.answered(1, "m1")
        await scene.program.settled()
        await scene.program.stop()
        days = int(5 * DAY_S * 1e6)
        sql(home, f"update inbox set created_at = created_at - {days}")
        sql(home, f"update outbox set created_at = created_at - {days}")
        laid_down(home)
        scene.program.start()
        await scene.program.ready()
        await ann.say("say m2")
        await scene.answered(1, "m1", "m2")

        async def tidied() -> bool:
            rows = [sql(home, f"select count(*) from {table}") for table in ("inbox", "outbox")]
            return not any((home / name).exists() for name in OLD) and rows == [[(1,)], [(1,)]]

        await until(tidied, seconds=200, what="the first hour's tidying, a minute after the start")
        assert all((home / name).exists() for name in KEPT)
        assert sql(home, "select count(*) from message where role = 'user'") == [(2,)], (
            "the history is nobody's to tidy"
        )
        await ann.say("say m3")
        await scene.answered(1, "m1", "m2", "m3")
