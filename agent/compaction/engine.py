"""The compaction engine of one conversation: runs the stages that the policy calls for, one after the other.

It owns what compaction remembers and reads no database: what must be written waits in `state.window.unwritten`.
"""

import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import Protocol

from agent.compaction import rule_stages
from agent.compaction.dumps import Dumps
from agent.compaction.guidelines import Missed
from agent.compaction.ladder import Cooldown, Limits, PolicyInput, Step, limits_for, next_step
from agent.compaction.llm_stages import Ahead, Job, LlmStages
from agent.compaction.optional_stages import Housekeeping
from agent.compaction.question import Ask, WriteSummary
from agent.compaction.rule_stages import RuleStages
from agent.compaction.selection import Stage
from agent.compaction.state import CompactionState, ContextUsage, Options
from agent.core.errors import AgentError
from agent.core.events import CompactComplete, Event, LookedUpAgain, MemoryFlushed, ReactiveCompactTriggered
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


async def _nothing(step: str) -> None:
    """Nobody wants to know."""


class Engine:
    """One conversation's. `spawn` runs a job in the background: it may outlive the turn, and dies with the agent.

    `may_flush` says whether lasting notes may be written now. `before_compact` is awaited, with the first step, right
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
        self._rule_stages = RuleStages(
            conversation=conversation, state=state, publish=publish, count_text=count_text, dumps=self.dumps
        )
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
            probed=lambda summary: self._llm_stages.probed(summary, "mid", self._run),
        )

    def begin_turn(self, run: RunId, options: Options) -> None:
        """A turn begins: before anything in it may compact."""
        self._run, self.options = run, options
        self.state.aloud = self.dumps.on
        self.state.begin_turn(options)

    async def before_call(self, load: ContextUsage, *, idle_minutes: float = 0.0) -> None:
        """Make room, as far as the pressure calls for it, before a request is built (W-27, R-48)."""
        state, options = self.state, self.options
        self._learn()
        self._take_found(load)
        if load.first and 0 < options.microcompact.idle_minutes <= idle_minutes:
            self._rule_stages.clear_stale(load, options, self._run, idle_minutes)
        limits = self._limits(load)
        done: set[Step] = set()
        while (step := next_step(load.tokens(state.window), done, limits, self._standing(load))) is not None:
            if step is not Step.MICROCOMPACT and done <= {Step.MICROCOMPACT}:
                # Once for a pass; of the clearing of old results, which may happen in each iteration, nothing is said.
                await self._before_compact(step.name.lower())
            done.add(step)
            await self._take(step, load, limits)
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
        self._publish(ReactiveCompactTriggered(conversation=self._conversation, run=self._run, tokens_before=before))
        if options.level == "off":
            return False
        await self._before_compact("reactive")
        self._rule_stages.apply_summaries(load, self._run)
        await self._rule_stages.prune(load, options, self._run, load.raw(before - target))
        self._rule_stages.microcompact(load, options, self._run)
        if load.tokens(state.window) > target:
            # A history that was refused whole may be read in part: the part that is about to leave.
            await self._flush_first(load, options, "reactive", upto=self._llm_stages.end_of_old(options, "reactive"))
            await self._llm_stages.compact(load, options, self._run, stage="reactive")
        if load.tokens(state.window) > target:
            self._digest(load, target)
        return load.tokens(state.window) < before

    async def compact_now(self, load: ContextUsage, options: Options, keep: str = "") -> CompactComplete | None:
        """Compact as /compact asks, keeping `keep` above all; None: there is nothing to compact."""
        state = self.state
        self.options = options
        state.own = len(state.window)
        state.breaker = state.breaker.half_opened(state.turn)
        state.cooldown = Cooldown()
        self._take_found(load)
        await self._before_compact("hard")
        self._rule_stages.apply_summaries(load, self._run)
        await self._flush_first(load, options, "hard")
        return await self._llm_stages.compact(load, options, None, stage="hard", keep=keep)

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
            folds_wait=bool(state.window.waiting),
            clear_from=int(options.microcompact.min_pressure * load.window) if options.clears_first else None,
        )

    def _paying(self, load: ContextUsage) -> int:
        """Raw tokens that are worth pruning though there is room: a subgoal was completed, and its results may go."""
        return rule_stages.paying(self.state, self.options, load, self._count_text) if self.state.released else 0

    async def _take(self, step: Step, load: ContextUsage, limits: Limits) -> None:
        state, options = self.state, self.options
        before = load.tokens(state.window)
        match step:
            case Step.MICROCOMPACT:
                self._rule_stages.microcompact(load, options, self._run)
            case Step.FOLD:
                self._rule_stages.apply_summaries(load, self._run)
            case Step.PRUNE:
                need = max(load.raw(max(0, before - limits.pruned)), self._paying(load))
                await self._rule_stages.prune(load, options, self._run, need)
            case Step.MID:
                self._rule_stages.mid(load, options, self._run, before)
            case Step.FLUSH:
                await self._write_notes(before)
            case Step.HIGH:
                await self._llm_stages.compact(load, options, self._run, stage="high")
            case Step.HARD:
                await self._llm_stages.compact(load, options, self._run, stage="hard", hard_limit=limits.hard)
            case Step.DIGEST:
                self._digest(load, int(limits.room * DEEPER))

    @property
    def _flush_due(self) -> bool:
        return self._flush is not None and not self.state.flushed and self._may_flush()

    async def _flush_first(
        self, load: ContextUsage, options: Options, stage: Stage, *, upto: int | None = None
    ) -> None:
        """A compaction that no threshold announced is about to ask a model: the look back comes before it (G-21)."""
        if self._flush_due and self._llm_stages.end_of_old(options, stage) >= 2:
            await self._write_notes(load.tokens(self.state.window), upto)

    async def _write_notes(self, tokens: int, upto: int | None = None) -> None:
        assert self._flush is not None
        self.state.flushed = True
        try:
            await self._flush(upto)
        except (AgentError, TimeoutError) as error:
            log.warning("lasting notes not written before the compaction: %s", error)
            return
        self._publish(MemoryFlushed(conversation=self._conversation, run=self._run, tokens=tokens))

    def _digest(self, load: ContextUsage, target: int) -> None:
        before = load.tokens(self.state.window)
        count = self._rule_stages.digest(load, self.options, target, self._limits(load).room)
        if count:
            self._llm_stages.completed(load, "digest", count, before, mechanical=True, run=self._run)

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
