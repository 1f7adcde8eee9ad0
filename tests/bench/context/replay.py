"""Plays a session through the real context engine and measures each request that would have been sent."""

from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from agent.compaction.engine import Engine
from agent.compaction.excerpts import deserves_pin
from agent.compaction.pairs import repaired
from agent.compaction.state import CompactionState, ContextUsage, Options
from agent.core.events import Event
from agent.core.ids import ConversationId, RunId
from agent.core.messages import Message
from agent.run.guards import ceiling
from agent.run.settings import ContextSettings
from agent.turn.tokens import Estimator
from tests.bench.context.provenance import Readable, Sources, holds
from tests.bench.context.recordings import Recording
from tests.bench.context.summariser import Asked, Summariser
from tests.bench.context.transcript import Transcript, query_from


class Broken(Exception):
    """A promise was not kept: the run fails."""


@dataclass(frozen=True, slots=True)
class Value:
    """One value that a call took from an earlier result: the subgoal it was needed in, and where it was found."""

    subgoal: int
    text: str
    in_window: bool
    recalled: bool


@dataclass(slots=True)
class Measured:
    """Figures of one session. `sizes` and `bare` are the tokens of each request, with and without compaction."""

    id: str
    messages: int
    window: int
    turns: int = 0
    sizes: list[int] = field(default_factory=list)
    bare: list[int] = field(default_factory=list)
    cached: int = 0  # tokens of all requests that began the request before, and come from the provider's cache
    values: list[Value] = field(default_factory=list)
    asked: Mapping[str, Asked] = field(default_factory=dict)
    stages: Counter[str] = field(default_factory=Counter)  # events by name
    checked: int = 0  # messages that had to be byte-equal and were

    @property
    def in_window(self) -> int:
        return sum(value.in_window for value in self.values)

    @property
    def found(self) -> int:
        """Values in the request or in the answer of one recall."""
        return sum(value.in_window or value.recalled for value in self.values)


async def play(
    recording: Recording,
    options: Options,
    window: int,
    count: Callable[[str], int],
    *,
    model: Summariser | None = None,
    watch: Callable[[Event], None] = lambda event: None,
    read: Callable[[Sequence[Message]], None] = lambda sent: None,
) -> Measured:
    """Run the session through an engine with these options and a model with that window (tokens).

    `model` answers the engine's questions. `watch` is told each event of the engine, `read` each request's messages.
    """
    with Transcript() as transcript:
        return await _play(recording, options, window, count, transcript, model or Summariser(count), watch, read)


async def _play(
    recording: Recording,
    options: Options,
    window: int,
    count: Callable[[str], int],
    transcript: Transcript,
    model: Summariser,
    watch: Callable[[Event], None],
    read: Callable[[Sequence[Message]], None],
) -> Measured:
    estimator = Estimator(count)
    state = CompactionState(count=estimator.message)
    jobs: list[Callable[[], Coroutine[Any, Any, None]]] = []
    moment = datetime(2025, 1, 1, tzinfo=UTC)
    measured = Measured(recording.id, len(recording.messages), window)

    def publish(event: Event) -> None:
        measured.stages[event.name] += 1
        watch(event)

    engine = Engine(
        conversation=ConversationId("bench:1"),
        state=state,
        count_text=estimator.text,
        ask=model,
        publish=publish,
        spawn=jobs.append,
        now=lambda: moment,
    )
    fixed = estimator.text(recording.system)
    room = ceiling(window, ContextSettings())
    sources, readable = Sources(), Readable()
    said: dict[int, Message] = {}
    bare = fixed
    before: list[Message] = []
    for number, turn in enumerate(_turns(recording)):
        moment += timedelta(minutes=5)
        model.subgoal = _subgoal(recording, turn.start)
        engine.begin_turn(RunId(f"run{number}"), options)
        measured.turns += 1
        first = True
        for position in range(turn.start, turn.stop):
            message = replace(recording.messages[position], created_at=moment)
            if message.role == "assistant":
                load = ContextUsage(fixed=fixed, scale=1.0, window=window, room=room, first=first)
                await engine.before_call(load)
                first = False
                transcript.write(state)
                sent = state.window.messages
                read(sent)
                check(recording.id, state, sent, said)
                measured.checked += len(state.tiers.active(len(sent))) + sum(entry.pinned for entry in state.window)
                measured.sizes.append(load.tokens(state.window))
                measured.bare.append(bare)
                if before:
                    measured.cached += _shared(before, sent, estimator, fixed)
                before = sent
                subgoal = border_before(recording, turn.start)
                for value in sources.taken(message.tool_uses):
                    seen = readable.any_holds(sent, value)
                    recalled = not seen and holds(transcript.recall(query_from(sent), count), value)
                    measured.values.append(Value(subgoal, value, seen, recalled))
            elif not message.tool_results:
                pins = sum(one.pinned for one in said.values())
                pinned = deserves_pin(message.content, is_first=position == 0, pinned_rules=pins)
                message = replace(message, pinned=pinned)
            message = transcript.append(message)
            assert message.id is not None
            sources.note(message)
            said[message.id] = message
            bare += estimator.message(message)
            state.window.append(message)
        engine.after_turn(ContextUsage(fixed=fixed, scale=1.0, window=window, room=room, first=False))
        for job in jobs if model.in_time else ():
            await job()
        jobs.clear()
    measured.asked = model.asked
    return measured


def tokens_of(recording: Recording, count: Callable[[str], int]) -> int:
    """The size of the largest request if nothing ever left it."""
    estimator = Estimator(count)
    return estimator.text(recording.system) + estimator.messages(recording.messages)


def _turns(recording: Recording) -> Iterator[range]:
    """The messages from one message of a person to the next."""
    starts = [
        position
        for position, message in enumerate(recording.messages)
        if position == 0 or (message.role == "user" and not message.tool_results)
    ]
    for start, stop in zip(starts, [*starts[1:], len(recording.messages)], strict=True):
        yield range(start, stop)


def border_before(recording: Recording, position: int) -> int:
    """The newest border up to the position."""
    return max((border for border in recording.borders if border <= position), default=0)


def _subgoal(recording: Recording, position: int) -> str:
    """The subject of the subgoal that the position belongs to."""
    border = border_before(recording, position)
    return " ".join(recording.messages[border].content.split())[:200] + f" (#{border})"


def check(session: str, state: CompactionState, sent: list[Message], said: Mapping[int, Message]) -> None:
    """Pinned and active messages are there, byte for byte; calls and results are in pairs. Raises Broken."""
    shown = {message.id: message for message in sent if message.id is not None}
    for id, message in said.items():
        if message.pinned and (id not in shown or shown[id].parts != message.parts):
            raise Broken(f"{session}: the pinned message {id} is not what it was")
    for position in state.tiers.active(len(sent)):
        known = sent[position].id or 0
        if known in said and sent[position].parts != said[known].parts:
            raise Broken(f"{session}: the active message {known} is not what it was")
    if len(repaired(sent)) != len(sent):
        raise Broken(f"{session}: a call and its result were parted")


def _shared(before: list[Message], now: list[Message], estimator: Estimator, fixed: int) -> int:
    """The tokens with which both requests begin: those that a prompt cache gives back."""
    same = fixed
    for old, new in zip(before, now, strict=False):
        if old.parts != new.parts:
            break
        same += estimator.message(old)
    return same
