"""The evaluation itself: what it measures, that it fails when it should, what the default comes to on a session."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from agent.compaction.state import CompactionState, Options
from agent.core.messages import Message, TextPart, ToolResult, ToolUse, text_message
from agent.turn.tokens import count_by_bytes
from tests.bench.context.own_set import PLANS, made
from tests.bench.context.provenance import Readable, Sources, holds
from tests.bench.context.recordings import Recording, joined, recording
from tests.bench.context.replay import Broken, check, play, tokens_of
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
