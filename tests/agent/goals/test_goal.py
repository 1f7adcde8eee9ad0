"""The goal of a session."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.goals.goal import IDLE, SessionGoal, after_message, after_reply, completed, completion_pattern
from agent.goals.settings import GoalSettings

ACTIVE = SessionGoal(state="active", text="write a poem about the sea")
OVER = SessionGoal(state="completed", text="write a poem about the sea")
DEFAULT = completion_pattern(GoalSettings().completion_phrases)


@pytest.mark.requirement("Z-84", "Z-86", "Z-97")
@pytest.mark.parametrize(
    ("before", "words", "after"),
    [
        pytest.param(IDLE, "write a poem about the sea", ACTIVE, id="the first message is the goal"),
        pytest.param(IDLE, "hello", IDLE, id="one word is no goal"),
        pytest.param(ACTIVE, "thanks", ACTIVE, id="one-word replies are ignored"),
        pytest.param(ACTIVE, "I like waves", ACTIVE, id="a remark changes nothing"),
        pytest.param(
            ACTIVE,
            "and make it rhyme",
            SessionGoal(state="active", text="write a poem about the sea\nand make it rhyme"),
            id="what goes on is added",
        ),
        pytest.param(
            ACTIVE,
            "Please translate this contract",
            SessionGoal(state="active", text="Please translate this contract"),
            id="another request replaces it",
        ),
        pytest.param(
            ACTIVE,
            "Please translate the contract",
            SessionGoal(state="active", text="Please translate the contract"),
            id="another request replaces it though it shares a common word",
        ),
        pytest.param(ACTIVE, "write a longer poem about the sea", ACTIVE, id="a like request keeps it"),
        pytest.param(OVER, "thanks", OVER, id="thanks for a reached goal is no new one"),
        pytest.param(
            OVER, "what is the time", SessionGoal(state="active", text="what is the time"), id="after one the next"
        ),
    ],
)
def test_after_message(before: SessionGoal, words: str, after: SessionGoal) -> None:
    assert after_message(before, words) == after


@pytest.mark.requirement("Z-85", "Z-89", "Z-90")
@pytest.mark.parametrize(
    ("text", "tool_calls", "state"),
    [
        ("Done!", False, "completed"),
        ("The task  complete.", False, "completed"),
        ("All FINISHED now", False, "completed"),
        ("Done!", True, "active"),
        ("That is undone and abandoned", False, "active"),
        ("Working on it", False, "active"),
    ],
)
def test_a_phrase_completes_it_where_no_tool_was_called(text: str, tool_calls: bool, state: str) -> None:
    assert after_reply(ACTIVE, text, tool_calls=tool_calls, completion=DEFAULT).state == state


@pytest.mark.requirement("Z-90")
def test_the_phrases_are_chosen() -> None:
    assert GoalSettings().completion_phrases == ("task complete", "done", "finished", "completed")
    own = completion_pattern(["mission over"])
    assert after_reply(ACTIVE, "Mission over.", tool_calls=False, completion=own).state == "completed"
    assert after_reply(ACTIVE, "done", tool_calls=False, completion=own).state == "active"
    assert after_reply(ACTIVE, "done", tool_calls=False, completion=completion_pattern([])).state == "active"


@given(st.lists(st.text(max_size=30), max_size=8))
def test_whatever_is_said_it_is_idle_or_has_a_text(messages: list[str]) -> None:
    goal = IDLE
    for words in messages:
        goal = after_message(goal, words)
        assert (goal.state == "idle") == (goal.text == "")
        assert completed(completed(goal)) == completed(goal)
