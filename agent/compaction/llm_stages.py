"""The stages that ask a model for a summary, and the digest that takes its place when it fails (SPEC §8.6, §8.7)."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from agent.compaction import stages
from agent.compaction.asking import Ask, WriteSummary
from agent.compaction.blocks import evicted
from agent.compaction.breaker import Breaker
from agent.compaction.changes import Clearing
from agent.compaction.cooldown import compacted, exhausted
from agent.compaction.draining import HARD, HIGH, Stage, boundary
from agent.compaction.excerpts import Excerpt, digest, last_resort
from agent.compaction.forgetting import retentions
from agent.compaction.probe import Probed
from agent.compaction.scrubbing import scrubbed
from agent.compaction.state import CompactionState, ContextUsage, Options
from agent.compaction.summaries import Brief, in_parts, structured
from agent.compaction.window import Entry
from agent.core.context_events import (
    AutoCompactCircuitBreakerTripped,
    CompactComplete,
    CompactExhausted,
    CompactTriggered,
    SummaryProbed,
)
from agent.core.errors import AgentError
from agent.core.events import Event
from agent.core.failpoints import failpoint
from agent.core.ids import ConversationId, RunId
from agent.core.messages import Message, SummaryPart

HIGH_TAIL = 8  # messages that L3 leaves alone (SPEC §8.6)
ONE_CALL = 0.6  # of the window: what a summariser is given at once
LEAST_PART = 4_096  # raw tokens
CHARS_A_TOKEN = 3  # at least, in nearly all text

log = logging.getLogger("tieline.compaction")


class LlmStages:
    """Compacts one conversation's window with the help of its model, or without it when that fails."""

    def __init__(
        self,
        *,
        conversation: ConversationId,
        state: CompactionState,
        ask: Ask,
        publish: Callable[[Event], None],
        now: Callable[[], datetime],
        count_text: Callable[[str], int],
        write_summary: WriteSummary | None = None,
    ) -> None:
        self._write_summary = write_summary
        self._conversation = conversation
        self._state = state
        self._ask = ask
        self._publish = publish
        self._now = now
        self._count_text = count_text

    async def compact(
        self,
        load: ContextUsage,
        options: Options,
        run: RunId | None,
        *,
        stage: Stage,
        keep: str = "",
        hard_limit: int | None = None,
    ) -> CompactComplete | None:
        """Replace what is old by a summary; None when nothing could give way.

        `hard_limit` (scaled tokens) belongs to the hard stage of the ladder: it first gives up what is remembered
        worst, which may do, and is exhausted when it cannot get below.
        """
        state = self._state
        before = load.tokens(state.window)
        self._publish(CompactTriggered(conversation=self._conversation, run=run, stage=stage, tokens_before=before))
        if hard_limit is not None:
            stages.apply_summaries(state)
            self._forget_worst(load, options, load.raw(load.tokens(state.window) - hard_limit))
            if load.tokens(state.window) <= hard_limit:
                state.cooldown = compacted(options.memory.compaction_cooldown_turns)
                return self.completed(load, stage, 0, before, mechanical=True, run=run)
        end = self.end_of_old(options, stage)
        leaving = stages.leaving_from(state, end)
        if len(leaving) < 2 and options.uses_subgoals:
            # One subgoal holds all there is: its oldest part must do without protection, or nothing could ever leave.
            state.watch.subgoals.release_before(end)
            leaving = stages.leaving_from(state, end)
        reclaimed, mechanical = stages.NOTHING, False
        if len(leaving) >= 2:
            sealed = None if keep else await self._by_service(end, options, run)
            if sealed is not None:
                text = sealed.text
            else:
                text, mechanical = await self._summary(leaving, load, options, run, stage=stage, keep=keep)
            label = HIGH if stage == "high" else HARD
            reclaimed = stages.replace_oldest(
                state, end, text, label=label, stage=stage, tokens_before=before, mechanical=mechanical, sealed=sealed
            )
            if reclaimed.count:
                _passed(stage)
        after = load.tokens(state.window)
        if not reclaimed.count or (hard_limit is not None and (after >= before or after > hard_limit)):
            if hard_limit is not None:
                self._exhaust(after, run)
            if not reclaimed.count:
                return None
        elif stage in ("hard", "reactive"):
            state.cooldown = compacted(options.memory.compaction_cooldown_turns)
        state.flushed = state.warned = False  # another cycle begins
        return self.completed(load, stage, reclaimed.count, before, mechanical=mechanical, run=run)

    def end_of_old(self, options: Options, stage: Stage) -> int:
        """How many messages of the window the stage takes for old."""
        window = self._state.window
        tail = HIGH_TAIL if stage == "high" else options.memory.compaction_preserve_tail
        return boundary(window, len(window) - tail)

    def completed(
        self, load: ContextUsage, stage: Stage, messages: int, before: int, *, mechanical: bool, run: RunId | None
    ) -> CompactComplete:
        """Note what was gained and say so (Z-72, Z-74)."""
        after, tally = load.tokens(self._state.window), self._state.tally
        tally.compactions += 1
        tally.hard += stage == "hard"
        if after < before:
            tally.tokens_saved += before - after
            tally.last_before, tally.last_after = before, after
            tally.last_at_ms = int(self._now().timestamp() * 1000)
            log.info(
                "compacted %s: tokens_before=%d tokens_after=%d saved=%d",
                self._conversation,
                before,
                after,
                before - after,
                extra={"run": run, "conversation": self._conversation},
            )
        done = CompactComplete(
            conversation=self._conversation,
            run=run,
            stage=stage,
            messages=messages,
            tokens_before=before,
            tokens_after=after,
            mechanical=mechanical,
            at_ms=int(self._now().timestamp() * 1000),
        )
        self._publish(done)
        return done

    def probed(self, summary: Probed, stage: Stage, run: RunId | None) -> None:
        """Note what a summary knew when it was asked, and say so."""
        tally = self._state.tally
        tally.asked, tally.answered = tally.asked + summary.asked, tally.answered + summary.answered
        tally.put_back += summary.put_back
        if summary.asked:
            event = SummaryProbed(
                conversation=self._conversation,
                run=run,
                stage=stage,
                asked=summary.asked,
                answered=summary.answered,
                put_back=summary.put_back,
            )
            self._publish(event)

    def failed(self, run: RunId | None) -> None:
        """A summary could not be had; the third time in a row the breaker opens (R-43)."""
        state = self._state
        was_open = state.breaker.opened_at is not None
        state.breaker = state.breaker.failed(state.turn)
        if state.breaker.opened_at is not None and not was_open:
            self._publish(
                AutoCompactCircuitBreakerTripped(
                    conversation=self._conversation, run=run, failures=state.breaker.failures
                )
            )

    async def _by_service(self, end: int, options: Options, run: RunId | None) -> SummaryPart | None:
        """What the model's service writes itself of the oldest `end` messages; None where we must write it.

        It is shown what stays of them too: a history without its questions would be refused.
        """
        state = self._state
        wanted = options.memory.provider_compaction and not options.memory.summary_provider
        if not wanted or self._write_summary is None or not state.breaker.allows(state.turn):
            return None
        state.asked_this_turn = True
        try:
            summary = await self._write_summary([entry.message for entry in state.window[:end]])
        except (AgentError, TimeoutError) as error:
            log.warning("the service wrote no summary, so we do: %s", error, extra={"run": run})
            return None
        return None if summary is None else replace(summary, text=scrubbed(summary.text))

    async def _summary(
        self,
        leaving: Sequence[Entry],
        load: ContextUsage,
        options: Options,
        run: RunId | None,
        *,
        stage: Stage,
        keep: str,
    ) -> tuple[str, bool]:
        """The text that stands for the messages, and whether no model wrote it."""
        state, brief = (
            self._state,
            Brief(keep=keep, missed=self._state.guidelines.for_summary, provider=options.memory.summary_provider),
        )
        messages = [entry.stored for entry in leaving]  # also what was cleared since: it is read here for the last time
        if state.breaker.allows(state.turn):
            state.asked_this_turn = True
            try:
                if stage == "high":
                    summary = await structured(self._ask, messages, brief)
                else:
                    # A scale below 1 comes from tools, which are counted high: plain text is not.
                    most = min(int(load.window * ONE_CALL), load.raw(int(load.window * ONE_CALL)))
                    parts = parts_of(messages, most * CHARS_A_TOKEN)
                    summary = await in_parts(self._ask, parts, brief)
            except (AgentError, TimeoutError) as error:
                log.warning("no summary from a model, a digest takes its place: %s", error, extra={"run": run})
                self.failed(run)
            else:
                state.breaker = Breaker()
                self.probed(summary, stage, run)
                return summary.text, False
        most = min(stages.MOST_DIGEST, 2 * sum(entry.tokens for entry in leaving))
        written = digest([entry.stored for entry in leaving], most_chars=most)
        if self._count_text(written) >= sum(entry.tokens for entry in leaving):
            written = last_resort([entry.stored for entry in leaving])
        return written, True

    def _forget_worst(self, load: ContextUsage, options: Options, need: int) -> None:
        """Results go by how well they are remembered, the worst first (Z-30)."""
        state = self._state
        blocks = stages.blocks_of(state, options, load, self._count_text)
        if need <= 0 or not blocks:
            return
        clearing: Clearing = evicted(blocks, [*retentions(blocks, state.window, self._now())], need)
        state.tally.prunes += len(clearing.results)
        state.change(clearing)

    def _exhaust(self, tokens: int, run: RunId | None) -> None:
        state = self._state
        if not state.cooldown.warned:
            state.exhaustion_untold = True
            self._publish(CompactExhausted(conversation=self._conversation, run=run, tokens=tokens))
        state.cooldown = exhausted(state.cooldown, warned=True)


def _passed(stage: Stage) -> None:
    match stage:
        case "high":
            failpoint("stage.high")
        case "hard":
            failpoint("stage.hard")
        case _:
            failpoint("stage.reactive")


def parts_of(messages: Sequence[Message], most_chars: int) -> list[list[Message]]:
    """The messages in parts of about equal size, of `most_chars` where that can be; calls keep their results."""
    sizes = [len(Excerpt([message]).text) for message in messages]
    count = -(-sum(sizes) // max(most_chars, LEAST_PART * CHARS_A_TOKEN))
    if count <= 1:
        return [list(messages)]
    parts: list[list[Message]] = [[]]
    filled, share = 0, sum(sizes) / count
    for message, size in zip(messages, sizes, strict=True):
        if filled >= share * len(parts) and parts[-1] and not message.tool_results:
            parts.append([])
        parts[-1].append(message)
        filled += size
    return parts
