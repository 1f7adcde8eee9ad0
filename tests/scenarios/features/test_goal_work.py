"""A goal that is worked on by itself: real database, scripted model, scripted supervisor."""

from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from agent.core.errors import ProviderBusy, ProviderRefused
from agent.core.events import GoalCompleted
from agent.core.ids import CostAttribution
from agent.core.phrases import english
from agent.goals.goal import Limits, Used
from agent.goals.service import GoalDeps, GoalRefused, no_buttons
from agent.goals.settings import GoalSettings
from agent.inbox import HeldRoles
from agent.ledger import rows
from agent.ledger.spending import Entry, Limit, Spending
from agent.providers.provider import Prices, Usage
from agent.storage import conversation_rows
from agent.storage.database import Database
from tests.agent.goals.world import OWNER, GoalWorld, allowed, verdict
from tests.agent.run.test_features import Signing
from tests.fakes.provider import calls, fails, says
from tests.fakes.waiting import until


@pytest.fixture
def world(sqlite_database: Database, tmp_path: Path) -> GoalWorld:
    return GoalWorld(sqlite_database, tmp_path)


@pytest.mark.requirement("Z-115", "Z-116", "Z-119", "Z-120", "Z-122", "Z-132")
async def test_it_works_until_the_supervisor_finds_the_goal_reached(database: Database, tmp_path: Path) -> None:
    world = GoalWorld(database, tmp_path, settings=allowed(verify_interval=2))
    world.worker.scripts = [says("One page so far."), says("Two."), says("Three."), says("All pages are tidy.")]
    world.supervisor.scripts = [verdict(False, "two are missing"), verdict(True, "all four are there")]
    await world.start()
    goal = await world.live()
    assert (goal.status, (await world.auto()).state, (await world.auto()).turns) == ("completed", "achieved", 4)
    assert world.states == ["running", "verifying", "running", "verifying", "achieved"]
    assert [say.kind for say in await world.told()] == ["answer", "notice"]  # nothing in between
    assert (await world.told())[0].text == "All pages are tidy."
    assert "all four are there" in (await world.told())[1].text
    assert [event.goal for event in world.events if isinstance(event, GoalCompleted)] == [goal.id]
    assert len(world.supervisor.requests) == 2
    assert all(not request.tools.specs for request in world.supervisor.requests)
    asked = [request.messages[-1].content for request in world.worker.requests]
    assert "[autonomous] Continue working toward: tidy up the wiki" in asked[0]
    assert "two are missing" in asked[2]
    assert goal.used.turns == 4
    assert goal.used.tokens == 6 * 15  # the checks cost too


async def test_people_read_its_answer_with_what_a_feature_adds(world: GoalWorld) -> None:
    world.more_features = (Signing(),)
    await world.restart()
    world.worker.scripts = [says("All pages are tidy.")]
    world.supervisor.scripts = [verdict(True)]
    await world.start(turns=1)
    await world.live()
    assert (await world.told())[0].text == f"All pages are tidy.\n\n-- {world.key}"


@pytest.mark.requirement("Z-115", "Z-127", "Z-119")
async def test_it_takes_no_more_turns_than_it_may(world: GoalWorld) -> None:
    world.worker.scripts = [says(f"Step {number}.") for number in range(9)]
    await world.start(turns=3)
    goal = await world.live()
    assert len(world.worker.requests) == 3
    assert (goal.status, goal.why and goal.why.key) == ("paused", "goal_why_turns")
    assert len(world.supervisor.requests) == 1  # the last turn is checked before it is given up


@pytest.mark.requirement("Z-126")
async def test_a_model_that_repeats_itself_is_stopped(world: GoalWorld) -> None:
    world.worker.otherwise = says("Still looking.")
    await world.start()
    goal = await world.live()
    assert len(world.worker.requests) == 3
    assert (await world.auto()).state == "stuck"
    assert goal.why is not None
    assert goal.why.key == "goal_why_stuck"


