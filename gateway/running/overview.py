"""The facts behind the operator's page, `/metrics` and `/readyz`."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import anyio
from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.goals import store as goals
from agent.goals.stored import Goal
from agent.goals.ticks import short
from agent.ledger.accounts import Standing
from agent.ledger.ledger import Ledger
from agent.ledger.spending import amount
from agent.providers.registry import Registry as Providers
from agent.storage import approval_rows, outbox_rows
from agent.storage.approval_rows import Approval
from agent.storage.database import Database
from agent.storage.moments import from_us
from gateway.channels.keys import ConversationKey
from gateway.conversations.registry import Registry as Conversations
from gateway.dispatch.local import LocalDispatcher
from gateway.operations.desk import Operations
from gateway.running.accounts import Accounts
from gateway.storage import inbox_view
from gateway.telemetry.gauges import Gauges
from gateway.telemetry.loop_lag import LoopLag
from gateway.telemetry.metrics import Metrics
from gateway.telemetry.trouble import Troubles
from gateway.web.control import OperationError
from gateway.web.health import Reason, not_ready
from gateway.web.overview import Account, Awake, Budget, Overview, OwnWork, Pairing, Pending

RECENT = 10
SHOWN_BUDGETS = 8
SHOWN_PENDING, LONGEST_PENDING = 20, 300
MOST_GOALS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewDesk:
    """Implements `gateway.web.overview.Desk`."""

    database: Database
    clock: Clock
    version: str
    started_at: datetime
    providers: Providers
    accounts: Accounts
    conversations: Conversations
    dispatcher: LocalDispatcher
    operations: Operations
    ledger: Ledger
    metrics: Metrics
    troubles: Troubles
    lag: LoopLag
    redact: Callable[[str], str]
    in_use: Callable[[ConversationId], tuple[str, str] | None]

    async def overview(self) -> Overview:
        waiting, open_rows, dead = await self.database.read(_counts)
        pending = await self.database.read(approval_rows.pending)
        fleet = await self.database.read(lambda conn: goals.fleet(conn, None))
        requests = await self.operations.pair_list({})
        totals = self.metrics.totals
        return Overview(
            version=self.version,
            started_at=self.started_at,
            provider=self.providers.default.name,
            broken_providers=tuple(trouble.subject for trouble in self.troubles.open if trouble.kind == "provider"),
            accounts=tuple(
                Account(channel_type=name, health=health) for name, health in self.accounts.health().items()
            ),
            awake=tuple(self._awake(conversation) for conversation in self.conversations.awake),
            pairings=tuple(_pairing(request) for request in requests),
            goals=tuple(_own_work(goal) for goal in fleet[:MOST_GOALS]),
            troubles=self.troubles.recent(RECENT + len(self.troubles.open)),
            queue_depth=waiting,
            outbox_open=open_rows,
            dead_letters=dead,
            turns=totals.turns,
            tokens=totals.prompt_tokens + totals.output_tokens,
            cost_usd=totals.cost_usd,
            budgets=tuple(_budget(standing) for standing in self.ledger.budgets.all_standings()[:SHOWN_BUDGETS]),
            pending=tuple(map(self._pending, pending[:SHOWN_PENDING])),
            loop_lag_s=self.lag.last_s,
        )

    async def decide_pairing(self, code: str, *, approve: bool) -> str:
        """`code` is the number of the request, chosen from the page."""
        decide = self.operations.pair_approve if approve else self.operations.pair_deny
        try:
            answer = await decide({"code": code})
        except OperationError as error:
            raise KeyError(code) from error
        return f"{answer['display'] or answer['person']} is {'let in' if approve else 'turned away'}."

    async def gauges(self) -> Gauges:
        """For a scrape."""
        waiting, open_rows, dead = await self.database.read(_counts)
        return Gauges(
            version=self.version,
            ready=not self.reasons(),
            queue_depth=waiting,
            outbox_open=open_rows,
            outbox_dead=dead,
            awake=len(self.conversations.awake),
            tasks=len(anyio.get_running_tasks()),
            troubles_open=len(self.troubles.open),
            loop_lag_s=self.lag.last_s,
            loop_lag_worst_s=self.lag.worst_s,
            adapters={name: health.hears for name, health in self.accounts.health().items()},
            budgets=self._fullest(),
        )

    async def usage_csv(self) -> AsyncGenerator[str, None]:
        """Every call of the ledger as comma-separated values, in pieces."""
        after: int | None = None
        while True:
            page = await self.operations.usage.export({"after": after})
            yield page["lines"]
            after = page["next"]
            if after is None:
                return

    def _fullest(self) -> Mapping[tuple[str, str], float]:
        found: dict[tuple[str, str], float] = {}
        for standing in self.ledger.budgets.all_standings():  # the fullest first
            found.setdefault((standing.account.scope, standing.account.per), standing.share)
        return found

    def reasons(self) -> Sequence[Reason]:
        """Why the process is not ready; nothing when it is."""
        return not_ready(self.accounts.health(), self.troubles.blocking)

    def _pending(self, one: Approval) -> Pending:
        return Pending(
            id=one.id,
            conversation=one.conversation,
            tool=one.tool,
            shown=self.redact(one.shown)[:LONGEST_PENDING],
            requester=one.requester or "",
            asked_at=from_us(one.created_at),
            expires_at=from_us(one.expires_at),
        )

    def _awake(self, conversation: ConversationId) -> Awake:
        provider, model = self.in_use(conversation) or ("", "")
        return Awake(
            key=ConversationKey.parse(conversation),
            is_running=self.dispatcher.is_running(conversation),
            provider=provider,
            model=model,
        )


def _counts(conn: Connection) -> tuple[int, int, int]:
    """Inbox rows waiting, outbox rows open, dead letters of both."""
    incoming, outgoing = inbox_view.counts(conn), outbox_rows.counts(conn)
    open_rows = outgoing.get("new", 0) + outgoing.get("sending", 0)
    return incoming.get("new", 0), open_rows, incoming.get("dead", 0) + outgoing.get("dead", 0)


def _budget(standing: Standing) -> Budget:
    pairs = []
    if standing.usd is not None:
        pairs.append((amount(standing.spent_usd, "usd"), amount(standing.usd, "usd")))
    if standing.tokens is not None:
        pairs.append((amount(standing.spent_tokens, "tokens"), amount(standing.tokens, "tokens")))
    spent = ", ".join(f"{spent} of {limit}" for spent, limit in pairs)
    return Budget(who=str(standing.account), period=standing.account.period, spent=spent, share=standing.share)


def _own_work(goal: Goal) -> OwnWork:
    assert goal.auto is not None
    return OwnWork(
        id=goal.id,
        key=ConversationKey.parse(goal.conversation),
        text=short(goal.text),
        state=goal.auto.state,
        is_live=goal.is_autonomous,
        turns=goal.auto.turns,
        most=goal.auto.most,
        tokens=goal.used.tokens,
        cost_usd=goal.used.usd,
        verdict=goal.auto.verdict,
        changed_at=goal.updated_at,
    )


def _pairing(request: Any) -> Pairing:
    return Pairing(
        code=request["id"],
        channel_type=request["channel"],
        person=request["person"],
        display=request["display"],
        asked_at=datetime.fromisoformat(request["asked_at"]),
    )
