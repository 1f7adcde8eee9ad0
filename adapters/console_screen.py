"""The console's screen: each reader gets each event at once; a message waits on the disk until one has printed it."""

import json
import logging
import os
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

KEPT = 500  # messages that can be changed and are not sent twice; as many drafts and ephemeral messages
BEHIND = 1_000  # events a reader may lag behind before it is cut off; it comes back and gets what it missed
ALIVE_EVERY_S = 15.0

Event = dict[str, Any]

log = logging.getLogger("tieline.console")


class Screen:
    """The open terminals, and the messages that wait for one; these survive a restart in one small file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._readers: set[MemoryObjectSendStream[Event]] = set()
        self._writing = anyio.Lock()
        self._kept, broken = _read(path)
        # Ids of lines that cannot be read are not given again: terminals may still show them.
        self._numbers = count(max((int(line["event"]["id"]) for line in self._kept), default=0) + broken + 1)
        self._ephemeral: dict[str, None] = {}  # drafts and ephemeral messages, the oldest first
        self.commands: Event | None = None
        self._index()

    def new_id(self) -> str:
        return str(next(self._numbers))

    def stands(self, id: str) -> bool:
        """Whether that can be changed or taken away; of what is older than the newest `KEPT` nothing is known."""
        return id in self._ids or id in self._ephemeral

    def pass_by(self, event: Event) -> None:
        """Show a draft or an ephemeral message: it stands until it is taken away, and is on no disk."""
        self._ephemeral[event["id"]] = None
        while len(self._ephemeral) > KEPT:
            del self._ephemeral[next(iter(self._ephemeral))]
        self.show(event)

    def passed(self, id: str) -> None:
        """A draft has become a message."""
        self._ephemeral.pop(id, None)

    def show(self, event: Event) -> None:
        """Send the event to everybody who looks now; one who lags too far behind is cut off and comes back."""
        for reader in tuple(self._readers):
            try:
                reader.send_nowait(event)
            except (anyio.WouldBlock, anyio.BrokenResourceError):
                self._readers.discard(reader)
                reader.close()

    async def keep(self, event: Event, key: str) -> None:
        """Show a message for good; until it is `printed` it waits. Returns when it is on the disk."""
        async with self._writing:
            line = {"key": key, "event": event, "seen": False}
            await self._write([*self._kept, line][-KEPT:])
            self.show(event)

    async def change(self, event: Event) -> None:
        """Show that a message is another now; one that waits is shown in its last form alone."""
        async with self._writing:
            kept = [
                {**line, "event": {**event, "type": "message"}} if line["event"]["id"] == event["id"] else line
                for line in self._kept
            ]
            await self._write(kept)
            self.show(event)

    async def take_away(self, id: str) -> None:
        async with self._writing:
            await self._write([line for line in self._kept if line["event"]["id"] != id])
            self._ephemeral.pop(id, None)
            self.show({"type": "gone", "id": id})

    async def lines(self, *, only_demo: bool = False) -> AsyncIterator[str]:
        """Yield the waiting messages, then each new one, without end; `only_demo` comes first."""
        events: MemoryObjectReceiveStream[Event]
        reader, events = anyio.create_memory_object_stream[Event](BEHIND)
        async with self._writing:
            waiting = [line["event"] for line in self._kept if not line["seen"]]
            self._readers.add(reader)
        try:
            if only_demo:
                yield _line({"type": "demo"})
            for event in [*([self.commands] if self.commands else []), *waiting]:
                yield _line(event)
            yield _line({"type": "caught_up"})
            while True:
                event = {"type": "alive"}
                with anyio.move_on_after(ALIVE_EVERY_S):
                    event = await events.receive()
                yield _line(event)
        except anyio.EndOfStream:
            return
        finally:
            self._readers.discard(reader)
            reader.close()
            events.close()

    async def printed(self, ids: frozenset[str]) -> None:
        """These messages are on a screen: no later reader gets them. Raises OSError, and then they wait on."""
        async with self._writing:
            await self._write([{**line, "seen": True} if line["event"]["id"] in ids else line for line in self._kept])

    def close(self) -> None:
        """Tell every reader that the gateway ends, and end its stream."""
        self.show({"type": "ending"})
        for reader in tuple(self._readers):
            reader.close()
        self._readers.clear()

    async def _write(self, kept: list[Event]) -> None:
        """Raises OSError, and then nothing has changed."""
        if kept != self._kept:
            await to_thread.run_sync(_replace, self._path, "".join(map(_line, kept)))
            self._kept = kept
            self._index()

    def _index(self) -> None:
        self.keys: dict[str, str] = {line["key"]: line["event"]["id"] for line in self._kept if line["key"]}
        self._ids = frozenset(line["event"]["id"] for line in self._kept)


def _line(value: Event) -> str:
    """An event as one ASCII line: no sign in it ends a line, and half a surrogate pair can be written."""
    return json.dumps(value) + "\n"


def _read(path: Path) -> tuple[list[Event], int]:
    """The lines that are whole, and how many are not: each of these is lost alone."""
    try:
        lines = [line for line in path.read_bytes().split(b"\n") if line]
    except FileNotFoundError:
        return [], 0
    kept = [entry for line in lines if (entry := _entry(line)) is not None]
    if broken := len(lines) - len(kept):
        log.warning("%d broken lines of %s are left out", broken, path)
    return kept, broken


def _entry(line: bytes) -> Event | None:
    try:
        entry = json.loads(line)
        sound = entry["event"]["id"].isdecimal() and isinstance(entry["key"], str) and "seen" in entry
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return entry if sound else None


def _replace(path: Path, content: str) -> None:
    new = path.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    new.replace(path)
