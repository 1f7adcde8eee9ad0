"""The named states an agent is made of (Z-04); one owner, its agent, and no loose fields beside them.

A state arrives with its feature: what is missing here belongs to a later part. Those that have rules of their own, the
run that goes on and the tools, have modules of their own: `lifecycle` and `tool_state`.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from agent.between_turns import Jobs
from agent.compaction.dumps import Dumps
from agent.compaction.engine import Engine
from agent.compaction.state import CompactionState
from agent.compaction.window import Window
from agent.core.clock import Clock
from agent.core.events import Event, EventBus
from agent.core.ids import ConversationId, SessionId
from agent.core.ids_source import NewId
from agent.core.outbox import Buttons, Outbox
from agent.core.phrases import Phrases
from agent.definitions import Definition, Definitions
from agent.goals.driver import Moved
from agent.goals.lifecycle import IDLE, SessionGoal
from agent.goals.roles import Reachable, RoleOf, always_reachable, role_then
from agent.goals.telling import Buttoned, no_buttons
from agent.inbox import Incoming
from agent.ledger.ledger import Ledger
from agent.ledger.spending import OverBudget
from agent.memory.memory import Memory
from agent.plans.service import PlanService
from agent.plans.telling import Buttoned as PlanButtons
from agent.plans.telling import no_buttons as no_plan_buttons
from agent.providers.calling import Models
from agent.providers.provider import Provider, ToolSchema
from agent.providers.retries import RetryPolicy
from agent.providers.slot import NO_NEED, Choice, Chooser, Need
from agent.skills.catalogue import NOTHING, Catalogue, Snapshot
from agent.skills.learning import Learning
from agent.storage.database import Database
from agent.style.user_model import UserModel
from agent.tools.approvals import Approvals
from agent.tools.hooks import Hooks
from agent.turn.environment import Looked
from agent.turn.lifecycle import LifecycleState
from agent.turn.prefix import CacheWatch
from agent.turn.run import Run
from agent.turn.settings import Settings
from agent.turn.tokens import Estimator
from agent.turn.tool_state import ToolState
from agent.voice_transcription import VoiceTranscription


class Slot(Protocol):
    """Which provider this conversation uses now; `agent.providers.slot.ProviderSlot` keeps this promise."""

    @property
    def choice(self) -> Choice: ...

    def current(self) -> Provider:
        """The provider for the call that begins now (Z-20)."""

    def route(self, need: Need = NO_NEED) -> Sequence[Provider]:
        """That one, and then those that may stand in for it; first of all who takes requests of that need."""

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
    """The conversation as the model may see it. `loaded` False: what is stored must be read before the next turn."""

    compaction: CompactionState
    loaded: bool = False

    @property
    def window(self) -> Window:
        return self.compaction.window

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
    """What keeps the conversation within its window. `engine` needs the agent and is set right after it is built."""

    engine: Engine = field(init=False)
    dumps: Dumps
    jobs: Jobs
    fixed: int = 0  # raw tokens of the newest request besides its messages
    run: Run | None = None  # the newest one whose context was prepared


@dataclass(slots=True, kw_only=True)
class SessionState:
    """Which session the conversation is in. `known` False: ask the store. `id` None: the next message begins one."""

    conversation: ConversationId
    id: SessionId | None = None
    known: bool = False


@dataclass(slots=True, kw_only=True)
class InstructionState:
    """Who the agent is, where that is read, and the stable prompt made of it for one tool list and goal.

    `looked` is what the workspace said of itself last.
    """

    definitions: Definitions
    name: str
    definition: Definition | None = None
    stable: str = ""
    stable_for: tuple[Definition, ToolSchema, str, str] | None = None
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


@dataclass(slots=True, kw_only=True)
class MemoryState:
    """MEMORY.md of this conversation as it was read last. `off`: people want nothing kept here; None: ask the store."""

    path: Path
    signature: tuple[int, int] | None = None
    text: str = ""
    off: bool | None = None
    forgotten: int = 0  # how often words of this conversation were forgotten before its window was read
    catching_up: bool = False  # vectors and graph, in the background


@dataclass(slots=True, kw_only=True)
class SkillState:
    """The catalogue that all agents share, and what of it counts since the turn before began (Z-21).

    `listed` is how the prompt lists them, made for the snapshot and length in `listed_for`.
    """

    catalogue: Catalogue
    snapshot: Snapshot = NOTHING
    listed: str = ""
    listed_for: tuple[Snapshot, int] | None = None


@dataclass(slots=True, kw_only=True)
class RuntimeState:
    """What the agent runs in. `settings` are taken from `current_settings` between turns only (Z-21).

    `relief` gives what may be pressed where a budget is used up, `plan_buttons` what may be pressed below a plan.
    `user_model` is who keeps what is known of people beyond their words, asked for each turn; None: nobody does.
    """

    settings: Settings
    current_settings: Callable[[], Settings]
    database: Database
    clock: Clock
    new_id: NewId
    bus: EventBus
    outbox: Outbox
    phrases: Phrases
    ledger: Ledger
    voice_transcription: VoiceTranscription
    memory: Memory
    learning: Learning
    approvals: Approvals
    hooks: Hooks
    plans: PlanService
    relief: Callable[[OverBudget, Incoming, ConversationId], Buttons]
    user_model: Callable[[], UserModel | None]
    plan_buttons: PlanButtons = no_plan_buttons


@dataclass(slots=True, kw_only=True)
class GoalState:
    """What the conversation is after. `of_session` holds for the session `known_for`; kept goals are in the database.

    `completed` and `moved` are what the last commit made of goals, for the agent to act on. `working_on` is the kept
    goal that the run of now belongs to; `gives_way`: it shall end where it can, because a person has written.
    `ring` says that a conversation has work; `role_of` is the role in which a goal's owner has turns run today, None
    when they may not any more; `reachable` says whether what is said in a conversation can be sent.
    """

    background: Jobs
    ring: Callable[[ConversationId], None]
    buttons: Buttoned = no_buttons
    role_of: RoleOf = role_then
    reachable: Reachable = always_reachable
    of_session: SessionGoal = IDLE
    known_for: SessionId | None = None
    completed: SessionGoal | None = None
    by_phrase: bool = False  # by what an answer said, and not by a plan or a person
    moved: Moved | None = None
    working_on: int | None = None
    preemptible: bool = False


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
    """What the stages of a turn may touch; an `Agent` is one."""

    message: MessageState
    context: ContextState
    session: SessionState
    instruction: InstructionState
    provider: ProviderState
    tool: ToolState
    memory: MemoryState
    skill: SkillState
    runtime: RuntimeState
    lifecycle: LifecycleState
    goal: GoalState
    metrics: MetricsState


def announce(states: States, event: Event) -> None:
    """Publish the event and let people see it, as far as the channel shows such things."""
    states.runtime.bus.publish(event)
    states.runtime.outbox.show(event)
