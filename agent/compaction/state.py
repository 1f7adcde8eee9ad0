"""State of a conversation's compaction between its passes, in memory; the window itself comes from the store."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from agent.compaction import guidelines
from agent.compaction.excerpts import scrubbed
from agent.compaction.goal_watch import SubgoalWatch, TaskGoal
from agent.compaction.guidelines import Guidelines
from agent.compaction.settings import FocusSettings, Level, MemorySettings, MicrocompactSettings, SubgoalSettings
from agent.compaction.stages import Breaker, Cooldown, advanced
from agent.compaction.subgoals import NoTiers, Subgoals, Tiers
from agent.compaction.window import (
    Change,
    CountMessage,
    Drain,
    Replacement,
    Unwritten,
    Window,
    holds_results,
    moved,
    moved_out,
)
from agent.core.errors import ToolError
from agent.core.messages import Message, Part, SummaryPart, ToolResult, ToolUse
from agent.sessions.store import STEP
from agent.sessions.window_store import LoadedWindow, WindowChanges

# Focus: the model brackets a piece of work; when it closes the bracket, its findings alone stay. No I/O.

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
        """The hint for the model beside a person's words, now and then; "" most of the time."""
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
    """An entry on one line, without secrets and without anything that looks like a tag of the gateway."""
    line = " ".join(scrubbed(entry).split()).replace("<", "&lt;")
    return line if len(line) <= LONGEST_ENTRY else line[: LONGEST_ENTRY - 1] + "…"


def _is_a_persons(window: Window, place: int) -> bool:
    entry = window[place]
    return entry.message.role == "user" and entry.stored.user_visible and not holds_results(entry.message)


