"""The named states of an agent (Z-04). Their one owner is the agent; it has no loose fields beside them.

The tools and the run under way have rules of their own, which stand with their states.
"""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from agent.between_turns import Jobs
from agent.compaction.dumps import Dumps
from agent.compaction.engine import Engine
from agent.compaction.state import CompactionState
from agent.core.cancellation import CancelToken
from agent.core.clock import Clock
from agent.core.events import Event, EventBus
from agent.core.files.store import FileStore, LocalFiles
from agent.core.ids import ConversationId, NewId, RunId, SessionId
from agent.core.outbox import Buttons, Outbox
from agent.core.phrases import Phrases
from agent.core.tools import Subagents
from agent.definitions import Definition, Definitions
from agent.documents.documents import Documents
from agent.inbox import Incoming, Source
from agent.ledger.ledger import Ledger
from agent.ledger.spending import OverBudget
from agent.memory.memory import Memory
from agent.providers.provider import Provider, SystemPrompt, ToolSchema
from agent.providers.retry_policy import RetryPolicy
from agent.providers.routing import NO_NEED, Choice, Chooser, Models, Need
from agent.providers.speech import SpeechSettings
from agent.run.contents import Contents
from agent.run.environment import Looked
from agent.run.features import Features
from agent.run.prefix import CacheWatch
from agent.run.run import Run
from agent.run.settings import PlacePolicy, Settings
from agent.sessions.store import Place
from agent.storage.database import Database
from agent.tools.executor import Executor
from agent.turn.tokens import Estimator
from agent.voice_messages import VoiceTranscription

# Tool state of one conversation: the visible tools, what decides that, and what its session has loaded.


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The causes of the visible tools: those it may call, pseudo-tools, its window, what it has loaded, which
    of many MCP tools fit, and how often the lent ones have changed."""

    scope: frozenset[str]
    pseudo: tuple[str, ...]
    window: int
    loaded: frozenset[str]
    fitting: tuple[str, ...] = ()
    inventory: int = 0


class SubagentPort(Protocol):
    """The runner of a conversation's sub-agent tasks; `agent.subagent.runner.SubagentRunner` keeps this promise."""

    def of(self, run: Run, *, most: int | None = None) -> Subagents:
        """The sub-agents that work for the run, on its account and within its limits; with `most` so many at once."""


@dataclass(slots=True, kw_only=True)
class ToolState:
    """The executor all agents share (Z-03), the data directory and this conversation's folder in it, what its model
    sees of its tools. `load_skill` gives a run's model the text of a skill; None: there is none.

    `loaded` are those that `tool_search` brought in, in the session `loaded_for`; `planned` is the session that is in
    plan mode; `shown` is what the frozen schema was made for (R-03). `subagent_runner` needs the agent and is set
    right after it is built.
    """

    executor: Executor
    home: Path
    workspace: Path
    load_skill: Callable[[Run], Callable[[str], str] | None]
    loaded: frozenset[str] = frozenset()
    loaded_for: SessionId | None = None
    recent: Mapping[str, int] = field(default_factory=dict)  # calls of each tool lately, for what fits
    fitting: tuple[str, ...] = ()  # MCP tools, in the order they came, for the turn, session and inventory …
    fitting_for: tuple[RunId, SessionId, int] | None = None  # … of these
    planned: SessionId | None = None
    shown: Shown | None = None
    schema: ToolSchema = ToolSchema()  # noqa: RUF009 - frozen
    subagent_runner: SubagentPort = field(init=False)

    def plan(self, session: SessionId, on: bool) -> None:
        """Plan mode, from the model's next step on."""
        self.planned = session if on else None

    def loaded_in(self, session: SessionId) -> frozenset[str]:
        """Tools loaded in that session."""
        return self.loaded if self.loaded_for == session else frozenset()

    def load(self, session: SessionId, names: frozenset[str]) -> None:
        """They stay for the session, whatever is forgotten of its history."""
        self.loaded, self.loaded_for = self.loaded_in(session) | names, session


# Lifecycle state: the run under way in a conversation, and the run that a stop is meant for.

