"""The compaction engine of one conversation: runs the stages that the policy calls for, one after the other.

It owns what compaction remembers and reads no database: what must be written waits in `state.window.unwritten`.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import ClassVar, NamedTuple, Protocol

from agent.compaction import rule_stages
from agent.compaction.dumps import Dumps, registry_text, scores_text
from agent.compaction.guidelines import Missed
from agent.compaction.llm_stages import Ahead, Job, LlmStages
from agent.compaction.optional_stages import Housekeeping
from agent.compaction.question import Ask, WriteSummary
from agent.compaction.rule_stages import NOTHING, Reclaimed, spared
from agent.compaction.scoring import Block
from agent.compaction.stages import Cooldown, Limits, PolicyInput, Stage, limits_for, next_stage
from agent.compaction.state import CompactionState, ContextUsage, Options
from agent.core.errors import AgentError
from agent.core.events import (
    CompactComplete,
    Event,
    LookedUpAgain,
    MemoryFlushed,
    MicrocompactRan,
    MidCompactLayer1Ran,
    MidCompactLayer2Ran,
    ReactiveCompactTriggered,
    SummariesApplied,
    ToolOutputsPruned,
)
from agent.core.ids import ConversationId, RunId

AHEAD = 0.85  # of the soft threshold: from here on the summary that may be needed there is made in the background
DEEPER = 0.85  # of the room: what a digest aims at, so that the next turn need not digest again

log = logging.getLogger("tieline.compaction")


class Flush(Protocol):
    """Writes lasting notes before a model compacts; there is one only where there is a memory to write."""

    async def __call__(self, upto: int | None) -> None:
        """One try, bounded; failing costs the notes and nothing else.

        `upto`: how many messages of the window it looks back on; None: all of the turns before.
        """


async def _nothing(stage: str) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """Figures that a stage goes by.

    `need`: raw tokens that pruning must free; None: so many that it comes down to its aim. `target`: scaled tokens of
    a request that a digest aims at.
    """

    load: ContextUsage
    limits: Limits
    need: int | None = None
    target: int
    idle_minutes: float = 0.0


class StageRow(NamedTuple):
    """A stage in the table of `Engine`: its function, and what makes its event.

    The event is None where nothing has to be told. Stages that replace messages by a summary tell of themselves.
    """

    run: Callable[["Engine", Pass], Reclaimed | Awaitable[Reclaimed]]
    event: Callable[["Engine", Reclaimed], Callable[..., Event] | None] = lambda engine, reclaimed: None


def _cleared(engine: "Engine", reclaimed: Reclaimed) -> Callable[..., Event] | None:
    return partial(MicrocompactRan, cleared=reclaimed.count) if reclaimed.raw > 0 else None


def _mid(engine: "Engine", reclaimed: Reclaimed) -> Callable[..., Event] | None:
    return partial(MidCompactLayer1Ran if reclaimed.mechanical else MidCompactLayer2Ran, messages=reclaimed.count)


def _summarises(stage: Stage) -> Callable[["Engine", Pass], Awaitable[Reclaimed]]:
    return lambda engine, given: engine.summarise(stage, given)


class Engine:
    """One conversation's. `spawn` runs a job in the background: it may outlive the turn, and dies with the agent.

    `may_flush` says whether lasting notes may be written now. `before_compact` is awaited, with the first stage, right
    before a pass that makes room (W-26).
    """

    def __init__(
        self,
        *,
        conversation: ConversationId,
        state: CompactionState,
        count_text: Callable[[str], int],
        ask: Ask,
        publish: Callable[[Event], None],
        spawn: Callable[[Job], None],
        now: Callable[[], datetime],
        dumps: Dumps | None = None,
        flush: Flush | None = None,
        may_flush: Callable[[], bool] = lambda: True,
        before_compact: Callable[[str], Awaitable[None]] | None = None,
        write_summary: WriteSummary | None = None,
    ) -> None:
        self.state = state
        self.options = Options()
        self.dumps = dumps or Dumps()
        self._conversation = conversation
        self._ask = ask
        self._count_text = count_text
        self._publish = publish
        self._spawn = spawn
        self._flush = flush
        self._before_compact = before_compact or _nothing
        self._may_flush = may_flush
        self._run: RunId | None = None
        self._working = False
        self._housekeeping = Housekeeping(state=state, ask=ask, count_text=count_text)
        self._llm_stages = LlmStages(
            conversation=conversation,
            state=state,
            ask=ask,
            publish=publish,
            now=now,
            count_text=count_text,
            write_summary=write_summary,
        )
        self._ahead = Ahead(
            state=state,
            ask=ask,
            failed=lambda: self._llm_stages.failed(self._run),
            probed=lambda summary: self._llm_stages.probed(summary, Stage.MID, self._run),
        )

    def begin_turn(self, run: RunId, options: Options) -> None:
        """A turn begins: before anything in it may compact."""
        self._run, self.options = run, options
        self.state.aloud = self.dumps.on
        self.state.begin_turn(options)

    async def before_call(self, load: ContextUsage, *, idle_minutes: float = 0.0) -> None:
        """Make room, as far as the pressure calls for it, before a request is built (W-27, R-48)."""
        state = self.state
        self._learn()
        self._take_found(load)
        limits = self._limits(load)
        given = Pass(load=load, limits=limits, target=int(limits.room * DEEPER), idle_minutes=idle_minutes)
        if load.first and 0 < self.options.microcompact.idle_minutes <= idle_minutes:
            await self._take(Stage.STALE, given)
        done: set[Stage] = set()
        while (stage := next_stage(load.tokens(state.window), done, limits, self._standing(load))) is not None:
            if stage is not Stage.MICROCOMPACT and done <= {Stage.MICROCOMPACT}:
                # Once for a pass; of the clearing of old results, which may happen in each iteration, nothing is said.
                await self._before_compact(stage.value)
            done.add(stage)
            await self._take(stage, given)
        state.released = False

    async def after_overflow(self, load: ContextUsage, below: int | None = None) -> bool:
        """The provider found the request too long: compact whatever the thresholds say (R-21). False: nothing gave way.

        To half of it; or, where the window has turned out to be that of `load`, to what it has room for, and to no more
        than `below`: scaled tokens of the largest request that was answered, 0 for none. Asks a model at most once,
        also after one compacted in this turn.
        """
        state, options = self.state, self.options
        before = load.tokens(state.window)
        target = before // 2 if below is None else min(int(load.room * DEEPER), below or before // 2)
        if options.level == "off":
            return False
        self._publish(ReactiveCompactTriggered(conversation=self._conversation, run=self._run, tokens_before=before))
        await self._before_compact(Stage.REACTIVE.value)
        given = Pass(load=load, limits=self._limits(load), need=load.raw(before - target), target=target)
        for stage in (Stage.SUMMARIES, Stage.PRUNE, Stage.MICROCOMPACT):
            await self._take(stage, given)
        if load.tokens(state.window) > target:
            # A history that was refused whole may be read in part: the part that is about to leave.
            end = self._llm_stages.end_of_old(options, Stage.REACTIVE)
            await self._flush_first(load, options, Stage.REACTIVE, upto=end)
            await self._take(Stage.REACTIVE, given)
        if load.tokens(state.window) > target:
            await self._take(Stage.DIGEST, given)
        return load.tokens(state.window) < before

    async def compact_now(self, load: ContextUsage, options: Options, keep: str = "") -> CompactComplete | None:
        """Compact as /compact asks, keeping `keep` above all; None: there is nothing to compact."""
        state = self.state
        self.options = options
        state.own = len(state.window)
        state.breaker = state.breaker.half_opened(state.turn)
        state.cooldown = Cooldown()
        self._take_found(load)
        await self._before_compact(Stage.HARD.value)
        limits = self._limits(load)
        await self._take(Stage.SUMMARIES, Pass(load=load, limits=limits, target=limits.room))
        await self._flush_first(load, options, Stage.HARD)
        return await self._llm_stages.compact(load, options, None, stage=Stage.HARD, keep=keep)

    def near_hard(self, load: ContextUsage) -> int | None:
        """How full the window is, in percent, when the next turn may bring a hard compaction; once in a cycle."""
        state, limits = self.state, self._limits(load)
        tokens = load.tokens(state.window)
        if state.warned or self.options.level == "off" or tokens <= limits.high:
            return None
        state.warned = True
        return tokens * 100 // load.window

    def take_exhaustion(self) -> bool:
        """Whether people must be told that nothing more can be compacted; True once."""
        untold, self.state.exhaustion_untold = self.state.exhaustion_untold, False
        return untold

    def after_turn(self, load: ContextUsage) -> None:
        """The turn is over: what may be wanted at the next one is made ready in the background (Z-58).

        One question at most, and none after a turn in which a model has compacted: what else is due waits for the
        next turn.
        """
        if self.options.level == "off" or self._working or self.state.asked_this_turn:
            return
        job = (
            self._subgoal_job(load)
            or self._goal_job(load)
            or self._housekeeping.job(self.options)
            or self._ahead_job(load)
        )
        if job is not None:
            self._spawn(partial(self._work, job))

    def provider_switched(self) -> None:
        """Another model may manage what this one could not: exhaustion and the open breaker end."""
        self.state.cooldown = Cooldown()
        self.state.breaker = self.state.breaker.half_opened(self.state.turn)

    def _limits(self, load: ContextUsage) -> Limits:
        options = self.options
        return limits_for(
            load.window,
            load.room,
            options.memory,
            reserve_floor=options.reserve_floor,
            flush_threshold=options.flush_threshold,
        )

    def _standing(self, load: ContextUsage) -> PolicyInput:
        state, options = self.state, self.options
        return PolicyInput(
            level=options.level,
            first=load.first,
            may_ask=not state.asked_this_turn and state.own >= 2,
            hard_ready=state.cooldown.is_ready,
            flush_due=self._flush_due,
            prune_pays=self._paying(load) > 0,
            summaries_wait=bool(state.window.waiting),
            clear_from=int(options.microcompact.min_pressure * load.window) if options.clears_first else None,
        )

    def _paying(self, load: ContextUsage) -> int:
        """Raw tokens that are worth pruning though there is room: a subgoal was completed, and its results may go."""
        return rule_stages.paying(self.state, self.options, load, self._count_text) if self.state.released else 0

    async def _take(self, stage: Stage, given: Pass) -> None:
        """Run one stage and tell what it freed, in scaled tokens, as people see them."""
        row = self._STAGES[stage]
        done = row.run(self, given)
        reclaimed = done if isinstance(done, Reclaimed) else await done
        event = row.event(self, reclaimed) if reclaimed.count else None
        if event is not None:
            scaled = int(reclaimed.raw * given.load.scale)
            self._publish(event(conversation=self._conversation, run=self._run, reclaimed=scaled))

    async def _prune(self, given: Pass) -> Reclaimed:
        state, load, need = self.state, given.load, given.need
        if need is None:
            need = max(load.raw(max(0, load.tokens(state.window) - given.limits.pruned)), self._paying(load))
        note = self._dump_scores if self.dumps.on else None
        reclaimed = await rule_stages.prune(state, self.options, need, load, self._count_text, note)
        if self.dumps.on and self.options.uses_subgoals:
            self.dumps.write("subgoal-registry.txt", registry_text(state.watch.subgoals.subgoals))
        return reclaimed

    def _dump_scores(self, strategy: str, blocks: Sequence[Block], scores: Sequence[float | None]) -> None:
        self.dumps.write("pruning-scores.txt", scores_text(strategy, blocks, scores))

    async def summarise(self, stage: Stage, given: Pass) -> Reclaimed:
        """Take one of the stages that ask a model."""
        limit = given.limits.hard if stage is Stage.HARD else None
        await self._llm_stages.compact(given.load, self.options, self._run, stage=stage, hard_limit=limit)
        return NOTHING

    def _digest(self, given: Pass) -> Reclaimed:
        load = given.load
        before = load.tokens(self.state.window)
        count = rule_stages.digest_until(self.state, self.options, load, given.target, given.limits.room)
        if count:
            self._llm_stages.completed(load, Stage.DIGEST, count, before, mechanical=True, run=self._run)
        return NOTHING

    @property
    def _flush_due(self) -> bool:
        return self._flush is not None and not self.state.flushed and self._may_flush()

    async def _flush_first(
        self, load: ContextUsage, options: Options, stage: Stage, *, upto: int | None = None
    ) -> None:
        """A compaction that no threshold announced is about to ask a model: the look back comes before it (G-21)."""
        if self._flush_due and self._llm_stages.end_of_old(options, stage) >= 2:
            await self._write_notes(load.tokens(self.state.window), upto)

    async def _write_notes(self, tokens: int, upto: int | None = None) -> Reclaimed:
        assert self._flush is not None
        self.state.flushed = True
        try:
            await self._flush(upto)
        except (AgentError, TimeoutError) as error:
            log.warning("lasting notes not written before the compaction: %s", error)
            return NOTHING
        self._publish(MemoryFlushed(conversation=self._conversation, run=self._run, tokens=tokens))
        return NOTHING

    def _learn(self) -> None:
        """Note what was looked up again since the last look, soon after it had left: later compactions know it.

        Costs what is new among the results in the window.
        """
        state, window = self.state, self.state.window
        for place in reversed(window.results):
            if place == 0 or window[place].key <= state.looked_upto:
                break
            uses = {use.id: use for use in window[place - 1].message.tool_uses}
            for result in window[place].message.tool_results:
                use = uses.get(result.tool_use_id)
                missed = state.guidelines.missed(use, result) if use is not None else None
                if missed is not None:
                    self._note_missed(missed)
        state.looked_upto = window.newest_key

    def _note_missed(self, missed: Missed) -> None:
        state = self.state
        state.guidelines, state.settled = state.guidelines.learnt(missed), 0
        event = LookedUpAgain(
            conversation=self._conversation,
            run=self._run,
            tool=missed.tool,
            again=missed.again,
            turns=missed.turns,
        )
        self._publish(event)

    # Between turns

    def _subgoal_job(self, load: ContextUsage) -> Job | None:
        watch, options = self.state.watch, self.options
        if not options.uses_subgoals:
            return None
        provider = options.memory.summary_provider
        question = watch.question(self.state.window, load.raw(load.window), provider=provider)
        return None if question is None else partial(watch.run, question, self._ask)

    def _goal_job(self, load: ContextUsage) -> Job | None:
        goal, options = self.state.goal, self.options
        if not options.asks_for_goal:
            return None
        provider = options.memory.summary_provider
        soft = load.raw(self._limits(load).soft) - load.fixed
        question = goal.question(self.state.window, soft, provider=provider)
        return None if question is None else partial(goal.run, question, self._ask)

    def _ahead_job(self, load: ContextUsage) -> Job | None:
        state = self.state
        if load.tokens(state.window) <= AHEAD * self._limits(load).soft or not state.breaker.allows(state.turn):
            return None
        return self._ahead.job(load, self.options)

    async def _work(self, job: Job) -> None:
        self._working = True
        try:
            await job()
        finally:
            self._working = False

    def _take_found(self, load: ContextUsage) -> None:
        """Take over the findings of the background; waits for nothing."""
        if self._ahead.found:
            self._ahead.take()
        if self.options.uses_subgoals:
            state = self.state
            if state.watch.poll(state.window, load.raw(load.window)):
                state.settled, state.released = 0, True  # results that were spared may be cleared now
        self._housekeeping.take(self.options)

    # When each applies says `agent.compaction.stages.next_stage`.
    _STAGES: ClassVar[Mapping[Stage, StageRow]] = {
        Stage.STALE: StageRow(
            lambda self, given: rule_stages.clear_stale(self.state, self.options, given.idle_minutes), _cleared
        ),
        Stage.MICROCOMPACT: StageRow(
            lambda self, given: rule_stages.microcompact(self.state, self.options, spared(self.state, given.load)),
            _cleared,
        ),
        Stage.SUMMARIES: StageRow(
            lambda self, given: rule_stages.apply_summaries(self.state),
            lambda self, reclaimed: partial(SummariesApplied, pairs=reclaimed.count),
        ),
        Stage.PRUNE: StageRow(
            _prune,
            lambda self, reclaimed: partial(
                ToolOutputsPruned,
                strategy=self.options.memory.compression.pruning_strategy,
                pruned=reclaimed.count,
            ),
        ),
        Stage.MID: StageRow(
            lambda self, given: rule_stages.mid(self.state, self.options, given.load.tokens(self.state.window)), _mid
        ),
        Stage.FLUSH: StageRow(lambda self, given: self._write_notes(given.load.tokens(self.state.window))),
        Stage.HIGH: StageRow(_summarises(Stage.HIGH)),
        Stage.HARD: StageRow(_summarises(Stage.HARD)),
        Stage.REACTIVE: StageRow(_summarises(Stage.REACTIVE)),
        Stage.DIGEST: StageRow(_digest),
    }
