"""Traces of turns and figures over time: who tells the recorder of what, and how long its rows are kept."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from agent.core.ids import random_uuid
from agent.memory.records import Forgotten
from agent.storage.timestamps import to_timestamp
from gateway.channels.inbound import Inbound, MessageReceived, Receipt
from gateway.channels.keys import ConversationKey
from gateway.delivery.outbox.delivery import Delivery as OutboxDelivery
from gateway.delivery.outbox.rows import Claimed
from gateway.otel.exporter import TraceExport
from gateway.otel.work import Delivery
from gateway.running.basics import Basics
from gateway.traces import rows
from gateway.traces.recorder import HEARD, Recorder
from gateway.traces.rows import BATCH, FIGURE_DAYS

PAUSE_S = 0.2  # between two steps of the upkeep
MB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnTracing:
    """The recorder, and what is not an event."""

    basics: Basics
    recorder: Recorder
    export: TraceExport

    async def admit(self, admit: Callable[[Inbound], Awaitable[Receipt]], inbound: Inbound) -> Receipt:
        """Take it in, and count it."""
        receipt = await admit(inbound)
        if isinstance(inbound, MessageReceived) and receipt.outcome == "accepted":
            self.recorder.received(inbound.key.platform)
        return receipt

    def settled(self, row: Claimed, sent: bool) -> None:
        """A message was sent or given up."""
        platform = ConversationKey.parse(row.conversation).platform
        self.recorder.settled(platform, row.inbox_id, committed_at=row.created_at, sent=sent)
        if row.inbox_id is not None:
            self.export.delivered(partial(self._delivery, row, row.inbox_id, platform, sent))

    def _delivery(self, row: Claimed, inbox_id: int, platform: str, sent: bool) -> Delivery:
        return Delivery(
            inbox_id=inbox_id,
            row=row.id,
            conversation=row.conversation,
            platform=platform,
            kind=row.say.kind,
            begun_at=row.created_at,
            ended_at=to_timestamp(self.basics.clock.now()),
            attempt=row.attempt,
            sent=sent,
        )

    async def tidy(self) -> None:
        """Remove what is too old or too much, some at a time, so that no turn waits. Raises StorageError."""
        database, clock, settings = self.basics.database, self.basics.clock, self.basics.settings
        days = settings.retention.within(settings.traces.days)
        before = to_timestamp(clock.now() - timedelta(days=days))
        while await database.write(partial(rows.prune_old, before=before)) >= BATCH:
            await clock.sleep(PAUSE_S)
        excess = await database.read(rows.size) - settings.traces.max_mb * MB
        while excess > 0:
            freed = await database.write(partial(rows.prune_oldest, excess=excess))
            excess = excess - freed if freed else 0
            await clock.sleep(PAUSE_S)
        before = to_timestamp(clock.now() - timedelta(days=FIGURE_DAYS))
        while await database.write(partial(rows.prune_figures, before=before)):
            await clock.sleep(PAUSE_S)


def install_traces(basics: Basics, delivery: OutboxDelivery, forgotten: Forgotten, export: TraceExport) -> TurnTracing:
    """From now on turns are traced; `export` hears of them too."""
    recorder = Recorder(
        basics.database,
        basics.clock,
        settings=lambda: basics.settings.traces,
        forgotten=forgotten,
        writer=random_uuid(),
        watcher=export,
    )
    basics.bus.listen(recorder.listen, HEARD)
    traces = TurnTracing(basics=basics, recorder=recorder, export=export)
    delivery.hear_settled(traces.settled)
    return traces
