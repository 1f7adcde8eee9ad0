"""Calls of a function, as the event loop's thread makes them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def noting_calls_of(function: Any) -> Iterator[list[str]]:
    """Callers of the function in this thread, which is the event loop's."""
    found: list[str] = []

    def note(frame: FrameType, event: str, arg: object) -> None:
        if event == "call" and frame.f_code is function.__code__:
            found.append(str(frame.f_back))

    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)
