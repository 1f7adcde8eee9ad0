"""A goal that is kept: its text, its limits, what it used, and how far work on it by itself has come. Values and the
moves they may make; nothing here reads or writes (SPEC §10.2, §10.3)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from agent.core.ids import ConversationId, PersonId
from agent.inbox import AccessRole, ChatType

Status = Literal["active", "paused", "completed", "cleared"]
AutoState = Literal["pending", "running", "verifying", "waiting", "achieved", "stuck", "aborted", "failed", "orphaned"]

LONGEST_TEXT = 2_000
LIVE: frozenset[AutoState] = frozenset({"pending", "running", "verifying", "waiting"})
MOVES: Mapping[Status, frozenset[Status]] = {
    "active": frozenset({"paused", "completed", "cleared"}),
    "paused": frozenset({"active", "cleared"}),
    "completed": frozenset(),
    "cleared": frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why it rests: a sentence of the catalogue and its values, told in whatever language it is asked for."""

    key: str
    values: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who set it, and as whom its turns are run."""

    person: PersonId | None = None
    display: str = ""
    language: str = "en"
    role: AccessRole = "member"
    chat_type: ChatType = "direct"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Over its whole life; None: no limit."""

    turns: int | None = None
    tokens: int | None = None
    usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What turns, and checks of them, took. `unpriced` counts calls whose price nobody knows: `usd` lacks them."""

    turns: int = 0
    tokens: int = 0
    usd: float = 0.0
    unpriced: int = 0

    def plus(self, more: "Used") -> "Used":
        return Used(
            turns=self.turns + more.turns,
            tokens=self.tokens + more.tokens,
            usd=self.usd + more.usd,
            unpriced=self.unpriced + more.unpriced,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto:
    """One session of work by itself. `round` tells it from earlier ones of the goal, `ticks` its wake-ups apart.

    `said` is the last answer; `digest` and `streak` are for the detection of standing still; `recent` are the last
    actions. `verdict` is what the supervisor said last, `verified_at` after which turn. `failures` and `deferrals` are
    the supervisor's in a row, `broken` the turns' in a row.
    """

    state: AutoState = "pending"
    most: int
    round: int = 1
    turns: int = 0
    ticks: int = 0
    said: str = ""
    digest: str = ""
    streak: int = 0
    recent: tuple[str, ...] = ()
    verdict: str = ""
    verified_at: int = 0
    failures: int = 0
    deferrals: int = 0
    broken: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """`why` tells why it is paused. `auto` None: only people work on it."""

    id: int
    conversation: ConversationId
    owner: Owner
    text: str
    status: Status
    why: Reason | None = None
    limits: Limits = Limits()
    used: Used = Used()
    auto: Auto | None = None
    created_at: datetime
    updated_at: datetime

    @property
    def is_autonomous(self) -> bool:
        """Whether it is being worked on by itself now."""
        return self.status == "active" and self.auto is not None and self.auto.state in LIVE


def spent_limit(limits: Limits, used: Used) -> Reason | None:
    """The first limit that is reached. With a limit in money, a call of unknown price ends it too (DESIGN §13.10)."""
    if limits.turns is not None and used.turns >= limits.turns:
        return turn_limit(limits.turns)
    if limits.tokens is not None and used.tokens >= limits.tokens:
        return Reason(key="goal_why_tokens", values={"limit": f"{limits.tokens:,}"})
    if limits.usd is not None and used.usd >= limits.usd:
        return Reason(key="goal_why_usd", values={"limit": f"{limits.usd:g}"})
    if limits.usd is not None and used.unpriced:
        return Reason(key="goal_why_unpriced")
    return None


def turn_limit(limit: int) -> Reason:
    return Reason(key="goal_why_turns" if limit != 1 else "goal_why_one_turn", values={"limit": str(limit)})


def raised(limits: Limits, used: Used) -> Limits:
    """The limits that are reached, with as much again: what going on takes. None where one is not reached."""
    turns, tokens, usd = limits.turns, limits.tokens, limits.usd
    return Limits(
        turns=(used.turns // turns + 1) * turns if turns is not None and used.turns >= turns else None,
        tokens=(used.tokens // tokens + 1) * tokens if tokens is not None and used.tokens >= tokens else None,
        usd=(int(used.usd / usd + 1e-9) + 1) * usd if usd is not None and used.usd >= usd else None,
    )


def rested(goal: Goal, status: Status, state: AutoState, why: Reason | None) -> Goal:
    """Put down: paused, completed or cleared; work by itself, if it went on, ends in `state`."""
    auto = goal.auto
    if auto is not None and auto.state in LIVE:
        auto = replace(auto, state=state)
    return replace(goal, status=status, why=why, auto=auto)
