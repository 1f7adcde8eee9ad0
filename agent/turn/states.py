"""The named states an agent is made of (Z-04); one owner, its agent, and no loose fields beside them.

A state arrives with its feature: what is missing here belongs to a later part.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from agent.between_turns import Jobs
from agent.core.cancel import CancelToken
from agent.core.clock import Clock
from agent.core.events import Event, EventBus
from agent.core.ids import ConversationId, RunId, SessionId
from agent.core.ids_source import NewId
from agent.core.messages import Message
from agent.core.outbox import Outbox
from agent.core.phrases import Phrases
from agent.definitions import Definition, Definitions
from agent.goals.driver import Moved
from agent.goals.lifecycle import IDLE, SessionGoal
from agent.goals.roles import RoleOf, role_then
from agent.goals.telling import Buttoned, no_buttons
from agent.providers.provider import Provider, ToolSchema
from agent.providers.retries import RetryPolicy
from agent.providers.slot import Choice, Chooser
from agent.storage.database import Database
from agent.tools.executor import Executor
from agent.turn.settings import Settings
from agent.turn.tokens import Estimator


class Slot(Protocol):
    """Which provider this conversation uses now; `agent.providers.slot.ProviderSlot` keeps this promise."""

    @property
    def choice(self) -> Choice: ...

    def current(self) -> Provider:
        """The provider for the call that begins now (Z-20)."""

    def override(self, name: str, source: Chooser = "user") -> Choice: ...
    def use_model(self, model: str, source: Chooser = "user") -> Choice: ...
    def reset(self) -> Choice: ...
    def named(self, name: str) -> Provider:
        """The configured provider of that name, for a side call. Raises UnknownProvider."""


@dataclass(slots=True, kw_only=True)
class MessageState:
    """The conversation as the model may see it. `loaded` False: what is stored must be read before the next turn.

    Requests hold `history[view_start:]`; `view_tokens` is the raw estimate of just that.
    """

    history: list[Message] = field(default_factory=list)
    loaded: bool = False
    view_start: int = 0
    view_tokens: int = 0

    def forget(self) -> None:
        """The store knows better: read it again."""
        self.history = []
        self.loaded = False
        self.view_start = self.view_tokens = 0

    def start_empty(self) -> None:
        """A fresh session: there is nothing to read."""
        self.forget()
        self.loaded = True


@dataclass(slots=True, kw_only=True)
class SessionState:
    """Which session the conversation is in. `known` False: ask the store. `id` None: the next message begins one."""

    conversation: ConversationId
    id: SessionId | None = None
    known: bool = False


@dataclass(slots=True, kw_only=True)
class InstructionState:
    """Who the agent is, where that is read, and the stable prompt made of it for one tool list."""

    definitions: Definitions
    name: str
    definition: Definition | None = None
    stable: str = ""
    stable_for: tuple[Definition, ToolSchema] | None = None


@dataclass(slots=True, kw_only=True)
class ProviderState:
    """The slot, what the calibration was learnt from, and when nothing could answer last (Z-25)."""

    slot: Slot
    retries: Callable[[], RetryPolicy] = RetryPolicy
    calibrated_for: tuple[str, str] | None = None
    none_at: float | None = None


@dataclass(slots=True, kw_only=True)
class ToolState:
    """The executor all agents share (Z-03)."""

    executor: Executor


@dataclass(slots=True, kw_only=True)
class MemoryState:
    """MEMORY.md of this conversation as it was read last."""

    path: Path
    signature: tuple[int, int] | None = None
    text: str = ""


@dataclass(slots=True, kw_only=True)
class RuntimeState:
    """What the agent runs in. `settings` are taken from `current_settings` between turns only (Z-21)."""

    settings: Settings
    current_settings: Callable[[], Settings]
    database: Database
    clock: Clock
    new_id: NewId
    bus: EventBus
    outbox: Outbox
    phrases: Phrases


@dataclass(slots=True, kw_only=True)
class LifecycleState:
    """The run that goes on now."""

    run: RunId | None = None
    token: CancelToken | None = None
    since: datetime | None = None


@dataclass(slots=True, kw_only=True)
class GoalState:
    """What the conversation is after. `of_session` holds for the session `known_for`; kept goals are in the database.

    `completed` and `moved` are what the last commit made of goals, for the agent to act on. `working_on` is the kept
    goal that the run of now belongs to; `gives_way`: it shall end where it can, because a person has written.
    `ring` says that a conversation has work; `role_of` is the role in which a goal's owner has turns run today, None
    when they may not any more.
    """

    background: Jobs
    ring: Callable[[ConversationId], None]
    buttons: Buttoned = no_buttons
    role_of: RoleOf = role_then
    of_session: SessionGoal = IDLE
    known_for: SessionId | None = None
    completed: SessionGoal | None = None
    moved: Moved | None = None
    working_on: int | None = None
    gives_way: bool = False


@dataclass(slots=True, kw_only=True)
class MetricsState:
    """Numbers people and dashboards ask for. The compaction figures are 0 until there was one (Z-72)."""

    estimator: Estimator
    context_max_tokens: int = 0
    context_tokens: int = 0
    compaction_last_before: int = 0
    compaction_last_after: int = 0
    compaction_last_at_ms: int = 0


class States(Protocol):
    """What the stages of a turn may touch; an `Agent` is one."""

    message: MessageState
    session: SessionState
    instruction: InstructionState
    provider: ProviderState
    tool: ToolState
    memory: MemoryState
    runtime: RuntimeState
    lifecycle: LifecycleState
    goal: GoalState
    metrics: MetricsState


def announce(states: States, event: Event) -> None:
    """Publish the event and let people see it, as far as the channel shows such things."""
    states.runtime.bus.publish(event)
    states.runtime.outbox.show(event)
