"""Random lives of a conversation through all stages: after every run the promises of docs/context.md hold.

The ordinary suite makes about 1,000 runs, `make ladder` 100,000.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from operator import is_

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from agent.compaction.engine import Engine
from agent.compaction.goal_watch import MOST_ACTIVE
from agent.compaction.pairs import mend
from agent.compaction.question import Question
from agent.compaction.settings import CompressionSettings, Level, MemorySettings, MicrocompactSettings, StrategyName
from agent.compaction.stages import Stage, order_of
from agent.compaction.state import CompactionState, ContextUsage, Options
from agent.compaction.subgoals import Subgoals, Tier
from agent.compaction.window import Window
from agent.core.errors import ContextTooLong, ProviderBusy
from agent.core.events import (
    CompactComplete,
    CompactTriggered,
    Event,
    MicrocompactRan,
    MidCompactLayer1Ran,
    MidCompactLayer2Ran,
    SummariesApplied,
    ToolOutputsPruned,
)
from agent.core.ids import ConversationId, RunId
from agent.core.messages import Message, Part, Role, TextPart, ToolResult, ToolUse
from tests.agent.compaction.test_pairs import orphans

RUNS = int(os.environ.get("LADDER_RUNS", "1000"))
RUNS_A_LIFE = 10  # on average
MOMENT = datetime(2025, 1, 1, tzinfo=UTC)
FIXED = 100  # tokens of prompt and tools
SIZES = (1, 40, 400, 1500)

LEVELS: tuple[Level, ...] = ("safe", "full", "off")
STRATEGIES: tuple[StrategyName, ...] = ("reactive", "task_aware", "mig", "subgoal", "subgoal_mig")


class Model:
    """Answers what compaction asks, or fails, as the life has it."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.failing: type[Exception] | None = None
        self.completed = False

    async def __call__(self, question: Question) -> str:
        self.calls[question.purpose] += 1
        if self.failing is not None:
            raise self.failing("not now")
        match question.purpose:
            case "subgoal":
                return f"CURRENT: goal {self.calls['subgoal']}\nCOMPLETED: {'the last' if self.completed else 'NONE'}"
            case "pair_summary":
                return "It was called and gave something."
            case _:
                return "Goal: a\nAccomplished: b\nKey Decisions: c\nRelevant Files: d"


class Noted(Subgoals):
    """Notes what was let go: where nothing else could leave, the oldest part of the active subgoal must."""

    def __init__(self, window: Window) -> None:
        super().__init__()
        self.window = window
        self.let_go: set[int] = set()  # keys

    def release_before(self, position: int) -> None:
        self.let_go |= {self.window[place].key for place in self.active(len(self.window)) if place < position}
        super().release_before(position)