REMEMBERED = 32  # runs that a stop which comes late may have been said of


@dataclass(slots=True, kw_only=True)
class LifecycleState:
    """The run that goes on now, and what the next one begins with: its working directory (None: the workspace) and
    what hooks and loaded skills have set in its environment. Both are of the session `placed_for` and are stored with
    what its turns write; `unplaced` until then.
    `source` is where its work comes from. `goal` is the kept one that the run works on by itself; `preemptible`: such a
    run shall end where it can, because a person has written. `before` tells from when to when the last runs went on: to
    their end, or to the moment in which they were told to end.
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
    source: Source | None = None
    goal: int | None = None
    preemptible: bool = False

    def begin(
        self, run: RunId, token: CancelToken, *, at: datetime, said_at: datetime, goal: int | None = None
    ) -> None:
        """A run goes on from now on."""
        self.run, self.token, self.since, self.said_at = run, token, at, said_at
        self.goal, self.preemptible = goal, False

    def end(self, at: datetime) -> None:
        """It is over."""
        if self.since is not None:
            self.before.append((self.since, self.told_at or at))
        self.run = self.token = self.since = self.said_at = self.told_at = self.goal = None

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
        """Whether a stop that was said at that moment is for the run that goes on now.

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

    def set_missing(self, values: Iterable[tuple[str, str]]) -> None:
        """The same for what nothing has set yet."""
        self.set_environment({name: value for name, value in values if name not in self.env})

    def take_place(self, session: SessionId | None, place: Place, workspace: Path) -> None:
        """Go on where that session was; None: a fresh one."""
        self.placed_for, self.unplaced = session, False
        self.cwd, self.env = workspace / place.cwd if place.cwd else None, dict(place.env)

    def place(self, workspace: Path) -> Place:
        """The place to be stored."""
        below = self.cwd is not None and self.cwd != workspace and self.cwd.is_relative_to(workspace)
        return Place(cwd=str(self.cwd.relative_to(workspace)) if below and self.cwd else None, env=self.env)


class Slot(Protocol):
    """The provider that this conversation uses now; `agent.providers.routing.ProviderSlot` implements it."""

    @property
    def choice(self) -> Choice: ...

    def current(self) -> Provider:
        """The provider for the call that begins now (Z-20)."""

    def route(self, need: Need = NO_NEED) -> Sequence[Provider]:
        """The provider, then its fallbacks; before them the one that takes requests of that need."""

    def override(self, name: str, source: Chooser = "user", model: str | None = None) -> Choice: ...
    def use_model(self, model: str, source: Chooser = "user") -> Choice: ...
    def restore(self, choice: Choice) -> bool: ...
    def reset(self) -> Choice: ...
    def named(self, name: str) -> Provider:
        """The configured provider of that name, for a side call. Raises UnknownProvider."""

    def turn(self) -> AbstractContextManager[None]:
        """Keep the providers as they are configured now until the turn is over (Z-21)."""


@dataclass(slots=True, kw_only=True, eq=False, weakref_slot=True)
class MessageState:
    """The conversation as the model may see it. `loaded` False: what is stored must be read before the next turn.

    `forgotten` is how often words of it had been forgotten when it was read.
    """

    compaction: CompactionState
    loaded: bool = False
    forgotten: int = 0

    def forget(self) -> None:
        """The store knows better: read it again."""
        self.compaction.forget()
        self.loaded = False

    def start_other(self) -> None:
        """Another session, or this one cleared: what compaction had come to is over with what it was about."""
        self.compaction.start_anew()
        self.loaded = False

    def start_empty(self) -> None:
        """A fresh session: there is nothing to read."""
        self.compaction.start_anew()
        self.loaded = True


@dataclass(slots=True, kw_only=True)
class ContextState:
    """State of the conversation's window. `engine` needs the agent and is set right after it is built."""

    engine: Engine = field(init=False)
    dumps: Dumps
    jobs: Jobs
    fixed: int = 0  # raw tokens of the newest request besides its messages
    run: Run | None = None  # the newest one whose context was prepared


