"""A conversation as its model sees it: the messages, what they weigh, and what was changed since they were stored.

Whoever holds a window is its only owner. No I/O: what must be written is taken from it as values.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, assert_never, overload

from agent.core.messages import Message, ToolResult, ToolUse

# Changes of a window, as values: the four kinds that a stage may make. No I/O.


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleared:
    """The result of one call gives way to `text`; the transcript keeps it."""

    position: int
    call: str  # the tool_use_id
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stubbed:
    """The arguments of a call shortened to `arguments`; the transcript keeps the whole ones."""

    position: int
    call: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clearing:
    """Results are cleared and arguments stubbed where they stand: no position moves."""

    results: tuple[Cleared, ...] = ()
    calls: tuple[Stubbed, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedSummary:
    """A call and its results (`response` is `request` + 1) give way to one message at `request`."""

    request: int
    response: int
    summary: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedSummaries:
    """Pairs are folded, in ascending order: a position behind k of them moves down by k."""

    pairs: tuple[AppliedSummary, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """[start, end) gives way to the summary (if there is one), then its pinned, then its active messages.

    With s = 1 for a summary and 0 for none, P pinned and A active: the summary stands at `start`, the k-th pinned at
    start + s + k, the k-th active at start + s + P + k, and i >= end becomes i - end + start + s + P + A.
    `pinned` and `active` are ascending positions inside the span and share none.
    """

    start: int
    end: int
    summary: Message | None
    pinned: tuple[int, ...] = ()
    active: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A message of the gateway (a knowledge block, say) gives way to a newer one in its place: no position moves."""

    position: int
    message: Message


Change = Clearing | AppliedSummaries | Drain | Replacement


def moved(border: int, change: Change) -> int | None:
    """Where the border before position `border` is after the change; None when the change took in both of its sides."""
    match change:
        case Clearing() | Replacement():
            return border
        case AppliedSummaries():
            return border - sum(pair.response < border for pair in change.pairs)
        case Drain():
            if border <= change.start:
                return border
            if border < change.end:
                return None
            kept = (change.summary is not None) + len(change.pinned) + len(change.active)
            return border - change.end + change.start + kept
        case _:
            assert_never(change)


def moved_out(border: int, change: Change) -> int:
    """Like `moved`; a border inside of what was drained moves behind what took its place."""
    new = moved(border, change)
    if new is not None:
        return new
    assert isinstance(change, Drain)
    return change.start + (change.summary is not None) + len(change.pinned) + len(change.active)


