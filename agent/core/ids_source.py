"""Where new ids come from: an argument, so that a replay gets the same ones (B-02)."""

from collections.abc import Callable
from uuid import uuid4

NewId = Callable[[], str]


def random_uuid() -> str:
    """A random UUID (version 4) as text."""
    return str(uuid4())
