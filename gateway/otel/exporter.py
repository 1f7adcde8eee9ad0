"""Sends traces of turns to a collector, after the turns: in batches, made in a thread, and lost rather than waited for.

A turn only puts itself into a queue. A collector that is gone, slow or says no costs spans, told by a trouble and by a
counter; nothing else.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import chain
from typing import Any, Protocol

import anyio

from agent.core.bounded_map import BoundedMap
from agent.core.clock import Clock
from agent.core.ids import ConversationId, RunId
from agent.storage.database import Database
from agent.storage.errors import StorageError
from gateway.otel.contents import NotedContents, Redact
from gateway.otel.context import TurnContext
from gateway.otel.settings import OtelSettings
from gateway.otel.work import Delivery, kept_context
from gateway.telemetry.trouble import Troubles
from gateway.traces.settings import TraceSettings
from gateway.traces.trace import EndedTurn

EVERY_S = 1.0
FULL = 50  # turns of one request; so many do not wait for the second
MOST_WAITING = 1_000  # turns
MOST_WITH_CONTENT = 100  # turns while their texts go along
MOST_DELIVERIES = 2_000
MOST_KNOWN = 2_000  # turns whose messages may still be on their way
PAUSES_S = (1.0, 2.0, 5.0, 10.0, 30.0)  # between tries of one request; the last one goes on
GIVE_UP_S = 600.0  # after the first try of a request
FLUSH_WITHIN_S = 5.0
SUBJECT = "collector"
FIX = "see [otel]; `tieline doctor` tries the address"

log = logging.getLogger("tieline.otel")


class Forgotten(Protocol):
    """Conversations whose words are being forgotten; `agent.memory.records.Forgotten` keeps this promise."""

    def may_write(self, conversation: ConversationId, since: int, /) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The program as collectors know it; `instance` names this start of it among all."""

    version: str
    instance: str


class Sending:
    """The way to the collector of the settings of now, with its trouble. One for all signals."""

    def __init__(
        self,
        clock: Clock,
        *,
        settings: Callable[[], OtelSettings],
        proxy: Callable[[], str | None],
        troubles: Troubles,
        dropped: Callable[[str, int], None],
    ) -> None:
        """`dropped` counts what was lost of a signal; `proxy` is that for the collector of now."""
        self.settings = settings
        self._clock = clock
        self._proxy = proxy
        self._troubles = troubles
        self._count = dropped
        self._opened: tuple[OtelSettings, str | None, Any] | None = None
        self._lock = anyio.Lock()
        self._failing: set[str] = set()
        self._lost = 0

    async def send(self, signal: str, body: bytes) -> None:
        """Send it. Raises NotTaken of `gateway.otel.collector`."""
        collector = await self._collector()
        left_out = await collector.send(signal, body)
        if left_out:
            self.drop(signal, left_out)
            self.fails(signal, f"{self.settings().host} left out {left_out} of a request", all_of="some")
            return
        self._failing.discard(signal)
        if not self._failing:
            self._well()

    def fails(self, signal: str, why: str, *, all_of: str = "all") -> None:
        """Tell it, once for as long as it lasts; `all_of` "some": a part of the signal does arrive."""
        if not self._failing:
            log.warning("the collector does not take %s %s, which holds nothing else up: %s", all_of, signal, why)
        self._failing.add(signal)
        self._troubles.report("otel", SUBJECT, f"does not take {all_of} {signal}: {why}", fix=FIX)

    def drop(self, signal: str, number: int) -> None:
        """So many spans or points are lost."""
        self._lost += number
        self._count(signal, number)

    def _well(self) -> None:
        self._troubles.over("otel", SUBJECT)
        if self._lost:
            log.warning("%d spans and points did not reach the collector and are lost", self._lost)
            self._lost = 0

    async def _collector(self) -> Any:
        settings, proxy = self.settings(), self._proxy()
        async with self._lock:
            if self._opened is None or self._opened[:2] != (settings, proxy):
                await self._close()
                module = await anyio.to_thread.run_sync(import_module, "gateway.otel.collector")
                self._opened = (settings, proxy, module.Collector(settings, self._clock, proxy=proxy))
            return self._opened[2]

    async def _close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened[2].aclose()

    async def aclose(self) -> None:
        await self._close()


@dataclass(frozen=True, slots=True)
class _Request:
    """A body that is made, with the number of its spans, first tried at that moment of the stopwatch."""

    body: bytes
    spans: int
    since: float


