"""The events of one conversation for its open pages: numbered, kept for a while, followed by any number of readers.

A reader that was away goes on where it stopped; one that was away too long gets the whole state instead. Nobody is
ever waited for.
"""

import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import anyio

KEPT = 512
HEARTBEAT_S = 15.0

Event = Mapping[str, Any]


class Stream:
    """`state` gives all there is to see now, as one event."""

    def __init__(self, state: Callable[[], Event]) -> None:
        self._state = state
        self._life = secrets.token_hex(4)  # numbers of an earlier life mean nothing
        self._number = 0
        self._kept: deque[tuple[int, Event]] = deque()
        self._lost = 0  # the newest event that is kept no more, and told by none that is
        self._changed = anyio.Event()
        self._closed = False
        self.readers = 0

    def publish(self, event: Event) -> None:
        self._number += 1
        if self._kept and (whole := _superseding(self._kept[-1][1], event)) is not None:
            self._kept.pop()  # frames of one growing block would be kept by the hundred
            event = whole
        self._kept.append((self._number, event))
        if len(self._kept) > KEPT:
            self._lost = self._kept.popleft()[0]
        self._wake()

    def close(self) -> None:
        """Readers end, once they have what was published."""
        self._closed = True
        self._wake()

    async def follow(self, after: str | None) -> AsyncIterator[tuple[str, Event | None]]:
        """Events with their ids, for ever: what came after that id, or the state first. None is a heartbeat."""
        self.readers += 1
        try:
            seen = self._resumed(after)
            while not self._closed or (seen is not None and seen < self._number):
                if seen is None or seen < self._lost:
                    seen = self._number
                    yield self._id(seen), self._state()
                for number, event in [kept for kept in self._kept if kept[0] > seen]:
                    seen = number
                    yield self._id(number), event
                if self._closed or seen < self._number:
                    continue  # closed: the condition above ends it when nothing is left
                changed = self._changed
                with anyio.move_on_after(HEARTBEAT_S) as waiting:
                    await changed.wait()
                if waiting.cancelled_caught:
                    yield self._id(seen), None
        finally:
            self.readers -= 1

    def _id(self, number: int) -> str:
        return f"{self._life}.{number}"

    def _resumed(self, after: str | None) -> int | None:
        life, _, number = (after or "").partition(".")
        if life != self._life or not (number.isascii() and number.isdigit() and len(number) < 16):
            return None
        if int(number) > self._number:
            return None
        return int(number)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


def _superseding(before: Event, event: Event) -> Event | None:
    """The newer of two frames of a growing answer when it has all that the one before changed; else None."""
    if not (before.get("type") == event.get("type") == "draft" and before["id"] == event["id"]):
        return None
    return {**before, **event} if event["from"] <= before["from"] else None
