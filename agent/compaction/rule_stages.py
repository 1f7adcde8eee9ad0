"""The stages that go by rule and ask no model, taken one at a time; each says what it freed (SPEC §8.1)."""

from collections.abc import Callable, Sequence

from agent.compaction import stages
from agent.compaction.blocks import Block
from agent.compaction.draining import boundary
from agent.compaction.dumps import Dumps, registry_text, scores_text
from agent.compaction.state import CompactionState, ContextUsage, Options
from agent.core.context_events import (
    MicrocompactRan,
    MidCompactLayer1Ran,
    MidCompactLayer2Ran,
    SummariesApplied,
    ToolOutputsPruned,
)
from agent.core.events import Event
from agent.core.failpoints import failpoint
from agent.core.ids import ConversationId, RunId


class RuleStages:
    """Trims one conversation's window. `run` is the turn it does so in; what it keeps is in `state`."""

    def __init__(
        self,
        *,
        conversation: ConversationId,
        state: CompactionState,
        publish: Callable[[Event], None],
        count_text: Callable[[str], int],
        dumps: Dumps,
    ) -> None:
        self._conversation = conversation
        self._state = state
        self._publish = publish
        self._count_text = count_text
        self._dumps = dumps

    def clear_stale(self, load: ContextUsage, options: Options, run: RunId | None, idle_minutes: float) -> None:
        """L0t: after a long silence."""
        self._cleared(stages.clear_stale(self._state, options, idle_minutes), load, run)

    def microcompact(self, load: ContextUsage, options: Options, run: RunId | None) -> None:
        """L0: old results."""
        self._cleared(stages.microcompact(self._state, options, stages.spared(self._state, load)), load, run)

    def apply_summaries(self, load: ContextUsage, run: RunId | None) -> None:
        """Deferred summaries take their pairs' places."""
        reclaimed = stages.apply_summaries(self._state)
        if reclaimed.count:
            failpoint("stage.folded")
            self._publish(
                SummariesApplied(
                    conversation=self._conversation,
                    run=run,
                    pairs=reclaimed.count,
                    reclaimed=int(reclaimed.raw * load.scale),
                )
            )

    async def prune(self, load: ContextUsage, options: Options, run: RunId | None, need: int) -> None:
        """Results go by the strategy's score until `need` raw tokens are freed."""
        state = self._state
        note = self._dump_scores if self._dumps.on else None
        reclaimed = await stages.prune(state, options, need, load, self._count_text, note)
        if self._dumps.on and options.uses_subgoals:
            self._dumps.write("subgoal-registry.txt", registry_text(state.watch.subgoals.subgoals))
        if reclaimed.count:
            failpoint("stage.pruned")
            state.tally.prunes += reclaimed.count
            self._publish(
                ToolOutputsPruned(
                    conversation=self._conversation,
                    run=run,
                    strategy=options.memory.compression.pruning_strategy,
                    pruned=reclaimed.count,
                    reclaimed=int(reclaimed.raw * load.scale),
                )
            )

    def mid(self, load: ContextUsage, options: Options, run: RunId | None, before: int) -> None:
        """L2 where a summary is ready; L1, which no model writes, only where the operator wants it (level `full`)."""
        ran: type[MidCompactLayer1Ran | MidCompactLayer2Ran]
        reclaimed, ran = stages.replace_prefix(self._state, before), MidCompactLayer2Ran
        if not reclaimed.count and options.level == "full":
            reclaimed, ran = stages.collapse(self._state, before), MidCompactLayer1Ran
        if reclaimed.count:
            failpoint("stage.mid")
            self._publish(
                ran(
                    conversation=self._conversation,
                    run=run,
                    messages=reclaimed.count,
                    reclaimed=int(reclaimed.raw * load.scale),
                )
            )

    def digest(self, load: ContextUsage, options: Options, target: int, room: int) -> int:
        """What must go goes without a model: the oldest first, then more of it, until the request fits.

        How many messages went; whoever calls says so, as after every compaction.
        """
        state, window = self._state, self._state.window
        before = load.tokens(window)
        tail = options.memory.compaction_preserve_tail
        count = 0
        for wanted in (state.own - tail, len(window) - tail, state.own, len(window) - 2):
            if load.tokens(window) <= target:
                break
            if options.uses_subgoals:
                state.watch.subgoals.release_before(boundary(window, min(wanted, len(window) - 1)))
            count += stages.digest_oldest(state, boundary(window, min(wanted, len(window) - 1)), "digest", before).count
        if load.tokens(window) > room:
            count += stages.shorten(state, load, target).count
        if count:
            failpoint("stage.digest")
        return count

    def _cleared(self, reclaimed: stages.Reclaimed, load: ContextUsage, run: RunId | None) -> None:
        if reclaimed.raw > 0:
            failpoint("stage.cleared")
            self._publish(
                MicrocompactRan(
                    conversation=self._conversation,
                    run=run,
                    cleared=reclaimed.count,
                    reclaimed=int(reclaimed.raw * load.scale),
                )
            )

    def _dump_scores(self, strategy: str, blocks: Sequence[Block], scores: Sequence[float | None]) -> None:
        self._dumps.write("pruning-scores.txt", scores_text(strategy, blocks, scores))
