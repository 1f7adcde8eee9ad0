"""The engine over a window in memory: what each stage makes of it, and what happens when a model fails."""

import logging
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from agent.compaction.engine import Engine
from agent.compaction.llm_stages import Job, read_summaries
from agent.compaction.question import Question, WriteSummary
from agent.compaction.settings import CompressionSettings, Level, MemorySettings, MicrocompactSettings
from agent.compaction.state import CompactionState, ContextUsage, Options
from agent.core.errors import AgentError, ContextTooLong, ProviderBusy
from agent.core.events import (
    AutoCompactCircuitBreakerTripped,
    CompactComplete,
    CompactExhausted,
    CompactTriggered,
    Event,
    MemoryFlushed,
    MicrocompactRan,
    MidCompactLayer1Ran,
    MidCompactLayer2Ran,
    ReactiveCompactTriggered,
    SummariesApplied,
    ToolOutputsPruned,
)
from agent.core.ids import ConversationId, RunId
from agent.core.messages import CompactionPart, Message, Role, SummaryPart, TextPart, ToolResult, ToolUse, text_message

SUMMARY = "Goal: g\nAccomplished: a\nKey Decisions: k\nRelevant Files: r"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
W = 10_000  # the window; tokens are characters / 4 here


class Model:
    """The summariser: answers, or fails as told."""

    def __init__(self) -> None:
        self.asked: list[Question] = []
        self.failing: AgentError | TimeoutError | None = None
        self.most_chars: int | None = None
        self.chatty = False  # its summaries have no headings

    async def __call__(self, question: Question) -> str:
        self.asked.append(question)
        if self.failing is not None:
            raise self.failing
        if self.most_chars is not None and len(question.text) > self.most_chars:
            raise ContextTooLong("too long")
        if self.chatty:
            return "Sure, here you go!"
        if question.purpose == "pair_summary":
            pairs = question.text.count("</pair>")
            return "\n".join(f"{number}: short {number}" for number in range(1, pairs + 1))
        return f"<analysis>hm</analysis><summary>{SUMMARY}</summary>" if question.purpose == "compaction" else "short"

    @property
    def purposes(self) -> Counter[str]:
        return Counter(question.purpose for question in self.asked)


class Life:
    """A conversation with an engine; every message weighs what its text does."""

    def __init__(
        self,
        *,
        level: Level = "safe",
        flush: Callable[[], None] | None = None,
        strategy: str = "reactive",
        write_summary: WriteSummary | None = None,
    ) -> None:
        self.model, self.events, self.jobs, self.flushes = Model(), list[Event](), list[Job](), 0
        self.state = CompactionState(count=weight)
        self.hear: Callable[[Event], None] | None = None  # who listens besides
        self.begun: list[tuple[str, int]] = []  # with which stage, and how many tokens, each pass began

        async def write(upto: int | None) -> None:
            self.flushes += 1
            if flush is not None:
                flush()

        self.engine = Engine(
            conversation=ConversationId("c"),
            state=self.state,
            count_text=lambda text: len(text) // 4,
            ask=self.answer,
            publish=self.publish,
            spawn=self.jobs.append,
            now=lambda: NOW,
            flush=write if flush is not None else None,
            before_compact=self.note,
            write_summary=write_summary,
        )
        self.options = Options(
            level=level,
            memory=MemorySettings(
                prune_protect_tokens=500,
                provider_compaction=write_summary is not None,
                compression=CompressionSettings(pruning_strategy=strategy),  # type: ignore[arg-type]
            ),
            microcompact=MicrocompactSettings(min_pressure=0.99),
        )
        self.turns = 0
        self.calls = 0

    async def note(self, stage: str) -> None:
        self.begun.append((stage, self.tokens))

    async def answer(self, question: Question) -> str:
        return await self.model(question)

    def publish(self, event: Event) -> None:
        self.events.append(event)
        if self.hear is not None:
            self.hear(event)

    def load(self, *, first: bool = True) -> ContextUsage:
        return ContextUsage(fixed=100, scale=1.0, window=W, room=9_500, first=first)

    @property
    def tokens(self) -> int:
        return self.load().tokens(self.state.window)

    def begin(self, text: str = "and now?") -> None:
        self.turns += 1
        self.engine.begin_turn(RunId(f"r{self.turns}"), self.options)
        self.state.window.append(text_message("user", text))

    async def turn(self, text: str = "and now?", *, answer: str = "fine") -> None:
        self.begin(text)
        await self.engine.before_call(self.load())
        self.state.window.append(text_message("assistant", answer))
        self.engine.after_turn(self.load(first=False))

    async def background(self) -> None:
        while self.jobs:
            await self.jobs.pop()()

    def talk(self, messages: int, tokens: int) -> None:
        """Earlier exchanges, each message of so many tokens."""
        for number in range(messages):
            role: Role = "user" if number % 2 == 0 else "assistant"
            self.state.window.append(text_message(role, f"m{number} ".ljust(4 * tokens, "x"), created_at=NOW))

    def tool(self, tokens: int, *, about: str = "", age: timedelta = timedelta()) -> None:
        self.calls += 1
        id, at = f"c{self.calls}", NOW - age
        use = ToolUse(id=id, name="look", input={"about": about})
        self.state.window.append(Message(role="assistant", parts=(use,), created_at=at))
        result = ToolResult(tool_use_id=id, content=f"{about} ".ljust(4 * tokens, "y"))
        self.state.window.append(Message(role="user", parts=(result,), created_at=at))

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def contents(self) -> list[str]:
        return [entry.message.content for entry in self.state.window]


