"""Probes of a summary: their questions, their verdicts, and the facts that are put back."""

import pytest

from agent.compaction.probe import HEADING, MOST_PUT_BACK, Question, probed, questions_in, questions_of
from agent.core.messages import Message, ToolResult, ToolUse, text_message

SUMMARY = "Goal: book seat 12F on HAT-201 for Mia\nKey Decisions: she pays with the gift card, not by credit card"
LONG = 10_000  # characters of the text that a summary stands for


@pytest.mark.parametrize(
    ("answer", "known"),
    [
        pytest.param("12F", True, id="a value that stands there"),
        pytest.param("2F", False, id="a piece of another value"),
        pytest.param("HAT-2011", False, id="a value that is longer than what stands there"),
        pytest.param("hat-201", True, id="in whatever case"),
        pytest.param("not by  credit\ncard", True, id="with other blanks"),
        pytest.param("Mia pays with her gift card", True, id="in other words"),
        pytest.param("Mia pays 250 with her gift card", False, id="in other words, but for a number"),
        pytest.param("the refund goes to her bank", False, id="something else"),
        pytest.param("src/app.py", False, id="a path"),
        pytest.param("座席", False, id="in a language without blanks"),
    ],
)
def test_an_answer_is_known_by_its_words(answer: str, known: bool) -> None:
    found = probed(SUMMARY, [Question("what?", answer)], LONG)
    assert (found.answered, found.put_back) == ((1, 0) if known else (0, 1))
    assert (found.text == SUMMARY) is known
    assert known or found.text.endswith(f"\n\n{HEADING}\n- what? {answer}")


def test_chinese_and_japanese_words_are_found_within_a_run() -> None:
    assert probed("目標: 窓側の座席を予約する", [Question("席は?", "座席")], LONG).answered == 1


def test_what_is_put_back_never_makes_the_summary_longer_than_half_of_the_text() -> None:
    questions = [Question("who?", f"person number {number}") for number in range(100)]
    assert probed(SUMMARY, questions, 2 * len(SUMMARY)).text == SUMMARY
    some = probed(SUMMARY, questions, 1_000)
    assert 0 < some.put_back < 100
    assert len(some.text) <= 500
    most = probed(SUMMARY, questions, 100_000)
    assert len(most.text) <= len(SUMMARY) + MOST_PUT_BACK
    assert (most.asked, most.answered) == (100, 0)


def test_secrets_are_not_put_back() -> None:
    found = probed(SUMMARY, [Question("with which key?", "sk-1234567890abcdefghij")], LONG)
    assert "abcdefghij" not in found.text


def test_a_models_question_counts_if_the_conversation_says_its_answer() -> None:
    source = "<user>\nplease move  reservation 4WQ150 to the 12th</user>"
    block = """
    - Which reservation? => 4WQ150
    2. Moved to when? => `the 12th`
    What was made up? => 9XX999
    no arrow at all
    => an answer to nothing
    Which one, again? => 4wq150
    What is too short? => to
    """
    assert questions_in(block, source) == (
        Question("Which reservation?", "4WQ150"),
        Question("Moved to when?", "the 12th"),
    )


def test_values_that_calls_took_from_results_are_asked_for_the_newest_first() -> None:
    def call(number: int, **arguments: object) -> Message:
        return Message(role="assistant", parts=(ToolUse(id=f"c{number}", name="look", input=arguments),))

    def result(number: int, content: str) -> Message:
        return Message(role="user", parts=(ToolResult(tool_use_id=f"c{number}", content=content),))

    messages = [
        text_message("user", "where is my parcel?"),
        call(1, of="parcel"),
        result(1, '{"order": "W-77", "items": [{"id": 4411}], "paid": true}'),
        call(2, order="W-77", paid=True),
        result(2, "on its way"),
        call(3, change={"items": [4411, 9999]}, note="parcel"),
        result(3, "done"),
    ]
    assert questions_of(messages) == (Question("look, change:", "4411"), Question("look, order:", "W-77"))
