"""SideQuest: what a cheap model may evict, and what it may not."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from agent.compaction.engine import Engine
from agent.compaction.optional_stages import EVICTED, cursors_in, is_due, named_in
from agent.compaction.question import Ask, Question
from agent.compaction.settings import CompressionSettings, MemorySettings, MicrocompactSettings, SidequestSettings
from agent.compaction.state import CompactionState, ContextUsage, Options
from agent.compaction.subgoals import NoTiers, Subgoals
from agent.core.ids import ConversationId, RunId
from agent.core.messages import Message, ToolResult, ToolUse, text_message
from agent.memory.ranking import retention

Job = Callable[[], Awaitable[None]]
SETTINGS = SidequestSettings(enabled=True, interval_turns=2, min_cursor_tokens=50)
LOAD = ContextUsage(fixed=0, scale=1.0, window=100_000, room=70_000, first=True)


def conversation(*sizes: int, pinned: int | None = None) -> CompactionState:
    """One with a result of each size, in tokens."""
    state = CompactionState(count=lambda message: len(message.content) // 4)
    state.window.append(text_message("user", "look everywhere"))
    for number, size in enumerate(sizes):
        state.window.append(Message(role="assistant", parts=(ToolUse(id=f"c{number}", name="look"),)))
        result = ToolResult(tool_use_id=f"c{number}", content="data" * size)
        state.window.append(Message(role="user", parts=(result,), pinned=number == pinned))
    return state


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        pytest.param('{"del_cursors": [3, 0]}', [3, 0], id="as asked"),
        pytest.param('Gladly: {"del_cursors": [1]} there', [1], id="with words around"),
        pytest.param('{"del_cursors": [7, -1, 2, 2, true, "1"]}', [2], id="out of range, twice, of another kind"),
        pytest.param('{"del_cursors": [0, 1, 2, 3]}', [0, 1], id="all of them: half at most"),
        pytest.param("none, I think", [], id="no JSON"),
        pytest.param('{"del_cursors": 3}', [], id="no list"),
        pytest.param('{"keep": []}', [], id="another key"),
    ],
)
def test_an_answer_is_read_and_capped(answer: str, named: list[int]) -> None:
    assert named_in(answer, 4, 0.5) == named


def test_the_largest_results_are_shown_and_nothing_pinned_small_or_cleared() -> None:
    state = conversation(60, 200, 40, 100, pinned=1)
    assert [cursor.tokens for cursor in cursors_in(state.window, NoTiers(), SETTINGS)] == [104, 64]
    assert len(cursors_in(state.window, NoTiers(), SidequestSettings(min_cursor_tokens=1, max_cursors=2))) == 2


@pytest.mark.requirement("H-13")
def test_what_belongs_to_the_active_subgoal_is_never_shown() -> None:
    state, subgoals = conversation(60, 200), Subgoals()
    subgoals.push_active("look", 3)
    subgoals.extend_active(5)
    assert [cursor.call for cursor in cursors_in(state.window, subgoals, SETTINGS)] == ["c0"]


def test_it_comes_every_few_turns() -> None:
    assert [turn for turn in range(7) if is_due(turn, SETTINGS)] == [2, 4, 6]
    assert not is_due(2, SidequestSettings(interval_turns=2)), "off by default"


async def after_two_turns(state: CompactionState, ask: Ask, jobs: list[Job]) -> Engine:
    """The engine of a conversation in which SideQuest has become due; its work waits in `jobs`."""
    engine = Engine(
        conversation=ConversationId("c"),
        state=state,
        count_text=len,
        ask=ask,
        publish=lambda event: None,
        spawn=jobs.append,
        now=lambda: datetime(2025, 1, 1, tzinfo=UTC),
    )
    memory = MemorySettings(compression=CompressionSettings(pruning_strategy="reactive"), sidequest=SETTINGS)
    options = Options(memory=memory, microcompact=MicrocompactSettings(retain_recent=9))
    for _ in range(2):
        engine.begin_turn(RunId("r"), options)
        await engine.before_call(LOAD)
        engine.after_turn(LOAD)
    return engine


async def test_what_was_named_is_evicted_before_the_next_call_if_it_is_still_there() -> None:
    state, jobs = conversation(60, 200, 100), list[Job]()

    async def ask(question: Question) -> str:
        assert "[0] look (204 tokens)" in question.text
        return '{"del_cursors": [0]}'

    engine = await after_two_turns(state, ask, jobs)
    assert len(jobs) == 1
    await jobs[0]()
    results = [message.tool_results[0].content for message in state.window.messages if message.tool_results]
    assert EVICTED not in results, "nothing moves while nobody calls"
    await engine.before_call(LOAD)
    results = [message.tool_results[0].content for message in state.window.messages if message.tool_results]
    assert [content == EVICTED for content in results] == [False, True, False]


@pytest.mark.requirement("H-13")
async def test_what_another_strategy_had_found_to_be_worked_on_is_not_given_up_after_the_change() -> None:
    state, asked, jobs = conversation(200, 60, 100), list[str](), list[Job]()
    state.watch.subgoals.push_active("look", 3)  # as the strategy before had it
    state.watch.subgoals.extend_active(len(state.window))

    async def ask(question: Question) -> str:
        asked.append(question.text)
        return '{"del_cursors": [0]}'

    engine = await after_two_turns(state, ask, jobs)
    await jobs[0]()
    assert [text.count("look (") for text in asked] == [1], "the others are of the subgoal"
    await engine.before_call(LOAD)
    results = [message.tool_results[0].content for message in state.window.messages if message.tool_results]
    assert [content == EVICTED for content in results] == [True, False, False]


@pytest.mark.parametrize("strategy", ["reactive", "task_aware", "mig"])
async def test_with_nothing_else_set_it_chooses_among_all_results_and_not_the_newest_alone(strategy: str) -> None:
    state, asked, jobs = conversation(*(200,) * 8), list[str](), list[Job]()

    async def ask(question: Question) -> str:
        if question.purpose == "sidequest":
            asked.append(question.text)
        return '{"del_cursors": [0, 1, 2, 3, 4, 5, 6, 7]}'

    engine = Engine(
        conversation=ConversationId("c"),
        state=state,
        count_text=len,
        ask=ask,
        publish=lambda event: None,
        spawn=jobs.append,
        now=lambda: datetime(2025, 1, 1, tzinfo=UTC),
    )
    compression = CompressionSettings(pruning_strategy=strategy)  # type: ignore[arg-type]
    options = Options(memory=MemorySettings(compression=compression, sidequest=SidequestSettings(enabled=True)))
    for _ in range(SidequestSettings().interval_turns):
        engine.begin_turn(RunId("r"), options)
        await engine.before_call(LOAD)
        engine.after_turn(LOAD)
    for job in jobs:
        await job()
    assert [text.count("look (") for text in asked] == [8], "those that L0 would have cleared are there too"
    await engine.before_call(LOAD)
    results = [message.tool_results[0].content for message in state.window.messages if message.tool_results]
    assert results.count(EVICTED) == 4
    assert EVICTED not in results[4:], "of results of one size the oldest come first, and the newest stay"


@pytest.mark.requirement("Z-30")
def test_the_forgetting_curve() -> None:
    day = 86_400.0
    assert retention(60, 10) > 0.99
    assert retention(7 * day, 0) < retention(60, 0)
    assert retention(day, 20) > retention(day, 1)
    assert retention(-5, 0) == 1.0