def weight(message: Message) -> int:
    return len(message.content) // 4


@pytest.mark.requirement("Z-29", "Z-31", "Z-50", "Z-51", "B-53", "B-54", "H-08", "H-33")
async def test_a_hard_compaction_puts_summary_pinned_and_tail(caplog: pytest.LogCaptureFixture) -> None:
    life = Life()
    life.state.window.append(Message(role="user", parts=(TextPart(text="my rule"),), pinned=True))
    life.talk(30, 310)
    life.begin()
    with caplog.at_level(logging.INFO, logger="tieline.compaction"):
        await life.engine.before_call(life.load())
    contents = life.contents
    assert contents[0] == f"[conversation summary — 25 messages compacted]\n{SUMMARY}"
    told = "".join(question.text for question in life.model.asked)
    assert all(f"m{number} " in told for number in range(25)), "a summary of all of them"
    assert contents[1] == "my rule"
    assert [text[:3] for text in contents[2:7]] == ["m25", "m26", "m27", "m28", "m29"]
    assert contents[7] == "and now?"
    assert len(contents) == 8
    record = life.state.window[0].message.parts[1]
    assert isinstance(record, CompactionPart)
    assert (record.summary, record.messages, record.stage, record.mechanical) == (SUMMARY, 25, "hard", False)
    assert life.state.window[0].message.role == "user"
    assert not life.state.window[0].message.user_visible
    (done,) = life.of(CompactComplete)
    assert isinstance(done, CompactComplete)
    assert done.tokens_after == life.tokens < done.tokens_before


@pytest.mark.requirement("Z-39", "Z-50", "Z-51", "H-03", "H-08")
async def test_what_the_active_subgoal_owns_is_put_back_behind_the_summary() -> None:
    life = Life(strategy="subgoal")
    life.talk(30, 310)
    life.begin()
    life.state.watch.subgoals.push_active("book the hotel", 21)
    life.state.watch.subgoals.extend_active(len(life.state.window))
    owned = life.contents[21:]
    await life.engine.before_call(life.load())
    assert life.contents[0].endswith(SUMMARY)
    assert life.contents[1:] == owned


