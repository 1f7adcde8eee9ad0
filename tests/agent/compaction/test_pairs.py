"""Tool uses and results stay in pairs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.compaction.pairs import NOT_RUN, repaired, with_orphaned_uses_answered, without_orphaned_results
from agent.core.messages import Message, Part, Role, TextPart, ToolResult, ToolUse, text_message

IDS = st.sampled_from(["a", "b", "c", "d"])
TEXTS: st.SearchStrategy[Part] = st.builds(TextPart, text=st.sampled_from(["hi", "there"]))
USES: st.SearchStrategy[Part] = st.builds(ToolUse, id=IDS, name=st.just("echo"))
RESULTS: st.SearchStrategy[Part] = st.builds(ToolResult, tool_use_id=IDS, content=st.just("done"))


def a_message(role: Role, parts: st.SearchStrategy[Part]) -> st.SearchStrategy[Message]:
    some = st.lists(parts, min_size=1, max_size=4).map(tuple)
    return st.builds(Message, role=st.just(role), parts=some)


def messages() -> st.SearchStrategy[list[Message]]:
    return st.lists(a_message("user", TEXTS | RESULTS) | a_message("assistant", TEXTS | USES), max_size=8)


def orphans(messages: list[Message]) -> list[str]:
    """Results without a call and calls without a result, which a provider would refuse."""
    found = []
    for index, message in enumerate(messages):
        before = messages[index - 1] if index else None
        asked = {use.id for use in before.tool_uses} if before is not None and before.role == "assistant" else set()
        results = [result.tool_use_id for result in message.tool_results]
        found += [f"result {id}" for id in results if id not in asked]
        found += [f"unanswered {id}" for id in asked if id not in results]
        if len(results) != len(set(results)):
            found.append("answered twice")
        kinds = [isinstance(part, ToolResult) for part in message.parts]
        if asked and kinds != sorted(kinds, reverse=True):
            found.append("result after text")
    if messages and messages[-1].role == "assistant" and messages[-1].tool_uses:
        found.append("ends with an open call")
    return found


@pytest.mark.requirement("W-39", "W-21")
@given(messages())
def test_no_orphan_of_either_kind_is_left(given: list[Message]) -> None:
    assert orphans(repaired(given)) == []


@given(messages())
def test_repairing_twice_is_repairing_once(given: list[Message]) -> None:
    once = repaired(given)
    assert repaired(once) == once  # the same objects: messages are compared by identity


@given(messages())
def test_words_are_never_lost(given: list[Message]) -> None:
    def words(those: list[Message]) -> list[str]:
        return [part.text for message in those for part in message.parts if isinstance(part, TextPart)]

    assert words(repaired(given)) == words(given)


def test_an_orphaned_result_goes_and_its_message_with_it() -> None:
    alone = Message(role="user", parts=(ToolResult(tool_use_id="x", content="late"),))
    beside = Message(role="user", parts=(ToolResult(tool_use_id="x", content="late"), TextPart(text="hi")))
    kept = without_orphaned_results([alone, beside])
    assert [message.content for message in kept] == ["hi"]


def test_only_the_missing_result_is_made_and_comes_before_the_text() -> None:
    uses = Message(role="assistant", parts=(ToolUse(id="a", name="echo"), ToolUse(id="b", name="echo")))
    answer = Message(role="user", parts=(TextPart(text="and?"), ToolResult(tool_use_id="a", content="done")))
    _, mended = with_orphaned_uses_answered([uses, answer])
    assert mended.parts == (
        ToolResult(tool_use_id="a", content="done"),
        ToolResult(tool_use_id="b", content=NOT_RUN, is_error=True),
        TextPart(text="and?"),
    )


def test_a_history_that_ends_with_a_call_gets_an_answer_appended() -> None:
    ended = repaired([text_message("user", "hi"), Message(role="assistant", parts=(ToolUse(id="a", name="echo"),))])
    assert [result.is_error for result in ended[-1].tool_results] == [True]


def test_a_sound_history_is_left_alone() -> None:
    sound = [text_message("user", "hi"), text_message("assistant", "hello")]
    assert repaired(sound) == sound
