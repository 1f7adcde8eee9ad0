"""Tool pairs stay whole after every stage, and no request goes out with an orphan."""

import logging
from pathlib import Path

import pytest

from agent.compaction.pairs import answer, mend, orphans_in
from agent.compaction.rule_stages import apply_summaries
from agent.compaction.window import Change, Drain, Replacement, Window
from agent.core.errors import AgentError, ProviderBusy
from agent.core.messages import Message, TextPart, ToolResult, ToolUse, text_message
from agent.turn.requests import sound
from tests.agent.compaction.test_engine import Life


def window_of(*messages: Message) -> Window:
    window = Window(lambda message: 1 + len(message.content))
    window.extend(messages)
    return window


def use(*ids: str) -> Message:
    return Message(role="assistant", parts=tuple(ToolUse(id=id, name="look") for id in ids))


def results(*ids: str, text: str = "") -> Message:
    parts = tuple(ToolResult(tool_use_id=id, content="found") for id in ids)
    return Message(role="user", parts=(*parts, TextPart(text=text)) if text else parts)


def answers_in(window: Window) -> list[str]:
    """The calls that the results in the window answer."""
    return [part.tool_use_id for entry in window for part in entry.message.tool_results]


USER = text_message("user", "hi")


@pytest.mark.requirement("Z-80")
@pytest.mark.parametrize(
    ("messages", "left", "answered"),
    [
        pytest.param([USER, use("a"), results("a")], 3, ["a"], id="a whole pair stays"),
        pytest.param([USER, results("a")], 1, [], id="a message that held nothing else goes"),
        pytest.param([USER, use("a"), results("a", "b")], 3, ["a"], id="one of two goes"),
        pytest.param([USER, results("a", text="and thanks")], 2, [], id="a person's words stay"),
        pytest.param([use("a"), USER, results("a")], 2, [], id="an answer must follow at once"),
    ],
)
def test_orphaned_results_are_taken_out(messages: list[Message], left: int, answered: list[str]) -> None:
    window = window_of(*messages)
    mend(window, window.apply)
    assert len(window) == left
    assert answers_in(window) == answered
    assert orphans_in(window) == []
    assert window.tokens == sum(entry.tokens for entry in window)


@pytest.mark.requirement("Z-81")
@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([USER, results("a")], id="a message that held nothing else"),
        pytest.param([USER, use("a"), results("a", "b")], id="one of two results"),
        pytest.param([USER, results("a", text="and thanks")], id="a result beside words"),
    ],
)
def test_it_is_silent_unless_a_dump_is_on(messages: list[Message], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        window = window_of(*messages)
        mend(window, window.apply)
        assert caplog.text == ""
        window = window_of(*messages)
        mend(window, window.apply, aloud=True)
        assert "orphaned tool results" in caplog.text


@pytest.mark.requirement("Z-81")
@pytest.mark.parametrize("stopped", [False, True], ids=["a dump is on", "it was stopped"])
async def test_it_is_silent_again_once_the_dump_is_stopped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, stopped: bool
) -> None:
    life = Life()
    life.engine.dumps.start(tmp_path)
    if stopped:
        life.engine.dumps.stop()
    life.talk(30, 310)
    life.state.window.append(results("gone"))
    life.state.window.append(text_message("assistant", "hm"))
    life.begin()
    await life.engine.before_call(life.load())
    assert answers_in(life.state.window) == []
    assert ("orphaned tool results" in caplog.text) is not stopped


@pytest.mark.requirement("Z-78", "Z-79")
@pytest.mark.parametrize("failing", [None, ProviderBusy("down")], ids=["a model summarises", "a digest stands in"])
async def test_they_are_looked_for_after_every_hard_compaction_and_every_fold(failing: AgentError | None) -> None:
    hard = Life()
    hard.model.failing = failing
    hard.talk(30, 310)
    hard.state.window.append(results("gone"))
    hard.state.window.append(text_message("assistant", "hm"))
    hard.begin()
    await hard.engine.before_call(hard.load())
    assert "conversation summary" in hard.contents[0] if failing is None else "collapse" in hard.contents[0]
    assert answers_in(hard.state.window) == []
    folded = Life()
    folded.state.window.append(USER)
    folded.tool(100)
    folded.state.window.defer(2, "short")
    folded.state.window.append(results("gone"))
    folded.begin()
    apply_summaries(folded.state)
    assert [message.role for message in folded.state.window.messages] == ["user", "assistant", "user"]
    assert answers_in(folded.state.window) == []


@pytest.mark.requirement("Z-78")
async def test_they_are_looked_for_after_the_compaction_that_a_refused_request_calls_for() -> None:
    life = Life()
    life.talk(20, 100)
    life.state.window.append(results("gone"))
    life.state.window.append(text_message("assistant", "hm"))
    life.begin()
    assert await life.engine.after_overflow(life.load())
    assert "conversation summary" in life.contents[0]
    assert life.contents[-2:] == ["hm", "and now?"]
    assert answers_in(life.state.window) == []


@pytest.mark.requirement("Z-82")
@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([USER, results("a"), USER], id="an orphaned result"),
        pytest.param([USER, use("a")], id="a call that nothing answers"),
        pytest.param([USER, use("a", "b"), results("a", text="stop")], id="one of two is not answered"),
        pytest.param([USER, use("a"), results("a", "b"), USER], id="one of two answers no call"),
        pytest.param([USER, use("a"), results("a", "a"), USER], id="a call is answered twice"),
        pytest.param([USER, use("a"), USER, results("a"), USER], id="an answer comes late"),
    ],
)
def test_the_last_guard_lets_no_orphan_out(messages: list[Message]) -> None:
    sent = sound(window_of(*messages))
    for position, message in enumerate(sent):
        asked = [use.id for use in sent[position - 1].tool_uses] if position else []
        answered = [part.tool_use_id for part in message.tool_results]
        assert sorted(answered) == sorted(asked), "each call once, nothing else"
    assert not sent[-1].tool_uses


def test_calls_that_a_crash_left_open_are_answered_in_what_was_read() -> None:
    window = window_of(USER, use("a"), USER, use("b"), text_message("assistant", "well"), USER)
    assert answer(window, 5) == 6
    assert answers_in(window) == ["a", "b"]
    assert all(part.is_error for entry in window for part in entry.message.tool_results)
    assert orphans_in(window) == []


class Looked(Window):
    """Counts how often an entry is looked at."""

    looks = 0

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        self.looks += 1
        return super().__getitem__(index)


def test_before_a_request_only_what_came_since_is_looked_at() -> None:
    window = Looked(lambda message: 1)
    window.extend([USER, *(message for number in range(500) for message in (use(f"c{number}"), results(f"c{number}")))])
    assert orphans_in(window) == []
    window.looks = 0
    assert orphans_in(window) == []
    window.extend([use("new"), results("new")])
    assert orphans_in(window) == []
    assert window.looks <= 4


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(Drain(start=0, end=2, summary=None), id="its call was drained"),
        pytest.param(Replacement(position=1, message=text_message("assistant", "so")), id="its call was replaced"),
    ],
)
def test_whoever_takes_a_call_away_is_found_out(change: Change) -> None:
    window = window_of(USER, use("a"), results("a"), use("b"), results("b"))
    assert orphans_in(window) == []
    window.apply(change)
    assert len(orphans_in(window)) == 1


def test_a_message_that_is_shown_otherwise_is_looked_at_again() -> None:
    window = window_of(USER, use("a"), results("a"))
    assert orphans_in(window) == []
    window.show(1, text_message("assistant", "so"))
    assert orphans_in(window) == [2]
