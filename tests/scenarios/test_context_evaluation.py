"""The evaluation itself: what it measures, that it fails when it should, what the default comes to on a session."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import pytest

from agent.compaction.scoring import EVICTED
from agent.compaction.selection import CLEARED
from agent.compaction.settings import CompressionSettings, MemorySettings
from agent.compaction.state import CompactionState, Options
from agent.core.events import CompactComplete, Event
from agent.core.messages import Message, TextPart, ToolResult, ToolUse, text_message
from agent.turn.tokens import count_by_bytes
from tests.bench.context.__main__ import NAMES as STRATEGIES
from tests.bench.context.figures import CACHE_READ, CACHE_WRITE, INPUT, OUTPUT, Figures, paired
from tests.bench.context.own_set import PASTED, PLANS, made
from tests.bench.context.provenance import Readable, Sources, holds
from tests.bench.context.recordings import Recording, joined, recording
from tests.bench.context.replay import Broken, Measured, Value, check, play, tokens_of
from tests.bench.context.summariser import Asked, Summariser
from tests.bench.context.transcript import query_from


def session(name: str) -> Recording:
    return recording(made(next(plan for plan in PLANS if plan.name == name)))


def test_the_set_has_long_and_varied_sessions() -> None:
    sessions = [recording(made(plan)) for plan in PLANS]
    assert len(sessions) >= 12
    assert all(150 <= len(one.messages) <= 600 for one in sessions)
    assert all(len(one.borders) >= 15 for one in sessions)
    assert made(PLANS[0]) == made(PLANS[0]), "the same from the same seed"


async def test_the_default_strategy_keeps_what_later_calls_need_in_less_than_half() -> None:
    one = session("workshop-3")
    window = tokens_of(one, count_by_bytes) // 2
    measured = await play(one, Options(), window, count_by_bytes)
    assert sum(measured.sizes) < 0.5 * sum(measured.bare)
    assert measured.in_window / len(measured.values) >= 0.85
    assert measured.found / len(measured.values) >= 0.95
    assert measured.checked > 1_000
    assert set(measured.asked) <= {"subgoal", "pair_summary", "compaction"}, "no model but the summariser's"


OWN = ("operations-1", "shop-1", "library-1", "workshop-1", "ledger-1")  # read as one long session


class StagesRun:
    """The stages that ran, by the events of the engine."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def __call__(self, event: Event) -> None:
        self.seen.add(event.stage if isinstance(event, CompactComplete) else event.name)


class Shown:
    """The calls whose results each request holds as tools gave them."""

    def __init__(self) -> None:
        self.results: list[frozenset[str]] = []

    def __call__(self, sent: Sequence[Message]) -> None:
        parts = (part for message in sent for part in message.tool_results)
        self.results.append(frozenset(part.tool_use_id for part in parts if part.content not in (CLEARED, EVICTED)))


async def climbed(one: Recording, window: int, *, in_time: bool = True, failing: Collection[str] = ()) -> set[str]:
    model, stages = Summariser(count_by_bytes, failing), StagesRun()
    model.in_time = in_time
    await play(one, Options(), window, count_by_bytes, model=model, watch=stages)
    return stages.seen


@pytest.mark.requirement("R-05", "Z-12", "Z-28", "Z-38", "Z-40", "Z-53", "H-02", "H-03", "H-06", "H-26", "H-27", "H-30")
async def test_at_shipped_defaults_the_stages_run_on_the_trees_own_sessions() -> None:
    """Pruning, folding, the session summary; where the model fails, clearing and what follows it."""
    long = joined([session(name) for name in OWN])
    by_rule = {"tool_outputs_pruned", "deferred_summaries_applied", "mid_compact_layer2_ran"}
    assert by_rule <= await climbed(long, 32_000)
    assert {"microcompact_ran", "high"} <= await climbed(long, 32_000, failing=("compaction",))


@pytest.mark.slow
async def test_at_shipped_defaults_a_late_summary_leaves_room_to_be_cleared() -> None:
    long = joined([session(name) for name in OWN])
    assert {"microcompact_ran", "high"} <= await climbed(long, 32_000, in_time=False)


@pytest.mark.slow
async def test_at_shipped_defaults_the_stages_run_in_a_large_window_too() -> None:
    long = joined([session(plan.name) for plan in PLANS if not plan.name.endswith("2")])
    by_rule = {"tool_outputs_pruned", "deferred_summaries_applied", "mid_compact_layer2_ran"}
    assert by_rule <= await climbed(long, 128_000)
    assert "microcompact_ran" in await climbed(long, 128_000, failing=("compaction",))


@pytest.mark.requirement("Z-29", "Z-50")
@pytest.mark.parametrize(
    ("name", "window", "stages"),
    [
        ("correspondence-1", 32_000, {"microcompact_ran", "high", "hard", "digest"}),
        pytest.param(
            "correspondence-2", 128_000, {"microcompact_ran", "high", "hard", "digest"}, marks=pytest.mark.slow
        ),
    ],
)
async def test_at_shipped_defaults_a_burst_of_long_words_reaches_the_hard_stage(
    name: str, window: int, stages: set[str]
) -> None:
    """Before the summary that is made in the background is ready, more comes than one structured summary is for."""
    one = recording(made(next(plan for plan in PASTED if plan.name == name)))
    seen = await climbed(one, window, in_time=False)
    assert stages <= seen
    in_time = await climbed(one, window)
    assert not {"high", "hard", "digest"} & in_time, "the summary made ahead takes their place"


