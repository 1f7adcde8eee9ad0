"""What a conversation's compaction remembers between its passes. In memory; the window itself comes from the store."""

from dataclasses import dataclass, field, replace

from agent.compaction.breaker import Breaker
from agent.compaction.changes import Change, Drain, moved, moved_out
from agent.compaction.cooldown import Cooldown, advanced
from agent.compaction.focus import Focus
from agent.compaction.guidelines import Guidelines
from agent.compaction.settings import Level, MemorySettings, MicrocompactSettings, SubgoalSettings
from agent.compaction.subgoal_watch import SubgoalWatch
from agent.compaction.subgoals import Subgoals
from agent.compaction.task_goal import TaskGoal
from agent.compaction.tiers import NoTiers, Tiers
from agent.compaction.window import CountMessage, Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The settings one turn goes by."""

    level: Level = "safe"
    memory: MemorySettings = field(default_factory=MemorySettings)
    microcompact: MicrocompactSettings = field(default_factory=MicrocompactSettings)
    subgoals: SubgoalSettings = field(default_factory=SubgoalSettings)
    reserve_floor: int = 4_000
    flush_threshold: int = 8_000

    @property
    def clears_first(self) -> bool:
        """Whether old results are cleared before anything is chosen among them (R-05).

        SideQuest chooses among results that are still there: with it, only pressure clears them.
        """
        return self.memory.compression.pruning_strategy == "reactive" and not self.memory.sidequest.enabled

    @property
    def asks_for_goal(self) -> bool:
        """Whether a model says what the task is, since results are compared with it."""
        return self.memory.compression.pruning_strategy == "task_aware"

    @property
    def uses_subgoals(self) -> bool:
        strategy = self.memory.compression.pruning_strategy
        return self.subgoals.enabled and strategy in ("subgoal", "subgoal_mig")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextUsage:
    """What a request weighs besides the window. `fixed` in raw tokens, `scale` calibrates them; `room` is scaled.

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
        """So many raw tokens are `scaled` calibrated ones, rounded up."""
        return int(scaled / self.scale + 0.999999)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """A summary of the oldest `end` messages of the window, ready to take their place (L2)."""

    text: str
    end: int


@dataclass(slots=True, kw_only=True)
class Tally:
    """What compaction has done since the agent woke. Tokens are scaled, moments UTC milliseconds, 0 for never."""

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
