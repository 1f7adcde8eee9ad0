"""The stage for each pressure, and the order of stages."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.compaction.settings import MemorySettings
from agent.compaction.stages import BY_MODEL, Limits, PolicyInput, Stage, limits_for, next_stage, order_of
from agent.run.settings import ContextSettings

LIMITS = limits_for(200_000, 177_000, MemorySettings(), reserve_floor=4_000, flush_threshold=8_000)
READY = PolicyInput(
    level="safe",
    first=True,
    may_ask=True,
    hard_ready=True,
    flush_due=False,
    prune_pays=False,
    summaries_wait=False,
    clear_from=None,
)


BY_RULE = [Stage.PRUNE, Stage.MID, Stage.MICROCOMPACT]  # of the stages that nothing has been prepared for


def stages(tokens: int, standing: PolicyInput = READY, limits: Limits = LIMITS) -> list[Stage]:
    """The stages of a pass in which none frees anything."""
    done: list[Stage] = []
    while (stage := next_stage(tokens, done, limits, standing)) is not None:
        done.append(stage)
    return done


@pytest.mark.requirement("R-05", "R-08", "R-09", "R-48", "Z-28", "Z-29", "W-27", "B-94")
@pytest.mark.parametrize(
    ("tokens", "called"),
    [
        pytest.param(120_000, [], id="0.60 itself is no pressure"),
        pytest.param(120_001, BY_RULE, id="above 0.60 the mechanical stages, clearing last"),
        pytest.param(150_000, BY_RULE, id="0.75 itself asks no model"),
        pytest.param(150_001, [*BY_RULE, Stage.HIGH], id="above 0.75 of 200,000"),
        pytest.param(176_999, [*BY_RULE, Stage.HIGH], id="up to the hard threshold"),
        pytest.param(
            177_001,
            [*BY_RULE, Stage.HARD, Stage.DIGEST],
            id="at the ceiling, below 0.90 here, the full compaction, then whatever makes it fit",
        ),
    ],
)
def test_the_pressure_calls_for(tokens: int, called: list[Stage]) -> None:
    assert stages(tokens) == called


@pytest.mark.requirement("R-05")
@pytest.mark.parametrize(
    ("tokens", "called"),
    [
        pytest.param(100, [Stage.MICROCOMPACT], id="whatever the pressure"),
        pytest.param(120_001, [Stage.MICROCOMPACT, Stage.PRUNE, Stage.MID], id="before anything is chosen"),
    ],
)
def test_what_clears_first_clears_before_each_call(tokens: int, called: list[Stage]) -> None:
    assert stages(tokens, replace(READY, clear_from=0)) == called


@pytest.mark.parametrize(
    ("tokens", "changes", "prunes"),
    [
        pytest.param(100, {"prune_pays": True}, True, id="with room left, where it pays"),
        pytest.param(100, {}, False, id="with room left it does not"),
        pytest.param(120_000, {"summaries_wait": True}, False, id="nothing was folded at the threshold itself"),
    ],
)
def test_pruning(tokens: int, changes: dict[str, bool], prunes: bool) -> None:
    assert (Stage.PRUNE in stages(tokens, replace(READY, **changes))) is prunes  # type: ignore[arg-type]


def test_once_the_prefix_is_broken_pruning_goes_down_to_what_it_aims_at() -> None:
    for tokens, stage in ((LIMITS.pruned + 1, Stage.PRUNE), (LIMITS.pruned, None)):
        assert next_stage(tokens, {Stage.SUMMARIES}, LIMITS, READY) is stage


@pytest.mark.requirement("Z-28", "Z-12")
@pytest.mark.parametrize(
    ("tokens", "waiting", "folds"),
    [
        pytest.param(120_001, True, True, id="pressure applies what there is"),
        pytest.param(120_000, True, False, id="without pressure the prefix stays as it is"),
        pytest.param(120_001, False, False, id="nothing waits"),
    ],
)
def test_deferred_summaries(tokens: int, waiting: bool, folds: bool) -> None:
    assert (Stage.SUMMARIES in stages(tokens, replace(READY, summaries_wait=waiting))) is folds


@pytest.mark.requirement("W-63", "H-39")
def test_off_leaves_only_the_clearing_of_results() -> None:
    assert stages(1_000_000, replace(READY, level="off")) == [Stage.MICROCOMPACT]


def test_inside_a_tool_loop_no_model_is_asked() -> None:
    assert not BY_MODEL & set(stages(190_000, replace(READY, first=False)))


@pytest.mark.parametrize(
    "standing",
    [
        pytest.param(replace(READY, may_ask=False), id="one model compaction a turn"),
        pytest.param(replace(READY, hard_ready=False), id="the hard stage cools down"),
    ],
)
def test_what_is_not_allowed_gives_way_to_the_digest(standing: PolicyInput) -> None:
    called = stages(190_000, standing)
    assert not BY_MODEL & set(called)
    assert called[-1] is Stage.DIGEST


@pytest.mark.parametrize(
    ("tokens", "flushed"),
    [
        pytest.param(139_999, False, id="below 0.70"),
        pytest.param(140_001, True, id="notes are written before a model compacts"),
    ],
)
def test_flush(tokens: int, flushed: bool) -> None:
    called = stages(tokens, replace(READY, flush_due=True))
    assert (Stage.FLUSH in called) is flushed


@given(
    st.integers(0, 300_000),
    st.builds(
        PolicyInput,
        level=st.sampled_from(["off", "safe", "full"]),
        first=st.booleans(),
        may_ask=st.booleans(),
        hard_ready=st.booleans(),
        flush_due=st.booleans(),
        prune_pays=st.booleans(),
        summaries_wait=st.booleans(),
        clear_from=st.sampled_from([None, 0, 50_000]),
    ),
    st.sampled_from([2_000, 8_000, 32_000, 128_000, 200_000, 2_000_000]),
)
@pytest.mark.requirement("G-31")
def test_the_order_holds_and_one_model_at_most(tokens: int, standing: PolicyInput, window: int) -> None:
    room = window - min(20_000, window // 4) - min(3_000, window // 16)
    limits = limits_for(window, room, MemorySettings(), reserve_floor=4_000, flush_threshold=8_000)
    called = stages(tokens, standing, limits)
    order = order_of(clears_first=standing.clear_from is not None)
    assert called == [stage for stage in order if stage in called]
    assert sum(stage in BY_MODEL for stage in called) <= 1
    if Stage.FLUSH in called:
        assert all(order.index(stage) > order.index(Stage.FLUSH) for stage in called if stage in BY_MODEL)


@pytest.mark.requirement("B-19", "B-78")
@pytest.mark.parametrize("window", [2_000, 8_000, 16_000, 32_000, 128_000, 200_000, 2_000_000])
def test_the_thresholds_rise_and_never_lie_above_the_ceiling(window: int) -> None:
    room = window - min(20_000, window // 4) - min(3_000, window // 16)
    limits = limits_for(window, room, MemorySettings(), reserve_floor=4_000, flush_threshold=8_000)
    assert 0 < limits.soft < limits.flush < limits.high < limits.hard <= limits.room
    assert limits.hard <= window - min(4_000, window // 8)


@pytest.mark.requirement("B-78", "B-79")
def test_reserve_floor_and_thresholds_are_the_operators() -> None:
    assert (ContextSettings().reserve_floor, ContextSettings().flush_threshold) == (4_000, 8_000)
    early = limits_for(100_000, 99_000, MemorySettings(), reserve_floor=12_000, flush_threshold=8_000)
    late = limits_for(100_000, 99_000, MemorySettings(), reserve_floor=4_000, flush_threshold=8_000)
    assert (early.hard, late.hard) == (88_000, 90_000)


@pytest.mark.requirement("R-48")
def test_between_the_steps_of_a_turn_the_mechanical_stages_are_called_as_before_its_first() -> None:
    assert stages(120_001, replace(READY, first=False)) == BY_RULE
