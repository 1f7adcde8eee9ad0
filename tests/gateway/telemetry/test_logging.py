"""Lines carry the conversation and the run they belong to, those of libraries too."""

import io
import json
import logging
from collections.abc import Iterator

import anyio
import pytest

from agent.core.events import EventBus, LoopEnded, LoopStarted
from agent.core.ids import ConversationId, RunId, SessionId
from gateway.telemetry.logging import follow_runs, log_context, set_up
from gateway.telemetry.redaction import Redactor


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = set_up(format="json", redact=Redactor(), stream=stream)
    yield stream
    logging.getLogger().removeHandler(handler)


async def test_each_run_has_its_own_lines(lines: io.StringIO) -> None:
    bus = EventBus(on_error=lambda error, event: None)
    bus.listen(follow_runs)
    ready = anyio.Event()

    async def run(name: str) -> None:
        conversation, id = ConversationId(f"telegram:{name}"), RunId(f"run-{name}")
        bus.publish(LoopStarted(conversation=conversation, run=id, session=SessionId("s")))
        await ready.wait()  # both are under way
        logging.getLogger("some.library").warning("from %s", name)
        bus.publish(LoopEnded(conversation=conversation, run=id, success=True, duration_ms=1))
        logging.getLogger("some.library").warning("after %s", name)

    async with anyio.create_task_group() as group:
        group.start_soon(run, "1")
        group.start_soon(run, "2")
        await anyio.lowlevel.checkpoint()
        ready.set()
    found = {line["message"]: line for line in map(json.loads, lines.getvalue().splitlines())}
    assert (found["from 1"]["conversation"], found["from 1"]["run"]) == ("telegram:1", "run-1")
    assert (found["from 2"]["conversation"], found["from 2"]["run"]) == ("telegram:2", "run-2")
    assert "run" not in found["after 1"]


def test_ids_can_be_set_for_a_while_and_what_a_line_says_itself_wins(lines: io.StringIO) -> None:
    log = logging.getLogger("tieline.test")
    with log_context(conversation="web:a:b"):
        log.warning("inside")
        log.warning("its own", extra={"conversation": "web:c:d"})
    log.warning("outside")
    inside, own, outside = map(json.loads, lines.getvalue().splitlines())
    assert inside["conversation"] == "web:a:b"
    assert own["conversation"] == "web:c:d"
    assert "conversation" not in outside


def test_setting_up_again_does_not_write_twice(lines: io.StringIO) -> None:
    handler = set_up(format="human", redact=Redactor(), stream=lines)
    logging.getLogger("tieline.test").warning("once")
    logging.getLogger().removeHandler(handler)
    assert lines.getvalue().count("once") == 1


def test_chatty_libraries_are_kept_down(lines: io.StringIO) -> None:
    logging.getLogger("httpx").info("HTTP Request: GET https://…")
    assert lines.getvalue() == ""
