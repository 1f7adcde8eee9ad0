"""Makes traces and figures of events, and writes them off the path of turns: once a second, or fifty at a time.

Hearing only adds up, and everything that is added up has a bound. A crash loses the traces of its last second, those
whose messages were not sent yet, and the figures of ten seconds; nothing depends on them.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol

import anyio
from sqlalchemy.exc import SQLAlchemyError

from agent.core.bounded_map import BoundedMap
from agent.core.clock import Clock
from agent.core.events import (
    ApprovalRequired,
    ApprovalResumed,
    CallBilled,
    CallFailed,
    CompactComplete,
    CompactTriggered,
    ContextBuilt,
    DecisionCompleted,
    Event,
    LoopEnded,
    LoopFailed,
    LoopStarted,
    MemorySearched,
    PermissionDenied,
    PersistStarted,
    ProviderFailedOver,
    Published,
    RetryScheduled,
    SubagentEnded,
    SubagentStarted,
    ToolEnded,
)
from agent.core.ids import ConversationId, PersonId, RunId
from agent.storage.database import Database
from agent.storage.errors import StorageError
from agent.storage.timestamps import to_timestamp
from gateway.traces import rows
from gateway.traces.figures import Figures
from gateway.traces.rows import Batch
from gateway.traces.settings import TraceSettings
from gateway.traces.trace import DENIED, FAILED, EndedTurn, Span, TurnTrace, keeps

HEARD: tuple[type[Event], ...] = (
    ApprovalRequired,
    ApprovalResumed,
    CallBilled,
    CallFailed,
    CompactComplete,
    CompactTriggered,
    ContextBuilt,
    DecisionCompleted,
    LoopEnded,
    LoopFailed,
    LoopStarted,
    MemorySearched,
    PermissionDenied,
    PersistStarted,
    ProviderFailedOver,
    RetryScheduled,
    SubagentEnded,
    SubagentStarted,
    ToolEnded,
)
MOST_OPEN = 2_000  # turns that run or whose messages are on their way; of more, the oldest leave no trace
MOST_SPANS = 300  # of one turn; sums count the others too
MOST_WAITING = 1_000  # traces that wait for a database that fails
FULL = 50  # traces of one transaction; so many do not wait for the second
EVERY_S = 1.0
FIGURES_EVERY_S = 10.0  # where no trace takes them along: each write costs as much as many turns of a batch
DELIVERED_WITHIN_S = 60.0  # then the trace is written without its delivery
UNKNOWN_TOOL = "unknown"  # names that the model made up are not kept

log = logging.getLogger("tieline.traces")


class Forgotten(Protocol):
    """Conversations whose words are being forgotten; `agent.memory.records.Forgotten` keeps this promise."""

    def words(self, conversation: ConversationId, /) -> int: ...
    def may_write(self, conversation: ConversationId, since: int, /) -> bool: ...


class TurnWatcher(Protocol):
    """Hears of turns as they begin and end; must only note it. `gateway.otel` keeps this promise."""

    @property
    def is_on(self) -> bool:
        """Whether anything is wanted now; else nothing below is called."""

    @property
    def wants_contents(self) -> bool:
        """Whether `content_of` is to be asked."""

    def begun(self, inbox_id: int, /) -> None:
        """A turn for that work has begun."""

    def content_of(self, run: RunId, call: str, /) -> object | None:
        """The texts of the run's newest call of a model (`call` ""), or of that call of a tool; None for none."""

    def ended(self, turn: EndedTurn, /) -> None:
        """A turn has ended, and leaves a trace."""

    def left_out(self, inbox_id: int, /) -> None:
        """A turn for that work has ended, and leaves none."""


class NobodyWatches:
    """Keeps the promise of TurnWatcher where nothing is wanted."""

    is_on: Final = False
    wants_contents: Final = False

    def begun(self, inbox_id: int, /) -> None: ...
    def content_of(self, run: RunId, call: str, /) -> object | None: ...
    def ended(self, turn: EndedTurn, /) -> None: ...
    def left_out(self, inbox_id: int, /) -> None: ...