@pytest.mark.requirement("Z-115")
async def test_a_cap_in_money_holds_before_the_call_that_would_break_it(world: GoalWorld) -> None:
    world.worker.prices = Prices(input=100.0, output=0.0)
    world.worker.scripts = [says(f"Step {number}.", usage=Usage(prompt=2500, output=5)) for number in range(9)]
    await world.start(limits=Limits(usd=0.8))
    goal = await world.live()
    assert len(world.worker.requests) == 3
    assert goal.used.usd == pytest.approx(0.75)
    assert goal.why is not None
    assert goal.why.key == "goal_why_left"
    assert (await world.auto()).state == "aborted"
    rows = await world.usage_rows()
    assert sum(row.cost_usd for row in rows) == pytest.approx(goal.used.usd)
    assert {row.goal for row in rows} == {str(goal.id)}


async def test_a_cap_that_is_reached_must_be_raised_to_go_on(world: GoalWorld) -> None:
    world.worker.scripts = [says("Step.", usage=Usage(prompt=9_000, output=1_000))]
    await world.start(limits=Limits(tokens=10_000))
    goal = await world.live()
    assert (len(world.worker.requests), goal.used.tokens) == (1, 10_000)
    assert goal.why is not None
    assert goal.why.key == "goal_why_tokens"
    with pytest.raises(GoalRefused, match="goal_limit_reached"):
        await world.goals.resume(world.key, goal.id, autonomous=True)
    resumed = await world.goals.resume(world.key, goal.id, limits=Limits(tokens=50_000), autonomous=True)
    assert resumed.is_autonomous


async def test_what_a_dead_process_spent_counts_before_the_next_turn(world: GoalWorld) -> None:
    goal = await world.start(limits=Limits(tokens=10_000))
    lost = Entry(
        call="lost",
        at=1,
        attribution=CostAttribution(purpose="turn", conversation=world.key, goal=str(goal.id)),
        provider="worker",
        model="m",
        prompt=10_000,
    )
    await world.database.write(lambda conn: rows.add(conn, [lost]))
    goal = await world.live()
    assert not world.worker.requests
    assert goal.why is not None
    assert goal.why.key == "goal_why_tokens"


async def test_what_people_ask_counts_and_is_not_held_up_by_the_goal(world: GoalWorld) -> None:
    goal = await world.goals.create(world.key, OWNER, "tidy up the wiki", Limits(tokens=20))
    assert await world.say("what is left to do?") == ["ok"]
    assert (await world.goal()).used == Used(turns=1, tokens=15, unpriced=1)
    assert await world.say("and now?") == ["ok"]
    after = await world.goal(goal.id)
    assert (after.used.tokens, after.status) == (30, "paused")
    assert await world.say("go on without it") == ["ok"]
    assert (await world.goal()).used.tokens == 30


@pytest.mark.requirement("Z-95")
async def test_what_people_ask_is_done_though_the_goal_that_is_worked_on_has_next_to_nothing_left(
    world: GoalWorld,
) -> None:
    world.worker.scripts = [
        says("Step.", usage=Usage(prompt=9_000, output=990)),
        calls("current_time"),
        says("It is noon, and one page is left."),
    ]
    await world.start(limits=Limits(tokens=10_000))
    assert (await world.live(turns=1)).status == "active"
    assert await world.say("what time is it, and what is left to do?") == ["It is noon, and one page is left."]
    [result] = world.worker.requests[-1].messages[-1].tool_results
    assert not result.is_error
    goal = await world.live()
    assert (len(world.worker.requests), goal.status) == (3, "paused"), "by itself it goes on no more"


@pytest.mark.requirement("Z-115")
async def test_a_cap_in_money_forbids_calls_without_a_price(world: GoalWorld) -> None:
    await world.start(limits=Limits(usd=1.0))
    goal = await world.live()
    assert not world.worker.requests
    assert goal.why is not None
    assert goal.why.key == "goal_why_unpriced"


async def test_somebody_s_budget_ends_it_with_the_reason(world: GoalWorld) -> None:
    world.spending = Spending(limits=(Limit(scope="person", tokens=10),))
    await world.start()
    goal = await world.live()
    assert not world.worker.requests
    assert goal.why is not None
    assert goal.why.key == "over_budget_person"
    assert (await world.auto()).state == "aborted"


