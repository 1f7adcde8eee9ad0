"""What people and the house may do with kept plans (SPEC §13.3)."""

from dataclasses import replace

import pytest

from agent.core.ids import ConversationId, PersonId
from agent.goals.stored import Owner
from agent.plans import store
from agent.plans.desk import PlanRefused, Plans
from agent.plans.graph import Task
from agent.plans.settings import PlanSettings
from agent.plans.stored import Plan, Status
from agent.storage.database import Database
from tests.fakes.clock import FakeClock

GROUP = ConversationId("telegram:-1005")
GOAL = "compare the three offers"
TASKS = (Task(id=1, title="read A", text="Read A."),)


def owner(person: str) -> Owner:
    return Owner(person=PersonId(person), display=person, language="en", role="member", chat_type="group")


ANN, BOB = owner("telegram:77"), owner("telegram:78")


@pytest.fixture
def plans(sqlite_database: Database, clock: FakeClock) -> Plans:
    return Plans(sqlite_database, clock, PlanSettings)


async def put(plans: Plans, plan: Plan, status: Status) -> Plan:
    """As it is once it has come so far."""
    now = replace(plan, status=status, tasks=TASKS)
    await plans.database.write(lambda conn: store.save(conn, now, 1))
    return now


@pytest.mark.parametrize(
    ("by", "decides", "replaced"),
    [
        pytest.param(ANN, False, True, id="their own"),
        pytest.param(BOB, False, False, id="somebody else's"),
        pytest.param(BOB, True, True, id="somebody else's, by an admin"),
    ],
)
async def test_a_new_plan_takes_the_place_of_one_that_waits(
    plans: Plans, by: Owner, decides: bool, replaced: bool
) -> None:
    first = await put(plans, await plans.draft(GROUP, ANN, GOAL, origin="plan:1"), "proposed")
    if replaced:
        await plans.draft(GROUP, by, GOAL, origin="plan:2", decides=decides)
    else:
        with pytest.raises(PlanRefused, match="plan_open"):
            await plans.draft(GROUP, by, GOAL, origin="plan:2", decides=decides)
    assert (await plans.meant(GROUP, first.id)).status == ("cancelled" if replaced else "proposed")
