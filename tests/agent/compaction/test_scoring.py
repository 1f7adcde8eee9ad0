"""The order in which results are pruned, by strategy, and that scoring does not block the event loop."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from agent.compaction import rule_stages
from agent.compaction.scoring import (
    STRATEGIES,
    Block,
    Scene,
    evicted,
    frequencies,
    marginal_gains,
    redundancies,
    similarity,
    strategy_for,
)
from agent.compaction.settings import CompressionSettings, MemorySettings, SidequestSettings, StrategyName
from agent.compaction.state import CompactionState, ContextUsage, Options
from agent.compaction.subgoals import NoTiers, Tier, Tiers
from agent.compaction.window import Window
from tests.bench.context.own_set import PLANS, made
from tests.bench.context.recordings import recording

SHIPS = "container berth crane vessel quay tonnage pilot"
BREAD = "dough flour crust oven ferment gluten crumb"
MIXED = "container berth oven flour timetable gauge axle"


@dataclass
class Given:
    """Tiers as a test has them, by position."""

    by_position: dict[int, Tier]

    def tier(self, position: int) -> Tier:
        return self.by_position.get(position, Tier.OUTDATED)

    def active(self, size: int) -> Sequence[int]:
        return [position for position in range(size) if self.tier(position) is Tier.ACTIVE]


def blocks(*texts: str) -> list[Block]:
    return [
        Block(position=place, call=f"c{place}", tool="look", text=text, tokens=100) for place, text in enumerate(texts)
    ]


def order(strategy: str, found: list[Block], *, goal: str = "", tiers: Tiers | None = None) -> list[int]:
    """The positions in the order in which they would go."""
    scene = Scene(size=len(found), goal=goal, tiers=tiers or NoTiers())
    clearing = evicted(found, STRATEGIES[strategy](found, scene), 10**6)
    return [cleared.position for cleared in clearing.results]


@pytest.mark.requirement("H-12", "H-27", "Z-37", "Z-40", "Z-53")
@pytest.mark.parametrize(
    ("strategy", "goal", "tiers", "first_to_last"),
    [
        pytest.param("reactive", SHIPS, {}, [0, 1, 2], id="reactive takes the oldest"),
        pytest.param("task_aware", SHIPS, {}, [1, 2, 0], id="task_aware takes what the goal has nothing to do with"),
        pytest.param("task_aware", "", {}, [0, 1, 2], id="task_aware without a goal is reactive"),
        pytest.param("mig", SHIPS, {}, [1, 2, 0], id="mig takes what tells nothing, then what a better one tells too"),
        pytest.param(
            "subgoal",
            "",
            {0: Tier.COMPLETED, 1: Tier.ACTIVE},
            [2, 0],
            id="subgoal takes outdated before completed and active never",
        ),
        pytest.param(
            "subgoal_mig",
            "",
            {0: Tier.COMPLETED, 1: Tier.ACTIVE},
            [2, 0],
            id="subgoal_mig takes what is outdated and redundant first",
        ),
        pytest.param(
            "subgoal_mig_multiplied",
            SHIPS,
            {0: Tier.COMPLETED, 1: Tier.ACTIVE},
            [2, 0],
            id="the multiplied form weighs the gain by the tier",
        ),
    ],
)
def test_each_strategy_has_its_order(
    strategy: str, goal: str, tiers: dict[int, Tier], first_to_last: list[int]
) -> None:
    assert order(strategy, blocks(SHIPS, BREAD, MIXED), goal=goal, tiers=Given(tiers)) == first_to_last


@pytest.mark.requirement("H-12")
def test_multiplied_by_its_tier_the_twin_of_an_outdated_step_goes_before_that_of_a_completed_one() -> None:
    tiers = Given({0: Tier.COMPLETED, 1: Tier.OUTDATED, 2: Tier.COMPLETED})
    assert order("subgoal_mig_multiplied", blocks(SHIPS, SHIPS, SHIPS), tiers=tiers) == [1, 0, 2]


@pytest.mark.requirement("H-29")
@given(
    st.lists(st.tuples(st.one_of(st.none(), st.sampled_from((-0.7, 0.1, 0.3))), st.integers(1, 50)), max_size=12),
    st.integers(0, 200),
)
def test_whoever_scores_the_lowest_go_first_and_no_more_than_is_needed(
    given_scores: list[tuple[float | None, int]], need: int
) -> None:
    scores, weights = [score for score, _ in given_scores], [tokens for _, tokens in given_scores]
    found = [replace(block, tokens=tokens) for block, tokens in zip(blocks(*"x" * len(weights)), weights, strict=True)]
    taken = [cleared.position for cleared in evicted(found, scores, need).results]
    may_go = sorted((score, position) for position, score in enumerate(scores) if score is not None)
    assert taken == [position for _, position in may_go[: len(taken)]], "in the order of their scores, then of age"
    reclaimed = [found[position].tokens for position in taken]
    assert sum(reclaimed[:-1]) < need or not reclaimed
    assert sum(reclaimed) >= need or len(taken) == len(may_go), "as many as it takes, where there are so many"


@pytest.mark.requirement("H-26")
def test_within_a_tier_the_older_goes_first_and_age_never_outweighs_the_tier() -> None:
    tiers = Given({0: Tier.COMPLETED, 3: Tier.COMPLETED})
    assert order("subgoal", blocks(SHIPS, BREAD, MIXED, SHIPS), tiers=tiers) == [1, 2, 0, 3]


@pytest.mark.requirement("H-28", "Z-37")
def test_a_strategy_is_read_from_text_in_any_case_and_an_unknown_one_is_refused() -> None:
    settings = TypeAdapter(CompressionSettings)
    assert settings.validate_python({"pruning_strategy": "Subgoal_MIG"}).pruning_strategy == "subgoal_mig"
    assert settings.validate_python({"pruning_strategy": "subgoal"}).pruning_strategy == "subgoal"
    with pytest.raises(ValidationError, match="pruning_strategy"):
        settings.validate_python({"pruning_strategy": "oldest"})


@pytest.mark.requirement("Z-39", "Z-54")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_strategy_ever_takes_an_active_block(strategy: str) -> None:
    twins = blocks(SHIPS, SHIPS)
    assert order(strategy, twins, goal=BREAD, tiers=Given({0: Tier.ACTIVE})) == [1], "however redundant it is"


@pytest.mark.requirement("Z-53")
def test_of_two_twins_the_less_relevant_has_lost_its_worth() -> None:
    words = frequencies(SHIPS)
    assert redundancies([0.9, 0.4], [words, words]) == [0.0, 1.0]
    assert marginal_gains([0.9, 0.4], [words, words]) == pytest.approx([0.9, -0.6])
    assert redundancies([0.5, 0.5], [words, words]) == [0.0, 0.0], "equals are no rivals"
    kin = frequencies("the crane and the loaf")  # shares a word with what follows: its twin counts all the same
    assert redundancies([0.9, 0.8, 0.4], [words, kin, words])[2] == pytest.approx(1.0)


@given(st.lists(st.tuples(st.sampled_from((0.1, 0.3, 1.0)), st.text("abcde ", max_size=30)), max_size=8))
def test_redundancy_is_the_largest_similarity_with_anything_more_relevant(pieces: list[tuple[float, str]]) -> None:
    relevances = [relevance for relevance, _ in pieces]
    texts = [frequencies(text) for _, text in pieces]
    plain = [
        max(
            (similarity(text, other) for height, other in zip(relevances, texts, strict=True) if height > relevance),
            default=0.0,
        )
        for relevance, text in zip(relevances, texts, strict=True)
    ]
    assert redundancies(relevances, texts) == pytest.approx(plain)


def test_words_are_weighed_by_how_often_they_occur() -> None:
    assert frequencies("The crane, the CRANE and a berth; is 42") == {"crane": 2 / 3, "berth": 1 / 3}
    assert similarity(frequencies(SHIPS), frequencies(SHIPS)) == 1.0
    assert similarity(frequencies(SHIPS), frequencies(BREAD)) == 0.0
    assert similarity({}, {}) == 0.0


@pytest.mark.requirement("H-10", "H-11", "H-12", "Z-37")
@pytest.mark.parametrize(
    ("name", "mode", "known", "counts"),
    [
        ("subgoal", "subtractive", True, "subgoal"),
        ("subgoal_mig", "subtractive", True, "subgoal_mig"),
        ("subgoal_mig", "multiplicative", True, "subgoal_mig_multiplied"),
        ("subgoal", "subtractive", False, "task_aware"),
        ("subgoal_mig", "multiplicative", False, "task_aware"),
        ("mig", "multiplicative", False, "mig"),
    ],
)
def test_without_subgoals_their_strategies_go_by_the_task(
    name: StrategyName, mode: str, known: bool, counts: str
) -> None:
    settings = CompressionSettings(pruning_strategy=name, subgoal_mig_mode=mode)  # type: ignore[arg-type]
    assert strategy_for(settings, subgoals_known=known) == counts


@pytest.mark.requirement("Z-55", "H-38")
@pytest.mark.parametrize("strategy", ["subgoal", "subgoal_mig"])
def test_sidequest_beside_a_subgoal_strategy_is_refused_and_both_keys_are_named(strategy: StrategyName) -> None:
    compression = CompressionSettings(pruning_strategy=strategy)
    with pytest.raises(ValueError, match=rf'sidequest.enabled and compression.pruning_strategy = "{strategy}"'):
        MemorySettings(compression=compression, sidequest=SidequestSettings(enabled=True))
    MemorySettings(compression=CompressionSettings(pruning_strategy="mig"), sidequest=SidequestSettings(enabled=True))


@pytest.mark.requirement("Z-64")
async def test_the_event_loop_goes_on_while_a_long_session_is_compared() -> None:
    """The loop's thread is busy for less than 20 ms between 99 of 100 beats; the best of three."""
    session = max((recording(made(plan)) for plan in PLANS), key=lambda one: len(one.messages))
    window = Window(lambda message: 100)
    window.extend(session.messages)
    assert len(window) > 550
    lags = [await lag_of_pruning(window) for _ in range(3)]
    assert min(lags) < 0.02


async def lag_of_pruning(window: Window) -> float:
    """The longest delay of 100 beats of the event loop during a pass, in seconds of its own thread."""
    state = CompactionState(count=lambda message: 100)
    state.window = window
    memory = MemorySettings(compression=CompressionSettings(pruning_strategy="mig"), prune_protect_tokens=0)
    load = ContextUsage(fixed=0, scale=1.0, window=10_000, room=7_000, first=True)
    lags: list[float] = []

    async def beat() -> None:
        while True:
            before = time.thread_time()  # whoever else crowds the machine is not counted
            await anyio.sleep(0.002)
            lags.append(time.thread_time() - before)

    async with anyio.create_task_group() as group:
        group.start_soon(beat)
        reclaimed = await rule_stages.prune(state, Options(memory=memory), 1, load, len)
        group.cancel_scope.cancel()
    assert reclaimed.count == 1
    assert len(lags) > 5, "it beat all the while"
    return sorted(lags)[int(len(lags) * 0.99)]