@dataclass(frozen=True, kw_only=True)
class Options:
    """The settings one turn goes by."""

    level: Level = "safe"
    memory: MemorySettings = field(default_factory=MemorySettings)
    microcompact: MicrocompactSettings = field(default_factory=MicrocompactSettings)
    subgoals: SubgoalSettings = field(default_factory=SubgoalSettings)
    reserve_floor: int = 4_000
    flush_threshold: int = 8_000

    @cached_property
    def clears_first(self) -> bool:
        """Whether old results are cleared before anything is chosen among them (R-05).

        SideQuest chooses among results that are still there: with it, only pressure clears them.
        """
        return self.memory.compression.pruning_strategy == "reactive" and not self.memory.sidequest.enabled

    @cached_property
    def asks_for_goal(self) -> bool:
        """Whether a model says what the task is, since results are compared with it."""
        return self.memory.compression.pruning_strategy == "task_aware"

    @cached_property
    def uses_subgoals(self) -> bool:
        strategy = self.memory.compression.pruning_strategy
        return self.subgoals.enabled and strategy in ("subgoal", "subgoal_mig")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextUsage:
    """The weight of a request besides the window. `fixed` in raw tokens, `scale` calibrates them; `room` is scaled.

    `first`: nothing of this turn was sent yet.
    """

    fixed: int
    scale: float
    window: int
    room: int
    first: bool

    def tokens(self, window: Window) -> int:
        """Scaled tokens of the whole request with that window."""
        return int((self.fixed + window.tokens) * self.scale + 0.999999)

    def raw(self, scaled: int) -> int:
        """The raw tokens of so many `scaled` calibrated ones, rounded up."""
        return int(scaled / self.scale + 0.999999)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """A summary of the oldest `end` messages of the window, ready to take their place (L2)."""

    text: str
    end: int


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counts of compactions since the agent woke. Tokens are scaled, moments UTC milliseconds, 0 for never."""

    compactions: int = 0
    hard: int = 0
    prunes: int = 0
    sidequests: int = 0  # answers that named something
    sidequest_evicted: int = 0  # results
    asked: int = 0  # questions to summaries, those they answered, facts that were put back into them
    answered: int = 0
    put_back: int = 0
    tokens_saved: int = 0
    last_before: int = 0
    last_after: int = 0
    last_at_ms: int = 0

    @property
    def last(self) -> tuple[int, int, int]:
        """Tokens before and after the newest compaction of the session, and when."""
        return self.last_before, self.last_after, self.last_at_ms

    def last_was(self, last: tuple[int, int, int]) -> None:
        self.last_before, self.last_after, self.last_at_ms = last


@dataclass(slots=True, kw_only=True)
class CompactionState:
    """One conversation's. `own` is where the messages of the running turn begin in the window."""

    count: CountMessage
    window: Window = field(init=False)
    watch: SubgoalWatch = field(default_factory=SubgoalWatch)
    goal: TaskGoal = field(default_factory=TaskGoal)
    asks_for_goal: bool = False  # in this turn
    tiers: Tiers = field(default_factory=NoTiers)
    cooldown: Cooldown = field(default_factory=Cooldown)
    breaker: Breaker = field(default_factory=Breaker)
    focus: Focus = field(default_factory=Focus)
    tally: Tally = field(default_factory=Tally)
    guidelines: Guidelines = field(default_factory=Guidelines)
    guidelines_written: Guidelines = field(default_factory=Guidelines)  # those the store has
    turn: int = 0
    own: int = 0
    aloud: bool = False  # orphans that are taken out are logged: a dump is on (Z-81)
    asked_this_turn: bool = False
    flushed: bool = False
    warned: bool = False  # people know that a hard compaction is near
    exhaustion_untold: bool = False  # nothing more can be compacted, and nobody was told yet
    summary: SessionSummary | None = None
    summary_written: SessionSummary | None = None  # the one the store has
    released: bool = False  # since the last pass the active subgoal has let messages go
    looked_upto: int = 0  # the key of the newest entry of which is known whether it looked something up again
    compacted_written: tuple[int, int, int] = (0, 0, 0)  # the newest compaction, as the store has it
    settled: int = 0  # of the window's results: how many the next microcompaction need not look at

    def __post_init__(self) -> None:
        self.window = Window(self.count)

    @property
    def has_learnt(self) -> bool:
        """Whether the store must be told of the guidelines; how many turns have gone by alone is not worth it."""
        now, then = self.guidelines, self.guidelines_written
        return now.kept is not then.kept or now.gone is not then.gone or now.left != then.left

    @property
    def working_on(self) -> str:
        """The active subgoal, or the task goal, whichever the strategy goes by; "" while no model has named it."""
        active = self.tiers.active_subgoal() if isinstance(self.tiers, Subgoals) else None
        return active.description if active is not None else self.goal.text if self.asks_for_goal else ""

    def unlearn(self) -> None:
        """No guideline counts any more, and nothing that has left so far makes a new one."""
        self.guidelines, self.settled = replace(self.guidelines, kept=(), gone=(), left=None), 0

    def forget(self) -> None:
        """The store knows better: the window is read again, and what went by its positions is void."""
        self.window = Window(self.count, after=self.window.newest_key)
        self.watch = SubgoalWatch()
        self.goal = TaskGoal()
        self.tiers = NoTiers()
        self.focus.forget()
        self.summary = self.summary_written = None
        self.settled = self.own = 0
        self.released = False

    def start_anew(self) -> None:
        """Another session, or a cleared one: nothing that was true of the old one counts."""
        self.forget()
        self.tally.last_was((0, 0, 0))  # of the session that was left (Z-77)
        self.compacted_written = (0, 0, 0)
        self.focus = Focus()
        self.guidelines = self.guidelines.without_words()
        self.cooldown, self.breaker = Cooldown(), Breaker()
        self.flushed = self.warned = self.exhaustion_untold = False

    def begin_turn(self, options: Options) -> None:
        """A turn begins, before anything in it may compact."""
        self.turn += 1
        self.guidelines = replace(self.guidelines, turn=self.guidelines.turn + 1)
        self.cooldown = advanced(self.cooldown)
        self.asked_this_turn = False
        self.focus.turns += 1
        self.own = len(self.window)
        self.tiers = self.watch.subgoals if options.uses_subgoals else NoTiers()
        self.asks_for_goal = options.asks_for_goal

    def change(self, change: Change) -> int:
        """Make a change to the window and let everything that goes by positions follow; raw tokens freed."""
        results = len(self.window.results)
        learnt = self.guidelines.after(change, self.window)
        self.guidelines = learnt.faded() if isinstance(change, Drain) and learnt.kept else learnt
        reclaimed = self.window.apply(change)
        self.watch.subgoals.follow(change)  # also while another strategy counts: it may be switched back (Z-44)
        if len(self.window.results) != results:
            self.settled = 0
        self.own = moved_out(self.own, change)
        if self.summary is not None and (end := moved(self.summary.end, change)) != self.summary.end:
            followed = replace(self.summary, end=end) if end else None
            if self.summary_written is self.summary and followed is not None:
                self.summary_written = followed  # it still ends with the same message
            self.summary = followed
        return reclaimed


# Storing a window: the rows to hide, place and clear; and reading a window back.


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """Changes on their way into the store, and the keys of the entries that get an id or a place by that."""

    changes: WindowChanges
    inserted: tuple[tuple[int, int], ...]  # (key, place), as in `changes.inserted`
    placed: tuple[tuple[int, int], ...]  # (key, place)


