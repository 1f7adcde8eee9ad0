"""Stages that go by rule and ask no model. Each looks at the window, changes it and returns what it freed."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

import anyio

from agent.compaction.excerpts import digest, words
from agent.compaction.pairs import mend
from agent.compaction.scoring import EVICTED, QUADRATIC, STRATEGIES, Block, Scene, blocks_in, evicted, strategy_for
from agent.compaction.selection import (
    LOW_VALUE,
    SESSION,
    STALE,
    boundary,
    cleared_but_recent,
    drain,
    gone,
    names_before,
    oldest,
    parted,
    stubbed,
    summaries_to_apply,
    summary_message,
    superseded,
)
from agent.compaction.stages import Stage
from agent.compaction.state import CompactionState, ContextUsage, Options
from agent.compaction.subgoals import Tier
from agent.compaction.window import Cleared, Clearing, Entry, Window
from agent.core.failpoints import failpoint
from agent.core.messages import SummaryPart

MOST_DIGEST = 24_000  # characters of a mechanical digest
PROTECTED_SHARE = 0.35  # of a small window, where the setting would protect everything
# The newest tokens that `subgoal_mig` leaves alone where a subgoal is known, which protects what it needs itself.
KNOWN_TOKENS, KNOWN_SHARE = 4_000, 0.10
LEAST_PRUNED = 0.03  # of the window: freeing less would break the cached prefix for nothing
MOST_PRUNED = 0.7  # of what may go, in one pass: the better half stays
# Pruning with room left pays when it frees so much of what stands behind the first block: that is read again at the
# price of a cache write (1.25 of the input's), and each later call saves the price of a cache read (0.1) of what is
# gone. 15 % are earned back in 77 calls.
PAYS = 0.15

PAUSE_S = 0.0001  # of a comparing thread, after each result: else it would hold the interpreter for 5 ms at a time
# Newest results of tools whose results were missed after a compaction: so many tokens, or one of this share of the
# window. A tenth in all cost 5 % to 7 % of the money on recordings, and kept no value more.
SPARED_TOKENS, SPARED_SHARE = 1_500, 0.10
LEAST_CUT = 2_000  # characters of a result that is left alone even when nothing fits
CHARS_A_TOKEN = 4
CUT = "[… {count} characters left out to save room; recall_transcript can find them …]"

Raw = int  # uncalibrated tokens


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """The effect of a stage: how many results, pairs or messages it took, and the raw tokens that freed.

    `mechanical`: no model wrote the text in their place.
    """

    count: int = 0
    raw: Raw = 0
    mechanical: bool = False


NOTHING = Reclaimed()


def spared(state: CompactionState, load: ContextUsage) -> frozenset[int]:
    """Where the newest results of those tools stand whose results were looked up again right after a compaction.

    They are neither pruned nor cleared nor folded; a summary may take them. 1,500 tokens of them, or the newest one if
    it fills a tenth of the window at most.
    """
    tools, most = state.guidelines.tools, load.raw(int(load.window * SPARED_SHARE))
    found: set[int] = set()
    room = min(most, load.raw(SPARED_TOKENS))
    for position in reversed(state.window.results) if tools else ():
        if not tools.isdisjoint(names_before(state.window, position).values()):
            weight = state.window[position].tokens
            if weight > (room if found else most):
                break
            room -= weight
            found.add(position)
    return frozenset(found)


def microcompact(state: CompactionState, options: Options, kept: Collection[int] = ()) -> Reclaimed:
    """L0: old results are cleared, but those at `kept`; costs what is new since the last time."""
    settings, window = options.microcompact, state.window
    positions = [position for position in window.results[state.settled :] if position not in kept]
    clearing = cleared_but_recent(
        window, positions, keep=settings.retain_recent, tiers=state.tiers, exempt=settings.exempt_tools
    )
    if options.level == "full":
        clearing = _with_stubs(clearing, window, positions, state, options)
    # The newest that stayed must be looked at again; what was skipped before them is skipped for good.
    state.settled = max(state.settled, len(window.results) - settings.retain_recent)
    return _freed_by_clearing(state, clearing)


def _with_stubs(
    clearing: Clearing, window: Window, positions: Sequence[int], state: CompactionState, options: Options
) -> Clearing:
    """The same, with what the level `full` shortens besides."""
    keep, exempt, tiers = options.microcompact.retain_recent, options.microcompact.exempt_tools, state.tiers
    cleared = {(one.position, one.call) for one in clearing.results}
    again = superseded(window, positions, tiers=tiers, exempt=exempt)
    return Clearing(
        results=(*clearing.results, *(one for one in again if (one.position, one.call) not in cleared)),
        calls=stubbed(window, positions, keep=keep, tiers=tiers, exempt=exempt),
    )


def clear_stale(state: CompactionState, options: Options, idle_minutes: float) -> Reclaimed:
    """L0t: after a long silence the prompt cache is cold, and what is cheap to get again goes."""
    settings = options.microcompact
    if not settings.idle_minutes or idle_minutes < settings.idle_minutes:
        return NOTHING
    clearing = cleared_but_recent(
        state.window,
        state.window.results,
        keep=settings.retain_recent,
        tiers=state.tiers,
        exempt=settings.exempt_tools,
        only=LOW_VALUE,
        text=STALE.format(minutes=int(idle_minutes)),
    )
    return _freed_by_clearing(state, clearing)


def _freed_by_clearing(state: CompactionState, clearing: Clearing) -> Reclaimed:
    reclaimed = _cleared(state, clearing)
    if reclaimed.raw > 0:
        failpoint("stage.cleared")
    return reclaimed


def apply_summaries(state: CompactionState) -> Reclaimed:
    """Deferred summaries take their pairs' places, then orphans are looked for, in this order (Z-79)."""
    change = summaries_to_apply(state.window, state.window.results, state.tiers, end=state.own)
    if not change.pairs:
        return NOTHING
    reclaimed = state.change(change)
    mend(state.window, state.change, aloud=state.aloud)
    failpoint("stage.folded")
    return Reclaimed(len(change.pairs), reclaimed)