@dataclass(slots=True, kw_only=True)
class _Caller:
    """Model calls of one run, the turn's own or a sub-agent's, as they are under way."""

    retries: int = 0
    instead_of: str = ""
    last: int | None = None  # the span of its last call of a model, until it is known how that ended


@dataclass(slots=True, kw_only=True)
class _Open:
    """A turn that has begun, and (`ended`) whose messages are on their way. Moments `began`… are on the stopwatch."""

    run: RunId
    attempt: int
    conversation: ConversationId
    inbox_id: int
    person: PersonId | None
    forgotten: int
    waited_ms: int
    started_at: int
    began: float
    spans: list[Span] = field(default_factory=list)
    callers: dict[RunId, _Caller] = field(default_factory=dict)
    denied: set[str] = field(default_factory=set)  # tool calls that were not run, until their end
    compacting: float | None = None
    has_context: bool = False
    persisted: float | None = None
    persisted_at: int = 0
    first_token_ms: int | None = None
    model_calls: int = 0
    tool_calls: int = 0
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    provider: str | None = None  # who answered last in the turn itself
    delivered: int = 0  # messages of its end that were sent or given up
    last_sent_ms: int | None = None
    messages: int = 0  # of its end, once that is known
    ended: TurnTrace | None = None
    ended_since: float = 0.0
    # For who watches: the run of each span, sub-agents and texts by the place of their span.
    agent: str = ""
    traceparent: str = ""
    runs: list[RunId] = field(default_factory=list)
    made: dict[int, RunId] = field(default_factory=dict)
    contents: dict[int, object] = field(default_factory=dict)

    def caller(self, run: RunId | None) -> _Caller:
        return self.callers.setdefault(run or self.run, _Caller())

    def add(self, span: Span, run: RunId | None = None) -> int | None:
        """Note a part of that run, None: the turn's own; its place among them, None where there is no room."""
        if len(self.spans) >= MOST_SPANS:
            return None
        self.spans.append(span)
        self.runs.append(run or self.run)
        return len(self.spans) - 1


