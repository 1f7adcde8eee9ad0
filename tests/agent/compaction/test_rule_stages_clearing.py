"""Old results give way to a notice; nothing else moves."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from agent.compaction.rule_stages import clear_stale, microcompact
from agent.compaction.selection import CLEARED, STUB, SUPERSEDED, cleared_but_recent
from agent.compaction.settings import MicrocompactSettings
from agent.compaction.state import CompactionState, Options
from agent.compaction.subgoals import NoTiers, Tier
from agent.compaction.window import Change
from agent.core.messages import Message, ToolResult, ToolUse, text_message

LONG = "a result that is longer than its placeholder"


def pair(number: int, content: str = LONG, *, tool: str = "look", pinned: bool = False) -> list[Message]:
    id = f"c{number}"
    return [
        Message(role="assistant", parts=(ToolUse(id=id, name=tool),)),
        Message(role="user", parts=(ToolResult(tool_use_id=id, content=content, is_error=number == 1),), pinned=pinned),
    ]


def state_with(*messages: list[Message]) -> CompactionState:
    state = CompactionState(count=lambda message: 4 + len(message.content))
    state.window.append(text_message("user", "hi"))
    for group in messages:
        state.window.extend(group)
    return state


def results(state: CompactionState) -> list[str]:
    return [part.content for entry in state.window for part in entry.message.tool_results]


@pytest.mark.requirement("R-05", "R-06", "R-07", "B-21")
def test_all_but_the_newest_three_are_cleared_and_a_second_run_frees_nothing() -> None:
    state = state_with(*(pair(number) for number in range(5)))
    reclaimed = microcompact(state, Options())
    assert results(state) == [CLEARED, CLEARED, LONG, LONG, LONG]
    assert CLEARED == "[Old tool result content cleared]"
    assert reclaimed.count == 2
    assert reclaimed.raw > 0
    assert microcompact(state, Options()).count == 0
    assert [entry.stored.content for entry in state.window if entry.is_cleared] == [
        f"[tool_result: c{number}]\n{LONG}" for number in range(2)
    ]
    errors = [part.is_error for entry in state.window for part in entry.message.tool_results]
    assert errors == [False, True, False, False, False], "ids and error flags stay"


@pytest.mark.requirement("R-07")
def test_of_calls_made_at_once_each_result_counts() -> None:
    ids = [f"c{number}" for number in range(5)]
    at_once = [
        Message(role="assistant", parts=tuple(ToolUse(id=id, name="look") for id in ids)),
        Message(role="user", parts=tuple(ToolResult(tool_use_id=id, content=LONG) for id in ids)),
    ]
    state = state_with(at_once)
    microcompact(state, Options())
    assert results(state) == [CLEARED, CLEARED, LONG, LONG, LONG]


@pytest.mark.parametrize(
    ("older", "options"),
    [
        pytest.param(pair(0, "ok"), Options(), id="what is not longer than the notice"),
        pytest.param(pair(0, pinned=True), Options(), id="what is pinned"),
        pytest.param(
            pair(0, tool="map"), Options(microcompact=MicrocompactSettings(exempt_tools=("map",))), id="an exempt tool"
        ),
    ],
)
def test_left_alone(older: list[Message], options: Options) -> None:
    state = state_with(older, *(pair(number) for number in range(1, 4)))
    assert microcompact(state, options).count == 0


@pytest.mark.requirement("H-03")
def test_what_belongs_to_the_active_subgoal_is_left_alone() -> None:
    class AllActive(NoTiers):
        def tier(self, position: int) -> Tier:
            return Tier.ACTIVE

        def follow(self, change: Change) -> None:
            raise AssertionError("nothing changes")

    state = state_with(*(pair(number) for number in range(5)))
    state.tiers = AllActive()
    assert microcompact(state, Options()).count == 0


def test_a_pass_looks_only_at_what_is_new() -> None:
    state = state_with(*(pair(number) for number in range(50)))
    microcompact(state, Options())
    assert state.settled == 47
    state.window.extend(pair(50))
    clearing = cleared_but_recent(state.window, state.window.results[state.settled :], keep=3, tiers=state.tiers)
    assert len(clearing.results) == 1


class TestLevelFull:
    FULL = Options(level="full")

    @staticmethod
    def read(number: int, path: str, content: str = LONG, *, pinned: bool = False) -> list[Message]:
        use = ToolUse(id=f"c{number}", name="read", input={"path": path})
        result = ToolResult(tool_use_id=use.id, content=content)
        return [Message(role="assistant", parts=(use,)), Message(role="user", parts=(result,), pinned=pinned)]

    @staticmethod
    def write(number: int, *, pinned: bool = False) -> list[Message]:
        use = ToolUse(id=f"c{number}", name="write", input={"path": "a.txt", "body": "b" * 5_000, "tags": ["x"] * 200})
        parts = (ToolResult(tool_use_id=use.id, content="ok"),)
        return [Message(role="assistant", parts=(use,), pinned=pinned), Message(role="user", parts=parts)]

    def test_what_was_read_again_is_told_once(self) -> None:
        long = LONG * 3
        state = state_with(self.read(0, "a", long), self.read(1, "b", long), self.read(2, "a", long))
        assert microcompact(state, self.FULL).count == 1
        assert results(state) == [SUPERSEDED, long, long]
        assert microcompact(state, self.FULL).count == 0

    @pytest.mark.parametrize(
        "older",
        [
            pytest.param(lambda: TestLevelFull.read(0, "a", LONG * 3, pinned=True), id="pinned"),
            pytest.param(lambda: TestLevelFull.read(0, "a", "short"), id="shorter than the notice"),
            pytest.param(lambda: pair(0, LONG * 3), id="no read"),
        ],
    )
    def test_what_is_left_alone(self, older: Callable[[], list[Message]]) -> None:
        again = [use for message in older() for use in message.tool_uses]
        newer = [
            Message(role="assistant", parts=tuple(replace(use, id="c9") for use in again)),
            Message(role="user", parts=(ToolResult(tool_use_id="c9", content=LONG * 3),)),
        ]
        state = state_with(older(), newer)
        assert microcompact(state, self.FULL).count == 0

    def test_a_read_that_failed_supersedes_nothing(self) -> None:
        first, second = self.read(0, "a", LONG * 3), self.read(1, "a", "no such file")
        failed = replace(second[1], parts=(replace(second[1].tool_results[0], is_error=True),))
        assert microcompact(state_with(first, [second[0], failed]), self.FULL).count == 0

    def test_long_arguments_of_old_calls_are_stubbed(self) -> None:
        state = state_with(*(self.write(number) for number in range(4)))
        assert microcompact(state, self.FULL).count == 1
        (old, *newer) = [use.input for entry in state.window for use in entry.message.tool_uses]
        assert old == {"path": "a.txt", "body": STUB.format(count=5_000), "tags": STUB.format(count=1_000)}
        assert all(use["body"] == "b" * 5_000 for use in newer), "the newest three stay"
        assert microcompact(state, self.FULL).count == 0
        assert list(state.window.unwritten.cleared) == [(state.window[1].key, "c0")]

    def test_a_pinned_call_and_every_other_level_keep_them(self) -> None:
        pinned = state_with(self.write(0, pinned=True), *(self.write(number) for number in range(1, 4)))
        assert microcompact(pinned, self.FULL).count == 0
        safe = state_with(*(self.write(number) for number in range(4)))
        assert microcompact(safe, Options()).count == 0

    @pytest.mark.requirement("H-03")
    def test_the_active_subgoal_keeps_every_byte(self) -> None:
        class AllActive(NoTiers):
            def tier(self, position: int) -> Tier:
                return Tier.ACTIVE

        state = state_with(*(self.write(number) for number in range(4)), *(self.read(n, "a", LONG * 3) for n in (4, 5)))
        state.tiers = AllActive()
        assert microcompact(state, self.FULL).count == 0


@pytest.mark.parametrize(
    ("idle", "cleared"),
    [pytest.param(59.0, 0, id="a short silence"), pytest.param(61.0, 1, id="after an hour cheap results go")],
)
def test_the_time_based_variant(idle: float, cleared: int) -> None:
    state = state_with(pair(0, tool="grep", content="x" * 100), *(pair(number) for number in range(1, 5)))
    options = Options(microcompact=MicrocompactSettings(idle_minutes=60))
    assert clear_stale(state, options, idle).count == cleared
    if cleared:
        assert results(state)[0] == "[cleared — stale tool output after 61min idle]"


def test_it_is_off_by_default() -> None:
    state = state_with(pair(0, tool="grep", content="x" * 100), *(pair(number) for number in range(1, 5)))
    assert clear_stale(state, Options(), 1e6).count == 0