CountMessage = Callable[[Message], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One message of the window. `stored` is what the transcript has, `message` what the model sees of it.

    `key` stays with the message for its life in this process; positions move. `deferred` is the summary of the pair
    whose results this message holds, waiting to take their place.
    """

    key: int
    message: Message
    stored: Message
    tokens: int  # raw, of `message`
    place: int | None = None  # where a compaction put it in the store; None: where it was written
    deferred: str = ""

    @property
    def pinned(self) -> bool:
        return self.stored.pinned

    @property
    def is_cleared(self) -> bool:
        """Whether some result in it gave way to a notice, or what a call was given to something shorter."""
        return self.message is not self.stored


@dataclass(slots=True, kw_only=True)
class Unwritten:
    """Changes of a window that the store does not know yet. Keys are those of entries."""

    hidden: list[Entry] = field(default_factory=list)
    # (key, tool_use_id): what stands there now, of a call as JSON
    cleared: dict[tuple[int, str], str] = field(default_factory=dict)
    deferred: dict[int, str] = field(default_factory=dict)
    placed: set[int] = field(default_factory=set)  # inserted or moved out of the order in which they were stored

    @property
    def any(self) -> bool:
        return bool(self.hidden or self.cleared or self.deferred or self.placed)


class Window(Sequence[Entry]):
    """The entries in the order the model reads them. Each operation costs what it touches, appending O(1).

    Keys are above `after`: so those of a window that took another's place mean nothing in it.
    """

    def __init__(self, count: CountMessage, *, after: int = 0) -> None:
        self._count = count
        self._entries: list[Entry] = []
        self._messages: list[Message] | None = []  # of the entries; None: to be read from them again
        self.newest_key = after
        self.tokens = 0  # raw, of all entries
        self.arrived = 0  # raw, of all that was ever appended
        self.results: list[int] = []  # positions of what holds results of tools, ascending
        self.paired = 0  # of these, how many are known to follow their calls: whoever moves or shows others resets it
        self.waiting: set[int] = set()  # keys of what holds a deferred summary
        self.unwritten = Unwritten()

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Entry]: ...
    def __getitem__(self, index: int | slice) -> Entry | Sequence[Entry]:
        return self._entries[index]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    @property
    def messages(self) -> list[Message]:
        """The messages that the model sees, as a list of the caller's own."""
        if self._messages is None:
            self._messages = [entry.message for entry in self._entries]
        return self._messages.copy()

    def append(
        self, message: Message, *, shown: Message | None = None, place: int | None = None, deferred: str = ""
    ) -> Entry:
        """A message arrived, or was read from the store; `shown` is what the model sees of it, if that differs."""
        entry = self._entry(message, shown=shown, place=place, deferred=deferred)
        if holds_results(message):
            self.results.append(len(self._entries))
        self._entries.append(entry)
        if self._messages is not None:
            self._messages.append(entry.message)
        self.tokens += entry.tokens
        self.arrived += entry.tokens
        return entry

    def extend(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.append(message)

    def stored_as(self, position: int, stored: Message, *, place: int | None = None) -> None:
        """The message at `position` is in the transcript now and has its id."""
        entry = self._entries[position]
        message = replace(entry.message, id=stored.id) if entry.is_cleared else stored
        self._entries[position] = replace(entry, stored=stored, message=message, place=place)
        if self._messages is not None:
            self._messages[position] = message

    def defer(self, position: int, summary: str) -> None:
        """The pair whose results stand at `position` has a summary that can take its place later."""
        entry = self._entries[position]
        self._entries[position] = replace(entry, deferred=summary)
        self.waiting.add(entry.key)
        self.unwritten.deferred[entry.key] = summary

    def apply(self, change: Change) -> int:
        """Make the change; returns the raw tokens it freed (negative when the window grew)."""
        before = self.tokens
        self._messages = None
        match change:
            case Clearing():
                self._clear(change.results)
                self._stub(change.calls)
            case AppliedSummaries():
                self._apply_summaries(change)
                self._index()
            case Drain():
                self._drain(change)
                self._index()
            case Replacement():
                old = self._entries[change.position]
                self._hide(old)
                self._entries[change.position] = self._insert(change.message)
                self.paired = 0
            case _:
                assert_never(change)
        return before - self.tokens

    def skip(self, count: int) -> None:
        """Leave the oldest `count` messages out; the store keeps them as they are."""
        self.tokens -= sum(entry.tokens for entry in self._entries[:count])
        del self._entries[:count]
        self._messages = None
        self._index()

    def put(self, position: int, message: Message) -> None:
        """Let a message of nobody's stand there, which is never written: loading the window again makes it again."""
        entry = self._entry(message)
        self._entries.insert(position, entry)
        self._messages = None
        self.tokens += entry.tokens
        self._index()

    def show(self, position: int, message: Message) -> None:
        """Let the model see `message` there; nothing of that is written, loading the window again mends it again."""
        self._show(position, message)
        self.paired = 0

    def _show(self, position: int, message: Message) -> None:
        entry = self._entries[position]
        self._messages = None
        tokens = self._count(message)
        self.tokens += tokens - entry.tokens
        self._entries[position] = replace(entry, message=message, tokens=tokens)

    def _index(self) -> None:
        self.paired = 0
        self.results = [position for position, entry in enumerate(self._entries) if holds_results(entry.message)]

    def _clear(self, results: Iterable[Cleared]) -> None:
        for cleared in results:
            entry = self._entries[cleared.position]
            parts = tuple(
                replace(part, content=cleared.text)
                if isinstance(part, ToolResult) and part.tool_use_id == cleared.call
                else part
                for part in entry.message.parts
            )
            self._show(cleared.position, replace(entry.message, parts=parts))
            self.unwritten.cleared[entry.key, cleared.call] = cleared.text

    def _stub(self, calls: Iterable[Stubbed]) -> None:
        for stubbed in calls:
            entry = self._entries[stubbed.position]
            parts = tuple(
                replace(part, input=stubbed.arguments)
                if isinstance(part, ToolUse) and part.id == stubbed.call
                else part
                for part in entry.message.parts
            )
            self._show(stubbed.position, replace(entry.message, parts=parts))
            self.unwritten.cleared[entry.key, stubbed.call] = json.dumps(stubbed.arguments, ensure_ascii=False)

    def _apply_summaries(self, apply_summaries: AppliedSummaries) -> None:
        for pair in reversed(apply_summaries.pairs):  # from the highest position down: the others stay where they are
            for entry in self._entries[pair.request : pair.response + 1]:
                self._hide(entry)
            self._entries[pair.request : pair.response + 1] = [self._insert(pair.summary)]

    def _drain(self, drain: Drain) -> None:
        kept = {*drain.pinned, *drain.active}
        for position in range(drain.start, drain.end):
            if position not in kept:
                self._hide(self._entries[position])
        again = [self._entries[position] for position in (*drain.pinned, *drain.active)]
        self.unwritten.placed |= {entry.key for entry in again}
        summary = [self._insert(drain.summary)] if drain.summary is not None else []
        self._entries[drain.start : drain.end] = [*summary, *again]

    def _insert(self, message: Message) -> Entry:
        entry = self._entry(message)
        self.tokens += entry.tokens
        self.unwritten.placed.add(entry.key)
        return entry

    def _hide(self, entry: Entry) -> None:
        self.tokens -= entry.tokens
        self.waiting.discard(entry.key)
        self.unwritten.hidden.append(entry)

    def _entry(
        self, message: Message, *, shown: Message | None = None, place: int | None = None, deferred: str = ""
    ) -> Entry:
        self.newest_key += 1
        if deferred:
            self.waiting.add(self.newest_key)
        seen = message if shown is None else shown
        return Entry(
            key=self.newest_key,
            message=seen,
            stored=message,
            tokens=self._count(seen),
            place=place,
            deferred=deferred,
        )


def holds_results(message: Message) -> bool:
    return message.role == "user" and any(isinstance(part, ToolResult) for part in message.parts)