class TraceExport:
    """Keeps the promise of `gateway.traces.recorder.TurnWatcher`; `delivered` hears of messages. Run it beside all."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        sending: Sending,
        *,
        traces: Callable[[], TraceSettings],
        forgotten: Forgotten,
        redact: Redact,
        program: Program,
    ) -> None:
        self._database = database
        self._clock = clock
        self._sending = sending
        self._settings = sending.settings
        self._traces = traces
        self._forgotten = forgotten
        self._redact = redact
        self._program = program
        self.contents = NotedContents(lambda: self._settings().sends_content)
        self._waiting: deque[EndedTurn] = deque()
        self._deliveries: deque[Delivery] = deque()
        self._running: BoundedMap[int, None] = BoundedMap(MOST_KNOWN)
        self._known: BoundedMap[int, TurnContext | None] = BoundedMap(MOST_KNOWN)  # by work; None: it leaves no trace
        self._stuck: _Request | None = None
        self._tries = 0
        self._sender = anyio.Lock()
        self._changed, self._full = anyio.Event(), anyio.Event()

    # -- what happens

    @property
    def is_on(self) -> bool:
        return self._settings().sends_traces

    @property
    def wants_contents(self) -> bool:
        return self._settings().sends_content

    def begun(self, inbox_id: int, /) -> None:
        self._running[inbox_id] = None

    def content_of(self, run: RunId, call: str, /) -> object | None:
        return self.contents.take(run, call)

    def ended(self, turn: EndedTurn, /) -> None:
        trace = turn.trace
        self._over(trace.inbox_id, TurnContext(trace.run, trace.attempt, turn.traceparent))
        most = MOST_WITH_CONTENT if turn.contents else MOST_WAITING
        while len(self._waiting) >= most:
            lost = self._waiting.popleft()
            self._sending.drop("traces", 1 + len(lost.spans))
        self._waiting.append(turn)
        self._changed.set()
        if len(self._waiting) >= FULL:
            self._full.set()

    def left_out(self, inbox_id: int, /) -> None:
        self._over(inbox_id, None)

    def delivered(self, make: Callable[[], Delivery]) -> None:
        """A message was sent or given up; `make` gives its Delivery, and is called where one is wanted."""
        if not self.is_on or not self._traces().enabled:
            return
        if len(self._deliveries) >= MOST_DELIVERIES:
            self._deliveries.popleft()
            self._sending.drop("traces", 1)
        self._deliveries.append(make())
        self._changed.set()

    def _over(self, inbox_id: int, context: TurnContext | None) -> None:
        self._running.pop(inbox_id, None)
        self._known[inbox_id] = context

    def heed(self) -> None:
        """The settings have changed: what waits may be wanted no more."""
        self._changed.set()

    # -- to the collector

    async def run(self) -> None:
        """Send until cancelled. What waits then is for `flush`."""
        while True:
            await self._changed.wait()
            with anyio.move_on_after(EVERY_S):
                await self._full.wait()
            pause_s = await self.send()
            if pause_s:
                await self._clock.sleep(pause_s)
                self._changed.set()

    async def send(self) -> float:
        """Send what waits; the seconds after which to try again, 0 where all is sent."""
        async with self._sender:  # two would take each other's request
            return await self._send()

    async def _send(self) -> float:
        self._changed, self._full = anyio.Event(), anyio.Event()
        if not self._settings().sends_traces:
            self._stuck = None  # switched off meanwhile: nobody wants them any more
            self._waiting.clear()
            self._deliveries.clear()
            self._running.clear()
        while (request := await self._request()) is not None:
            collector = await anyio.to_thread.run_sync(import_module, "gateway.otel.collector")
            try:
                await self._sending.send("traces", request.body)
            except collector.NotTaken as error:
                self._sending.fails("traces", str(error))
                if error.retry_after_s is None or self._clock.monotonic() - request.since > GIVE_UP_S:
                    self._sending.drop("traces", request.spans)
                    self._stuck, self._tries = None, 0
                    continue
                pause_s: float = max(error.retry_after_s, PAUSES_S[min(self._tries, len(PAUSES_S) - 1)])
                self._tries += 1
                return pause_s
            self._stuck, self._tries = None, 0
        return 0.0

    async def flush(self) -> None:
        """Send what waits, once and for a few seconds at most; the rest is lost. At the end."""
        with anyio.move_on_after(FLUSH_WITHIN_S):
            await self.send()
        lost = len(self._waiting) + (self._stuck is not None)
        if lost:
            log.warning("the collector did not take the last turns in time: %d of them, or batches, are lost", lost)

    async def _request(self) -> _Request | None:
        """The one that is to be tried again, or the next one, which is not lost when the process ends meanwhile."""
        if self._stuck is None:
            with anyio.CancelScope(shield=True):
                self._stuck = await self._next()
        return self._stuck

    async def _next(self) -> _Request | None:
        turns = [self._waiting.popleft() for _ in range(min(len(self._waiting), FULL))]
        deliveries = await self._due()
        if not turns and not deliveries:
            return None
        body, spans = await anyio.to_thread.run_sync(self._made, turns, deliveries)
        return _Request(body, spans, self._clock.monotonic())

    async def _due(self) -> Sequence[tuple[Delivery, TurnContext]]:
        """Deliveries whose turn is known to be over; those of turns that run stay."""
        waiting, self._deliveries = self._deliveries, deque()
        found = []
        for delivery in waiting:
            work = delivery.inbox_id
            if work in self._running:
                self._deliveries.append(delivery)
                continue
            if work not in self._known:
                self._known[work] = await self._context(work)
            context = self._known[work]
            if context is not None:
                found.append((delivery, context))
        return found

    async def _context(self, inbox_id: int) -> TurnContext | None:
        """That of a turn of an earlier process."""
        sample = self._traces().sample
        try:
            return await self._database.read(partial(kept_context, inbox_id=inbox_id, sample=sample))
        except StorageError as error:
            log.warning("a delivery leaves no span, the database failed: %s", error)
            return None

    def _made(
        self, turns: Sequence[EndedTurn], deliveries: Sequence[tuple[Delivery, TurnContext]]
    ) -> tuple[bytes, int]:
        """The body of a request and the number of its spans. In a thread."""
        spans, settings = import_module("gateway.otel.spans"), self._settings()
        made = chain(
            (
                span
                for turn in turns
                # Nothing that was forgotten meanwhile: its words may be among the texts.
                if self._forgotten.may_write(turn.trace.conversation, turn.forgotten)
                for span in spans.spans_of(turn, most=settings.content_chars, redact=self._redact)
            ),
            (spans.delivery_span(delivery, context) for delivery, context in deliveries),
        )
        resource = spans.resource_of(settings.service_name, self._program.version, self._program.instance)
        body, number = spans.body_of(resource, self._program.version, made)
        return body, number
