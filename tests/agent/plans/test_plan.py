"""The tasks of a plan and their moves."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.plans.plan import (
    OVER,
    Impossible,
    Task,
    Tasks,
    aborted,
    begun,
    checked,
    failed,
    finished,
    interrupted,
    may_be_cut_off,
    outlook,
    preempted,
    resumed,
    task_of,
    tried_again,
)
from agent.plans.settings import Strategy

DIAMOND = {1: (), 2: (1,), 3: (1,), 4: (2, 3)}


def graph(needs: dict[int, tuple[int, ...]], **more: object) -> Tasks:
    return tuple(Task(id=id, title=f"t{id}", text="do it", needs=of, **more) for id, of in needs.items())  # type: ignore[arg-type]


def states(tasks: Tasks) -> str:
    return " ".join(task.state for task in tasks)


@pytest.mark.parametrize(
    ("needs", "key"),
    [
        pytest.param({}, "plan_why_empty", id="nothing to do"),
        pytest.param({1: (1,)}, "plan_why_circle", id="needs itself"),
        pytest.param({1: (3,), 2: (1,), 3: (2,)}, "plan_why_circle", id="a circle of three"),
        pytest.param({1: (), 2: (9,)}, "plan_why_need", id="needs what is not there"),
        pytest.param(dict.fromkeys(range(1, 22), ()), "plan_why_many", id="one too many"),
    ],
)
def test_what_is_no_plan(needs: dict[int, tuple[int, ...]], key: str) -> None:
    with pytest.raises(Impossible) as refused:
        checked(graph(needs), most=20)
    assert refused.value.key == key


def test_a_task_begins_when_all_it_needs_is_done_and_there_is_room() -> None:
    tasks, first = begun(checked(graph(DIAMOND), most=20), most=4)
    assert first == (1,)
    assert begun(tasks, most=4)[1] == ()
    tasks, both = begun(finished(tasks, 1, "one", 0.1), most=4)
    assert both == (2, 3)
    tasks, last = begun(finished(tasks, 2, "two", None), most=4)
    assert (last, states(tasks)) == ((), "completed completed running pending")
    wide, two = begun(graph(dict.fromkeys(range(1, 5), ())), most=2)
    assert (two, states(wide)) == ((1, 2), "running running queued queued")


@pytest.mark.parametrize(
    ("strategy", "after", "sees"),
    [
        pytest.param("abort", "completed failed aborted aborted", "failed", id="the whole plan ends"),
        pytest.param("skip", "completed skipped running skipped", "going", id="left out with what needs it"),
        pytest.param("ask", "completed failed running pending", "going", id="others go on before a person is asked"),
        pytest.param("retry", "completed pending running pending", "going", id="it is tried again"),
    ],
)
def test_what_a_failure_does(strategy: Strategy, after: str, sees: str) -> None:
    tasks, _ = begun(finished(begun(graph(DIAMOND), most=4)[0], 1, "one", 0.0), most=4)
    tasks = failed(tasks, 2, "no", 0.0, strategy=strategy, max_retries=3)
    assert (states(tasks), outlook(tasks, strategy=strategy)) == (after, sees)


def test_it_is_tried_again_three_times() -> None:
    tasks = graph({1: (), 2: (1,)})
    for _ in range(4):
        assert outlook(tasks, strategy="retry") == "going"
        tasks = failed(begun(tasks, most=4)[0], 1, "no", 0.0, strategy="retry", max_retries=3)
    assert (states(tasks), outlook(tasks, strategy="retry")) == ("failed aborted", "failed")
    assert task_of(tasks, 1).attempts == 4


def test_a_late_report_changes_nothing() -> None:
    tasks = aborted(begun(graph(DIAMOND), most=4)[0])
    assert finished(tasks, 1, "late", 0.0) == tasks
    assert failed(tasks, 1, "late", 0.0, strategy="abort", max_retries=3) == tasks
    assert preempted(tasks, 1, 0.0) == tasks


def test_what_was_cut_off_waits_for_a_word() -> None:
    tasks = interrupted(begun(graph({1: (), 2: (), 3: (1,)}), most=1)[0])
    assert states(tasks) == "interrupted pending pending"
    assert begun(tasks, most=4)[1] == (2,)
    assert states(resumed(tasks)) == "pending pending pending"


def test_going_on_leaves_out_what_failed_and_trying_again_does_not() -> None:
    tasks = failed(begun(graph({1: (), 2: (1,), 3: ()}), most=4)[0], 1, "no", 0.0, strategy="ask", max_retries=3)
    tasks = finished(tasks, 3, "three", 0.0)
    assert outlook(tasks, strategy="ask") == "asks"
    assert states(resumed(tasks)) == "skipped skipped completed"
    assert outlook(resumed(tasks), strategy="ask") == "done"
    assert states(tried_again(tasks)) == "pending pending completed"


def test_a_task_is_cut_off_twice_at_most() -> None:
    tasks = graph({1: ()})
    for _ in range(2):
        assert may_be_cut_off(tasks[0])
        tasks = preempted(begun(tasks, most=1)[0], 1, 0.0)
    assert not may_be_cut_off(tasks[0])


def test_all_left_out_is_no_success() -> None:
    assert outlook(tuple(replace(task, state="skipped") for task in graph(DIAMOND)), strategy="skip") == "failed"


@settings(max_examples=40)
@given(st.data())
def test_every_plan_without_a_circle_comes_to_its_end(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 7))
    needs = {id: tuple(data.draw(st.sets(st.integers(1, id - 1)))) if id > 1 else () for id in range(1, count + 1)}
    strategy: Strategy = data.draw(st.sampled_from(("abort", "retry", "skip", "ask")))
    tasks, most = checked(graph(needs), most=20), data.draw(st.integers(1, 4))
    for _ in range(5 * count + 5):
        tasks, _ = begun(tasks, most=most)
        running = [task.id for task in tasks if task.state == "running"]
        assert len(running) <= most
        assert all(task_of(tasks, need).state == "completed" for id in running for need in needs[id])
        if not running:
            break
        if data.draw(st.booleans()):
            tasks = finished(tasks, running[0], "done", 0.0)
        else:
            tasks = failed(tasks, running[0], "no", 0.0, strategy=strategy, max_retries=1)
    assert outlook(tasks, strategy=strategy) != "going"
    if strategy != "ask":
        assert all(task.state in OVER | {"failed"} for task in tasks)
