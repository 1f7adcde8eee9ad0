"""A trace holds every event of a run, without secrets, for its owner alone, and never holds up a turn."""

import json
from pathlib import Path

import anyio
import pytest

from agent.core.events import EventBus, LoopEnded, LoopStarted, StreamDelta
from agent.core.ids import ConversationId, RunId, SessionId
from gateway.telemetry.event_log import KEPT_RUNS, WAITING, EventLog
from gateway.telemetry.redaction import MASK, Redactor
from tests.fakes.clock import FakeClock
from tests.fakes.running import running
from tests.fakes.waiting import until

A = ConversationId("telegram:1")
RUN = RunId("3f0c")


@pytest.fixture
def event_log(tmp_path: Path, clock: FakeClock) -> EventLog:
    return EventLog(tmp_path / "traces", clock, Redactor(["top-secret"]))


@pytest.mark.requirement("B-92", "G-28")
async def test_every_event_of_a_run_is_a_line(event_log: EventLog, tmp_path: Path) -> None:
    bus = EventBus(on_error=lambda error, event: None)
    bus.listen(event_log.listen)
    file = tmp_path / "traces" / "3f0c.jsonl"
    async with running(event_log.run):
        bus.publish(LoopStarted(conversation=A, run=RUN, session=SessionId("s")))
        bus.publish(StreamDelta(conversation=A, run=RUN, content='say "top-secret"'))
        bus.publish(LoopEnded(conversation=A, run=RUN, success=True, duration_ms=5))
        await until(lambda: file.exists() and len(file.read_text().splitlines()) == 3)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["loop:start", "stream:delta", "loop:end"]
    assert [line["sequence"] for line in lines] == [1, 2, 3]
    assert lines[1]["content"] == f'say "{MASK}"'
    assert lines[2]["duration_ms"] == 5
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


async def test_what_waits_at_the_end_is_written_still(event_log: EventLog, tmp_path: Path) -> None:
    bus = EventBus(on_error=lambda error, event: None)
    bus.listen(event_log.listen)
    file = tmp_path / "traces" / "3f0c.jsonl"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(event_log.run)
        bus.publish(LoopStarted(conversation=A, run=RUN, session=SessionId("s")))
        await until(file.exists)
        bus.publish(LoopEnded(conversation=A, run=RUN, success=True, duration_ms=5))
        tasks.cancel_scope.cancel()
    assert len(file.read_text().splitlines()) == 2


@pytest.mark.requirement("R-46")
async def test_a_disk_that_refuses_costs_the_trace_alone(event_log: EventLog, tmp_path: Path) -> None:
    (tmp_path / "traces").write_text("in the way")
    bus = EventBus(on_error=lambda error, event: None)
    bus.listen(event_log.listen)
    bus.publish(LoopEnded(conversation=A, run=RUN, success=True, duration_ms=5))
    await event_log.flush()
    assert event_log.dropped == 1


async def test_half_an_emoji_costs_itself_alone(event_log: EventLog, tmp_path: Path) -> None:
    bus = EventBus(on_error=lambda error, event: None)
    bus.listen(event_log.listen)
    bus.publish(StreamDelta(conversation=A, run=RUN, content="a\ud83d!"))
    await event_log.flush()
    assert json.loads((tmp_path / "traces" / "3f0c.jsonl").read_text())["content"] == "a?!"


@pytest.mark.requirement("R-46")
async def test_what_waits_is_bounded(event_log: EventLog) -> None:
    bus = EventBus(on_error=lambda error, event: None)
    bus.listen(event_log.listen)
    for _ in range(WAITING + 5):
        bus.publish(StreamDelta(conversation=A, run=RUN, content="x"))
    assert event_log.dropped == 5


async def test_old_runs_go(event_log: EventLog, tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    for number in range(KEPT_RUNS + 3):
        (tmp_path / "traces" / f"old-{number}.jsonl").touch()
    bus = EventBus(on_error=lambda error, event: None)
    bus.listen(event_log.listen)
    bus.publish(LoopEnded(conversation=A, run=RunId("../../etc/x"), success=True, duration_ms=5))
    await event_log.flush()
    names = {path.name for path in (tmp_path / "traces").iterdir()}
    assert len(names) == KEPT_RUNS
    assert "etcx.jsonl" in names
