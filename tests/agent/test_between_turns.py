"""Work between turns: it breaks for itself, and ends with its agent."""

import logging

import anyio
import pytest

from agent.between_turns import BetweenTurns, Jobs
from agent.core.ids import ConversationId
from tests.fakes.running import running
from tests.fakes.waiting import until

HERE = ConversationId("telegram:77")


async def test_a_job_that_breaks_is_told_with_its_conversation_and_takes_nothing_with_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    background, done = BetweenTurns(), anyio.Event()

    async def breaks() -> None:
        raise ZeroDivisionError

    async def goes_on() -> None:
        done.set()

    async with running(background.run):
        await anyio.wait_all_tasks_blocked()  # what is started before it runs is left undone
        jobs = Jobs(background, HERE)
        jobs.start(breaks)
        await until(lambda: "work between turns broke" in caplog.text)
        jobs.start(goes_on)
        await done.wait()
    (told,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert told.__dict__["conversation"] == HERE
    assert told.exc_info is not None


async def test_what_is_under_way_ends_with_its_agent_and_nothing_begins_afterwards() -> None:
    background, begun, ended = BetweenTurns(), anyio.Event(), anyio.Event()

    async def lasts() -> None:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async def too_late() -> None:
        raise AssertionError("the agent sleeps")

    async with running(background.run):
        await anyio.wait_all_tasks_blocked()  # what is started before it runs is left undone
        jobs = Jobs(background, HERE)
        jobs.start(lasts)
        await begun.wait()
        jobs.close()
        await ended.wait()
        jobs.start(too_late)
        await anyio.wait_all_tasks_blocked()