async def prune(
    state: CompactionState,
    options: Options,
    need: Raw,
    load: ContextUsage,
    count: Callable[[str], int],
    note: Callable[[str, Sequence[Block], Sequence[float | None]], None] | None = None,
) -> Reclaimed:
    """Results go by the strategy's score until `need` raw tokens are freed (H-30); `note` is told the scores."""
    known = options.uses_subgoals and state.watch.known
    strategy = strategy_for(options.memory.compression, subgoals_known=known)
    blocks = blocks_of(state, options, load, count)
    total = sum(block.tokens for block in blocks)
    if need <= 0 or total < load.raw(int(load.window * LEAST_PRUNED)):
        return NOTHING
    need = min(need, int(total * MOST_PRUNED))
    score = STRATEGIES[strategy]
    newest = goal_of(state.window)
    goal = state.goal.beside(newest) if options.asks_for_goal else newest
    scene = Scene(size=len(state.window), goal=goal, tiers=state.tiers)
    if strategy in QUADRATIC:
        scores = await anyio.to_thread.run_sync(score, blocks, replace(scene, pause=partial(time.sleep, PAUSE_S)))
    else:
        scores = score(blocks, scene)
    if note is not None:
        note(strategy, blocks, scores)
    reclaimed = _cleared(state, evicted(blocks, scores, need))
    if reclaimed.count:
        failpoint("stage.pruned")
        state.tally.prunes += reclaimed.count
    return reclaimed


def blocks_of(
    state: CompactionState, options: Options, load: ContextUsage, count: Callable[[str], int]
) -> tuple[Block, ...]:
    """Blocks that pruning may take: never of the active subgoal, whatever the strategy."""
    protected = min(options.memory.prune_protect_tokens, int(load.window * PROTECTED_SHARE))
    if _weighs_gain(state, options):
        protected = min(protected, KNOWN_TOKENS, int(load.window * KNOWN_SHARE))
    blocks = blocks_in(
        state.window,
        protect_tokens=load.raw(protected),
        notice_tokens=count(EVICTED),
        exempt=options.microcompact.exempt_tools,
    )
    kept = spared(state, load)
    return tuple(
        block for block in blocks if state.tiers.tier(block.position) is not Tier.ACTIVE and block.position not in kept
    )


def paying(state: CompactionState, options: Options, load: ContextUsage, count: Callable[[str], int]) -> Raw:
    """Half of what pruning may take, where freeing it pays though there is room; else 0. The better half stays.

    Only `subgoal_mig` prunes before it must.
    """
    if not _weighs_gain(state, options):
        return 0
    blocks = blocks_of(state, options, load, count)
    reclaimed = sum(block.tokens for block in blocks) // 2
    if not blocks or reclaimed < load.raw(int(load.window * LEAST_PRUNED)):
        return 0
    behind = sum(entry.tokens for entry in state.window[blocks[0].position :])
    return reclaimed if reclaimed >= PAYS * behind else 0


def _weighs_gain(state: CompactionState, options: Options) -> bool:
    """Whether results are weighed by what they tell beyond the others, in the light of a known subgoal."""
    strategy = options.memory.compression.pruning_strategy
    return options.uses_subgoals and strategy == "subgoal_mig" and state.watch.known


def goal_of(window: Window) -> str:
    """The person's last request, in their words; "" while nobody has asked."""
    for position in range(len(window) - 1, -1, -1):
        entry = window[position]
        if entry.message.role == "user" and entry.stored.user_visible and (said := words(entry.message)).strip():
            return said
    return ""


def mid(state: CompactionState, options: Options, tokens_before: int) -> Reclaimed:
    """L2 where a summary is ready; L1, which no model writes, only where the operator wants it (level `full`)."""
    reclaimed = replace_prefix(state, tokens_before)
    if not reclaimed.count and options.level == "full":
        reclaimed = collapse(state, tokens_before)
    if reclaimed.count:
        failpoint("stage.mid")
    return reclaimed


