"""Lists for the operator tell moments as the clock of their machine shows them, not as the database stores them."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent.core.outbox import OutgoingMessage
from agent.core.phrases import program_as_typed
from agent.inbox import Incoming
from agent.storage.payloads import encode_incoming, encode_outgoing
from agent.storage.timestamps import to_timestamp
from tests.program.running import Program

STORED = datetime(2026, 11, 23, 6, 29, 38, 482246, tzinfo=UTC)
UNTIL = datetime(2026, 11, 23, 8, 0, tzinfo=UTC)
SHOWN = "2026-11-23 15:29"  # in Tokyo, nine hours ahead


@pytest.mark.slow
async def test_a_moment_is_told_to_the_minute_on_the_local_clock(home: Path) -> None:
    tieline = Program(home, "", {"TZ": "Asia/Tokyo"})
    assert (await tieline.cli("doctor", "--fix", "--offline")).returncode == 0
    said = encode_incoming(Incoming(text="hello", received_at=STORED))
    answer = encode_outgoing(OutgoingMessage(text="hi", kind="reply"))
    with closing(sqlite3.connect(home / "tieline.db")) as database:
        for number, status in ((1, "new"), (2, "dead")):
            held = to_timestamp(UNTIL) if status == "new" else None
            row = (number, "telegram:77", f"d{number}", said, status, to_timestamp(STORED), held)
            columns = "(id, conv, kind, dedup, payload, status, created_at, not_before)"
            database.execute(f"insert into inbox {columns} values (?, ?, 'message', ?, ?, ?, ?, ?)", row)
        columns = "(id, conv, dedup, payload, status, created_at, not_before)"
        row = (1, "telegram:77", "d1", answer, "new", to_timestamp(STORED), to_timestamp(UNTIL))
        database.execute(f"insert into outbox {columns} values (?, ?, ?, ?, ?, ?, ?)", row)
        database.commit()
    for args in (["inbox"], ["outbox"], ["dead"], ["find", "in-2"]):
        ran = await tieline.cli(*args)
        assert ran.returncode == 0, ran.stderr
        assert SHOWN in ran.stdout, args
        assert "06:29" not in ran.stdout, args
        assert (" waits until 2026-11-23 17:00 " in ran.stdout) == (args in (["inbox"], ["outbox"])), args
    assert f"state: given up; `{program_as_typed()} dead --home {home}` lists it" in ran.stdout
    assert "state: waits for its turn\n" in (await tieline.cli("find", "in-1")).stdout
