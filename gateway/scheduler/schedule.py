"""A schedule as a value: what is to be done where, for whom, when, and how it stands."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from zoneinfo import ZoneInfo

from agent.core.ids import ConversationId, PersonId
from agent.inbox import AccessRole, ChatType
from gateway.scheduler.triggers.misfires import Misfire
from gateway.scheduler.triggers.occurrences import Occurrence
from gateway.scheduler.triggers.rules import Rule, is_recurring
from gateway.scheduler.triggers.zones import zone_named

# remind: the text is sent as it is. ask: the agent is woken with it. heartbeat: the same, and it may say nothing.
Action = Literal["remind", "ask", "heartbeat"]
# ended: a one-shot that fired and whose run is not over; it is removed when it went well (G-15).
State = Literal["active", "paused", "failed", "ended"]
# Where its zone comes from: said with it, the person's own, what the platform tells, or nobody knows.
ZoneSource = Literal["given", "person", "platform", "assumed"]

LONGEST_NAME = 128  # characters (G-16)
LONGEST_KIND = 64
LONGEST_TEXT = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Creator:
    """The person who asked for it, as the turn it wakes shall see them."""

    person: PersonId | None
    display: str = ""
    language: str = "en"
    role: AccessRole = "member"
    roles: tuple[str, ...] = ()
    chat_type: ChatType = "direct"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The content of a schedule. `said` are the words that gave the rule; `zone` an IANA name."""

    action: Action
    text: str
    rule: Rule
    said: str
    zone: str
    zone_source: ZoneSource
    misfire: Misfire
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """One row. `due` is the moment that is meant, `next_at` when it will be acted on; both None while it is off."""

    id: int
    conversation: ConversationId
    name: str | None
    creator: Creator
    plan: Plan
    state: State
    due: Occurrence | None
    next_at: datetime | None
    held: bool
    failures: int
    note: str | None
    created_at: datetime

    @property
    def recurs(self) -> bool:
        return is_recurring(self.plan.rule)

    @property
    def zone(self) -> ZoneInfo:
        return zone_named(self.plan.zone)

    @property
    def title(self) -> str:
        """Its short title for people, on one line."""
        words = " ".join((self.name or self.plan.text).split())
        return words if len(words) <= 60 else f"{words[:59]}…"
