"""The decision that follows from a reply."""

from typing import Any

import pytest

from agent.core.messages import Part, TextPart, Thinking, ToolUse
from agent.providers.provider import StopReason
from agent.providers.replies import Reply
from agent.turn.decision import Ask, Calls, Decision, Fail, Final, decide, parts_ending, parts_with, with_unique_ids


def call(name: str, id: str = "c1", **input: Any) -> ToolUse:
    return ToolUse(id=id, name=name, input=input)


def reply(*parts: Part, stop: StopReason = "end_turn", malformed: dict[str, str] | None = None) -> Reply:
    return Reply(parts=parts, stop_reason=stop, malformed=malformed or {})


ECHO, OTHER = call("echo", text="a"), call("echo", "c2", text="b")
TEXT = TextPart(text="Well.")


@pytest.mark.requirement("R-24", "R-25", "B-38", "W-44")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(reply(TEXT), Final("Well."), id="text alone is the answer"),
        pytest.param(reply(TextPart(text="Shall I?")), Final("Shall I?"), id="so is a question without a call"),
        pytest.param(reply(), Final(""), id="nothing is an empty answer"),
        pytest.param(reply(TEXT, stop="max_tokens"), Final("Well.", cut=True), id="cut at the limit"),
        pytest.param(reply(TEXT, stop="tool_use"), Final("Well."), id="a call that is only spoken of is none"),
        pytest.param(reply(stop="refusal"), Final("", declined=True), id="declined"),
        pytest.param(reply(TEXT, ECHO), Calls((ECHO,)), id="text beside a call does not end"),
        pytest.param(reply(call("final_answer", message="42")), Final("42"), id="final_answer ends"),
        pytest.param(reply(TEXT, call("final_answer")), Final("Well."), id="final_answer without words: the text"),
        pytest.param(reply(call("fail", reason="no way")), Fail("no way"), id="fail ends"),
        pytest.param(reply(call("ask_user", question="Which?")), Ask("Which?"), id="ask_user asks"),
        pytest.param(
            reply(call("final_answer", "c9", message="done"), ECHO), Calls((ECHO,), Final("done")),
            id="ordinary calls run before the end",
        ),
        pytest.param(
            reply(ECHO, OTHER, stop="max_tokens", malformed={"c2": "cut"}), Calls((ECHO,)),
            id="a call that was cut off does not run",
        ),
        pytest.param(
            reply(TEXT, ECHO, stop="max_tokens", malformed={"c1": "cut"}), Final("Well.", cut=True),
            id="the only call was cut off",
        ),
        pytest.param(reply(call("final_answer", message=7)), Final(""), id="words of the wrong type"),
    ],
)  # fmt: skip
def test_decide(given: Reply, expected: Decision) -> None:
    assert decide(given) == expected


def test_what_ends_the_loop_is_stored_as_words_so_that_no_call_stays_open() -> None:
    thinking = Thinking(thinking="hm", signature="s")
    given = reply(thinking, TEXT, call("final_answer", message="42"))
    assert parts_ending(given, "42") == (thinking, TEXT, TextPart(text="42"))
    assert parts_ending(reply(TEXT), "Well.") == (TEXT,)


def test_only_the_calls_that_run_are_stored() -> None:
    assert parts_with(reply(TEXT, ECHO, OTHER), (OTHER,)) == (TEXT, OTHER)


def test_ids_become_unique_within_the_run() -> None:
    fresh = iter(["n1", "n2"])
    given = reply(call("echo", ""), call("echo", "x"), call("echo", "x"), malformed={"": "bad"})
    mended = with_unique_ids(given, {"x"}, lambda: next(fresh, "n3"))
    assert [use.id for use in mended.calls] == ["n1", "n2", "n3"]
    assert mended.malformed == {"n1": "bad"}
    sound = reply(ECHO, OTHER)
    assert with_unique_ids(sound, {"x"}, lambda: "never") is sound
