"""What commands may use of the gateway."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.core.outbox import Answer, Question
from agent.goals.service import GoalService
from agent.ledger.ledger import Ledger
from agent.ledger.spending import Account
from agent.memory.memory import Memory
from agent.plans.service import PlanService
from agent.providers.registry import Registry
from agent.skills.learning import Learning
from agent.skills.reloading import Skills
from agent.storage.database import Database
from agent.style.user_model import UserModel
from agent.subagent.profiles import Profiles
from agent.subagent.registry import SubagentRegistry
from agent.tools.approvals import Approvals
from agent.tools.mcp.servers import Servers
from gateway.access.book import AccessBook
from gateway.access.decisions import Decisions
from gateway.access.settings import AccessSettings
from gateway.channels.adapter import Health
from gateway.channels.keys import ConversationKey
from gateway.conversations.choices import Held
from gateway.dispatch.queue_modes import QueueMode
from gateway.phrases.catalogue import Catalogue
from gateway.scheduler.service import ScheduleService


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandDeps:
    """Callables read what may change: settings, the awake agents, the adapters' health.

    `held` tells which provider holds for a place; `preference_changed` is told where somebody chose another.
    `more_allowed` is told for whom somebody raised a budget, and where.
    `subagent_registry` knows the sub-agents that work now, `profiles` those that are defined.
    `goal_of` is the goal whose own turn runs there now, `plan_of` the plan; `hide_live` takes the message
    away that follows such work.
    """

    home: Path
    database: Database
    clock: Clock
    phrase: Catalogue
    started_at: datetime
    access: Callable[[], AccessSettings]
    book: AccessBook
    decisions: Decisions
    providers: Callable[[], Registry]
    default_queue_mode: Callable[[], QueueMode]
    default_verbosity: Callable[[], str]
    persistence: Callable[[], bool]
    held: Callable[[Connection, ConversationKey], Held]
    preference_changed: Callable[[ConversationKey], Awaitable[None]]
    health: Callable[[], Mapping[str, Health]]
    stop: Callable[[ConversationId, str, datetime], bool]  # the reason, and when the word came
    stop_within: Callable[[ConversationId, str, datetime], bool]  # the same for a place's topics and threads
    is_running: Callable[[ConversationId], bool]  # a turn is under way there, or is just beginning or ending
    running_since: Callable[[ConversationId], datetime | None]
    is_ending: Callable[[ConversationId], bool]  # a turn runs there, and was told to stop
    approvals: Approvals
    tools: Callable[[], Collection[str]]  # names of all that there are
    servers: Servers
    add_server: Callable[[str, str], Awaitable[None]]  # its name and address; raises ValueError
    remove_server: Callable[[str], Awaitable[bool]]
    servers_left_out: Callable[[], Collection[str]]  # added in a chat, and not taken any more
    ledger: Ledger
    more_allowed: Callable[[Account, ConversationKey], Awaitable[None]]
    ask: Callable[[ConversationKey, Question, str], Awaitable[Answer]]
    schedules: ScheduleService
    memory: Memory
    skills: Skills
    skills_on: Callable[[], bool]
    learning: Learning
    user_model: Callable[[], UserModel | None]
    goals: GoalService
    subagent_registry: SubagentRegistry
    profiles: Profiles
    plans: PlanService
    plan_of: Callable[[ConversationId], int | None]
    goal_of: Callable[[ConversationId], int | None]
    hide_live: Callable[[ConversationId], None]
    setting_changed: Callable[[ConversationId, str, str], None]
    deliver: Callable[[ConversationKey], None]  # rows of that place were committed
    recent_log: Callable[[ConversationId, int], Sequence[str]]  # its newest warnings and errors, oldest first
    test_alert: Callable[[str], Sequence[str]]  # tells the owners that somebody tried; who is told
    switched_off: Callable[[], Collection[str]]  # features, as `Command.feature` names them