@pytest.mark.requirement("Z-51")
@pytest.mark.parametrize("others", [2, 3, 5])
async def test_it_is_put_back_though_little_else_can_leave(others: int) -> None:
    life = Life(strategy="subgoal")
    life.talk(others, 6_100 // others)
    life.talk(24, 120)  # less than an active one may hold
    life.begin()
    life.state.watch.subgoals.push_active("book the hotel", others)
    life.state.watch.subgoals.extend_active(len(life.state.window))
    owned = life.contents[others:]
    await life.engine.before_call(life.load())
    assert life.contents[0].endswith(SUMMARY)
    assert life.contents[1:] == owned


@pytest.mark.requirement("Z-39")
async def test_a_hard_compaction_gives_up_no_result_of_the_active_subgoal() -> None:
    """It gives up results by what is remembered worst, and no strategy is asked then; these are not the newest."""
    life = Life(strategy="subgoal")
    life.talk(14, 460)
    begin = len(life.state.window)
    for _ in range(5):
        life.tool(500, about="hotel")
    life.begin()
    life.state.watch.subgoals.push_active("book the hotel", begin)
    life.state.watch.subgoals.extend_active(len(life.state.window))
    owned = life.contents[begin:]
    await life.engine.before_call(life.load())
    assert [event.stage for event in life.of(CompactComplete) if isinstance(event, CompactComplete)] == ["hard"]
    assert life.contents[0].endswith(SUMMARY)
    assert life.contents[1:] == owned
    assert not any(entry.is_cleared for entry in life.state.window)


@pytest.mark.requirement("Z-74", "Z-72")
async def test_what_was_gained_is_logged_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    life = Life()
    life.talk(30, 310)
    life.begin()
    before = life.tokens
    with caplog.at_level(logging.INFO, logger="tieline.compaction"):
        await life.engine.before_call(life.load())
    after = life.tokens
    assert f"tokens_before={before} tokens_after={after} saved={before - after}" in caplog.text
    tally = life.state.tally
    assert (tally.last_before, tally.last_after, tally.last_at_ms) == (before, after, int(NOW.timestamp() * 1000))


@pytest.mark.requirement("Z-72")
@pytest.mark.parametrize(
    ("messages", "first", "stage"),
    [pytest.param(25, True, "high", id="at high water"), pytest.param(32, False, "digest", id="within a turn")],
)
async def test_every_compaction_is_the_newest_one(messages: int, first: bool, stage: str) -> None:
    life = Life()
    life.talk(messages, 310)
    life.begin()
    before = life.tokens
    await life.engine.before_call(life.load(first=first))
    assert [event.stage for event in life.of(CompactComplete) if isinstance(event, CompactComplete)] == [stage]
    assert life.state.tally.last == (before, life.tokens, int(NOW.timestamp() * 1000))


@pytest.mark.requirement("Z-74", "Z-72")
async def test_a_hard_compaction_without_a_model_is_logged_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    life = Life()
    life.model.failing = ProviderBusy("down")
    life.talk(30, 310)
    life.begin()
    before = life.tokens
    with caplog.at_level(logging.INFO, logger="tieline.compaction"):
        await life.engine.before_call(life.load())
    done = [event for event in life.of(CompactComplete) if isinstance(event, CompactComplete)]
    assert [(event.stage, event.mechanical) for event in done] == [("hard", True)]
    after = life.tokens
    assert f"tokens_before={before} tokens_after={after} saved={before - after}" in caplog.text
    assert life.state.tally.last == (before, after, int(NOW.timestamp() * 1000))


@pytest.mark.requirement("Z-74", "Z-72", "Z-30")
async def test_a_hard_compaction_that_gives_up_results_alone_is_logged_and_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    life = Life()
    life.options = replace(life.options, microcompact=MicrocompactSettings(min_pressure=0.99, retain_recent=6))
    for _ in range(6):
        life.tool(500)
    life.talk(20, 415)
    life.begin()
    with caplog.at_level(logging.INFO, logger="tieline.compaction"):
        await life.engine.before_call(life.load())
    (done,) = [event for event in life.of(CompactComplete) if isinstance(event, CompactComplete)]
    assert (done.stage, done.messages, life.model.asked) == ("hard", 0, [])
    before, after = done.tokens_before, life.tokens
    assert after < before
    assert f"tokens_before={before} tokens_after={after} saved={before - after}" in caplog.text
    assert life.state.tally.last == (before, after, int(NOW.timestamp() * 1000))


@pytest.mark.requirement("W-26")
async def test_who_listens_hears_of_it_before_it_begins_and_holds_nothing_up() -> None:
    life = Life()
    life.talk(30, 310)
    life.begin()
    sizes: list[tuple[type[Event], int]] = []

    def hear(event: Event) -> None:
        sizes.append((type(event), len(life.state.window)))

    life.hear = hear
    await life.engine.before_call(life.load())
    assert sizes[0] == (CompactTriggered, 31)
    assert sizes[-1][0] is CompactComplete


@pytest.mark.requirement("W-26")
async def test_who_listens_finds_everything_there_that_the_first_stage_takes() -> None:
    life = Life()
    for _ in range(20):
        life.tool(420)
    life.begin()
    full = life.tokens
    await life.engine.before_call(life.load())
    assert life.begun == [("prune", full)]
    assert life.tokens < full


@pytest.mark.requirement("W-26")
async def test_of_the_clearing_of_old_results_nobody_hears_and_of_the_pass_behind_it_once() -> None:
    life = Life()
    life.options = replace(life.options, microcompact=MicrocompactSettings(min_pressure=0.1, retain_recent=12))
    for _ in range(20):
        life.tool(200)
    life.begin()
    await life.engine.before_call(life.load())
    assert life.of(MicrocompactRan)
    assert life.begun == []
    for _ in range(12):
        life.tool(600)
    await life.engine.before_call(life.load())
    assert life.of(ToolOutputsPruned)
    assert [stage for stage, _ in life.begun] == ["prune"]


@pytest.mark.requirement("R-09", "B-53")
async def test_high_water_keeps_eight_and_has_four_sections() -> None:
    life = Life()
    life.talk(25, 310)
    life.begin()
    await life.engine.before_call(life.load())
    assert life.contents[0].startswith("[Conversation summary]\nGoal:")
    assert len(life.contents) == 9
    (question,) = life.model.asked
    assert question.timeout_s == 300
    assert all(f"m{number} " in question.text for number in range(18)), "a summary of all that goes"
    assert all(
        heading in question.system for heading in ("Goal:", "Accomplished:", "Key Decisions:", "Relevant Files:")
    )


@pytest.mark.requirement("R-09")
@pytest.mark.parametrize(("scale", "asks"), [(1.0, False), (1.5, True)])
async def test_high_water_is_told_by_what_the_provider_counts(scale: float, *, asks: bool) -> None:
    life = Life()
    life.talk(17, 310)
    life.begin()
    await life.engine.before_call(replace(life.load(), scale=scale))
    assert life.contents[0].startswith("[Conversation summary]\nGoal:") is asks


class PartByPart(Model):
    """Says of each excerpt with which message it begins and ends."""

    async def __call__(self, question: Question) -> str:
        self.asked.append(question)
        names = re.findall(r"\bm\d+ ", question.text)
        return f"<summary>{SUMMARY}, {names[0]}to {names[-1]}</summary>"


@pytest.mark.requirement("B-53")
async def test_what_is_too_long_for_one_question_is_summarised_in_parts_and_no_part_is_lost() -> None:
    life = Life()
    life.model = PartByPart()
    life.talk(34, 310)
    life.begin()
    await life.engine.before_call(life.load())
    *parts, whole = life.model.asked
    assert len(parts) > 1
    said = [f"{names[0]}to {names[-1]}" for names in (re.findall(r"\bm\d+ ", part.text) for part in parts)]
    assert [one for one in said if one.strip() not in whole.text] == []
    gone = [f"m{number} " for number in range(34) if not any(f"m{number} " in one for one in life.contents[1:])]
    assert [name for name in gone if not any(name in part.text for part in parts)] == []
    assert len(gone) > 20


@pytest.mark.requirement("G-31")
async def test_at_most_one_model_compaction_a_turn() -> None:
    life = Life()
    life.talk(30, 310)
    life.begin("x" * 4 * 5_000)
    await life.engine.before_call(life.load())
    asked = len(life.model.asked)
    assert asked, "or nothing is seen here"
    life.talk(4, 1_900)  # the turn goes on, and the window is full once more
    assert life.tokens > 0.75 * W
    await life.engine.before_call(life.load())
    assert len(life.model.asked) == asked
    assert len(life.of(CompactTriggered)) == 1


@pytest.mark.requirement("G-31")
async def test_no_second_one_for_a_stand_in_with_a_smaller_window() -> None:
    life = Life()
    life.talk(25, 310)
    life.begin()
    await life.engine.before_call(life.load())
    asked = len(life.model.asked)
    assert asked, "or nothing is seen here"
    smaller = replace(life.load(), window=2_300, room=2_100)
    assert life.tokens > smaller.room
    await life.engine.before_call(smaller)
    assert len(life.model.asked) == asked
    assert life.tokens <= smaller.room, "it fits all the same"


@pytest.mark.requirement("R-49", "G-19", "R-45")
async def test_a_summary_made_ahead_is_spliced_in_without_a_call() -> None:
    life = Life()
    life.talk(18, 300)
    await life.turn()
    await life.background()
    asked = len(life.model.asked)
    assert asked == 1, "the background made one"
    life.talk(4, 200)
    life.begin()
    await life.engine.before_call(life.load())
    assert len(life.model.asked) == asked
    assert life.contents[0].startswith("[Session memory summary]\nGoal:")
    assert len(life.of(MidCompactLayer2Ran)) == 1
    told = life.model.asked[0].text
    assert [f"m{number} " in told for number in range(18)] == [True] * 14 + [False] * 4
    assert [text[:3] for text in life.contents[1:5]] == ["m14", "m15", "m16", "m17"], "nothing else leaves with them"


@pytest.mark.requirement("R-08", "R-45")
async def test_level_full_collapses_the_oldest_half_without_a_model() -> None:
    life = Life(level="full")
    life.talk(21, 300)
    life.begin()
    await life.engine.before_call(life.load())
    assert len(life.of(MidCompactLayer1Ran)) == 1
    assert life.contents[0].startswith("[Mid-tier context collapse — ")
    assert "- user: m0" in life.contents[0]
    assert life.model.asked == []


@pytest.mark.requirement("Z-12", "Z-28", "Z-79", "G-31")
async def test_deferred_summaries_wait_for_pressure_and_then_take_their_pairs_places() -> None:
    life = Life()
    life.state.window.append(text_message("user", "go"))
    for _ in range(10):
        life.tool(530)
    await life.turn()
    await life.background()
    assert life.model.purposes == {"pair_summary": 1}, "one question about all of them"
    life.begin()
    await life.engine.before_call(life.load())
    window = life.state.window
    assert [bool(window[position].deferred) for position in window.results] == [True] * 4 + [False] * 6
    before = len(window)
    life.talk(2, 550)
    await life.engine.before_call(life.load())
    (applied,) = life.of(SummariesApplied)
    assert isinstance(applied, SummariesApplied)
    assert applied.pairs == 4
    assert life.contents[1:5] == [f"[tool summary] short {number}" for number in range(1, 5)]
    assert len(window) == before + 2 - 4, "each pair became one message"
    assert not life.state.asked_this_turn


def with_pairs(*, active: bool) -> Life:
    """A life with ten pairs, the oldest four worth a summary, of the active subgoal or of a completed one."""
    life = Life(strategy="subgoal")
    life.talk(8, 450)
    begin = len(life.state.window)
    life.begin("go")
    for tokens in (*(450,) * 4, *(30,) * 6):
        life.tool(tokens)
    subgoals = life.state.watch.subgoals
    subgoals.push_active("book the hotel", begin)
    subgoals.extend_active(len(life.state.window))
    if not active:
        subgoals.push_active("tell", len(life.state.window))
    return life


@pytest.mark.requirement("H-03")
@pytest.mark.parametrize("active", [True, False])
async def test_no_summary_is_asked_for_of_pairs_of_the_active_subgoal(active: bool) -> None:
    life = with_pairs(active=active)
    await life.turn()
    await life.background()
    assert life.model.asked, "or nothing is seen here"
    assert life.model.purposes["pair_summary"] == (0 if active else 1)


@pytest.mark.requirement("H-03")
async def test_a_summary_takes_no_pairs_place_while_its_subgoal_is_active() -> None:
    """It was made while another one was."""
    life = with_pairs(active=True)
    window, subgoals = life.state.window, life.state.watch.subgoals
    for position in window.results[:4]:
        window.defer(position, "short")
    life.begin("go on")
    life.talk(2, 300)
    assert life.tokens > 0.6 * W, "or nothing is seen here"
    await life.engine.before_call(life.load())
    assert not life.of(SummariesApplied)
    subgoals.push_active("tell", len(window) - 1)
    await life.engine.before_call(life.load())
    assert [event.pairs for event in life.of(SummariesApplied) if isinstance(event, SummariesApplied)] == [4]


async def test_pruning_stops_at_what_was_asked_and_spares_the_newest() -> None:
    life = Life()
    life.state.window.append(text_message("user", "go"))
    for _ in range(10):
        life.tool(640)
    life.begin()
    before = life.tokens
    await life.engine.before_call(life.load())
    pruned = life.of(ToolOutputsPruned)
    assert pruned
    told = sum(event.reclaimed for event in pruned if isinstance(event, ToolOutputsPruned))
    assert told == before - life.tokens, "people are told what it freed"
    cleared = [entry.is_cleared for entry in life.state.window if entry.message.tool_results]
    assert cleared[0]
    assert cleared == sorted(cleared, reverse=True), "oldest first"
    assert not cleared[-1]
    assert life.tokens <= 6_000


class TestFailure:
    @pytest.mark.requirement("R-43", "B-25", "W-29")
    async def test_a_digest_takes_the_summarys_place_and_the_third_failure_trips(self) -> None:
        life = Life()
        life.model.failing = ProviderBusy("down")
        for _ in range(3):
            life.talk(26, 310)
            for _ in range(4):
                life.begin()
                await life.engine.before_call(life.load())
            assert life.tokens < 9_500
        assert "[Mid-tier context collapse" in life.contents[0]
        assert len(life.of(AutoCompactCircuitBreakerTripped)) == 1
        asked = len(life.model.asked)
        life.talk(26, 310)
        life.begin()
        await life.engine.before_call(life.load())
        assert len(life.model.asked) == asked, "the breaker is open: no model is asked"

    @pytest.mark.requirement("R-43")
    async def test_a_summary_that_comes_ends_the_row_of_failures(self) -> None:
        life, down = Life(), ProviderBusy("down")
        for failing in (down, down, None, down, down):
            life.model.failing = failing
            life.talk(26, 310)
            for _ in range(4):
                life.begin()
                await life.engine.before_call(life.load())
        assert life.of(AutoCompactCircuitBreakerTripped) == []
        life.model.failing = None
        life.talk(26, 310)
        life.begin()
        await life.engine.before_call(life.load())
        assert "conversation summary" in life.contents[0], "a model is asked"

    @pytest.mark.requirement("R-43")
    async def test_failures_to_summarise_ahead_of_time_trip_the_breaker_too(self) -> None:
        life = Life()
        life.talk(18, 300)
        life.model.failing = ProviderBusy("down")
        for _ in range(3):
            await life.turn()
            await life.background()
        assert life.model.purposes == {"compaction": 3}
        assert len(life.of(AutoCompactCircuitBreakerTripped)) == 1
        await life.turn()
        await life.background()
        life.talk(14, 310)
        life.begin()
        await life.engine.before_call(life.load())
        assert len(life.model.asked) == 3, "the breaker is open: no model is asked"
        assert "[Mid-tier context collapse" in life.contents[0]

    @pytest.mark.requirement("R-43")
    @pytest.mark.parametrize("is_open", [True, False])
    async def test_while_the_breaker_is_open_no_service_is_asked_for_its_summary(self, is_open: bool) -> None:
        asked = []

        async def write(messages: Sequence[Message]) -> SummaryPart:
            asked.append(messages)
            return SummaryPart(text="the service's words")

        life = Life(write_summary=write)
        life.talk(30, 310)
        life.begin()
        if is_open:
            life.state.breaker = life.state.breaker.failed(1).failed(1).failed(1)
        await life.engine.before_call(life.load())
        assert len(asked) == (0 if is_open else 1)
        assert ("the service's words" in life.contents[0]) is not is_open
        assert life.model.asked == []

    @pytest.mark.requirement("Z-31")
    async def test_a_summary_that_a_service_wrote_has_its_record_too(self) -> None:
        async def write(messages: Sequence[Message]) -> SummaryPart:
            return SummaryPart(text="the service's words", sealed_by="service")

        life = Life(write_summary=write)
        life.talk(30, 310)
        life.begin()
        before = life.tokens
        await life.engine.before_call(life.load())
        summary, record = life.state.window[0].message.parts
        assert isinstance(summary, SummaryPart)
        assert summary.sealed_by == "service"
        assert isinstance(record, CompactionPart)
        assert (record.summary, record.tokens_before, record.mechanical) == ("the service's words", before, False)

    @pytest.mark.requirement("W-29")
    async def test_a_digest_takes_the_place_of_a_summary_that_takes_too_long(self) -> None:
        life = Life()
        life.model.failing = TimeoutError()
        life.talk(30, 310)
        life.begin()
        await life.engine.before_call(life.load())
        assert "[Mid-tier context collapse" in life.contents[0]
        assert life.contents[-1] == "and now?"
        assert life.tokens < 9_500

    @pytest.mark.requirement("G-20")
    async def test_ten_turns_later_it_recovers(self) -> None:
        life = Life()
        life.state.breaker = life.state.breaker.failed(0).failed(0).failed(0)
        for _ in range(10):
            life.begin()
        life.talk(30, 310)
        life.begin()
        await life.engine.before_call(life.load())
        assert life.contents[0].startswith("[conversation summary")
        assert life.state.breaker.opened_at is None

    async def test_an_answer_without_its_headings_is_no_summary(self) -> None:
        life = Life()

        life.model.chatty = True
        life.talk(30, 310)
        life.begin()
        await life.engine.before_call(life.load())
        assert "[Mid-tier context collapse" in life.contents[0]
        assert life.state.breaker.failures == 1

    async def test_what_is_too_long_for_the_summariser_loses_results_from_the_middle(self) -> None:
        life = Life()
        life.state.window.append(text_message("user", "go"))
        for number in range(12):
            life.tool(700, about=f"n{number}")
        life.model.most_chars = 12_000
        life.begin()
        done = await life.engine.compact_now(life.load(), life.options)
        assert done is not None
        assert not done.mechanical
        texts = [question.text for question in life.model.asked]
        answered = next(text for text in texts if len(text) <= 12_000)
        assert "[left out]" in answered
        assert "<result>n0 " in answered, "the ends stay longest"

    @pytest.mark.requirement("B-26")
    async def test_nothing_left_to_compact_is_told_once(self) -> None:
        life = Life()
        for entry in range(3):
            life.state.window.append(
                Message(role="user", parts=(TextPart(text=f"rule {entry} ".ljust(4 * 2_900, "x")),), pinned=True)
            )
        life.talk(6, 100)
        for _ in range(3):
            life.begin()
            await life.engine.before_call(life.load())
        assert len(life.of(CompactExhausted)) == 1
        assert life.engine.take_exhaustion()
        assert not life.engine.take_exhaustion()
        assert [entry.pinned for entry in life.state.window].count(True) == 3


class TestReactive:
    @pytest.mark.requirement("R-21", "B-24")
    async def test_it_asks_no_threshold_and_no_cooldown(self) -> None:
        life = Life()
        life.talk(20, 100)
        life.begin()
        before = life.tokens
        assert await life.engine.after_overflow(life.load())
        assert life.of(ReactiveCompactTriggered)
        assert life.tokens < before
        assert life.contents[-1] == "and now?"

    @pytest.mark.requirement("R-21")
    async def test_a_refused_request_gets_a_models_summary_below_every_threshold(self) -> None:
        life = Life()
        life.talk(20, 100)
        life.begin()
        assert await life.engine.after_overflow(life.load())
        (done,) = life.of(CompactComplete)
        assert isinstance(done, CompactComplete)
        assert (done.stage, done.mechanical) == ("reactive", False)
        assert life.model.asked

    @pytest.mark.requirement("W-26")
    async def test_who_listens_hears_of_it_while_everything_is_there(self) -> None:
        life = Life()
        life.talk(20, 100)
        life.begin()
        full = life.tokens
        assert await life.engine.after_overflow(life.load())
        assert life.begun == [("reactive", full)]
        assert life.tokens < full

    async def test_switched_off_it_neither_compacts_nor_says_so(self) -> None:
        life = Life(level="off")
        life.talk(20, 100)
        life.begin()
        before = life.tokens
        assert not await life.engine.after_overflow(life.load())
        assert (life.of(ReactiveCompactTriggered), life.tokens) == ([], before)

    async def test_also_when_the_summariser_is_refused_too(self) -> None:
        life = Life()
        life.model.failing = ContextTooLong("too long")
        life.talk(20, 100)
        life.begin()
        assert await life.engine.after_overflow(life.load())
        assert "[Mid-tier context collapse" in life.contents[0]

    @pytest.mark.requirement("W-63")
    async def test_level_off_leaves_it_to_the_person(self) -> None:
        life = Life(level="off")
        life.talk(20, 100)
        life.begin()
        assert not await life.engine.after_overflow(life.load())
        assert len(life.contents) == 21


async def near_a_compaction(life: Life) -> None:
    """Talk until the first flush, which comes before a compaction does, and once more."""
    while not life.flushes:
        life.talk(1, 60)
        life.begin()
        await life.engine.before_call(life.load())
    assert not life.of(CompactTriggered), "it is only near"
    life.begin()
    await life.engine.before_call(life.load())


class TestFlush:
    @pytest.mark.requirement("G-21")
    async def test_notes_come_before_the_first_model_compaction_and_once_a_cycle(self) -> None:
        life = Life(flush=lambda: None)
        life.talk(25, 310)
        for _ in range(2):
            life.begin()
            await life.engine.before_call(life.load())
        assert life.flushes == 1
        kinds = [type(event) for event in life.events if isinstance(event, MemoryFlushed | CompactTriggered)]
        assert kinds == [MemoryFlushed, CompactTriggered]
        life.talk(25, 310)
        life.begin()
        await life.engine.before_call(life.load())
        assert life.flushes == 2, "another cycle"

    @pytest.mark.requirement("B-59")
    async def test_once_also_where_no_compaction_follows_yet(self) -> None:
        life = Life(flush=lambda: None)
        await near_a_compaction(life)
        assert life.flushes == 1

    @pytest.mark.requirement("B-59")
    async def test_one_that_failed_is_not_tried_again_in_its_cycle(self) -> None:
        def fails() -> None:
            raise ProviderBusy("not now")

        life = Life(flush=fails)
        await near_a_compaction(life)
        assert life.flushes == 1
        assert not life.of(MemoryFlushed)

    async def test_without_a_memory_there_is_none(self) -> None:
        life = Life()
        life.talk(25, 310)
        life.begin()
        await life.engine.before_call(life.load())
        assert not life.of(MemoryFlushed)


@pytest.mark.requirement("W-28")
async def test_a_first_turn_compacts_nothing() -> None:
    life = Life()
    life.begin("x" * 4 * 9_800)
    await life.engine.before_call(life.load())
    assert life.model.asked == []
    assert not life.of(CompactTriggered)


async def test_compact_on_demand_keeps_what_was_asked() -> None:
    life = Life()
    life.talk(12, 50)
    done = await life.engine.compact_now(life.load(), life.options, keep="the name of the dog")
    assert done is not None
    assert done.tokens_after < done.tokens_before
    assert "keep this above all: the name of the dog" in life.model.asked[0].system
    assert await life.engine.compact_now(life.load(), life.options) is None


async def test_what_was_made_for_another_window_is_dropped() -> None:
    life = Life()
    life.state.window.append(text_message("user", "go"))
    for _ in range(8):
        life.tool(650)
    await life.turn()
    await life.background()
    life.state.forget()  # people took the last exchange back
    life.state.window.append(text_message("user", "go"))
    for _ in range(8):
        life.tool(10)
    life.begin()
    await life.engine.before_call(life.load())
    assert not life.state.window.waiting
    assert life.state.summary is None


async def test_after_a_turn_one_question_is_asked_and_none_after_a_compaction() -> None:
    life = Life(strategy="subgoal")
    life.state.window.append(text_message("user", "go"))
    for _ in range(10):
        life.tool(530)
    await life.turn()
    await life.background()
    assert life.model.purposes == {"subgoal": 1}, "the pairs wait for the next turn"
    await life.turn()
    await life.background()
    assert life.model.purposes == {"subgoal": 1, "pair_summary": 1}
    life.begin("again")
    life.state.asked_this_turn = True
    life.engine.after_turn(life.load(first=False))
    assert life.jobs == []


async def test_an_answer_about_pairs_may_lack_some_and_be_in_another_form() -> None:
    assert read_summaries("1: one\nstill one\n 3) three\n9: nobody asked", 3) == {0: "one\nstill one", 2: "three"}
    assert read_summaries("it looked", 1) == {0: "it looked"}
    assert read_summaries("it looked", 2) == {}


async def test_subgoal_mig_prunes_before_it_must_where_that_pays() -> None:
    """Messages have left the active subgoal, and their results weigh enough against what stands behind them."""
    for strategy, prunes in (("subgoal_mig", True), ("subgoal", False)):
        life = Life(strategy=strategy)
        life.begin("look")
        for _ in range(5):
            life.tool(600)
        life.talk(2, 300)
        subgoals = life.state.watch.subgoals
        subgoals.push_active("look", 0)
        subgoals.extend_active(len(life.state.window))
        subgoals.push_active("tell", len(life.state.window) - 2)
        life.state.released = True
        assert life.tokens < 0.5 * W, "there is room"
        await life.engine.before_call(life.load())
        assert bool(life.of(ToolOutputsPruned)) is prunes


@pytest.mark.requirement("Z-44")
async def test_the_registry_follows_also_while_another_strategy_counts() -> None:
    life = Life(strategy="subgoal")
    life.begin("first")
    life.talk(20, 50)
    subgoals = life.state.watch.subgoals
    subgoals.push_active("late", 15)
    subgoals.extend_active(len(life.state.window))
    active = [life.state.window[position].key for position in subgoals.active(99)]
    life.options = replace(life.options, memory=MemorySettings(compression=CompressionSettings(pruning_strategy="mig")))
    life.begin("other strategy")
    await life.engine.compact_now(life.load(), life.options)
    left = {entry.key for entry in life.state.window}
    assert [life.state.window[position].key for position in subgoals.active(99)] == [
        key for key in active if key in left
    ]


@pytest.mark.requirement("H-33")
async def test_active_messages_come_back_behind_a_pinned_one_that_stood_after_them() -> None:
    life = Life(strategy="subgoal")
    life.talk(24, 310)
    begin = len(life.state.window) - 3
    life.state.window.append(Message(role="user", parts=(TextPart(text="my rule"),), pinned=True))
    life.talk(6, 310)
    life.begin()
    life.state.watch.subgoals.push_active("book the hotel", begin)
    life.state.watch.subgoals.extend_active(len(life.state.window))
    active = life.contents[begin : begin + 3]
    await life.engine.before_call(life.load())
    assert life.contents[1] == "my rule", "pinned first"
    assert life.contents[2:5] == active
