"""Whole turns and how the sender writes: seen first, kept with their words, told in one line, and never in the way."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, func, select, text

from agent.core.ids import PersonId
from agent.memory import rows
from agent.storage.database import Database
from agent.storage.tables import message, user_model
from agent.style.detector import ENOUGH
from agent.style.user_model import KeptUserModel, Observation, reset, set_adapt
from tests.agent.world import ANN, World
from tests.fakes.provider import ScriptedProvider

BOB = PersonId("telegram:78")
GROUP = {"chat_type": "group"}
TERSE = "ok do it"
FORMAL = "Considering previous correspondence, management requests additional documentation concerning deliveries."
TOLD = "How they write"


@dataclass
class Watching(KeptUserModel):
    """Notes in what state of the transcript it is asked."""

    said: list[tuple[str, int]] = field(default_factory=list)

    def brief(self, conn: Connection, user: PersonId, audience: str) -> Any:
        self.said.append(("brief", conn.execute(select(func.count()).select_from(message)).scalar_one()))
        return super().brief(conn, user, audience)

    def observe(self, conn: Connection, user: PersonId, audience: str, observation: Observation) -> None:
        self.said.append(("observe", conn.execute(select(func.count()).select_from(message)).scalar_one()))
        super().observe(conn, user, audience, observation)


class Broken(KeptUserModel):
    def brief(self, conn: Connection, user: PersonId, audience: str) -> Any:
        raise ValueError("nobody understands this row")


async def known(database: Database) -> list[tuple[str, str]]:
    """Of whom something is known, and where."""
    found = select(user_model.c.person, user_model.c.audience).order_by(user_model.c.person, user_model.c.audience)
    return await database.read(lambda conn: [(row.person, row.audience) for row in conn.execute(found)])


def told(provider: ScriptedProvider) -> str:
    """The line in the newest request, or ""."""
    return next((line for line in provider.requests[-1].reminder.splitlines() if TOLD in line), "")


@pytest.mark.requirement("W-02", "W-03", "W-69")
async def test_style_is_seen_first_kept_over_sessions_and_told_in_one_line(database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider()
    world = World(database, tmp_path, provider)
    world.user_model = model = Watching()
    for count in range(ENOUGH - 1):
        await world.say(TERSE)
        assert told(provider) == "", "too few messages"
        assert model.said[-2:] == [("brief", 2 * count), ("observe", 2 * count)], (
            "before the words are in the transcript"
        )
    await world.say(TERSE)
    assert "casual, short messages" in told(provider)
    assert provider.requests[-1].reminder.rindex(TOLD) < provider.requests[-1].reminder.rindex("</reminder>")
    assert len({request.system for request in provider.requests}) == 1, "what stands before the history stays as it is"
    assert TOLD not in str([stored.message for stored in await world.transcript()]), "and none of it is stored"

    await world.database.write(lambda conn: conn.execute(text("UPDATE conversation SET session_id = NULL")))
    await world.restart()
    await world.say(FORMAL)
    assert "short messages" in told(provider), "another session, another process"
    assert "last 6 messages" in told(provider)
    for _ in range(10):
        await world.say(FORMAL)
    assert "formal" in told(provider)
    assert "casual" not in told(provider), "ten messages later nothing of the old ones counts"


@pytest.mark.requirement("G-25")
async def test_each_sender_of_a_group_has_their_own_and_none_from_a_direct_chat(
    sqlite_database: Database, tmp_path: Path
) -> None:
    provider = ScriptedProvider()
    world = World(sqlite_database, tmp_path, provider)
    for _ in range(ENOUGH):
        await world.say(TERSE)
    await world.say(TERSE, **GROUP)
    assert told(provider) == "", "what was seen in a direct chat is not told in a group"
    for _ in range(ENOUGH):
        await world.say(TERSE, **GROUP)
        await world.say(FORMAL, person=BOB, **GROUP)
    assert "formal" in told(provider)
    assert "short" not in told(provider)
    await world.say(TERSE, **GROUP)
    assert "short messages" in told(provider)
    await world.say("The summary is due.", kind="reminder", **GROUP)
    assert told(provider) == "", "nobody has written that"
    assert await known(sqlite_database) == [
        (ANN, "person:telegram:77"), (ANN, "place:telegram:77"), (BOB, "place:telegram:77"),
    ]  # fmt: skip


@pytest.mark.requirement("W-03")
async def test_without_a_user_model_nothing_is_observed(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider()
    world = World(sqlite_database, tmp_path, provider)
    world.user_model = None
    for _ in range(ENOUGH + 1):
        assert await world.say(TERSE)
    assert told(provider) == ""
    assert await known(sqlite_database) == []


@pytest.mark.requirement("W-04")
@pytest.mark.parametrize("broken", ["the model", "its table", "its row"])
async def test_a_user_model_that_fails_is_logged_and_costs_no_turn(
    database: Database, tmp_path: Path, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    provider = ScriptedProvider()
    world = World(database, tmp_path, provider)
    await world.say(TERSE)
    if broken == "the model":
        world.user_model = Broken()
    elif broken == "its table":
        await database.write(lambda conn: conn.execute(text("DROP TABLE user_model")))
    else:
        await database.write(lambda conn: conn.execute(user_model.update().values(counts="[[nonsense")))
    answer = await world.say("is anybody there?")
    assert len(answer) == 1
    assert answer[0], "answered as always"
    assert "user model (database) failed" in caplog.text
    assert not any("style" in one for one in answer)
    assert [role for role, _ in await world.texts()] == ["user", "assistant"] * 2, "the transcript has both turns"


@pytest.mark.requirement("W-03")
async def test_a_message_counts_once_whatever_crashes(sqlite_database: Database, tmp_path: Path) -> None:
    world = World(sqlite_database, tmp_path, ScriptedProvider())
    work = await world.admit(TERSE)
    await world.run_through(work)
    counted = select(user_model.c.counts)
    once = await sqlite_database.read(lambda conn: conn.execute(counted).scalar_one())
    await world.database.write(lambda conn: conn.execute(text("UPDATE turn SET state = 'running'")))
    await world.database.write(lambda conn: conn.execute(text("UPDATE inbox SET status = 'new'")))
    await world.restart()
    await world.run_through(await world.again(work))
    assert await sqlite_database.read(lambda conn: conn.execute(counted).scalar_one()) == once


async def test_people_reset_it_and_want_none_of_it(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider()
    world = World(sqlite_database, tmp_path, provider)
    for _ in range(ENOUGH):
        await world.say(TERSE)
        await world.say(TERSE, **GROUP)
    assert told(provider)
    assert await sqlite_database.write(lambda conn: reset(conn, ANN)) == 2, "in every place"
    await world.say(TERSE)
    assert told(provider) == ""
    await sqlite_database.write(lambda conn: set_adapt(conn, ANN, adapt=False, at=1))
    for _ in range(ENOUGH):
        await world.say(TERSE)
    assert await known(sqlite_database) == [(ANN, "")], "their choice alone"
    await sqlite_database.write(lambda conn: set_adapt(conn, ANN, adapt=True, at=2))
    await sqlite_database.write(lambda conn: rows.set_off(conn, world.key, off=True))
    await world.restart()
    await world.say(TERSE)
    assert await known(sqlite_database) == [(ANN, "")], "where the memory is off, this is too"


async def test_it_costs_a_turn_no_trip_to_the_database(sqlite_database: Database, tmp_path: Path) -> None:
    trips: list[str] = []

    class Counting:
        dialect = sqlite_database.dialect

        async def read(self, work: Any) -> Any:
            trips.append("read")
            return await sqlite_database.read(work)

        async def write(self, work: Any) -> Any:
            trips.append("write")
            return await sqlite_database.write(work)

        async def aclose(self) -> None: ...

    world = World(Counting(), tmp_path, ScriptedProvider())
    needed = []
    for model in (KeptUserModel(), None):
        world.user_model = model
        await world.say(TERSE)
        work = await world.admit(TERSE)
        trips.clear()
        await world.run_through(work)
        needed.append(list(trips))
    assert needed[0] == needed[1]
