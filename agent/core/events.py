"""What happened: frozen facts with ids and numbers, and the bus that carries them (SPEC §2.8).

`name` is the public one: Brain's names for the loop, Roku's in snake case beside them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

from agent.core.ids import ConversationId, RunId, SessionId


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One fact. `sequence` grows by one within a conversation's life in this process; the bus fills it."""

    name: ClassVar[str] = "event"
    conversation: ConversationId
    run: RunId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopStarted(Event):
    name: ClassVar[str] = "loop:start"
    session: SessionId


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextBuilt(Event):
    name: ClassVar[str] = "loop:context"
    token_estimate: int
    window: int  # tokens that the model holds


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecuteStarted(Event):
    name: ClassVar[str] = "loop:execute"
    tool_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted(Event):
    """`runs` False: a person or a rule has kept it from running; its end follows at once."""

    name: ClassVar[str] = "tool:start"
    tool_name: str
    tool_call_id: str
    runs: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEnded(Event):
    """`exists`: there is such a tool; else the name is the model's own."""

    name: ClassVar[str] = "tool:end"
    tool_name: str
    tool_call_id: str
    elapsed_ms: int
    is_error: bool
    result_summary: str
    exists: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutputCompressed(Event):
    """A model shortened a tool's output before it was stored; the raw one is in a file of that name (Z-144)."""

    name: ClassVar[str] = "tool_output_compressed"
    tool_name: str
    tool_call_id: str
    original_tokens: int
    compressed_tokens: int
    raw_output: str  # "" where it could not be kept


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDelta(Event):
    name: ClassVar[str] = "stream:delta"
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistStarted(Event):
    name: ClassVar[str] = "loop:persist"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopEnded(Event):
    """The last three: whether the transcript, the session and the memory have new content of the run (B-51)."""

    name: ClassVar[str] = "loop:end"
    success: bool
    duration_ms: int
    transcript_updated: bool = False
    session_updated: bool = False
    memory_updated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopFailed(Event):
    name: ClassVar[str] = "loop:error"
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCompleted(Event):
    name: ClassVar[str] = "step_complete"
    step_index: int
    remaining_steps: int


@dataclass(frozen=True, slots=True)
class Published:
    """An event with its place in the order of its conversation."""

    sequence: int
    event: Event


Listener = Callable[[Published], None]


class EventBus:
    """Carries events to listeners in order; a listener that raises is reported and never fails a turn (R-46).

    Listeners run at once and must only note or queue what they hear: the bus has no queue of its own that could fill.
    """

    def __init__(self, on_error: Callable[[Exception, Event], None]) -> None:
        self._listeners: list[tuple[Listener, frozenset[type[Event]] | None]] = []
        self._audiences: dict[type[Event], tuple[Listener, ...]] = {}
        self._sequences: dict[ConversationId, int] = {}
        self._on_error = on_error

    def listen(self, listener: Listener, only: Iterable[type[Event]] | None = None) -> Callable[[], None]:
        """Hear every event from now on, or every one of the kinds in `only`; call what is returned to stop."""
        entry = (listener, None if only is None else frozenset(only))
        self._listeners.append(entry)
        self._audiences.clear()

        def stop() -> None:
            self._listeners.remove(entry)
            self._audiences.clear()

        return stop

    def hears(self, kind: type[Event]) -> bool:
        """Whether anybody listens to such events: one that comes by the thousand and is not heard need not be made."""
        return bool(self._audience(kind))

    def publish(self, event: Event) -> None:
        sequence = self._sequences.get(event.conversation, 0) + 1
        self._sequences[event.conversation] = sequence
        audience = self._audience(type(event))
        if not audience:
            return
        published = Published(sequence, event)
        for listener in audience:
            try:
                listener(published)
            except Exception as error:  # noqa: BLE001 - the event seam of STYLE §6
                self._on_error(error, event)

    def _audience(self, kind: type[Event]) -> tuple[Listener, ...]:
        found = self._audiences.get(kind)
        if found is None:
            found = tuple(listener for listener, only in self._listeners if only is None or kind in only)
            self._audiences[kind] = found
        return found

    def forget(self, conversation: ConversationId) -> None:
        """Its agent went to sleep: its numbering starts anew."""
        self._sequences.pop(conversation, None)
