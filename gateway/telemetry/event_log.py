"""An optional trace: every event of a run as one JSON line, one file a run, mode 0600. Off unless asked for."""

import json
import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import fields
from datetime import datetime
from pathlib import Path

import anyio
from anyio import to_thread

from agent.core.clock import Clock
from agent.core.events import Event, Published

KEPT_RUNS = 500  # files; the oldest go
WAITING = 10_000  # lines that may wait for the disk; beyond that lines are dropped and counted

log = logging.getLogger("tieline.telemetry")


class EventLog:
    """Hears events and writes them below `folder`; hearing never waits for the disk (R-46)."""

    def __init__(self, folder: Path, clock: Clock, redact: Callable[[str], str]) -> None:
        self._folder = folder
        self._clock = clock
        self._redact = redact
        self._waiting: deque[tuple[str, str]] = deque()
        self._changed = anyio.Event()
        self.dropped = 0

    def listen(self, published: Published) -> None:
        """A listener for the event bus."""
        if len(self._waiting) >= WAITING:
            self.dropped += 1
            return
        run = published.event.run or "between-runs"
        self._waiting.append((run, as_line(published, self._clock.now(), self._redact)))
        self._changed.set()

    async def run(self) -> None:
        """Write until cancelled; what waits at the end is written still."""
        try:
            while True:
                await self._changed.wait()
                await self.flush()
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(5):
                await self.flush()

    async def flush(self) -> None:
        """Write what waits. A disk that refuses costs the trace, never a turn."""
        self._changed = anyio.Event()
        lines = [self._waiting.popleft() for _ in range(len(self._waiting))]
        if not lines:
            return
        try:
            with anyio.CancelScope(shield=True):  # what was taken out is written, also at the end
                await to_thread.run_sync(_append, self._folder, lines)
        except OSError as error:
            self.dropped += len(lines)
            log.warning("the trace could not be written, %d lines are lost: %s", len(lines), error)


def as_line(published: Published, at: datetime, redact: Callable[[str], str]) -> str:
    """One event as JSON: its public name, its place in the order, its own fields."""
    event: Event = published.event
    values = ((field.name, getattr(event, field.name)) for field in fields(event))
    payload = {name: redact(value) if isinstance(value, str) else value for name, value in values}
    line = {"at": at.isoformat(), "event": event.name, "sequence": published.sequence, **payload}
    return json.dumps(line, ensure_ascii=False)


def _append(folder: Path, lines: Sequence[tuple[str, str]]) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    by_run: dict[str, list[str]] = {}
    for run, line in lines:
        by_run.setdefault(run, []).append(line)
    for run, texts in by_run.items():
        safe = "".join(character for character in run if character.isalnum() or character in "-_")[:80]
        descriptor = os.open(folder / f"{safe}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8", errors="replace") as file:
            file.write("\n".join(texts) + "\n")
    files = sorted(folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
    for old in files[:-KEPT_RUNS]:
        old.unlink(missing_ok=True)
