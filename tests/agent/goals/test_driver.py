"""The next step of a goal that is worked on autonomously."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.ids import ConversationId
from agent.goals.driver import (
    BUSY_PAUSE_S,
    MOST_DEFERRALS,
    Barred,
    Busy,
    Failed,
    Found,
    Idle,
    Moved,
    Outcome,
    Tick,
    Turn,
    Verdict,
    Verify,
    after_check,
    after_person,
    after_turn,
    at_wake_up,
    digest_of,
)
from agent.goals.goal import Auto, Goal, Limits, Owner, Reason, Used
from agent.goals.settings import GoalSettings

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ON = GoalSettings(autonomous_enabled=True)
WENT = Outcome(came="went", text="step")


def goal(*, limits: Limits = Limits(), used: Used = Used(), **auto: Any) -> Goal:  # noqa: B008 - frozen
    values: dict[str, Any] = {"state": "running", "most": 50} | auto
    return Goal(
        id=1,
        conversation=ConversationId("telegram:77"),
        owner=Owner(),
        text="tidy up the wiki",
        status="active",
        limits=limits,
        used=used,
        auto=Auto(**values),
        created_at=NOW,
        updated_at=NOW,
    )


def state(moved: Moved) -> str:
    assert moved.goal.auto is not None
    return moved.goal.auto.state


def why(moved: Moved) -> str | None:
    return moved.goal.why.key if moved.goal.why is not None else None


@pytest.mark.requirement("Z-118", "Z-127", "Z-128")
def test_the_numbers() -> None:
    given = GoalSettings()
    assert (given.autonomous_enabled, given.autonomous_max_turns, given.autonomous_turn_delay_ms) == (False, 50, 500)
    assert (given.supervisor_provider, given.verify_interval, given.supervisor_timeout_secs) == (None, 5, 30)
    assert (given.max_stuck_count, given.max_supervisor_fail_count, given.autonomous_turn_timeout_secs) == (3, 3, 300)
    with pytest.raises(ValueError, match="autonomous_turn_delay_ms is 0; it must be 1 or more"):
        GoalSettings(autonomous_turn_delay_ms=0)


@pytest.mark.requirement("Z-117")
@pytest.mark.parametrize(
    ("found", "step"),
    [
        pytest.param(goal(state="pending"), Turn(), id="a pending start begins"),
        pytest.param(goal(), Turn(), id="a running one takes its next turn"),
        pytest.param(goal(state="verifying"), Verify(), id="a check that was put off is made instead of a turn"),
        pytest.param(goal(state="waiting"), None, id="nothing happens before a person has answered"),
        pytest.param(goal(round=2), None, id="a new start has ended the session before"),
        pytest.param(goal(ticks=3), None, id="an older wake-up means nothing"),
        pytest.param(replace(goal(), status="paused"), None, id="a paused goal does not wake"),
        pytest.param(None, None, id="a goal that is gone does not wake"),
        pytest.param(
            goal(limits=Limits(tokens=5_000_000, usd=20.0), used=Used(tokens=3_000_000, usd=6.0)),
            Turn(),
            id="limits of its own stand above the cap of the house",
        ),
        pytest.param(goal(used=Used(unpriced=3)), Turn(), id="without a limit in money prices need not be known"),
    ],
)
def test_a_wake_up(found: Goal | None, step: object) -> None:
    moved = at_wake_up(found, ON, round=1, tick=0)
    assert (moved.next if moved is not None else None) == step


@pytest.mark.requirement("Z-119", "Z-127")
@pytest.mark.parametrize(
    ("found", "settings", "reason"),
    [
        pytest.param(goal(turns=50), ON, "goal_why_turns", id="its turns are used up"),
        pytest.param(goal(), GoalSettings(), "goal_why_off", id="the operator switched it off"),
        pytest.param(goal(limits=Limits(usd=1.0), used=Used(usd=1.0)), ON, "goal_why_usd", id="its money is spent"),
        pytest.param(
            goal(limits=Limits(tokens=100), used=Used(tokens=100)), ON, "goal_why_tokens", id="its tokens are used up"
        ),
        pytest.param(
            goal(limits=Limits(usd=1.0), used=Used(unpriced=1).plus(Used(turns=1))),
            ON,
            "goal_why_unpriced",
            id="a price was unknown some turns ago",
        ),
        pytest.param(goal(used=Used(usd=5.0)), ON, "goal_why_usd", id="the house's cap in money"),
        pytest.param(goal(used=Used(tokens=2_000_000)), ON, "goal_why_tokens", id="the house's cap in tokens"),
        pytest.param(goal(limits=Limits(usd=1.0), used=Used(unpriced=1)), ON, "goal_why_unpriced", id="price unknown"),
    ],
)
def test_a_wake_up_that_ends_it(found: Goal, settings: GoalSettings, reason: str) -> None:
    moved = at_wake_up(found, settings, round=1, tick=0)
    assert moved is not None
    assert (moved.ended, moved.goal.status, state(moved), why(moved)) == (True, "paused", "aborted", reason)


def test_nothing_goes_on_where_something_forbids_it() -> None:
    moved = at_wake_up(goal(), ON, round=1, tick=0, bar=Reason(key="goal_why_gone"))
    assert moved is not None
    assert (moved.ended, why(moved)) == (True, "goal_why_gone")


@pytest.mark.requirement("Z-118", "Z-119", "Z-120", "Z-126")
@pytest.mark.parametrize(
    ("before", "outcome", "expected"),
    [
        pytest.param(goal(), WENT, ("running", Tick(0.5), None), id="the next turn after the delay"),
        pytest.param(goal(turns=4), WENT, ("verifying", Verify(), None), id="checked every fifth turn"),
        pytest.param(goal(turns=5, verified_at=5), WENT, ("running", Tick(0.5), None), id="then not for five turns"),
        pytest.param(goal(), replace(WENT, claims=True), ("verifying", Verify(), None), id="a claim is checked"),
        pytest.param(goal(failures=1), WENT, ("verifying", Verify(), None), id="an owed check is made up for"),
        pytest.param(goal(most=1), WENT, ("verifying", Verify(), None), id="the last turn is checked"),
        pytest.param(goal(), Outcome(came="waits"), ("waiting", Idle(), None), id="a question waits for a person"),
        pytest.param(goal(), Outcome(came="gave_way"), ("running", Tick(0.5), None), id="cut short, it goes on"),
        pytest.param(goal(), Outcome(came="broke"), ("running", Tick(5.0), None), id="a passing failure waits"),
        pytest.param(goal(broken=1), Outcome(came="broke"), ("running", Tick(30.0), None), id="the next one longer"),
        pytest.param(goal(broken=2), Outcome(came="broke"), ("failed", Idle(), "goal_why_broken"), id="the third ends"),
        pytest.param(
            goal(),
            Outcome(came="gave_up", why=Reason(key="budget_daily")),
            ("failed", Idle(), "budget_daily"),
            id="a lasting failure ends it",
        ),
        pytest.param(
            goal(digest=digest_of("step", ()), streak=2), WENT, ("stuck", Idle(), "goal_why_stuck"), id="stuck"
        ),
        pytest.param(goal(digest=digest_of("step", ())), WENT, ("running", Tick(0.5), None), id="one repeat is none"),
        pytest.param(goal(limits=Limits(turns=1)), WENT, ("aborted", Idle(), "goal_why_one_turn"), id="its turns"),
        pytest.param(goal(turns=6, verified_at=2), WENT, ("verifying", Verify(), None), id="five after the last check"),
        pytest.param(goal(broken=2), WENT, ("running", Tick(0.5), None), id="one that went well forgives failures"),
        pytest.param(
            goal(broken=2), Outcome(came="gave_way"), ("running", Tick(0.5), None), id="one that gave way does so too"
        ),
        pytest.param(
            goal(turns=4), Outcome(came="broke"), ("running", Tick(5.0), None), id="what failed is not checked"
        ),
        pytest.param(
            goal(broken=2),
            Outcome(came="broke", why=Reason(key="context_too_long")),
            ("failed", Idle(), "context_too_long"),
            id="the third failure says its reason",
        ),
        pytest.param(
            goal(),
            Outcome(came="barred", why=Reason(key="budget_daily")),
            ("aborted", Idle(), "budget_daily"),
            id="a limit forbids its next call",
        ),
        pytest.param(
            replace(goal(), status="paused"), WENT, ("running", Idle(), None), id="put down while the turn ran"
        ),
    ],
)
def test_after_a_turn(before: Goal, outcome: Outcome, expected: tuple[str, object, str | None]) -> None:
    moved = after_turn(before, outcome, Used(turns=1, tokens=10), ON)
    assert (state(moved), moved.next, why(moved)) == expected
    assert moved.goal.used == before.used.plus(Used(turns=1, tokens=10))
    assert moved.ended == (expected[2] is not None)


@pytest.mark.requirement("Z-126")
@pytest.mark.parametrize(
    ("texts", "turns"),
    [
        pytest.param(["a", "a", "a"], 3, id="three equal answers in a row"),
        pytest.param(["a", " A ", "a"], 3, id="spacing and case do not count"),
        pytest.param(["I cannot open it", "I'm stuck here", "waiting for access"], 3, id="three that cannot go on"),
        pytest.param(["a", "a", "b", "a", "a"], None, id="progress begins the count anew"),
        pytest.param(["I cannot open it", "opened it", "I cannot read it", "read it"], None, id="ways round"),
    ],
)
def test_standing_still_ends_it(texts: list[str], turns: int | None) -> None:
    now = goal(verified_at=100)
    for number, text in enumerate(texts, 1):
        moved = after_turn(now, Outcome(came="went", text=text), Used(turns=1), ON)
        if state(moved) == "stuck":
            assert number == turns
            return
        now = moved.goal
    assert turns is None


@pytest.mark.requirement("Z-119", "Z-123", "Z-124")
@pytest.mark.parametrize(
    ("before", "found", "expected"),
    [
        pytest.param(goal(), Verdict(achieved=True, reason="all there"), ("achieved", Idle(), None), id="reached"),
        pytest.param(
            goal(), Verdict(achieved=True, suggestions="sort them too"), ("achieved", Idle(), None),
            id="reached, whatever else it suggests",
        ),
        pytest.param(goal(), Verdict(achieved=True), ("achieved", Idle(), None), id="reached without a reason"),
        pytest.param(
            goal(failures=2, deferrals=3), Verdict(achieved=True), ("achieved", Idle(), None),
            id="reached after checks that failed",
        ),
        pytest.param(goal(turns=50), Verdict(achieved=True), ("achieved", Idle(), None), id="reached at the last turn"),
        pytest.param(
            goal(used=Used(tokens=2_000_000)), Verdict(achieved=True), ("achieved", Idle(), None),
            id="reached for all that the house allows",
        ),
        pytest.param(goal(), Verdict(achieved=False), ("running", Tick(0.5), None), id="not reached: on it goes"),
        pytest.param(
            goal(), Verdict(achieved=False, reason="half", suggestions="go on"), ("running", Tick(0.5), None),
            id="not reached, with a suggestion",
        ),
        pytest.param(
            goal(used=Used(tokens=2_000_000)), Verdict(achieved=False), ("aborted", Idle(), "goal_why_tokens"),
            id="not reached for all that the house allows",
        ),
        pytest.param(
            goal(limits=Limits(usd=1.0), used=Used(usd=1.0)), Failed("down"), ("aborted", Idle(), "goal_why_usd"),
            id="its money is spent on a check that failed",
        ),
        pytest.param(
            goal(), Barred(Reason(key="budget_daily")), ("aborted", Idle(), "budget_daily"),
            id="a limit forbids the check",
        ),
        pytest.param(goal(turns=50), Verdict(achieved=False), ("aborted", Idle(), "goal_why_turns"), id="last turn"),
        pytest.param(goal(), Busy(), ("verifying", Tick(BUSY_PAUSE_S), None), id="too many calls: later"),
        pytest.param(goal(), Busy(1.0), ("verifying", Tick(5.0), None), id="never sooner than in five seconds"),
        pytest.param(goal(), Busy(60.0), ("verifying", Tick(60.0), None), id="as late as it asks"),
        pytest.param(goal(failures=2), Busy(), ("verifying", Tick(5.0), None), id="too many calls are no failure"),
        pytest.param(goal(), Failed("down"), ("running", Tick(0.5), None), id="one failure"),
        pytest.param(goal(failures=2), Failed("down"), ("aborted", Idle(), "goal_why_supervisor"), id="three in a row"),
        pytest.param(
            goal(deferrals=MOST_DEFERRALS, failures=2), Busy(), ("aborted", Idle(), "goal_why_supervisor"),
            id="busy for minutes is as good as down",
        ),
    ],
)  # fmt: skip
def test_after_a_check(before: Goal, found: Found, expected: tuple[str, object, str | None]) -> None:
    assert before.auto is not None
    moved = after_check(replace(before, auto=replace(before.auto, state="verifying")), found, Used(tokens=7), ON)
    assert (state(moved), moved.next, why(moved)) == expected
    assert moved.goal.used.tokens == before.used.tokens + 7
    assert moved.ended == (moved.next == Idle())
    assert (moved.goal.status == "completed") == (expected[0] == "achieved")


@pytest.mark.requirement("Z-119")
@pytest.mark.parametrize(
    "before",
    [
        pytest.param(goal(state="running"), id="its turns have gone on"),
        pytest.param(replace(goal(state="verifying"), status="paused"), id="it was put down meanwhile"),
    ],
)
@pytest.mark.parametrize("found", [Verdict(achieved=True), Failed("down"), Busy(), Barred(Reason(key="budget_daily"))])
def test_a_check_that_comes_too_late_costs_but_changes_nothing(before: Goal, found: Found) -> None:
    moved = after_check(before, found, Used(tokens=7), ON)
    assert moved == Moved(goal=replace(before, used=Used(tokens=7)), next=Idle())


@pytest.mark.requirement("Z-123", "Z-124")
def test_a_verdict_forgives_earlier_failures() -> None:
    before = goal(state="verifying", failures=2, deferrals=3, turns=5, verdict="nothing yet")
    moved = after_check(before, Verdict(achieved=False, reason="two pages left"), Used(), ON)
    assert moved.goal.auto is not None
    assert (moved.goal.auto.failures, moved.goal.auto.deferrals, moved.goal.auto.verified_at) == (0, 0, 5)
    assert moved.goal.auto.verdict == "two pages left"


@pytest.mark.requirement("Z-124")
def test_a_failed_check_counts_the_failures_and_the_waiting_begins_anew() -> None:
    before = goal(state="verifying", failures=1, deferrals=3, turns=5, verdict="two pages left", verified_at=2)
    moved = after_check(before, Failed("down"), Used(), ON)
    assert moved.goal.auto is not None
    assert (moved.goal.auto.failures, moved.goal.auto.deferrals, moved.goal.auto.verified_at) == (2, 0, 2)
    assert moved.goal.auto.verdict == "two pages left", "what was said last"


def test_its_last_words_and_its_newest_actions_are_kept() -> None:
    before = goal(said="two pages are clean", recent=tuple(f"read {number}" for number in range(9)))
    moved = after_turn(before, Outcome(came="gave_way", actions=("write 1", "write 2")), Used(turns=1), ON)
    assert moved.goal.auto is not None
    assert moved.goal.auto.said == "two pages are clean"
    assert moved.goal.auto.recent == (*(f"read {number}" for number in range(1, 9)), "write 1", "write 2")


@pytest.mark.requirement("Z-126")
def test_the_same_words_after_other_actions_are_no_standing_still() -> None:
    now = goal(verified_at=100)
    for number in range(5):
        moved = after_turn(now, Outcome(came="went", text="next", actions=(f"read {number}",)), Used(turns=1), ON)
        assert (state(moved), moved.next) == ("running", Tick(0.5))
        now = moved.goal


def test_an_answer_lets_it_go_on() -> None:
    moved = after_person(goal(state="waiting"), Used(turns=1), ON)
    assert (state(moved), moved.next) == ("running", Tick(0.5))
    assert after_person(goal(), Used(turns=1), ON).next == Idle()  # its own wake-up is set already


@pytest.mark.requirement("Z-119")
def test_a_turn_of_a_person_ends_it_where_it_spends_the_rest() -> None:
    moved = after_person(goal(state="waiting", limits=Limits(usd=1.0)), Used(turns=1, usd=1.0), ON)
    assert (moved.ended, moved.goal.status, state(moved), why(moved)) == (True, "paused", "aborted", "goal_why_usd")
    by_people = replace(goal(), auto=None)
    moved = after_person(by_people, Used(tokens=2_000_000), ON)
    assert (moved.ended, moved.goal.status) == (False, "active"), "the house's cap is for what runs by itself"


OUTCOMES = st.builds(
    Outcome,
    came=st.sampled_from(["went", "gave_way", "waits", "broke", "gave_up"]),
    text=st.sampled_from(["a", "b", "I cannot"]),
    claims=st.booleans(),
)
FOUND = st.one_of(st.builds(Verdict, achieved=st.booleans()), st.just(Busy()), st.just(Failed("down")))


@settings(max_examples=60)
@given(st.lists(st.one_of(OUTCOMES, FOUND), max_size=40))
def test_it_never_just_stops_and_never_goes_beyond_its_turns(happenings: list[Any]) -> None:
    now = goal(state="pending", most=6)
    for happening in happenings:
        assert now.auto is not None
        if now.auto.state == "waiting":
            moved = after_person(now, Used(turns=1), ON)
        elif now.auto.state == "verifying":
            moved = after_check(now, happening if not isinstance(happening, Outcome) else Busy(), Used(), ON)
        elif isinstance(happening, Outcome):
            moved = after_turn(now, happening, Used(turns=1), ON)
        else:
            continue
        now = moved.goal
        assert now.auto is not None
        assert now.auto.turns <= 6
        assert now.is_autonomous != moved.ended
        assert now.is_autonomous == isinstance(moved.next, Tick | Verify) or now.auto.state == "waiting"
        if moved.ended:
            return
