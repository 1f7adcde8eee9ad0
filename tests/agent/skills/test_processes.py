"""Skills that two processes on one PostgreSQL draft and decide on, each with a home of its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from sqlalchemy import make_url

from agent.core.ids import ConversationId, PersonId
from agent.skills.drafts import Drafter
from agent.skills.folders import ELSEWHERE_EVERY_S, Skills, roots_of
from agent.skills.settings import LearningSettings
from agent.skills.signals import DraftTrigger
from agent.storage.files.kept import KeptFiles
from agent.storage.postgres import PostgresDatabase
from tests.fakes.clock import FakeClock
from tests.fakes.waiting import until

HERE = ConversationId("telegram:77")
TRIGGER = DraftTrigger(
    conversation=HERE,
    person=PersonId("telegram:77"),
    signature="billing-module-refactor",
    evidence=3,
    examples=("Please refactor the billing code module",),
    tools=("read_file",),
)


class Process:
    def __init__(self, database: PostgresDatabase, clock: FakeClock, home: Path) -> None:
        files = KeptFiles(database, clock, home)
        self.home = home
        self.skills = Skills(database, clock, roots_of(home, ()), sync=files.sync)
        self.drafter = Drafter(
            database, clock, home=home, known=self.skills.catalogue, settings=LearningSettings, sync=files.sync
        )

    def standing(self, name: str) -> str | None:
        entry = self.skills.catalogue.snapshot.entries.get(name)
        return entry.standing if entry is not None else None


@pytest.fixture
async def processes(postgres_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[tuple[Process, Process]]:
    url = make_url(postgres_url).set(drivername="postgresql+psycopg")
    databases = [PostgresDatabase(url) for _ in range(2)]
    one, other = (Process(database, clock, tmp_path / str(number)) for number, database in enumerate(databases))
    yield one, other
    for database in databases:
        await database.aclose()


@pytest.mark.requirement("G-151")
async def test_a_draft_and_the_decision_on_it_reach_the_other_process(
    processes: tuple[Process, Process], clock: FakeClock
) -> None:
    one, other = processes
    for process in processes:
        await process.skills.reload()
    async with anyio.create_task_group() as tasks:
        for process in processes:
            tasks.start_soon(process.skills.run)
        name = await one.drafter.draft(TRIGGER)
        assert name is not None
        await until(lambda: _passed(clock, other.standing(name) == "quarantined"))
        assert await one.drafter.draft(TRIGGER) is None, "it is there"
        assert await other.drafter.draft(TRIGGER) is None, "and here"
        assert await other.skills.approve(name, "web:operator") is not None
        await until(lambda: _passed(clock, one.standing(name) == "ready"))
        tasks.cancel_scope.cancel()


@pytest.mark.requirement("G-151")
async def test_words_that_are_forgotten_leave_a_draft_that_another_process_wrote(
    processes: tuple[Process, Process], clock: FakeClock
) -> None:
    one, other = processes
    name = await one.drafter.draft(TRIGGER)
    assert name is not None
    gone, left = await other.drafter.forget((HERE,), lambda text: "billing" in text)
    assert (gone, left) == ((name,), ())
    await one.skills.reload()
    assert not list(one.home.rglob("SKILL.md"))


def _passed(clock: FakeClock, done: bool) -> bool:
    """Let time go on until it is so."""
    if not done:
        clock.advance(ELSEWHERE_EVERY_S)
    return done
