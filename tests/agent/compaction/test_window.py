"""The model's view of a window is one list, kept from call to call: every change goes through it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from agent.compaction.window import Drain, Replacement, Window
from agent.core.messages import Message, text_message


def window_of(*texts: str) -> Window:
    window = Window(lambda message: len(message.content))
    window.extend(text_message("user", text) for text in texts)
    return window


def texts_of(window: Window) -> list[str]:
    return [message.content for message in window.messages]


NEW = text_message("user", "new")


@pytest.mark.parametrize(
    ("happens", "then"),
    [
        pytest.param(lambda window: window.append(NEW), ["a", "b", "c", "new"], id="append"),
        pytest.param(
            lambda window: window.append(text_message("user", "x"), shown=NEW), ["a", "b", "c", "new"], id="as"
        ),
        pytest.param(lambda window: window.skip(2), ["c"], id="skip"),
        pytest.param(lambda window: window.put(0, NEW), ["new", "a", "b", "c"], id="put"),
        pytest.param(lambda window: window.show(1, NEW), ["a", "new", "c"], id="show"),
        pytest.param(
            lambda window: window.apply(Replacement(position=2, message=NEW)), ["a", "b", "new"], id="replacement"
        ),
        pytest.param(
            lambda window: window.apply(Drain(start=0, end=2, summary=NEW, pinned=(1,), active=())),
            ["new", "b", "c"],
            id="drain",
        ),
    ],
)
def test_what_happens_is_seen(happens: Callable[[Window], object], then: list[str]) -> None:
    window = window_of("a", "b", "c")
    assert texts_of(window) == ["a", "b", "c"]
    happens(window)
    assert texts_of(window) == then


def test_a_message_that_was_stored_is_seen_with_its_id() -> None:
    window = window_of("a", "b")
    assert [message.id for message in window.messages] == [None, None]
    window.stored_as(1, replace(window[1].message, id=7))
    assert [message.id for message in window.messages] == [None, 7]


def test_the_list_is_the_callers_own() -> None:
    window = window_of("a", "b")
    taken: list[Message] = window.messages
    taken.clear()
    window.append(NEW)
    assert taken == []
    assert texts_of(window) == ["a", "b", "new"]