class Lives(RuleBasedStateMachine):
    """One conversation. `said` has every message as it was said, by its id."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.model = Model()
        self.jobs: list[Callable[[], Awaitable[None]]] = []
        self.events: list[Event] = []
        self.said: dict[int, Message] = {}
        self.calls = self.turn = 0
        self.state = CompactionState(count=_count)
        self.subgoals = self.state.watch.subgoals = Noted(self.state.window)
        self.options, self.window = Options(), 4_000
        self.engine = Engine(
            conversation=ConversationId("c"),
            state=self.state,
            count_text=lambda text: len(text) // 4,
            ask=self.model,
            publish=self.events.append,
            spawn=self.jobs.append,
            now=lambda: MOMENT,
        )

    def teardown(self) -> None:
        self.runner.close()

    @initialize(
        strategy=st.sampled_from(STRATEGIES),
        window=st.sampled_from((1_500, 4_000, 20_000)),
        level=st.sampled_from(LEVELS),
        pressure=st.sampled_from((0.0, 0.5)),
        tail=st.integers(1, 6),
    )
    def begin(self, strategy: StrategyName, window: int, level: Level, pressure: float, tail: int) -> None:
        memory = MemorySettings(
            compression=CompressionSettings(pruning_strategy=strategy),
            compaction_preserve_tail=tail,
            prune_protect_tokens=window // 5,
            tool_call_cutoff=2,
        )
        micro = MicrocompactSettings(min_pressure=pressure, retain_recent=2)
        self.options, self.window = Options(level=level, memory=memory, microcompact=micro), window

    @rule(
        words=st.integers(1, 600),
        pinned=st.booleans(),
        rounds=st.lists(st.lists(st.sampled_from(SIZES), min_size=1, max_size=3), max_size=4),
        failing=st.sampled_from((None, None, ProviderBusy, ContextTooLong)),
    )
    def somebody_says_something(
        self, words: int, pinned: bool, rounds: list[list[int]], failing: type[Exception] | None
    ) -> None:
        """A turn: words, rounds with tools, an answer; compaction runs before each call of the model."""
        self.turn, self.model.failing = self.turn + 1, failing
        self.engine.begin_turn(RunId(f"r{self.turn}"), self.options)
        self._say("user", TextPart(text="w" * words), pinned=pinned and words < 100)
        asked = 0
        for number, sizes in enumerate(rounds):
            asked += self._before_call(first=number == 0)
            ids = [f"c{self.calls + place}" for place in range(len(sizes))]
            self.calls += len(sizes)
            calls = zip(ids, sizes, strict=True)
            self._say("assistant", *(ToolUse(id=id, name="read", input={"as": "x" * size}) for id, size in calls))
            results = (ToolResult(tool_use_id=id, content=f"{id} " * size) for id, size in zip(ids, sizes, strict=True))
            self._say("user", *results)
        asked += self._before_call(first=not rounds)
        self._say("assistant", TextPart(text="a" * words))
        assert asked <= 1, "a model compacts once a turn at most (G-31)"
        self.engine.after_turn(self._load(first=False))

    @rule(completed=st.booleans())
    def the_background_gets_done(self, completed: bool) -> None:
        self.model.completed = completed
        jobs = list(self.jobs)
        self.jobs.clear()
        for job in jobs:
            self._wait(job())

    @rule()
    def the_provider_finds_it_too_long(self) -> None:
        before, kept = self.state.window.tokens, self._active()
        self._wait(self.engine.after_overflow(self._load(first=True)))
        assert self.state.window.tokens <= before
        self._still_there(kept)

    @rule()
    def somebody_asks_for_it(self) -> None:
        self._poll()
        kept = self._active()
        self._wait(self.engine.compact_now(self._load(first=True), self.options))
        self._still_there(kept)

    @rule()
    def a_damaged_row_leaves_an_orphan(self) -> None:
        """A result whose call could not be read: the strip after a compaction takes it out (Z-78, Z-79)."""
        self._say("user", ToolResult(tool_use_id="lost", content="of a call that nobody knows"))
        self._say("assistant", TextPart(text="so it goes"))
        if self._wait(self.engine.compact_now(self._load(first=True), self.options)) is not None:
            assert orphans(self.state.window.messages) == [], "orphans are stripped after every compaction"
        mend(self.state.window, self.state.change)  # as right before a request

    @invariant()
    def the_books_are_right(self) -> None:
        window = self.state.window
        assert window.tokens == sum(entry.tokens for entry in window) == sum(map(_count, window.messages))
        assert all(map(is_, window.messages, (entry.message for entry in window))), "the model sees what is there"
        assert window.results == [place for place, entry in enumerate(window) if entry.message.tool_results]
        assert 0 <= self.state.own <= len(window)

    @invariant()
    def calls_and_results_are_in_pairs(self) -> None:
        assert orphans(self.state.window.messages) == []

    @invariant()
    def what_is_pinned_or_active_is_as_it_was_said(self) -> None:
        shown = {entry.stored.id: entry.message for entry in self.state.window}
        for id, message in self.said.items():
            if message.pinned:
                assert shown[id].parts == message.parts, "pinned messages outlive every stage"
        for position in self.state.tiers.active(len(self.state.window)):
            entry = self.state.window[position]
            if entry.stored.id is not None:
                assert entry.message.parts == self.said[entry.stored.id].parts, "active messages keep every byte"

    def _before_call(self, *, first: bool) -> int:
        """One pass of compaction; how often a model was asked to compact."""
        self._poll()
        kept, asked, newest = self._active(), self.model.calls["compaction"], self.state.window[-1].key
        self.events.clear()
        self._wait(self.engine.before_call(self._load(first=first)))
        self._still_there(kept)
        assert self.state.window[-1].key == newest, "what came last is what the model must answer"
        taken = [stage for event in self.events if (stage := _stage(event)) is not None]
        order = order_of(clears_first=self.options.clears_first)
        assert taken == sorted(taken, key=order.index), "stages are taken in their order (G-31)"
        if not first:
            assert self.model.calls["compaction"] == asked, "no model is asked between two rounds of tools"
        if self.subgoals.let_go:
            assert {Stage.HIGH, Stage.HARD, Stage.DIGEST} & set(taken), "only where nothing else could leave"
        if self.options.level == "off":
            assert set(taken) <= {Stage.MICROCOMPACT}
        return sum(isinstance(event, CompactTriggered) for event in self.events)

    def _poll(self) -> None:
        """Take what the background found out before a run, so that nothing but stages changes anything in it."""
        if self.options.uses_subgoals:
            window = self.state.window
            self.state.watch.poll(window, self.window)
            active = sum(window[position].tokens for position in self.state.tiers.active(len(window)))
            assert active <= self.window * MOST_ACTIVE, "the active subgoal leaves room for the rest"

    def _active(self) -> list[int]:
        """The keys of what is active now; what is let go from here on is noted."""
        window = self.state.window
        self.subgoals.let_go.clear()
        return [window[position].key for position in self.state.tiers.active(len(window))]

    def _still_there(self, keys: list[int]) -> None:
        places = {entry.key: place for place, entry in enumerate(self.state.window)}
        for key in set(keys) - self.subgoals.let_go:
            assert key in places, "an active message left the window (Z-50, Z-51)"
            assert self.state.tiers.tier(places[key]) is Tier.ACTIVE, "an active message lost its tier (Z-44)"

    def _say(self, role: Role, *parts: Part, pinned: bool = False) -> None:
        id = len(self.said) + 1
        self.said[id] = Message(role=role, parts=parts, id=id, pinned=pinned, created_at=MOMENT)
        self.state.window.append(self.said[id])

    def _load(self, *, first: bool) -> ContextUsage:
        return ContextUsage(fixed=FIXED, scale=1.0, window=self.window, room=int(self.window * 0.7), first=first)

    def _wait(self, awaitable: Awaitable[object]) -> object:
        async def wait() -> object:
            return await awaitable

        return self.runner.run(wait())


def _count(message: Message) -> int:
    return 4 + len(message.content) // 4


def _stage(event: Event) -> Stage | None:
    match event:
        case MicrocompactRan():
            return Stage.MICROCOMPACT
        case SummariesApplied():
            return Stage.SUMMARIES
        case ToolOutputsPruned():
            return Stage.PRUNE
        case MidCompactLayer1Ran() | MidCompactLayer2Ran():
            return Stage.MID
        case CompactComplete(stage="high"):
            return Stage.HIGH
        case CompactComplete(stage="hard"):
            return Stage.HARD
        case CompactComplete(stage="digest"):
            return Stage.DIGEST
        case _:
            return None


@pytest.mark.requirement("G-31", "Z-39", "Z-50", "Z-51", "Z-52", "Z-54", "H-03", "H-08", "Z-82")
def test_every_promise_holds_in_any_life() -> None:
    run_state_machine_as_test(
        Lives,
        settings=settings(
            max_examples=RUNS // RUNS_A_LIFE,
            stateful_step_count=RUNS_A_LIFE,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
