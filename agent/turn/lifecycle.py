"""The run that goes on in a conversation now, and which run a stop is meant for (SPEC §2.6)."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from agent.core.cancel import CancelToken
from agent.core.ids import RunId, SessionId
from agent.inbox import Source
from agent.sessions.records import Place

REMEMBERED = 32  # runs that a stop which comes late may have been said of


@dataclass(slots=True, kw_only=True)
class LifecycleState:
    """The run that goes on now, and what the next one begins with: its working directory (None: the workspace) and
    what hooks and loaded skills have set in its environment. Both are of the session `placed_for` and are stored with
    what its turns write; `unplaced` until then. `worked_in` is where the turn before was, `changes` counts changes.
    `source` is where its work comes from. `before` tells from when to when the last runs went on: to their end, or to
    the moment in which they were told to end.
    """

    run: RunId | None = None
    token: CancelToken | None = None
    since: datetime | None = None
    said_at: datetime | None = None  # when the words came that it answers
    told_at: datetime | None = None  # when it was told to end
    before: deque[tuple[datetime, datetime]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    language: str = "en"  # of the person it answers
    cwd: Path | None = None
    env: dict[str, str] = field(default_factory=dict)
    placed_for: SessionId | None = None
    unplaced: bool = False
    worked_in: Path | None = None
    changes: dict[str, int] = field(default_factory=dict)
    source: Source | None = None

    def begin(self, run: RunId, token: CancelToken, *, at: datetime, said_at: datetime) -> None:
        """A run goes on from now on."""
        self.run, self.token, self.since, self.said_at = run, token, at, said_at

    def end(self, at: datetime) -> None:
        """It is over."""
        if self.since is not None:
            self.before.append((self.since, self.told_at or at))
        self.run = self.token = self.since = self.said_at = self.told_at = None

    def stop(self, reason: str, at: datetime) -> bool:
        """Tell the run that goes on to end; False when there is none. Telling it twice is telling it once."""
        if self.token is None:
            return False
        self.told_at = self.told_at or at
        self.token.fire(reason)
        return True

    @property
    def is_ending(self) -> bool:
        """A run goes on that was told to end."""
        return self.token is not None and self.token.fired

    def is_meant(self, stop_at: datetime) -> bool:
        """Whether a stop that was said at that moment is for the run that goes on now (PEERS §3, theme 17).

        It is when the run went on then, or when its words were there and no other run went on: either it was the next
        to begin, or nobody was at work, and the stop was read from a history with them. A stop that was said of another
        run never ends this one.
        """
        if self.since is None or self.said_at is None or self.since <= stop_at:
            return True
        was_of_another = any(began <= stop_at < ended for began, ended in self.before)
        return self.said_at <= stop_at and not was_of_another

    def move(self, folder: Path) -> None:
        """Work there from the next turn on (Z-112)."""
        self.cwd, self.unplaced = folder, True

    def set_environment(self, values: Mapping[str, str]) -> None:
        """Set it for programs, from the next turn on; a session's first turn has it as well (Z-111)."""
        if values:
            self.env, self.unplaced = {**self.env, **values}, True

    def take_place(self, session: SessionId | None, place: Place, workspace: Path) -> None:
        """Go on where that session was; None: a fresh one."""
        self.placed_for, self.unplaced = session, False
        self.cwd, self.env = workspace / place.cwd if place.cwd else None, dict(place.env)

    def place(self, workspace: Path) -> Place:
        """What is to be stored of it."""
        below = self.cwd is not None and self.cwd != workspace and self.cwd.is_relative_to(workspace)
        return Place(cwd=str(self.cwd.relative_to(workspace)) if below and self.cwd else None, env=self.env)
