"""Text of a run that people see while it goes on (G-24)."""

import pytest

from agent.run.run import Speech
from tests.fakes.outbox import FakeOutbox


def test_rounds_stand_one_under_the_other() -> None:
    outbox = FakeOutbox()
    speech = Speech(outbox)
    for delta in ("Let me ", "look."):
        speech.delta(delta)
    speech.end_round("Let me look.")
    speech.end_round("")
    speech.delta("Found.")
    assert outbox.preview_text == speech.text == "Let me look.\n\nFound."


@pytest.mark.requirement("G-24")
def test_a_retried_round_comes_once_and_earlier_rounds_stay() -> None:
    outbox = FakeOutbox()
    speech = Speech(outbox)
    speech.delta("One.")
    speech.end_round("One.")
    speech.delta("Tw")
    speech.retract()
    assert (outbox.preview_text, outbox.resets) == ("", 1)
    speech.delta("Two.")
    speech.end_round("Two.")
    assert outbox.preview_text == speech.text == "One.\n\nTwo."


def test_nothing_shown_nothing_reset() -> None:
    outbox = FakeOutbox()
    Speech(outbox).retract()
    assert outbox.resets == 0


def test_after_a_crash_the_earlier_rounds_are_shown_again() -> None:
    outbox = FakeOutbox()
    speech = Speech(outbox, ("Let me look.", ""))
    speech.delta("Found.")
    assert outbox.preview_text == speech.text == "Let me look.\n\nFound."