def replace_prefix(state: CompactionState, tokens_before: int) -> Reclaimed:
    """L2: the session's summary, made ahead of time, takes the place of what it covers (R-49, G-19)."""
    summary = state.summary
    if summary is None:
        return NOTHING
    state.summary = None
    end = boundary(state.window, min(summary.end, state.own))
    return replace_oldest(
        state, end, summary.text, label=SESSION, stage=Stage.MID, tokens_before=tokens_before, mechanical=False
    )


def collapse(state: CompactionState, tokens_before: int) -> Reclaimed:
    """L1: a mechanical digest takes the place of the oldest part."""
    end = min(oldest(state.window), boundary(state.window, state.own))
    return digest_oldest(state, end, Stage.MID, tokens_before)


def digest_oldest(state: CompactionState, end: int, stage: Stage, tokens_before: int) -> Reclaimed:
    """The oldest `end` messages give way to a digest that no model writes."""
    leaving = leaving_from(state, end)
    if not leaving:
        return NOTHING
    most = min(MOST_DIGEST, 2 * sum(entry.tokens for entry in leaving))  # about half of what they weigh
    text = digest([entry.stored for entry in leaving], most_chars=most)
    return replace_oldest(state, end, text, label="", stage=stage, tokens_before=tokens_before, mechanical=True)


def replace_oldest(
    state: CompactionState,
    end: int,
    text: str,
    *,
    label: str,
    stage: Stage,
    tokens_before: int,
    mechanical: bool,
    sealed: SummaryPart | None = None,
) -> Reclaimed:
    """The oldest `end` messages give way to `text`, then the pinned, then the active ones among them (Z-50, Z-51).

    `sealed` is the same text as a service has signed it.
    """
    pinned, active = parted(state.window, end, state.tiers)
    leaving = gone(state.window, end, (*pinned, *active))
    if len(leaving) < (1 if stage is Stage.DIGEST else 2):
        return NOTHING
    count = len(leaving)
    message = summary_message(
        text, label=label, stage=stage, count=count, tokens_before=tokens_before, mechanical=mechanical, sealed=sealed
    )
    if state.count(message) >= sum(entry.tokens for entry in leaving):
        return NOTHING  # a summary longer than what it stands for
    reclaimed = state.change(drain(end, pinned, active, message))
    mend(state.window, state.change, aloud=state.aloud)  # Z-78: always, also when there is nothing to find
    return Reclaimed(count, reclaimed, mechanical)


def leaving_from(state: CompactionState, end: int) -> list[Entry]:
    """The messages among the oldest `end` that a summary would stand for."""
    pinned, active = parted(state.window, end, state.tiers)
    return gone(state.window, end, (*pinned, *active))


def digest_until(state: CompactionState, options: Options, load: ContextUsage, target: int, room: int) -> int:
    """Digest the oldest, then more of it, until the request has `target` scaled tokens; how many messages went.

    Results are cut as well while it has more than `room`.
    """
    window = state.window
    before = load.tokens(window)
    tail = options.memory.compaction_preserve_tail
    count = 0
    for wanted in (state.own - tail, len(window) - tail, state.own, len(window) - 2):
        if load.tokens(window) <= target:
            break
        end = boundary(window, min(wanted, len(window) - 1))
        if options.uses_subgoals:
            state.watch.subgoals.release_before(end)
        count += digest_oldest(state, end, Stage.DIGEST, before).count
    if load.tokens(window) > room:
        count += shorten(state, load, target).count
    if count:
        failpoint("stage.digest")
    return count


def shorten(state: CompactionState, load: ContextUsage, target: int) -> Reclaimed:
    """Even the newest results are cut, the longest first, until the request has `target` scaled tokens at most."""
    results = sorted(
        (
            (len(part.content), position, part.tool_use_id, part.content)
            for position in state.window.results
            for part in state.window[position].message.tool_results
            if len(part.content) > LEAST_CUT and not state.window[position].pinned
        ),
        reverse=True,
    )
    count, raw = 0, 0
    for size, position, call, content in results:
        over = load.tokens(state.window) - target
        if over <= 0:
            break
        kept = max(LEAST_CUT // 2, size - load.raw(over) * CHARS_A_TOKEN)
        text = f"{content[: kept // 2]}\n{CUT.format(count=size - kept)}\n{content[size - kept // 2 :]}"
        reclaimed = _cleared(state, Clearing(results=(Cleared(position=position, call=call, text=text),)))
        count, raw = count + reclaimed.count, raw + reclaimed.raw
    return Reclaimed(count, raw)


def _cleared(state: CompactionState, clearing: Clearing) -> Reclaimed:
    count = len(clearing.results) + len(clearing.calls)
    return Reclaimed(count, state.change(clearing)) if count else NOTHING
