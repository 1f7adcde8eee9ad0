"""Data and actions of the status page; the app hands in its source."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from agent.core.phrases import NAME, counted, with_program
from gateway.channels.adapter import Health
from gateway.channels.keys import ConversationKey
from gateway.telemetry.trouble import Trouble
from gateway.web.health import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A signed-in bot account."""

    channel_type: str
    health: Health


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveConversation:
    """A conversation whose agent is in memory."""

    key: ConversationKey
    is_running: bool
    name: str = ""  # who wrote there last
    asks: bool = False  # it waits for a person's word
    waiting: int = 0
    provider: str = ""  # who answers there, also in place of another
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """Somebody unknown who asked to be let in."""

    code: str
    channel_type: str
    person: str
    display: str
    asked_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A call that waits for a person's word. `shown` is what they read of it."""

    id: str
    conversation: str
    tool: str
    shown: str
    requester: str
    name: str  # who wrote there last
    asked_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A limit on spending under which something was spent. `share` is how much of it, 0..1 and above.

    `id` is the account where `who` says a name in place of it.
    """

    who: str
    period: str
    spent: str
    share: float
    id: str = ""


HELD = "does not run: switched off"  # in place of the state of a goal that would go on by itself


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnWork:
    """A goal that is or was worked on by itself; `state` in the words of the page."""

    id: int
    key: ConversationKey
    text: str
    state: str
    is_live: bool
    turns: int
    most: int
    tokens: int
    cost_usd: float
    verdict: str
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The state of the gateway at one moment. Tokens and money are since the start.

    `unanswered` messages and `undelivered` answers were given up; `unpriced` calls are those whose price nobody knows.
    `held` answers wait for the bot to be let back into their chat.
    """

    version: str
    started_at: datetime
    provider: str
    accounts: tuple[Account, ...]
    awake: tuple[ActiveConversation, ...]
    pairings: tuple[Pairing, ...]
    troubles: tuple[Trouble, ...]
    goals: tuple[OwnWork, ...] = ()
    queue_depth: int = 0
    outbox_open: int = 0
    unanswered: int = 0
    undelivered: int = 0
    held: int = 0
    turns: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    misses: int = 0  # of the memory, in the last week
    more_awake: int = 0  # conversations awake beyond those that are listed
    budgets: tuple[Budget, ...] = ()
    pending: tuple[Pending, ...] = ()
    loop_lag_s: float = 0.0
    where: str = ""  # the option that names the data directory in commands


class OverviewSource(Protocol):
    """Where the operator's pages get their facts and put their decisions."""

    async def overview(self) -> Overview: ...

    def usage_csv(self) -> AsyncGenerator[str, None]:
        """Every call of a model as comma-separated values, in pieces."""

    async def decide_pairing(self, code: str, *, approve: bool) -> str:
        """Let the person in, or not; returns a sentence for the operator. Raises KeyError for an unknown code."""


# Summary for operators, on the status page and in a terminal: headline, open matters, figures. Pure.


def headline(overview: Overview, reasons: Sequence[Reason]) -> str:
    """The state in a few words; `reasons` are those for not being ready."""
    if reasons:
        return "Something needs you"
    return "Needs attention" if attention(overview, reasons) else "All is well"


def attention(overview: Overview, reasons: Sequence[Reason]) -> Sequence[Reason]:
    """Matters that should be looked at without keeping the gateway from working; `reasons` are told elsewhere."""
    told = {reason.subject for reason in reasons} | {reason.subject.removeprefix("model ") for reason in reasons}
    found = [
        Reason(f"{trouble.kind} {trouble.subject}", trouble.text, trouble.fix)
        for trouble in overview.troubles
        if trouble.over_at is None and not trouble.blocking and trouble.subject not in told
    ]
    if overview.unanswered:
        text = f"{counted(overview.unanswered, 'message')} could not be answered"
        found.append(Reason("inbox", text, with_program(NAME, DEAD_FIX, overview.where)))
    if overview.undelivered:
        text = f"{counted(overview.undelivered, 'answer')} could not be delivered"
        found.append(Reason("outbox", text, with_program(NAME, DEAD_FIX, overview.where)))
    if overview.held:
        waits = "waits" if overview.held == 1 else "wait"
        text = f"{counted(overview.held, 'answer')} {waits} for a chat that has removed or blocked the bot"
        found.append(
            Reason(HELD_ANSWERS, text, "it is sent when the bot is let back in, or dropped on the page Delivery")
        )
    return found


HELD_ANSWERS = "blocked chats"


DEAD_FIX = "`tieline dead` and the page Delivery list them; retry or drop each there"


def figures(overview: Overview) -> Sequence[tuple[str, str, str]]:
    """Name, value, and "bad" where it should be nought."""
    return [
        ("Turns", f"{overview.turns:,}", ""),
        ("Tokens", compact(overview.tokens), ""),
        ("Spent", money(overview.cost_usd, overview.unpriced), ""),
        ("Messages waiting", f"{overview.queue_depth:,}", ""),
        ("Answers on their way", f"{overview.outbox_open:,}", ""),
        ("Messages put aside", f"{overview.unanswered:,}", "bad" if overview.unanswered else ""),
        ("Answers put aside", f"{overview.undelivered:,}", "bad" if overview.undelivered else ""),
        ("Memory misses, 7 days", f"{overview.misses:,}", ""),
        ("Event-loop delay", f"{overview.loop_lag_s * 1000:.0f} ms", "bad" if overview.loop_lag_s > 1 else ""),
    ]


def money(usd: float, unpriced: int, *, exact: bool = False) -> str:
    """Calls whose price nobody knows are told, never counted as free. `exact`: below a cent, to its hundredth."""
    known = f"${usd:,.2f}" if usd >= 0.01 or not usd else "< $0.01"
    if exact and 0 < usd < 0.01:
        known = f"${usd:.4f}" if usd >= 0.00005 else "< $0.0001"
    if not unpriced:
        return known
    calls = counted(unpriced, "unpriced call")
    return f"{known} + {calls}" if usd else f"unknown ({calls})"


def compact(count: int) -> str:
    """12,345 as "12.3k"."""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k")):
        if count >= size:
            return f"{count / (1000 if unit == 'k' else size):.1f}{unit}"
    return f"{count:,}"
