"""Characters that no database, no UTF-8 and no platform takes are removed; everything else stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.untrusted_text import whole, whole_data, without_half

ANY = st.text(st.sampled_from("\0\ud83d\ude80") | st.characters())


@pytest.mark.parametrize(
    ("text", "made"),
    [
        pytest.param("plain", "plain", id="ordinary"),
        pytest.param("gr\u00fc\u00df \U0001f680", "gr\u00fc\u00df \U0001f680", id="a whole emoji"),
        pytest.param("a\ud83d!", "a\ufffd!", id="a first half alone"),
        pytest.param("a\ude80!", "a\ufffd!", id="a second half alone"),
        pytest.param("a\ud83d\ude80!", "a\U0001f680!", id="two halves are joined"),
        pytest.param("a\0b", "a\ufffdb", id="NUL"),
        pytest.param("\ufeffa\ud83d\0", "\ufeffa\ufffd\ufffd", id="a mark at the beginning stays"),
    ],
)
def test_whole(text: str, made: str) -> None:
    assert whole(text) == made


@given(ANY)
def test_whatever_comes_utf_8_and_postgresql_take_it(text: str) -> None:
    made = whole(text)
    assert "\0" not in made.encode().decode()
    assert whole(made) is made, "what is whole is not even copied"


@given(ANY)
def test_half_an_emoji_waits_and_nothing_else(text: str) -> None:
    begun, half = without_half(text)
    assert begun + half == text
    assert half in ("", text[-1:])
    assert not half or "\ud800" <= half <= "\udbff"


def test_plain_data_keeps_its_form() -> None:
    data = {"a\0": ["x\ud83d", 1, None, ("y",)], "b": {"c": True}}
    assert whole_data(data) == {"a\ufffd": ["x\ufffd", 1, None, ("y",)], "b": {"c": True}}
