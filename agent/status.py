"""Status and usage of an agent, for /status and /usage. Changes nothing of it."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from agent.compaction import state
from agent.compaction.state import CompactionState
from agent.core.ids import RunId, SessionId
from agent.ledger import rows
from agent.ledger.spending import UsageTotals
from agent.providers.routing import Choice
from agent.run.settings import DEFAULT_WINDOW
from agent.sessions import store, window_store
from agent.sessions.window_store import LoadedWindow
from agent.storage import inbox_rows
from agent.storage.timestamps import to_timestamp
from agent.turn.states import States


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A look at the agent. `context_tokens` is the estimate of the newest request, or of what one would be made of.

    0 before the session's first.
    """

    choice: Choice
    fallback: str | None  # who answers while the chosen provider cannot
    over_budget: bool  # which is so because its budget is used up
    provider: str
    model: str
    context_tokens: int
    context_window: int
    session: SessionId | None
    message_count: int
    persona: str
    run: RunId | None
    running_since: datetime | None
    waiting: int
    compaction_last_before: int
    compaction_last_after: int
    compaction_last_at_ms: int
    strategy: str
    subgoals: int
    active_subgoal: str
    task_goal: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    session: UsageTotals
    today: UsageTotals
    all: UsageTotals


async def status_of(states: States, session: SessionId | None) -> Status:
    """A snapshot; may be asked for while a run goes on."""
    conversation = states.session.conversation

    def read(conn: Connection) -> tuple[int, int, LoadedWindow | None]:
        found = store.find(conn, session) if session is not None else None
        count = found.message_count if found is not None else 0
        # The agent has just woken, or is lent for this look alone: what it would send stands in the store.
        stored = (
            window_store.load(conn, session)
            if session is not None and count and not states.metrics.context_raw
            else None
        )
        return count, len(inbox_rows.waiting(conn, conversation)), stored

    message_count, waiting, stored = await states.runtime.services.database.read(read)
    provider = states.provider.slot.current()
    tokens, last = states.metrics.context_tokens, states.message.compaction.tally.last
    if stored is not None:
        tokens, last = _as_stored(stored, states)
    subgoals = states.message.compaction.watch.subgoals
    return Status(
        choice=states.provider.slot.choice,
        fallback=states.provider.fallback,
        over_budget=states.provider.over_budget,
        provider=provider.name,
        model=provider.model,
        context_tokens=tokens,
        context_window=provider.context_window or DEFAULT_WINDOW,
        session=session,
        message_count=message_count,
        persona=states.instruction.name,
        run=states.lifecycle.run,
        running_since=states.lifecycle.since,
        waiting=waiting,
        compaction_last_before=last[0],
        compaction_last_after=last[1],
        compaction_last_at_ms=last[2],
        strategy=states.runtime.settings.memory.compression.pruning_strategy,
        subgoals=len(subgoals.subgoals),
        active_subgoal=active.description if (active := subgoals.active_subgoal()) is not None else "",
        task_goal=states.message.compaction.goal.text,
    )


def _as_stored(stored: LoadedWindow, states: States) -> tuple[int, tuple[int, int, int]]:
    """Tokens of the window as it is stored, with those beside its messages, and the newest compaction (Z-76, Z-77).

    Read into a window of its own: a turn may be about to read it into the agent's.
    """
    apart = CompactionState(count=states.message.compaction.count)
    states.metrics.estimator.take((entry.message, entry.counted) for entry in stored.entries)
    state.fill(apart, stored)
    return round((stored.fixed + apart.window.tokens) * stored.scale), apart.tally.last


async def usage_of(states: States, session: SessionId | None) -> Usage:
    """Tokens and cost of this session, of this UTC day and of all time, in this conversation."""
    conversation = states.session.conversation
    await states.runtime.services.ledger.flush()
    midnight = states.runtime.services.clock.now().replace(hour=0, minute=0, second=0, microsecond=0)

    def read(conn: Connection) -> Usage:
        return Usage(
            session=rows.totals(conn, conversation=conversation, session=session) if session else UsageTotals(),
            today=rows.totals(conn, conversation=conversation, since=to_timestamp(midnight)),
            all=rows.totals(conn, conversation=conversation),
        )

    return await states.runtime.services.database.read(read)
