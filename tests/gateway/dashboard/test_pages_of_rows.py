"""The reads behind the pages on schedules, people and goals, on both databases, where thousands of rows are."""

from functools import partial

import pytest
from sqlalchemy import Connection

from agent.core.clock import SystemClock
from agent.core.ids import ConversationId
from agent.goals import store as goals
from agent.plans import store as plans
from agent.storage.database import Database
from gateway.scheduler import person_zones
from gateway.scheduler import store as schedules
from gateway.storage import conversation_list, pairings
from tests.gateway.dashboard.filled import fill


@pytest.mark.slow
async def test_pages_of_a_full_database_hold_what_was_asked_for(database: Database) -> None:
    await database.write(partial(fill, now=SystemClock().now()))

    def look(conn: Connection) -> None:
        page = schedules.everywhere(conn, sort="whose", most=51, skip=50)
        assert len(page) == 51
        for sort in schedules.ORDERS:
            for descending in (False, True):
                assert len(schedules.everywhere(conn, sort=sort, descending=descending, most=10)) == 10
        found = schedules.everywhere(conn, find="PLANT 300", in_words=True, most=10)
        assert [one.plan.text for one in found] == ["water plant 300"]
        assert schedules.everywhere(conn, find="plant 300", most=10) == ()
        assert schedules.everywhere(conn, state="paused", most=10) == ()
        active = goals.everywhere(conn, most=10)
        assert {goal.status for goal in active} == {"active"}
        assert goals.everywhere(conn, status="completed", most=10)[0].status == "completed"
        assert {plan.status for plan in plans.all_open(conn, most=10)} == {"running"}
        people = conversation_list.people(conn)
        assert len(people) == 1_000
        assert people["telegram:7"].name == "Person 7"
        keys = [ConversationId("telegram:7"), ConversationId("telegram:none")]
        assert conversation_list.names(conn, keys) == {"telegram:7": "Person 7", "telegram:none": "telegram:none"}
        assert conversation_list.names(conn, ()) == {}
        assert pairings.displays(conn) == {}
        person_zones.set_zone(conn, "telegram:7", "Asia/Tokyo", at=1)
        assert person_zones.given_zones(conn, ["telegram:7", "telegram:8"]) == {"telegram:7": "Asia/Tokyo"}

    await database.write(look)