def writing_of(state: CompactionState) -> Writing | None:
    """The changes not yet written; None where there are none, or where a message is not stored itself yet."""
    window = state.window
    unwritten = window.unwritten
    remembered = summary_to_write(state)
    compacted = state.tally.last if state.tally.last != state.compacted_written else None
    if not (unwritten.any or remembered is not None or state.has_learnt or compacted is not None):
        return None
    by_key = {entry.key: entry for entry in window if entry.key in _touched(unwritten)}
    places = _places(window) if unwritten.placed else {}
    inserted = [(key, place) for key, place in places.items() if by_key[key].stored.id is None]
    placed = [(key, place) for key, place in places.items() if by_key[key].stored.id is not None]
    cleared = [(by_key[key].stored, call, text) for (key, call), text in unwritten.cleared.items() if key in by_key]
    changes = WindowChanges(
        hidden=tuple(entry.stored for entry in unwritten.hidden if entry.stored.id is not None),
        inserted=tuple((by_key[key].stored, place) for key, place in inserted),
        placed=tuple((id, place) for key, place in placed if (id := by_key[key].stored.id) is not None),
        cleared=tuple(item for item in cleared if item[0].id is not None),
        deferred=tuple(
            (id, text)
            for key, text in unwritten.deferred.items()
            if key in by_key and (id := by_key[key].stored.id) is not None
        ),
        summary=remembered,
        guidelines=guidelines.written(state.guidelines) if state.has_learnt else None,
        compacted=compacted,
    )
    return Writing(changes=changes, inserted=tuple(inserted), placed=tuple(placed))


def settle(state: CompactionState, writing: Writing, ids: Sequence[int]) -> None:
    """The changes are in the store; `ids` are those of what was inserted, in order."""
    window = state.window
    window.unwritten = Unwritten()
    state.summary_written, state.guidelines_written = state.summary, state.guidelines
    if writing.changes.compacted is not None:
        state.compacted_written = writing.changes.compacted
    known: dict[int, tuple[int, int | None]] = {key: (place, None) for key, place in writing.placed}
    known |= {key: (place, id) for (key, place), id in zip(writing.inserted, ids, strict=True)}
    if not known:
        return
    for position in range(len(window)):
        entry = window[position]
        if entry.key in known:
            place, id = known[entry.key]
            stored = entry.stored if id is None else replace(entry.stored, id=id)
            window.stored_as(position, stored, place=place)


def summary_to_write(state: CompactionState) -> tuple[str, int | None] | None:
    """The session summary as it is to be stored; None where the store has it already."""
    if state.summary is state.summary_written:
        return None
    if state.summary is None:
        return ("", None)
    last = state.window[state.summary.end - 1].stored
    return (state.summary.text, last.id)


def fill(state: CompactionState, loaded: LoadedWindow) -> None:
    """Take what the store has of the session into an empty window."""
    window = state.window
    for one in loaded.entries:
        shown = _shown(one.message, one.cleared) if one.cleared else None
        place = one.place if one.message.id is None or one.place != one.message.id * STEP else None
        window.append(one.message, shown=shown, place=place, deferred=one.deferred)
        if one.message.id is not None and one.message.id == loaded.summary_upto and loaded.summary:
            state.summary = SessionSummary(text=loaded.summary, end=len(window))
    state.summary_written = state.summary
    learnt = guidelines.read(loaded.guidelines)
    state.guidelines = state.guidelines_written = learnt if loaded.told_here else learnt.without_words()
    state.looked_upto = window.newest_key
    if not state.tally.last_at_ms:
        state.tally.last_was(loaded.compacted)
        state.compacted_written = loaded.compacted


def _shown(message: Message, cleared: Mapping[str, str]) -> Message:
    return replace(message, parts=tuple(_part_shown(part, cleared) for part in message.parts))


def _part_shown(part: Part, cleared: Mapping[str, str]) -> Part:
    if isinstance(part, ToolResult) and part.tool_use_id in cleared:
        return replace(part, content=cleared[part.tool_use_id])
    if isinstance(part, ToolUse) and part.id in cleared:
        return replace(part, input=json.loads(cleared[part.id]))
    return part


def _touched(unwritten: Unwritten) -> set[int]:
    return {key for key, _ in unwritten.cleared} | set(unwritten.deferred) | unwritten.placed


def _places(window: Window) -> dict[int, int]:
    """A place for each entry that was inserted or moved: right before what follows it, in order."""
    follows: int | None = None
    newest = max((entry.stored.id or 0 for entry in window), default=0)
    places: dict[int, int] = {}
    for position in range(len(window) - 1, -1, -1):
        entry = window[position]
        if entry.key in window.unwritten.placed:
            follows = (newest + 1) * STEP - 1 if follows is None else follows - 1
            places[entry.key] = follows
        elif entry.place is not None:
            follows = entry.place
        elif entry.stored.id is not None:
            follows = entry.stored.id * STEP
    return dict(reversed(places.items()))