@dataclass(slots=True, kw_only=True)
class SessionState:
    """The session of the conversation. `known` False: ask the store. `id` None: the next message begins one."""

    conversation: ConversationId
    id: SessionId | None = None
    known: bool = False


@dataclass(slots=True, kw_only=True)
class NotesFile:
    """MEMORY.md of this conversation as it was read last. `sync` brings the file to what other processes know."""

    path: Path
    sync: Callable[[], Awaitable[None]]
    signature: tuple[int, int] | None = None
    text: str = ""


@dataclass(slots=True, kw_only=True)
class InstructionState:
    """The agent's identity, where that is read, and the stable prompt made of it for one tool list and goal.

    `looked` is what the workspace said of itself last.
    """

    definitions: Definitions
    name: str
    notes: NotesFile
    definition: Definition | None = None
    stable: str = ""
    stable_for: tuple[Definition, ToolSchema, str, str, PlacePolicy] | None = None
    fitting: str = ""  # what the newest prompt shows of the skills that fit
    frame: tuple[object, tuple[SystemPrompt, ToolSchema]] | None = None  # of the step that goes on
    looked: Looked = field(default_factory=Looked)


@dataclass(slots=True, kw_only=True)
class ProviderState:
    """The slot, through what calls are made, what they read from the cache, when nothing could answer last (Z-25).

    `standing_in` names who answers in place of the chosen provider; `over_budget`: because that one's is used up.
    `policy` is how calls of the turn are repeated, taken between turns (Z-21).
    """

    slot: Slot
    models: Models
    policy: RetryPolicy | None = None
    cache: CacheWatch = field(default_factory=CacheWatch)
    fallback: str | None = None
    over_budget: bool = False
    none_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentServices:
    """Services of the process that every agent works with.

    `speech` tells how answers are read out; `relief` gives buttons where a budget is used up. `contents` hears of all
    that goes to models and comes back.
    """

    database: Database
    clock: Clock
    new_id: NewId
    bus: EventBus
    phrases: Phrases
    ledger: Ledger
    voice_transcription: VoiceTranscription
    speech: Callable[[], SpeechSettings] = SpeechSettings
    documents: Documents
    relief: Callable[[OverBudget, Incoming, ConversationId], Buttons] = lambda error, incoming, conversation: ()
    contents: Contents | None = None
    files: FileStore = field(default_factory=LocalFiles)


@dataclass(slots=True, kw_only=True)
class RuntimeState:
    """The agent's surroundings. `settings` are taken from `current_settings` between turns only (Z-21)."""

    services: AgentServices
    settings: Settings
    current_settings: Callable[[], Settings]
    outbox: Outbox
    memory: Memory
    features: Features


@dataclass(slots=True, kw_only=True)
class MetricsState:
    """Numbers people and dashboards ask for; what compaction did is in its own tally (Z-72).

    `context_raw` is the newest request as it was counted, before calibration.
    """

    estimator: Estimator
    context_max_tokens: int = 0
    context_raw: int = 0

    @property
    def context_tokens(self) -> int:
        """The newest request by what is known of the model's way of counting now, as its own report is."""
        return self.estimator.scaled(self.context_raw)


class States(Protocol):
    """The states that the stages of a turn may touch; an `Agent` is one."""

    message: MessageState
    context: ContextState
    session: SessionState
    instruction: InstructionState
    provider: ProviderState
    tool: ToolState
    runtime: RuntimeState
    lifecycle: LifecycleState
    metrics: MetricsState


def announce(states: States, event: Event) -> None:
    """Publish the event and let people see it, as far as the channel shows such things."""
    states.runtime.services.bus.publish(event)
    states.runtime.outbox.show(event)


# Waiting for people: such a run spends none of its time and no slot of working turns.


@asynccontextmanager
async def waiting_for_approval(run: Run, states: States) -> AsyncIterator[None]:
    """Nobody is at work in the block; several calls at once may ask for it. A stop waits for no place."""
    source = states.lifecycle.source
    with run.time.paused(), states.runtime.outbox.awaiting():
        if source is None:
            yield
            return
        source.park()
        try:
            yield
        finally:
            with run.interrupts.scope():
                await source.unpark()
