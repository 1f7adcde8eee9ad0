"""An outbox that notes what an agent did to its channel, and keeps previews as a channel would show them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from agent.core.events import Event
from agent.core.outbox import Audience, Button
from tests.fakes.mortal import Crash


@dataclass(kw_only=True)
class FakeOutbox:
    """`preview_text` is what people see of the streaming reply. `answer` is given to every question."""

    preview_text: str = ""
    previews: list[str] = field(default_factory=list)  # what was visible after each change
    resets: int = 0
    status_line: str = ""
    statuses: list[str] = field(default_factory=list)
    lives: list[str] = field(default_factory=list)
    shown: list[Event] = field(default_factory=list)
    commits: int = 0
    audiences: list[Audience] = field(default_factory=list)
    ended: int = 0
    busy: bool = False
    suspends: bool = True
    dies_at_end_of_preview: bool = False  # once: right after the text of the preview was committed

    def begin(self, audience: Audience) -> None:
        self.audiences.append(audience)
        self.busy = True
        self.preview_text = ""

    def preview(self, delta: str) -> None:
        self.preview_text += delta
        self.previews.append(self.preview_text)

    def reset_preview(self) -> None:
        self.resets += 1
        self.preview_text = ""
        self.previews.append("")

    def end_preview(self) -> None:
        if self.dies_at_end_of_preview:
            self.dies_at_end_of_preview = False
            raise Crash
        self.preview_text = ""

    def status(self, text: str) -> None:
        self.status_line = text
        self.statuses.append(text)

    def live(self, text: str, buttons: tuple[tuple[Button, ...], ...] = ()) -> None:
        self.lives.append(text)

    def show(self, event: Event) -> None:
        self.shown.append(event)

    @contextmanager
    def awaiting(self) -> Iterator[None]:
        self.busy = False
        yield
        self.busy = True

    @contextmanager
    def committing(self) -> Iterator[Callable[[Any], None]]:
        yield lambda conn: None
        self.commits += 1

    async def end(self) -> None:
        self.ended += 1
        self.busy = False
        self.status_line = ""
