"""The facts behind the operator's page, `/metrics` and `/readyz`."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import anyio
from sqlalchemy import Connection

from agent.core.ids import ConversationId
from agent.core.phrases import home_as_typed, with_home
from agent.goals import store as goals
from agent.goals.driver import is_held
from agent.goals.goal import Goal
from agent.goals.settings import GoalSettings
from agent.goals.store import short
from agent.ledger.ledger import Ledger
from agent.ledger.spending import AccountBalance, amount
from agent.memory import misses
from agent.storage import approval_rows, outbox_rows
from agent.storage.approval_rows import Approval
from agent.storage.timestamps import from_timestamp
from gateway.channels.keys import ConversationKey
from gateway.operations.operations import Operations
from gateway.running.accounts.accounts import Accounts
from gateway.running.basics import Basics
from gateway.running.models import ModelAccess
from gateway.running.monitoring.machine_watch import MachineWatch, Readings
from gateway.running.turns import TurnServices
from gateway.storage import conversation_list
from gateway.storage.queues import inbox_entries, outbox_entries
from gateway.telemetry.metrics import COST, TOKENS, TURNS_ENDED, UNPRICED, Gauges, LoopLag, Metrics
from gateway.web.control import OperationError
from gateway.web.health import Reason, not_ready
from gateway.web.overview import (
    HELD,
    Account,
    ActiveConversation,
    Budget,
    Overview,
    OwnWork,
    Pairing,
    Pending,
    attention,
    figures,
    headline,
)

RECENT = 10
SHOWN_BUDGETS = 8
SHOWN_PENDING, LONGEST_PENDING = 20, 300
MOST_GOALS = 20
SHOWN_AWAKE = 50
MISSES_OF = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewService:
    """Implements `gateway.web.overview.OverviewSource`."""

    basics: Basics
    version: str
    started_at: datetime
    accounts: Accounts
    models: ModelAccess
    turns: TurnServices
    operations: Operations
    ledger: Ledger
    metrics: Metrics
    lag: LoopLag
    machine: MachineWatch

    async def overview(self) -> Overview:
        counted = await self.basics.database.read(_counts)
        week_ago = int((self.basics.clock.now() - MISSES_OF).timestamp())
        missed = await self.basics.database.read(lambda conn: misses.count_since(conn, week_ago))
        pending = await self.basics.database.read(approval_rows.pending)
        awake = self.turns.conversations.awake
        asked = pending[:SHOWN_PENDING]
        shown = [*awake[:SHOWN_AWAKE], *(ConversationId(one.conversation) for one in asked)]
        names = await self.basics.database.read(
            lambda conn: {key: inbox_entries.name_of(conn, key) for key in set(shown)}
        )
        asking = {one.conversation for one in pending}
        alone = await self.basics.database.read(lambda conn: goals.worked_alone(conn, None))
        requests = await self.operations.pair_list({})
        standings = self.ledger.budgets.all_standings()[:SHOWN_BUDGETS]
        payers = await self.basics.database.read(
            lambda conn: conversation_list.names_of_payers(conn, [one.account for one in standings])
        )
        return Overview(
            version=self.version,
            started_at=self.started_at,
            provider=self.models.providers.default.name,
            accounts=tuple(
                Account(channel_type=name, health=health) for name, health in self.accounts.health().items()
            ),
            awake=tuple(self._awake(key, names[key], asks=key in asking) for key in awake[:SHOWN_AWAKE]),
            more_awake=max(0, len(awake) - SHOWN_AWAKE),
            pairings=tuple(_pairing(request) for request in requests),
            goals=tuple(_own_work(goal, self.basics.settings.agent.goal) for goal in alone[:MOST_GOALS]),
            troubles=self.basics.troubles.recent(RECENT + len(self.basics.troubles.open)),
            queue_depth=counted.waiting,
            outbox_open=counted.on_their_way,
            unanswered=counted.unanswered,
            undelivered=counted.undelivered,
            held=await self.basics.database.read(outbox_entries.held),
            misses=missed,
            turns=int(self.metrics.sum(TURNS_ENDED)),
            tokens=int(sum(self.metrics.sum(TOKENS, gen_ai_token_type=kind) for kind in ("input", "output"))),
            cost_usd=self.metrics.sum(COST),
            unpriced=int(self.metrics.sum(UNPRICED)),
            budgets=tuple(_budget(one, payers.get(one.account, "")) for one in standings),
            pending=tuple(self._pending(one, names[ConversationId(one.conversation)]) for one in asked),
            loop_lag_s=self.lag.last_s,
            where=home_as_typed(self.basics.home),
        )

    async def status(self, _: Mapping[str, Any]) -> Mapping[str, Any]:
        """The first lines of the status page, for `tieline status` and `tieline doctor`."""
        overview, reasons = await self.overview(), self.reasons()
        return {
            "version": overview.version,
            "headline": headline(overview, reasons),
            "ready": not reasons,
            "reasons": [reason.as_json() for reason in reasons],
            "attention": [reason.as_json() for reason in attention(overview, reasons)],
            "started_at": overview.started_at.isoformat(),
            "provider": overview.provider,
            "accounts": {one.channel_type: str(one.health.state) for one in overview.accounts},
            "figures": [[name, value] for name, value, _ in figures(overview)],
        }

    async def decide_pairing(self, code: str, *, approve: bool) -> str:
        """`code` is the number of the request, chosen from the page."""
        decide = self.operations.pair_approve if approve else self.operations.pair_deny
        try:
            answer = await decide({"code": code})
        except OperationError as error:
            raise KeyError(code) from error
        return f"{answer['display'] or answer['person']} is {'let in' if approve else 'turned away'}."

    async def gauges(self) -> Gauges:
        """The gauges for a scrape."""
        counted = await self.basics.database.read(_counts)
        oldest = await self.basics.database.read(inbox_entries.oldest_waiting)
        now = self.basics.clock.now()
        readings = await self._readings()
        failing = {trouble.subject for trouble in self.basics.troubles.open if trouble.kind == "provider"}
        return Gauges(
            version=self.version,
            ready=not self.reasons(),
            queue_depth=counted.waiting,
            outbox_open=counted.on_their_way,
            outbox_dead=counted.unanswered + counted.undelivered,
            awake=len(self.turns.conversations.awake),
            tasks=len(anyio.get_running_tasks()),
            troubles_open=len(self.basics.troubles.open),
            loop_lag_s=self.lag.last_s,
            loop_lag_worst_s=self.lag.worst_s,
            adapters={name: health.hears for name, health in self.accounts.health().items()},
            budgets=self._fullest(),
            providers={name: name not in failing for name in self.models.providers.names},
            queue_oldest_s=max(0.0, (now - from_timestamp(oldest)).total_seconds()) if oldest is not None else 0.0,
            disk_free_bytes=readings.disk_free if readings else None,
            database_bytes=readings.database if readings else None,
            backup_at=readings.backup_at.timestamp() if readings and readings.backup_at else 0.0,
        )

    async def _readings(self) -> Readings | None:
        """Readings of the machine; None where they cannot be had, which must not end a scrape."""
        try:
            return await self.machine.read()
        except OSError:
            return None

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
        reasons = (*not_ready(self.accounts.health(), self.basics.troubles.blocking), *self.models.health.reasons())
        return [
            replace(one, text=with_home(one.text, self.basics.home), fix=with_home(one.fix, self.basics.home))
            for one in reasons
        ]

    def _pending(self, one: Approval, name: str) -> Pending:
        return Pending(
            id=one.id,
            conversation=one.conversation,
            tool=one.tool,
            shown=self.basics.redact(one.shown)[:LONGEST_PENDING],
            requester=one.requester or "",
            name=name,
            asked_at=from_timestamp(one.created_at),
            expires_at=from_timestamp(one.expires_at),
        )

    def _awake(self, conversation: ConversationId, name: str, *, asks: bool) -> ActiveConversation:
        provider, model = self.turns.factory.in_use(conversation) or ("", "")
        return ActiveConversation(
            key=ConversationKey.parse(conversation),
            is_running=self.turns.dispatcher.is_running(conversation),
            name=name,
            asks=asks,
            provider=provider,
            model=model,
        )


class _Counts(NamedTuple):
    """Messages that wait, answers on their way, and what was given up of both."""

    waiting: int
    on_their_way: int
    unanswered: int
    undelivered: int


def _counts(conn: Connection) -> _Counts:
    (waiting, unanswered), (on_their_way, undelivered) = inbox_entries.counts(conn), outbox_rows.counts(conn)
    return _Counts(waiting, on_their_way, unanswered, undelivered)


def _budget(standing: AccountBalance, name: str) -> Budget:
    pairs = []
    if standing.usd is not None:
        pairs.append((amount(standing.spent_usd, "usd"), amount(standing.usd, "usd")))
    if standing.tokens is not None:
        pairs.append((amount(standing.spent_tokens, "tokens"), amount(standing.tokens, "tokens")))
    spent = ", ".join(f"{spent} of {limit}" for spent, limit in pairs)
    account = standing.account
    return Budget(
        who=f"{account.scope} {name}" if name else str(account),
        period=account.period,
        spent=spent,
        share=standing.share,
        id=account.name if name else "",
    )


def _own_work(goal: Goal, settings: GoalSettings) -> OwnWork:
    assert goal.auto is not None
    held = is_held(goal, settings)
    return OwnWork(
        id=goal.id,
        key=ConversationKey.parse(goal.conversation),
        text=short(goal.text),
        # Its own work was ended by a limit, a stop or a person: then the goal stands as the chat calls it.
        state=HELD if held else goal.status if goal.auto.state == "aborted" else goal.auto.state,
        is_live=goal.is_autonomous and not held,
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
