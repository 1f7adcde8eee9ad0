"""Retention on the running program: what is old goes by itself, what is open or young stays; people notice nothing."""

import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent.core.messages import TextPart
from agent.storage.payloads import encode_parts
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


MANY = 3_000  # turns of the past: their removal takes a minute


def past(home: Path) -> None:
    """A long conversation of five days ago, as turns leave it; and what was really said is as old."""
    days = int(5 * DAY_S * 1e6)
    for table in ("inbox", "outbox", "turn", "message", "session"):
        sql(home, f"update {table} set created_at = created_at - {days}")
    parts = encode_parts((TextPart(text="words of the past"),))
    numbers = f"with recursive n(i) as (select 1 union all select i + 1 from n where i < {MANY})"
    for position, role in enumerate(("user", "assistant")):
        sql(
            home,
            f"insert into message (session_id, conv, inbox_id, position, role, parts, created_at) {numbers} "
            f"select s.id, s.conv, 100000 + i, {position}, '{role}', '{parts}', s.created_at from n, session s",
        )


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.requirement("G-40")
async def test_old_messages_go_over_a_kill_in_the_middle_while_people_talk(tmp_path: Path) -> None:
    home = tmp_path / "h"
    async with on_telegram(home, RETENTION + "conversation_days = 2\n", about={"retention"}) as scene:
        ann = scene.person(1)
        await ann.say("say m1")
        await scene.answered(1, "m1")
        await scene.program.settled()
        await scene.program.stop()
        past(home)
        scene.program.start()
        await scene.program.ready()
        await ann.say("say m2")
        await scene.answered(1, "m1", "m2")

        def left() -> int:
            return int(sql(home, "select count(*) from message where parts like '%past%'")[0][0])

        async def begun() -> bool:
            return left() < 2 * MANY

        await until(begun, seconds=200, what="the first removal, a minute after the start")
        await ann.say("say m3")
        await scene.answered(1, "m1", "m2", "m3")
        await scene.program.settled()
        scene.program.kill()
        assert left() > 0, "it was killed in the middle"
        assert left() % 2 == 0, "no turn is cut"
        scene.program.start()
        await scene.program.ready()
        await ann.say("say m4")
        await scene.answered(1, "m1", "m2", "m3", "m4")

        async def gone() -> bool:
            return left() == 0

        await until(gone, seconds=300, what="the rest")
        assert sql(home, "select count(*) from message where role = 'user'") == [(3,)]
        assert sql(home, "select count(*) from message where parts like '%m1%'") == [(0,)]
        await ann.say("say m5")
        await scene.answered(1, "m1", "m2", "m3", "m4", "m5")
        request = str((await scene.doubles.llm.get("calls"))["calls"][-1]["body"]["messages"])
        assert "say m2" in request
        assert "m1" not in request
        assert "past" not in request
        assert "✗" not in (await scene.program.cli("doctor", "--offline")).stdout