@pytest.mark.requirement("Z-37", "H-29", "H-30")
@pytest.mark.parametrize(
    ("name", "window"), [("workshop-3", 32_000), pytest.param("workshop-2", 128_000, marks=pytest.mark.slow)]
)
async def test_at_shipped_defaults_each_strategy_chooses_differently(name: str, window: int) -> None:
    kept, one = {}, session(name)
    for strategy in STRATEGIES:
        options = Options(memory=MemorySettings(compression=CompressionSettings(pruning_strategy=strategy)))
        shown = Shown()
        await play(one, options, window, count_by_bytes, read=shown)
        kept[strategy] = tuple(shown.results)
    assert len(set(kept.values())) == len(STRATEGIES)


async def test_the_engine_asks_little_of_a_model() -> None:
    one = session("shop-3")
    measured = await play(one, Options(), 32_000, count_by_bytes)
    asked = measured.asked.values()
    assert 0 < sum(one.count for one in asked) <= 0.3 * measured.turns
    assert sum(one.prompt + one.output for one in asked) <= 0.05 * sum(measured.sizes)


def measured_with(*sessions: tuple[int, int, tuple[bool, ...]], strategy: str = "a") -> Figures:
    """Sessions of one turn: tokens of the request, tokens of them cached, and whether each value was in the window."""
    found = []
    for size, cached, values in sessions:
        one = Measured("s", 2, 32_000, turns=1, sizes=[size], bare=[size], cached=cached)
        one.values = [Value(number, "v", kept, recalled=False) for number, kept in enumerate(values)]
        found.append(one)
    return Figures(strategy, found)


def test_money_is_what_is_read_written_and_asked() -> None:
    figures = measured_with((1_000_000, 400_000, (True,)))
    assert figures.money == pytest.approx(100 * (0.4 * CACHE_READ + 0.6 * CACHE_WRITE))
    figures.sessions[0].asked = {"subgoal": Asked(1, 1_000_000, 100_000)}
    assert figures.questions_money == pytest.approx(100 * (INPUT + 0.1 * OUTPUT))
    assert figures.questions_a_turn == 1
    assert figures.questions_share == pytest.approx(1.1)


def test_the_front_has_those_that_nobody_beats() -> None:
    cheap = measured_with((100_000, 0, (True, False)))
    dear = measured_with((200_000, 0, (True, True)))
    beaten = measured_with((200_000, 0, (True, False)))
    assert [one.stands_on_front([cheap, dear, beaten]) for one in (cheap, dear, beaten)] == [True, True, False]


def test_an_interval_is_paired_by_subgoal() -> None:
    some = tuple(number % 2 == 0 for number in range(40))
    every, half = measured_with((1, 0, (True,) * 40)), measured_with((1, 0, some))
    gained = paired(every, half, in_window=True)
    assert gained.difference == 0.5
    assert 0.3 < gained.low < 0.5 < gained.high < 0.7
    assert paired(half, half, in_window=True).high == 0, "the same sessions differ in nothing"


def test_a_value_counts_when_a_result_gave_it_and_nobody_said_it() -> None:
    sources = Sources()
    sources.note(text_message("user", "book HAT-200 for me"))
    sources.note(Message(role="user", parts=(ToolResult(tool_use_id="c", content='{"id": "K7-991", "seat": 4411}'),)))
    use = ToolUse(
        id="d", name="book", input={"id": "K7-991", "flight": "HAT-200", "seat": 4411, "n": 1, "more": ["K7"]}
    )
    assert sources.taken([use]) == ["K7-991", "4411"]


@pytest.mark.parametrize(("text", "held"), [("id=K7.", True), ("AK7 K72", False), ("xK7, K7", True), ("", False)])
def test_a_value_is_a_word_of_its_own(text: str, held: bool) -> None:
    assert holds(text, "K7") is held


def test_the_arguments_of_earlier_calls_are_readable_too() -> None:
    called = Message(role="assistant", parts=(ToolUse(id="c", name="look", input={"at": ["berth 7"]}),))
    assert Readable().any_holds([called], "berth 7")


def test_a_query_is_made_of_the_newest_words_that_tell_something() -> None:
    sent = [
        text_message("user", "the crane at the harbour berth moves containers while vessels wait outside"),
        text_message("assistant", "Which crane?"),
        text_message("user", "the blue one, please"),
    ]
    words = query_from(sent).split()
    assert words[:3] == ["blue", "one", "please"]
    assert {"crane", "harbour", "vessels"} <= set(words)


def test_joined_recordings_share_no_ids_and_know_their_borders() -> None:
    one = session("workshop-3")
    both = joined([one, one])
    ids = [use.id for message in both.messages for use in message.tool_uses]
    assert len(ids) == len(set(ids))
    assert both.borders[len(one.borders)] == len(one.messages)


class Active:
    """Everything is active."""

    def tier(self, position: int) -> object:
        raise AssertionError

    def active(self, size: int) -> Sequence[int]:
        return range(size)


@pytest.mark.parametrize("pinned", [True, False], ids=["pinned", "active"])
def test_the_run_fails_when_a_promise_is_broken(pinned: bool) -> None:
    said = Message(role="user", parts=(TextPart(text="never after ten"),), id=1, pinned=pinned)
    changed = replace(said, parts=(TextPart(text="never after eleven"),))
    state = CompactionState(count=lambda message: 1)
    if not pinned:
        state.tiers = Active()  # type: ignore[assignment]
    check("a session", state, [said], {1: said})
    with pytest.raises(Broken, match=r"the (pinned|active) message 1 is not what it was"):
        check("a session", state, [changed], {1: said})
    with pytest.raises(Broken, match="were parted"):
        check("a session", state, [Message(role="assistant", parts=(ToolUse(id="c", name="look"),))], {})
