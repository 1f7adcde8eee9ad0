"""Operations of people and of the gateway on kept plans."""

from dataclasses import replace
from typing import Literal

import pytest

from agent.core.ids import ConversationId, PersonId
from agent.core.phrases import english
from agent.goals.goal import Owner
from agent.inbox import Incoming
from agent.plans import service, store
from agent.plans.plan import Plan, Status, Task
from agent.plans.service import PlanRefused, PlanService
from agent.plans.settings import PlanSettings, WorkflowSettings
from agent.storage import inbox_rows
from agent.storage.database import Database
from agent.storage.payloads import encode_incoming
from agent.storage.timestamps import from_timestamp
from tests.fakes.clock import FakeClock

GROUP = ConversationId("telegram:-1005")
GOAL = "compare the three offers"
TASKS = (Task(id=1, title="read A", text="Read A."),)


def owner(person: str) -> Owner:
    return Owner(person=PersonId(person), display=person, language="en", role="member", chat_type="group")


ANN, BOB = owner("telegram:77"), owner("telegram:78")


@pytest.fixture
def plans(sqlite_database: Database, clock: FakeClock) -> PlanService:
    return PlanService(sqlite_database, clock, PlanSettings)


async def put(plans: PlanService, plan: Plan, status: Status) -> Plan:
    """As it is once it has come so far."""
    now = replace(plan, status=status, tasks=TASKS)
    await plans.database.write(lambda conn: store.save(conn, now, 1))
    return now


async def message(plans: PlanService) -> int:
    """A message of Ann's that is not done; its row."""
    said = encode_incoming(Incoming(text=GOAL, received_at=from_timestamp(1)))
    admitted = await plans.database.write(
        lambda conn: inbox_rows.admit(conn, conversation=GROUP, kind="message", dedup="1", payload=said, at=1)
    )
    assert admitted.id is not None
    return admitted.id


@pytest.mark.parametrize(
    ("by", "decides", "replaced"),
    [
        pytest.param(ANN, False, True, id="their own"),
        pytest.param(BOB, False, False, id="somebody else's"),
        pytest.param(BOB, True, True, id="somebody else's, by an admin"),
    ],
)
async def test_a_new_plan_takes_the_place_of_one_that_waits(
    plans: PlanService, by: Owner, decides: bool, replaced: bool
) -> None:
    first = await put(plans, await plans.draft(GROUP, ANN, GOAL, origin="plan:1"), "proposed")
    if replaced:
        await plans.draft(GROUP, by, GOAL, origin="plan:2", decides=decides)
    else:
        with pytest.raises(PlanRefused, match="plan_open"):
            await plans.draft(GROUP, by, GOAL, origin="plan:2", decides=decides)
    assert (await plans.meant(GROUP, first.id)).status == ("cancelled" if replaced else "proposed")


@pytest.mark.parametrize("status", ["drafting", "proposed"])
@pytest.mark.parametrize(
    ("mode", "ended", "stays"),
    [
        pytest.param("live", False, True, id="its message is taken up again"),
        pytest.param("live", True, False, id="its message is done"),
        pytest.param("off", False, False, id="the gate was switched off"),
    ],
)
async def test_what_the_gate_offered_outlives_a_restart_only_with_its_message(
    sqlite_database: Database, clock: FakeClock, status: Status, mode: Literal["off", "live"], ended: bool, stays: bool
) -> None:
    settings = PlanSettings(workflow=WorkflowSettings(mode=mode))
    plans = PlanService(sqlite_database, clock, lambda: settings)
    inbox_id = await message(plans)
    offered = await put(plans, await plans.draft(GROUP, ANN, GOAL, origin=f"gate:{inbox_id}"), status)
    if ended:
        await sqlite_database.write(lambda conn: inbox_rows.finish(conn, [inbox_id], "dead"))
    await service.reconcile(plans, english, lambda offer, plan: ())
    assert (await plans.meant(GROUP, offered.id)).status == (status if stays else "cancelled")


async def test_what_the_gate_offered_ends_with_a_dead_letter(plans: PlanService) -> None:
    inbox_id = await message(plans)
    offered = await put(plans, await plans.draft(GROUP, ANN, GOAL, origin=f"gate:{inbox_id}"), "proposed")
    await service.withdraw(plans, inbox_id + 1)
    assert (await plans.meant(GROUP, offered.id)).status == "proposed"
    await service.withdraw(plans, inbox_id)
    assert (await plans.meant(GROUP, offered.id)).status == "cancelled"


async def test_half_an_emoji_breaks_nothing(plans: PlanService) -> None:
    made = await plans.draft(GROUP, replace(ANN, display="Ann \ud83d"), "compare the \ud83d offers", origin="plan:1")
    named = replace(TASKS[0], title="read \ud83d")
    await plans.database.write(lambda conn: store.save(conn, replace(made, status="proposed", tasks=(named,)), 1))
    stands = await plans.confirm(GROUP, made.id, "Ann \ud83d")
    assert (stands.goal, stands.owner.display, stands.tasks[0].title) == (
        "compare the \ufffd offers", "Ann \ufffd", "read \ufffd",
    )  # fmt: skip


async def test_the_open_one_is_meant_else_the_newest(plans: PlanService) -> None:
    first = await put(plans, await plans.draft(GROUP, ANN, GOAL, origin="plan:1"), "failed")
    second = await put(plans, await plans.draft(GROUP, ANN, GOAL, origin="plan:2"), "completed")
    assert (await plans.meant(GROUP, None)).id == second.id
    await plans.retry(GROUP, first.id, "Ann")
    assert (await plans.meant(GROUP, None)).id == first.id
