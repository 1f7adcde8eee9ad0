"""Focus: the model brackets a piece of work, and in its end only what it found stays (SPEC §8.15). No I/O.

What it found is kept in one pinned message, the knowledge, at the top of the window.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agent.compaction.changes import Change, Drain, Replacement
from agent.compaction.scrubbing import scrubbed
from agent.compaction.settings import FocusSettings
from agent.compaction.window import Window, holds_results
from agent.core.errors import ToolError
from agent.core.messages import Message, SummaryPart

LABEL = "[knowledge]"
LONGEST_ENTRY = 4_000  # characters
SUGGEST = "A longer piece of work is best put between start_focus and complete_focus: only its findings stay then."
REMIND = "The focus {scope!r} is open for {count} messages; close it with complete_focus once its result is clear."

CountText = Callable[[str], int]


@dataclass(slots=True, kw_only=True)
class Focus:
    """One conversation's. Tools open and close it during a turn; the window follows before the next call."""

    scope: str = ""  # of the one that is open; "" while none is
    turns: int = 0  # since the last one was closed, or anything was consolidated
    looked: int = 0  # of these, how many had passed when what could be consolidated was looked for last
    entries: list[str] = field(default_factory=list)
    read: bool = False  # `entries` hold what the window's knowledge says
    _marker: int | None = None  # key of the message right before the bracket
    _opening: bool = False
    _closing: str | None = None

    @property
    def is_open(self) -> bool:
        return self.scope != ""

    def start(self, scope: str) -> str:
        """Begin to bracket. Raises ToolError while another focus is open."""
        if self.is_open:
            raise ToolError(f"the focus {self.scope!r} is still open; close it with complete_focus first")
        self.scope, self._opening = " ".join(scope.split()), True
        return f"Focus on {self.scope!r} is open. Close it with complete_focus and what you found."

    def complete(self, summary: str) -> str:
        """Close the bracket. Raises ToolError when none is open."""
        if not self.is_open:
            raise ToolError("no focus is open; begin one with start_focus")
        if not summary.strip():
            raise ToolError("the summary is empty; say what was found, it is all that stays")
        scope, self.scope = self.scope, ""
        self._closing = f"{scope}: {summary}"
        return "Closed. The summary is in the knowledge; the messages in between leave the window."

    def forget(self) -> None:
        """The window is read again: its messages have other keys, and its knowledge is looked at anew."""
        self._marker, self.read, self.entries = None, False, []

    def count_anew(self) -> None:
        """A focus was opened or closed, or something was consolidated."""
        self.turns = self.looked = 0

    def take(self, window: Window, change: Callable[[Change], int], settings: FocusSettings, count: CountText) -> int:
        """Let the window follow what the tools did since the last call; returns how many messages left it."""
        if self._opening:
            self._opening, self._marker = False, window[len(window) - 1].key
            self.count_anew()
        if self._closing is None:
            return 0
        entry, self._closing = self._closing, None
        begin, end = self._bracket(window), len(window) - 2  # the closing call and its result stay
        self._marker = None
        self.count_anew()
        kept = tuple(place for place in range(begin, end) if window[place].pinned or _is_a_persons(window, place))
        left = 0
        if end - begin >= settings.min_messages_per_focus and len(kept) < end - begin:
            left = end - begin - len(kept)
            change(Drain(start=begin, end=end, summary=None, pinned=kept))
        self.know([entry], window, change, settings, count)
        return left

    def know(
        self,
        entries: Sequence[str],
        window: Window,
        change: Callable[[Change], int],
        settings: FocusSettings,
        count: CountText,
    ) -> None:
        """Add to the knowledge; the oldest entries go when it grows too large, the newest never does."""
        place = knowledge_in(window)
        if not self.read:
            self.entries = entries_of(window[place].message) if place is not None else []
            self.read = True
        self.entries += [harmless(entry) for entry in entries]
        while len(self.entries) > 1 and count("\n".join(self.entries)) > settings.max_knowledge_tokens:
            del self.entries[0]
        message = knowledge(self.entries)
        if place is None:
            change(Drain(start=0, end=0, summary=message))
        else:
            change(Replacement(position=place, message=message))

    def inside(self, window: Window) -> int:
        """How many messages stand in the bracket that is open; 0 while none is."""
        return len(window) - self._bracket(window) if self.is_open else 0

    def hint(self, settings: FocusSettings, window: Window) -> str:
        """What the model is told beside a person's words now and then; "" most of the time."""
        if self.is_open:
            count = len(window) - self._bracket(window)
            due = count >= settings.reminder_interval
            return REMIND.format(scope=self.scope, count=count) if due else ""
        return SUGGEST if self.turns and self.turns % settings.compression_interval == 0 else ""

    def _bracket(self, window: Window) -> int:
        """The first position inside. A marker that is lost leaves what came since a person spoke last."""
        for place in range(len(window) - 1, -1, -1):
            if window[place].key == self._marker or (self._marker is None and _is_a_persons(window, place)):
                return place + 1
        return len(window)


def knowledge_in(window: Window) -> int | None:
    """Where the knowledge stands."""
    for place, entry in enumerate(window):
        if entry.pinned and entries_of(entry.message):
            return place
    return None


def knowledge(entries: Sequence[str]) -> Message:
    """The message that holds it: for the model alone, and it outlives every stage."""
    numbered = (f"{number}. {entry}" for number, entry in enumerate(entries, start=1))
    text = "\n".join((LABEL, *numbered))
    return Message(role="user", parts=(SummaryPart(text=text),), user_visible=False, pinned=True)


def entries_of(message: Message) -> list[str]:
    """The entries of a knowledge message; none for any other."""
    part = message.parts[0] if message.parts else None
    if not isinstance(part, SummaryPart) or not part.text.startswith(f"{LABEL}\n"):
        return []
    return [line.split(". ", 1)[-1] for line in part.text.split("\n")[1:]]


def harmless(entry: str) -> str:
    """An entry on one line, without secrets and without anything that looks like a tag of the gateway (SPEC §8.15)."""
    line = " ".join(scrubbed(entry).split()).replace("<", "&lt;")
    return line if len(line) <= LONGEST_ENTRY else line[: LONGEST_ENTRY - 1] + "…"


def _is_a_persons(window: Window, place: int) -> bool:
    entry = window[place]
    return entry.message.role == "user" and entry.stored.user_visible and not holds_results(entry.message)