async def test_a_check_that_may_not_be_paid_ends_it(world: GoalWorld) -> None:
    world.settings = allowed(verify_interval=1)
    world.worker.scripts = [says("Step.", usage=Usage(prompt=9_000, output=500))]
    await world.start(limits=Limits(tokens=10_000))
    goal = await world.live()
    assert not world.supervisor.requests
    assert goal.why is not None
    assert goal.why.key == "goal_why_left"


@pytest.mark.requirement("Z-123")
async def test_a_busy_supervisor_is_asked_again_later(world: GoalWorld) -> None:
    world.settings = allowed(verify_interval=1)
    world.worker.scripts = [says("All done here.")]
    world.supervisor.scripts = [fails(ProviderBusy("too many", limited=True)), verdict(True)]
    before = world.clock.now()
    await world.start()
    goal = await world.live()
    assert goal.status == "completed"
    assert len(world.worker.requests) == 1  # no turn while the check was put off
    assert (world.clock.now() - before).total_seconds() >= 5
    assert (await world.auto()).failures == 0


@pytest.mark.requirement("Z-124")
async def test_a_supervisor_that_is_down_ends_it(world: GoalWorld) -> None:
    world.settings = allowed(verify_interval=1)
    world.worker.scripts = [says(f"Step {number}.") for number in range(9)]
    world.supervisor.otherwise = fails(ProviderRefused("the key is wrong"))
    await world.start()
    goal = await world.live()
    assert len(world.supervisor.requests) == 3
    assert goal.why is not None
    assert goal.why.key == "goal_why_supervisor"


@pytest.mark.requirement("Z-121")
async def test_a_verdict_that_cannot_be_read_is_asked_for_once_more(world: GoalWorld) -> None:
    world.settings = allowed(verify_interval=1)
    world.supervisor.scripts = [says("Looks good to me!"), verdict(True)]
    await world.start()
    assert (await world.live()).status == "completed"
    assert len(world.supervisor.requests) == 2
    assert "not the JSON object" in world.supervisor.requests[1].messages[-1].content


@pytest.mark.requirement("Z-125")
async def test_a_slow_supervisor_counts_as_a_failure(world: GoalWorld) -> None:
    world.settings = allowed(verify_interval=1, supervisor_timeout_secs=1, max_supervisor_fail_count=1)
    never = anyio.Event()
    world.supervisor.otherwise = says("late", gate=never)
    await world.start()
    goal = await world.live()
    assert goal.why is not None
    assert goal.why.key == "goal_why_supervisor"


@pytest.mark.requirement("Z-125")
async def test_the_second_call_of_a_check_has_as_much_time_as_the_first(world: GoalWorld) -> None:
    world.settings = allowed(verify_interval=1, supervisor_timeout_secs=2, max_supervisor_fail_count=1)
    gates = [anyio.Event(), anyio.Event()]
    world.supervisor.scripts = [says("Looks good to me!", gate=gates[0]), verdict(True)]
    world.supervisor.scripts[1] = replace(world.supervisor.scripts[1], gate=gates[1])
    await world.start()
    async with anyio.create_task_group() as group:

        async def answer() -> None:
            for number, gate in enumerate(gates, 1):
                await until(lambda number=number: len(world.supervisor.requests) == number)
                await anyio.sleep(1.1)  # over half of what a call may take, so both take longer than one may
                gate.set()

        group.start_soon(answer)
        assert (await world.live()).status == "completed"


@pytest.mark.requirement("Z-132")
async def test_a_person_is_answered_while_the_check_goes_on(world: GoalWorld) -> None:
    world.settings = allowed(verify_interval=1)
    gate = anyio.Event()
    world.worker.scripts = [says("Step one."), says("Hello Ann.")]
    world.supervisor.scripts = [says('{"achieved": true, "reason": "yes"}', gate=gate)]
    await world.start()
    async with anyio.create_task_group() as group:
        group.start_soon(world.background.run)
        await anyio.lowlevel.checkpoint()
        await world.own()
        await world.step()
        assert (await world.auto()).state == "verifying"
        work = await world.admit("hi there")
        await world.run(work)
        assert [say.text for say in await world.says(work)] == ["Hello Ann."]
        assert (await world.auto()).state == "verifying"
        gate.set()

        async def is_over() -> bool:
            return (await world.goal()).status == "completed"

        await until(is_over)
        group.cancel_scope.cancel()


