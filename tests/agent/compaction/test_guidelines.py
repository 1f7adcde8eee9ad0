"""Guidelines of compaction: repeated look-ups, lessons from them, their fading, their storage."""

from dataclasses import replace

import pytest

from agent.compaction.guidelines import (
    LEAST,
    MOST_KEPT,
    MOST_LEFT,
    MOST_WEIGHT,
    WITHIN,
    Guidelines,
    Missed,
    read,
    written,
)
from agent.compaction.state import CompactionState
from agent.compaction.window import Cleared, Clearing, Drain
from agent.core.messages import Message, ToolResult, ToolUse, text_message


def window_of(*calls: ToolUse) -> CompactionState:
    """A window of these calls, each with a result; the results have the stored numbers 2, 4, …"""
    state = CompactionState(count=lambda message: 10)
    for number, use in enumerate(calls):
        state.window.append(Message(role="assistant", parts=(use,), id=2 * number + 1))
        answer = ToolResult(tool_use_id=use.id, content=f"result {number}")
        state.window.append(Message(role="user", parts=(answer,), id=2 * number + 2))
    return state


def read_file(path: str, **more: object) -> ToolUse:
    return ToolUse(id=f"c-{path}", name="read", input={"path": path, **more})


def cleared(state: CompactionState, position: int = 1) -> Guidelines:
    """After the result at that position was cleared."""
    call = state.window[position].message.tool_results[0].tool_use_id
    state.change(Clearing(results=(Cleared(position=position, call=call, text="gone"),)))
    return state.guidelines


def found(text: str, *, is_error: bool = False) -> ToolResult:
    return ToolResult(tool_use_id="r", content=text, is_error=is_error)


RECALLED = ToolUse(id="r", name="recall_transcript", input={"query": "which seat?"})


@pytest.mark.parametrize(
    ("use", "answer", "missed"),
    [
        pytest.param(read_file("a.py"), "x", ("read", "path=a.py", True), id="the same call"),
        pytest.param(read_file("a.py", offset=200), "x", ("read", "path=a.py, offset=200", True), id="another page"),
        pytest.param(read_file("b.py"), "x", None, id="another file"),
        pytest.param(RECALLED, "[message 2, a tool result]\nseat 12F", ("read", "which seat?", False), id="recalled"),
        pytest.param(RECALLED, "[message 9]\nseat 12F", ("", "which seat?", False), id="words recalled"),
        pytest.param(RECALLED, "Nothing that left the window fits.", None, id="recalled, and nothing found"),
        pytest.param(
            ToolUse(id="r", name="recall_transcript", input={"message": 2}), "x", ("read", "", False), id="read on"
        ),
    ],
)
def test_what_is_looked_up_after_it_has_left_was_missed(
    use: ToolUse, answer: str, missed: tuple[str, str, bool] | None
) -> None:
    guidelines = cleared(window_of(read_file("a.py"), read_file("c.py")))
    seen = guidelines.missed(use, found(answer))
    assert (None if seen is None else (seen.tool, seen.about, seen.again)) == missed
    assert guidelines.missed(use, found(answer, is_error=True)) is None


def test_nothing_is_missed_before_anything_has_left_or_many_turns_after() -> None:
    state = window_of(read_file("a.py"))
    assert state.guidelines.missed(read_file("a.py"), found("x")) is None
    cleared(state)
    for turn in range(WITHIN + 2):
        for use in (read_file("a.py"), RECALLED):
            seen = state.guidelines.missed(use, found("[message 2]\nx"))
            assert (seen is not None) is (turn <= WITHIN)
        state.guidelines = replace(state.guidelines, turn=state.guidelines.turn + 1)


def test_words_that_left_are_missed_too() -> None:
    state = CompactionState(count=lambda message: 10)
    state.window.extend(text_message("user", f"word {number}") for number in range(4))
    state.change(Drain(start=0, end=3, summary=None))
    seen = state.guidelines.missed(RECALLED, found("[message 1]\nword 1"))
    assert seen is not None
    assert (seen.tool, seen.again) == ("", False)


def test_a_call_that_names_nothing_only_asks_how_things_stand() -> None:
    use = ToolUse(id="c", name="current_time", input={"page": 1})
    assert cleared(window_of(use)).missed(use, found("x")) is None


def test_a_drain_is_remembered_with_its_newest_calls_alone() -> None:
    state = window_of(*(read_file(f"{number}.py") for number in range(MOST_LEFT + 10)))
    state.change(Drain(start=0, end=len(state.window) - 2, summary=None))
    assert len(state.guidelines.gone) == MOST_LEFT
    assert state.guidelines.gone[-1].message == 2 * (MOST_LEFT + 9)
    assert state.guidelines.missed(read_file("0.py"), found("x")) is None
    assert state.guidelines.missed(read_file("20.py"), found("x")) is not None


def test_lessons_grow_fade_and_stay_few() -> None:
    guidelines = Guidelines()
    for number in range(9):
        guidelines = guidelines.learnt(Missed("read", f"path={number}", again=True, turns=0))
    (one,) = guidelines.kept
    assert (one.tool, one.about, one.weight) == ("read", "path=8", MOST_WEIGHT)
    for number in range(MOST_KEPT + 5):
        guidelines = guidelines.learnt(Missed(f"tool{number}", "", again=True, turns=0))
    assert len(guidelines.kept) == MOST_KEPT
    assert guidelines.kept[0].tool == "read", "the heaviest stay"
    once = Guidelines().learnt(Missed("read", "", again=True, turns=0))
    for _ in range(3):
        once = once.faded()
        assert once.tools == {"read"}
        assert once.kept[0].weight >= LEAST
    assert once.faded().kept == ()


def test_the_store_gives_back_what_it_was_given() -> None:
    guidelines = cleared(window_of(read_file("ä.py"))).learnt(Missed("", "who said “so”?", again=False, turns=1))
    assert read(written(guidelines)) == guidelines
    assert [read(text) for text in ("", "[]", "{}", "no", '{"kept": [[1]], "gone": []}')] == [Guidelines()] * 5


def test_another_session_hears_of_kinds_and_of_no_words() -> None:
    guidelines = cleared(window_of(read_file("a.py")))
    for missed in (Missed("read", "path=a.py", again=True, turns=0), Missed("", "a secret", again=False, turns=0)):
        guidelines = guidelines.learnt(missed)
    assert guidelines.for_summary == "- what was said: a secret\n- results of read: path=a.py"
    other = guidelines.without_words()
    assert (other.for_summary, other.gone) == ("- results of read", ())