class Recorder:
    """Give `listen` to the bus for the kinds in HEARD; `received` and `settled` hear of messages. Run it beside all."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        settings: Callable[[], TraceSettings],
        forgotten: Forgotten,
        writer: str,
        watcher: TurnWatcher | None = None,
    ) -> None:
        """`writer` names this start of the process among all."""
        self._watcher = watcher or NobodyWatches()
        self._database = database
        self._clock = clock
        self._settings = settings
        self._forgotten = forgotten
        self._writer, self._since = writer, to_timestamp(clock.now())
        self._open: BoundedMap[RunId, _Open] = BoundedMap(MOST_OPEN)  # by the turn's own run
        self._of_subagents: BoundedMap[RunId, RunId] = BoundedMap(MOST_OPEN)
        self._in_conversation: BoundedMap[ConversationId, RunId] = BoundedMap(MOST_OPEN)
        self._leaving: BoundedMap[int, _Open] = BoundedMap(MOST_OPEN)  # by the work, from the begin of the turn on
        self._waiting: deque[tuple[TurnTrace, int]] = deque(maxlen=MOST_WAITING)
        self._figures = Figures()
        self._stuck: Batch | None = None  # what the database did not take: it is given again as it is
        self._since_of: dict[tuple[RunId, int], int] = {}
        self._number = 0
        self._written_at = clock.monotonic()
        self._changed, self._full = anyio.Event(), anyio.Event()

    # -- what happens

    def listen(self, published: Published) -> None:
        """A listener for the event bus."""
        event = published.event
        match event:
            case LoopStarted():
                self._begin(event)
            case CallBilled():
                self._bill(event)
            case CallFailed(provider=provider, reason=reason):
                if self._settings().enabled:
                    self._figures.add(self._now(), "failed_calls", f"{provider} {reason}")
                    self._changed.set()
            case _ if (turn := self._turn_of(event)) is not None:
                self._note(event, turn)

    def received(self, platform: str) -> None:
        """A message came in and is stored."""
        if self._settings().enabled:
            self._figures.add(self._now(), "received", platform)
            self._changed.set()

    def settled(self, platform: str, inbox_id: int | None, *, committed_at: int, sent: bool) -> None:
        """A message that was committed then (UTC microseconds), for that work, was sent or given up."""
        if not self._settings().enabled:
            return
        self._figures.add(self._now(), "sent" if sent else "dead_letters", platform)
        self._changed.set()
        turn = self._leaving.get(inbox_id) if inbox_id is not None else None
        if turn is None or turn.persisted is None or committed_at < turn.persisted_at:
            return  # what a turn says on its way is none of its end
        turn.delivered += 1
        if sent:
            turn.last_sent_ms = round((self._clock.monotonic() - turn.persisted) * 1000)
        if turn.ended is not None and turn.delivered >= turn.messages:
            self._close(turn)

    def _now(self) -> int:
        return to_timestamp(self._clock.now())

    def _turn_of(self, event: Event) -> _Open | None:
        run = event.run
        if run is None:
            return None
        return self._open.get(self._of_subagents.get(run, run))

    def _begin(self, event: LoopStarted) -> None:
        if not self._settings().enabled or event.run is None:
            return
        turn = _Open(
            run=event.run,
            attempt=event.attempt,
            conversation=event.conversation,
            inbox_id=event.inbox_id,
            person=event.person,
            forgotten=self._forgotten.words(event.conversation),
            waited_ms=event.waited_ms,
            started_at=self._now(),
            began=self._clock.monotonic(),
            agent=event.agent,
            traceparent=event.traceparent,
        )
        if self._watcher.is_on:
            self._watcher.begun(event.inbox_id)
        if event.waited_ms:
            turn.add(Span(kind="queue", start_ms=-event.waited_ms, ms=event.waited_ms))
        self._open[event.run] = turn
        self._in_conversation[event.conversation] = event.run
        self._leaving[event.inbox_id] = turn

    def _bill(self, event: CallBilled) -> None:
        if not self._settings().enabled:
            return
        at, model = self._now(), f"{event.provider}/{event.model}"
        read = event.prompt + event.cache_creation + event.cache_read
        figures = self._figures
        figures.add(at, "model_calls", model)
        figures.add(at, "tokens_in", model, read)
        figures.add(at, "tokens_cached", model, event.cache_read)
        figures.add(at, "tokens_out", model, event.output)
        figures.add(at, "cost_usd", model, event.cost_usd or 0.0)
        figures.add(at, "unpriced_calls", model, event.cost_usd is None)
        self._changed.set()
        turn = self._turn_of(event)
        is_known = turn is not None
        if turn is None and event.run is None:
            # Side calls name no run: those that a compaction of the turn makes are its own, others happen beside it.
            turn = self._open.get(self._in_conversation.get(event.conversation, RunId("")))
        if turn is None:
            return
        beside = not is_known and turn.compacting is None
        caller = turn.caller(event.run)
        span = Span(
            kind="model",
            start_ms=self._since_begin(turn) - event.elapsed_ms,
            ms=event.elapsed_ms,
            name=event.provider,
            model=event.model,
            purpose=event.purpose,
            tokens_in=read,
            tokens_cached=event.cache_read,
            tokens_out=event.output,
            cost_usd=event.cost_usd,
            estimated=event.estimated,
            retries=caller.retries if is_known else 0,
            instead_of=caller.instead_of if is_known else "",
            subagent=is_known and event.run != turn.run,
            beside=beside,
        )
        place = turn.add(span, event.run if is_known else None)
        if is_known:
            caller.last, caller.retries, caller.instead_of = place, 0, ""
        if beside:
            return
        turn.model_calls += 1
        turn.tokens_in += read
        turn.tokens_cached += event.cache_read
        turn.tokens_out += event.output
        turn.cost_usd += event.cost_usd or 0.0
        turn.unpriced += event.cost_usd is None

    def _note(self, event: Event, turn: _Open) -> None:
        at_ms = self._since_begin(turn)
        inner = event.run != turn.run
        match event:
            case DecisionCompleted():
                self._decided(event, turn, at_ms)
            case PermissionDenied(tool_call_id=call):
                turn.denied.add(call)
            case ToolEnded(tool_name=tool, elapsed_ms=ms, is_error=is_error, result_chars=chars, exists=exists):
                turn.tool_calls += 1
                is_denied = event.tool_call_id in turn.denied
                turn.denied.discard(event.tool_call_id)
                span = Span(
                    kind="tool",
                    start_ms=at_ms - ms,
                    ms=ms,
                    name=tool if exists else UNKNOWN_TOOL,
                    is_error=is_error,
                    outcome=DENIED if is_denied else "",
                    size=0 if is_denied else chars,  # the note that it was not run is no result
                    subagent=inner,
                )
                self._add_content(turn, turn.add(span, event.run), event.run, event.tool_call_id)
            case ContextBuilt(token_estimate=tokens) if not inner and not turn.has_context:
                turn.has_context = True
                turn.add(Span(kind="context", start_ms=0, ms=at_ms, size=tokens))
            case MemorySearched(strategy=strategy, results=results, elapsed_ms=ms) if ms and not inner:
                turn.add(Span(kind="recall", start_ms=at_ms - ms, ms=ms, name=strategy, size=results))
            case RetryScheduled(provider=provider, after_s=after_s, reason=reason):
                turn.caller(event.run).retries += 1
                ms = round(after_s * 1000)
                span = Span(kind="retry", start_ms=at_ms, ms=ms, name=provider, outcome=reason, subagent=inner)
                turn.add(span, event.run)
            case ProviderFailedOver(instead_of=instead_of):
                turn.caller(event.run).instead_of = instead_of
            case CompactTriggered():
                turn.compacting = self._clock.monotonic()
            case CompactComplete(stage=stage, tokens_before=before, tokens_after=after):
                begun = turn.compacting if turn.compacting is not None else self._clock.monotonic()
                start_ms = round((begun - turn.began) * 1000)
                freed = max(0, before - after)
                turn.add(Span(kind="compaction", start_ms=start_ms, ms=at_ms - start_ms, name=stage, size=freed))
                turn.compacting = None
            case ApprovalResumed(status=status, waited_ms=ms):
                span = Span(kind="approval", start_ms=at_ms - ms, ms=ms, outcome=status, subagent=inner)
                turn.add(span, event.run)
            case SubagentStarted(request=request):
                self._of_subagents[RunId(request)] = turn.run
            case SubagentEnded(request=request, elapsed_ms=ms, is_error=is_error, steps=steps):
                self._of_subagents.pop(RunId(request), None)
                turn.callers.pop(RunId(request), None)
                span = Span(kind="subagent", start_ms=at_ms - ms, ms=ms, is_error=is_error, size=steps)
                if (place := turn.add(span, event.run)) is not None:
                    turn.made[place] = RunId(request)
            case PersistStarted():
                turn.persisted, turn.persisted_at = self._clock.monotonic(), self._now()
            case LoopEnded(verdict=verdict, messages=messages) | LoopFailed(verdict=verdict, messages=messages):
                self._end(turn, verdict, messages, at_ms)
            case _:
                pass

    def _decided(self, event: DecisionCompleted, turn: _Open, at_ms: int) -> None:
        """Complete the span of the call that this tells the result of: it was billed a moment ago."""
        self._figures.observe(self._now(), "call_ms", event.elapsed_ms, event.provider)
        if event.first_token_ms is not None:
            self._figures.observe(self._now(), "call_first_token_ms", event.first_token_ms, event.provider)
        self._changed.set()
        if event.run == turn.run:
            turn.provider = event.provider
        if event.first_token_ms is not None and turn.first_token_ms is None and event.run == turn.run:
            turn.first_token_ms = max(0, at_ms - event.elapsed_ms + event.first_token_ms)
        if event.run == turn.run:
            turn.compacting = None  # one that came to nothing says no more
        caller = turn.caller(event.run)
        place, caller.last = caller.last, None
        if place is not None:
            span = turn.spans[place]
            turn.spans[place] = replace(span, first_token_ms=event.first_token_ms, outcome=event.stop_reason)
        self._add_content(turn, place, event.run, "")

    def _add_content(self, turn: _Open, place: int | None, run: RunId | None, call: str) -> None:
        """Keep the texts of that span, where somebody wants them."""
        if run is None or not self._watcher.wants_contents:
            return
        content = self._watcher.content_of(run, call)
        if content is not None and place is not None:
            turn.contents[place] = content

    def _since_begin(self, turn: _Open) -> int:
        return round((self._clock.monotonic() - turn.began) * 1000)

    def _end(self, turn: _Open, outcome: str, messages: int, elapsed_ms: int) -> None:
        self._open.pop(turn.run, None)
        self._in_conversation.pop(turn.conversation, None)
        for request in [request for request in turn.callers if request != turn.run]:
            self._of_subagents.pop(request, None)
        if not self._settings().enabled:
            self._leave_out(turn)
            return
        at = self._now()
        if outcome != "suspended":  # it is taken up again, and counted then
            self._count(turn, outcome, elapsed_ms, at)
        took_ms = turn.waited_ms + elapsed_ms
        if not keeps(self._settings(), turn.run, outcome=outcome, took_ms=took_ms):
            self._leave_out(turn)
            return
        if turn.persisted is not None:
            start_ms = round((turn.persisted - turn.began) * 1000)
            turn.add(Span(kind="commit", start_ms=start_ms, ms=elapsed_ms - start_ms))
        turn.messages, turn.ended_since = messages, self._clock.monotonic()
        turn.ended = TurnTrace(
            run=turn.run,
            attempt=turn.attempt,
            conversation=turn.conversation,
            inbox_id=turn.inbox_id,
            person=turn.person,
            started_at=turn.started_at,
            ended_at=at,
            outcome=outcome,
            waited_ms=turn.waited_ms,
            elapsed_ms=elapsed_ms,
            first_token_ms=turn.first_token_ms,
            delivered_ms=None,
            model_calls=turn.model_calls,
            tool_calls=turn.tool_calls,
            tokens_in=turn.tokens_in,
            tokens_cached=turn.tokens_cached,
            tokens_out=turn.tokens_out,
            cost_usd=turn.cost_usd if not turn.unpriced else None,
            unpriced=turn.unpriced,
            provider=turn.provider,
            spans=(),
        )
        if self._watcher.is_on:
            self._watch_end(turn, turn.ended)
        if turn.delivered >= messages:
            self._close(turn)

    def _leave_out(self, turn: _Open) -> None:
        self._forget(turn)
        if self._watcher.is_on:
            self._watcher.left_out(turn.inbox_id)

    def _watch_end(self, turn: _Open, ended: TurnTrace) -> None:
        whole = EndedTurn(
            trace=ended,
            spans=tuple(turn.spans),
            agent=turn.agent,
            traceparent=turn.traceparent,
            forgotten=turn.forgotten,
            runs=tuple(turn.runs),
            made=turn.made,
            contents=turn.contents,
        )
        turn.contents = {}
        self._watcher.ended(whole)

    def _count(self, turn: _Open, outcome: str, elapsed_ms: int, at: int) -> None:
        figures = self._figures
        figures.add(at, "turns")
        figures.add(at, "failed_turns", by=outcome in FAILED)
        figures.observe(at, "waiting_ms", turn.waited_ms)
        figures.observe(at, "turn_ms", elapsed_ms)
        if turn.first_token_ms is not None:
            figures.observe(at, "first_token_ms", turn.first_token_ms)
        self._changed.set()

    def _close(self, turn: _Open) -> None:
        """Its trace is whole, as far as is known."""
        self._forget(turn)
        assert turn.ended is not None
        if turn.last_sent_ms is not None and turn.persisted is not None:
            start_ms = round((turn.persisted - turn.began) * 1000)
            turn.add(Span(kind="delivery", start_ms=start_ms, ms=turn.last_sent_ms, size=turn.delivered))
        whole = replace(turn.ended, delivered_ms=turn.last_sent_ms, spans=tuple(turn.spans))
        self._waiting.append((whole, turn.forgotten))
        self._changed.set()
        if len(self._waiting) >= FULL:
            self._full.set()

    def _forget(self, turn: _Open) -> None:
        if self._leaving.get(turn.inbox_id) is turn:
            del self._leaving[turn.inbox_id]

    # -- onto the disk

    async def run(self) -> None:
        """Write until cancelled. What waits then is for `flush`."""
        while True:
            await self._changed.wait()
            with anyio.move_on_after(EVERY_S):
                await self._full.wait()
            await self.write(figures=self._clock.monotonic() - self._written_at >= FIGURES_EVERY_S)

    async def write(self, *, figures: bool = True) -> None:
        """Write what has come together; without `figures` these wait for a trace that takes them along.

        A database that fails is tried again the next time.
        """
        self._changed, self._full = anyio.Event(), anyio.Event()
        self._give_up_delivery(self._clock.monotonic() - DELIVERED_WITHIN_S)
        while (batch := self._stuck or self._next(figures=figures)) is not None:
            try:
                with anyio.CancelScope(shield=True):  # what was taken out is written, also at the end
                    await self._database.write(partial(rows.write, batch=batch, may_write=self._may_write))
            except StorageError as error:
                log.warning("traces and figures wait, the database failed: %s", error)
                self._stuck = batch
                self._changed.set()
                return
            except (SQLAlchemyError, ArithmeticError, ValueError):
                log.exception("%d traces and some figures cannot be written and are lost", len(batch.traces))
            self._stuck, self._since_of = None, {}
        if self._figures or any(turn.ended is not None for turn in self._leaving.values()):
            self._changed.set()  # look again: for figures alone, and for turns whose messages are not sent in time

    async def flush(self) -> None:
        """Write everything, also turns whose messages are on their way. At the end."""
        self._give_up_delivery(self._clock.monotonic())
        await self.write()

    def _give_up_delivery(self, since: float) -> None:
        for turn in [one for one in self._leaving.values() if one.ended is not None and one.ended_since <= since]:
            self._close(turn)

    def _next(self, *, figures: bool) -> Batch | None:
        if not self._waiting and not (figures and self._figures):
            return None
        waiting = [self._waiting.popleft() for _ in range(min(len(self._waiting), FULL))]
        self._number += 1
        self._written_at = self._clock.monotonic()
        self._since_of = {(trace.run, trace.attempt): since for trace, since in waiting}
        return Batch(
            writer=self._writer,
            since=self._since,
            number=self._number,
            traces=tuple(trace for trace, _ in waiting),
            figures=self._figures.take(),
        )

    def _may_write(self, trace: TurnTrace) -> bool:
        """Whether nothing was forgotten there meanwhile: then the trace may be of what is gone. Asked in any thread."""
        since = self._since_of.get((trace.run, trace.attempt), 0)
        return self._forgotten.may_write(trace.conversation, since)