async def test_people_come_before_the_next_turn(world: GoalWorld) -> None:
    world.worker.scripts = [says("Step one."), says("Hello Ann."), says("Step two.")]
    await world.start(turns=2)
    await world.live(turns=1)
    world.clock.advance(60)  # the wake-up is long due
    await world.admit("hi there")
    await world.live(turns=3)
    asked = [request.messages[-1].content for request in world.worker.requests]
    assert asked[1] == "hi there"
    assert asked[2].endswith("tidy up the wiki")


async def test_a_turn_ends_at_its_next_step_when_a_person_writes(world: GoalWorld) -> None:
    world.worker.scripts = [calls("current_time", text="Looking."), says("never asked for")]
    await world.start()
    stop = world.bus.listen(lambda published: world.agent.give_way())  # somebody writes all the time
    await world.live(turns=1)
    stop()
    assert len(world.worker.requests) == 1
    assert (await world.auto()).turns == 1
    assert (await world.auto()).state == "running"


async def test_a_question_is_put_to_the_person_and_their_answer_lets_it_go_on(
    sqlite_database: Database, tmp_path: Path
) -> None:
    md = "---\nname: Test\ntools: [ask_user]\n---\n\nYou are a test agent.\n"
    world = GoalWorld(sqlite_database, tmp_path, agent_md=md)
    world.worker.scripts = [
        calls("ask_user", {"question": "Which wiki?"}),
        says("The old one, fine."),
        says("All done."),
    ]
    world.supervisor.scripts = [verdict(True)]
    await world.start()
    await world.live()
    assert (await world.auto()).state == "waiting"
    assert [say.text for say in await world.told()] == ["Which wiki?"]
    await world.admit("the old one")
    assert (await world.live()).status == "completed"


@pytest.mark.requirement("Z-119")
async def test_a_pause_ends_it(world: GoalWorld) -> None:
    world.worker.scripts = [says(f"Step {number}.") for number in range(9)]
    await world.start()
    await world.live(turns=2)
    await world.goals.pause(world.key)
    goal = await world.live()
    assert len(world.worker.requests) == 2
    assert (goal.status, (await world.auto()).state) == ("paused", "aborted")


@pytest.mark.requirement("Z-117")
async def test_a_new_start_ends_the_session_before(world: GoalWorld) -> None:
    world.worker.scripts = [says(f"Step {number}.") for number in range(9)]
    first = await world.start("the first")
    await world.live(turns=1)
    second = await world.start("the second", turns=1)
    await world.live()
    assert [request.messages[-1].content.splitlines()[-3].rpartition(": ")[2] for request in world.worker.requests] == [
        "the first", "the second",
    ]  # fmt: skip
    ended = await world.goal(first.id)
    assert (ended.status, ended.why and ended.why.key) == ("paused", "goal_why_replaced")
    assert (await world.goal(second.id)).auto is not None


@pytest.mark.requirement("Z-117")
async def test_a_second_start_of_the_same_goal_is_taken_up_like_the_first(world: GoalWorld) -> None:
    world.worker.scripts = [says(f"Step {number}.") for number in range(9)]
    goal = await world.start()
    await world.live(turns=1)
    for turns in (2, 3):
        await world.goals.pause(world.key)
        await world.live()
        world.stage.clear()
        await world.goals.resume(world.key, goal.id, autonomous=True)
        assert world.stage == [world.key], "a conversation that sleeps is woken"
        await world.live(turns=turns)
        assert len(world.worker.requests) == turns


