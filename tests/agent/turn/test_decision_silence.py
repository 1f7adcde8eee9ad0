"""Silence: the answers of a run that has nothing to tell."""

import pytest

from agent.turn.decision import NOTHING, is_silence


@pytest.mark.parametrize("text", [NOTHING, "nothing to report", f"**{NOTHING}.**", f'"{NOTHING}"', "", " \n"])
def test_silence(text: str) -> None:
    assert is_silence(text)


@pytest.mark.parametrize("text", ["The build is red.", f"{NOTHING}, but the build is red", "OK"])
def test_something_to_say(text: str) -> None:
    assert not is_silence(text)
