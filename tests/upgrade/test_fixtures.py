"""The fixtures hold what upgrades are tried on: a row in every table, and rows in every state there is."""

import gzip
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine

from tests.fakes.databases import PostgresServer
from tests.upgrade.fixture import Fixture, fixtures
from tests.upgrade.rows import engine_of, query, read_all

MOST_BYTES = 1_000_000
EMPTY = {
    "control": "nothing writes it",
    "memory_backlog": "only versions older than these wrote it, for messages older than the memory",
    "memory_unindexed": "only the migration to an index of stems writes it; it empties as soon as the index is made",
}
STATES: Mapping[str, set[str | None]] = {
    "inbox.status": {"new", "done", "merged", "refused", "dead"},
    "inbox.kind": {"message", "system"},
    "outbox.status": {"new", "sending", "sent", "dead", "dropped"},
    "turn.state": {"running", "done", "failed", "cancelled"},
    "session.state": {"active", "ended"},
    "approval.status": {"pending", "executed", "rejected", "cancelled"},
    "tool_call.verdict": {"ran", "failed", "denied"},
    "ephemeral.kind": {"status", "question"},
    "schedule.state": {"active", "paused"},
    "schedule.action": {"remind", "ask", "heartbeat"},
    "schedule_run.outcome": {"fired"},
    "goal.status": {"active", "paused", "completed", "cleared"},
    "goal.auto_state": {None, "running", "achieved"},
    "plan.status": {"proposed", "running", "completed", "cancelled"},
    "task.status": {"pending", "completed"},
    "memory.kind": {"fact", "said"},
    "skill_trust.verdict": {"seen", "approved", "revoked"},
    "approval_rule.effect": {"allow", "deny"},
    "pairing.state": {"open", "approved", "denied"},
    "access_grant.kind": {"person", "place"},
    "access_grant.role": {"member", "blocked"},
    "channel_preference.source": {"user", "admin"},
    "event_delivery.state": {"sent", "given_up"},
    "channel_setting.key": {"owner", "persona", "queue_mode", "quiet_hours", "verbosity"},
}
SINCE = {  # columns and tables that are newer than these fixtures
    "approval_rule.effect": {"08a01c2"},
    "event_delivery.state": {"08a01c2", "f855fe18"},
}
PLATFORMS = {"telegram", "discord", "slack", "web", "console"}


@contextmanager
def laid_out(fixture: Fixture, home: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Engine, str | None]]:
    """The fixture's database, and its address where it is one of PostgreSQL."""
    if fixture.kind == "sqlite":
        fixture.lay_out(home, None)
        engine = engine_of(home, None)
        yield engine, None
        engine.dispose()
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with server.database(empty=True) as url:
        fixture.lay_out(home, url)
        engine = engine_of(home, url)
        yield engine, url
        engine.dispose()


@pytest.mark.requirement("Z-69")
@pytest.mark.parametrize("fixture", fixtures(), ids=lambda one: f"{one.commit}-{one.kind}")
def test_it_has_every_table_and_every_state(fixture: Fixture, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    with laid_out(fixture, tmp_path, request) as (engine, _):
        tables = read_all(engine)
        empty = {name for name, rows in tables.items() if not rows}
        assert empty == set(EMPTY) & set(tables)
        for place, states in STATES.items():
            table, _, column = place.partition(".")
            found = {row[column] for row in tables.get(table, {}).values() if column in row}
            if not found and place in SINCE:
                assert fixture.commit in SINCE[place]
                continue
            assert states <= found, f"{place} lacks {states - found}"
        assert {row["key"].partition(":")[0] for row in tables["conversation"].values()} == PLATFORMS
        assert query(engine, "select 1 from message where parts like '%tool_use%' or parts like '%\"call%'")
        assert query(engine, "select 1 from message where parts like '%HAT-4471%'"), "a summary of a compaction"


@pytest.mark.parametrize("fixture", fixtures(), ids=lambda one: f"{one.commit}-{one.kind}")
def test_it_is_small_and_holds_nothing_of_the_machine_that_made_it(fixture: Fixture) -> None:
    files = [path for path in fixture.folder.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MOST_BYTES // 2
    for path in files:
        content = path.read_bytes()
        content = gzip.decompress(content) if path.suffix == ".gz" else content
        assert b"/tmp/" not in content, path