@pytest.mark.requirement("Z-128")
async def test_where_it_is_switched_off_nothing_is_changed(world: GoalWorld) -> None:
    world.settings = allowed(autonomous_enabled=False)
    assert GoalSettings().autonomous_enabled is False
    kept = await world.goals.create(world.key, OWNER, "an older goal")
    with pytest.raises(GoalRefused, match="goal_auto_off"):
        await world.start()
    assert [goal.id for goal in await world.goals.all_of(world.key)] == [kept.id]
    assert (await world.goal()).status == "active"


@pytest.mark.requirement("Z-130")
async def test_after_a_death_it_is_an_orphan_told_once_and_can_be_resumed(database: Database, tmp_path: Path) -> None:
    world = GoalWorld(database, tmp_path)
    world.worker.scripts = [says("Step one."), says("Step two."), says("All done.")]
    world.supervisor.scripts = [verdict(True)]
    await world.start()
    await world.live(turns=2)
    await world.restart()
    assert await world.goals.reconcile_orphans(english, no_buttons) == 1
    assert await world.goals.reconcile_orphans(english, no_buttons) == 0
    goal = await world.live()
    assert len(world.worker.requests) == 2  # nothing goes on by itself
    assert (goal.status, (await world.auto()).state) == ("paused", "orphaned")
    assert [say.kind for say in await world.told()] == ["notice"]
    assert [each.id for each in await world.goals.worked_alone(world.key)] == [goal.id]
    await world.goals.resume(world.key, None, autonomous=True)
    assert (await world.live()).status == "completed"


@pytest.mark.requirement("Z-130")
async def test_a_turn_that_was_cut_off_by_the_death_is_not_run_again(world: GoalWorld) -> None:
    await world.start()
    await world.own()
    row = await world.due()
    assert row is not None
    await world.work(row)  # begun, and then the process died
    await world.restart()
    assert await world.goals.reconcile_orphans(english, no_buttons) == 1
    await world.live()
    assert world.worker.requests == []


async def test_passing_failures_are_tried_again_and_lasting_ones_end_it(world: GoalWorld) -> None:
    world.worker.scripts = [
        *[fails(ProviderBusy("down"))] * 5,  # four in the first turn; then it is known to be down
        says("Step one."),
        fails(ProviderRefused("the key is wrong")),
    ]
    await world.start()
    goal = await world.live()
    assert (await world.auto()).state == "failed"
    assert goal.why is not None
    assert goal.why.key == "provider_refused"


@pytest.mark.requirement("Z-129")
async def test_one_message_follows_the_work(world: GoalWorld) -> None:
    world.settings = allowed(verify_interval=2)
    world.worker.scripts = [says("One."), says("Two.")]
    world.supervisor.scripts = [verdict(True)]
    await world.start(turns=7)
    await world.live()
    lines = [text for text in world.outbox.lives if text]
    assert "Turns: 0/7" in lines[0]
    assert "Turns: 1/7" in lines[1]
    assert any("Checking" in text for text in lines)
    assert world.outbox.lives[-1] == ""
    assert all(audience.silent for audience in world.outbox.audiences)  # no stream of chat


async def test_so_many_at_once_and_no_more(world: GoalWorld) -> None:
    world.settings = allowed(autonomous_max_running=1)
    await world.start()
    with pytest.raises(GoalRefused, match="goal_too_many"):
        await world.goals.create(type(world.key)("telegram:78"), OWNER, "another", autonomous=True)
    with pytest.raises(GoalRefused, match="goal_turns"):
        await world.start(turns=51)


async def test_it_ends_where_its_owner_was_blocked_or_the_bot_removed(world: GoalWorld) -> None:
    await world.start()
    world.agent.goal.deps = GoalDeps(role_of=lambda goal: None)
    goal = await world.live()
    assert goal.why is not None
    assert goal.why.key == "goal_why_blocked"
    world.agent.goal.deps = GoalDeps(role_of=lambda goal: HeldRoles("member"))
    await world.database.write(lambda conn: conversation_rows.set_gone(conn, world.key, gone=True))
    await world.goals.resume(world.key, None, autonomous=True)
    goal = await world.live()
    assert goal.why is not None
    assert goal.why.key == "goal_why_gone"
    assert world.worker.requests == []
