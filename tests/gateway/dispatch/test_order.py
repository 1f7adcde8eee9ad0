"""Queued messages come before those that only wait to be merged."""

from dataclasses import replace
from functools import partial

import anyio
import pytest

from agent.core.ids import ConversationId
from agent.inbox import Work
from agent.storage.database import Database
from tests.fakes.agents import QUICK, House, admit, answers
from tests.fakes.waiting import until

CHAT = ConversationId("telegram:1")


async def is_answered(database: Database, *texts: str) -> bool:
    return await answers(database) == list(texts)


@pytest.mark.requirement("Z-07", "Z-22")
async def test_what_the_house_has_queued_runs_before_people_who_came_earlier(database: Database) -> None:
    """Admitted while a turn runs, in the wrong order: what is due first, then people as they came, then the rest."""
    go_on = anyio.Event()

    async def turn(work: Work) -> None:
        if work.incoming.text == "first":
            await go_on.wait()

    services = House(database, turn, timing=replace(QUICK, merge_within=0))
    async with services.running():
        await services.says(CHAT, "first")
        await until(lambda: services.dispatcher.is_running(CHAT))
        await admit(database, CHAT, "put off", kind="system", not_before=1)
        await admit(database, CHAT, "from Ann")
        await admit(database, CHAT, "from Bob")
        await admit(database, CHAT, "a task", kind="reminder")
        go_on.set()
        await until(partial(is_answered, database, "first", "a task", "from Ann", "from Bob", "put off"))
    assert {work.kind for work in services.given} == {"message", "system", "reminder"}


@pytest.mark.requirement("Z-07")
async def test_what_waits_on_disk_is_done_before_anything_new_is_heard(database: Database) -> None:
    """Queued by an earlier process: done in its order although a newer message wakes the conversation."""
    for text in ("one", "two"):
        await admit(database, CHAT, text)
    services = House(database, timing=replace(QUICK, merge_within=0))
    await services.says(CHAT, "three")
    async with services.running():
        await until(partial(is_answered, database, "one", "two", "three"))


@pytest.mark.requirement("Z-07")
async def test_nothing_new_is_waited_for_while_messages_are_queued(database: Database) -> None:
    for text in ("one", "two", "three"):
        await admit(database, CHAT, text)
    services = House(database, timing=replace(QUICK, merge_within=0, linger=3600.0))
    async with services.running():
        await until(partial(is_answered, database, "one", "two", "three"))
