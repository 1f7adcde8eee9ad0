"""Selection of the messages that leave a window, and of what replaces them: the oldest, pairs, old results. Pure."""

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from agent.compaction.stages import Stage
from agent.compaction.subgoals import Tier, Tiers
from agent.compaction.window import (
    AppliedSummaries,
    AppliedSummary,
    Cleared,
    Clearing,
    Drain,
    Entry,
    Stubbed,
    Window,
    holds_results,
)
from agent.core.messages import CompactionPart, Message, SummaryPart

HARD = "[conversation summary — {count} messages compacted]"
HIGH = "[Conversation summary]"
SESSION = "[Session memory summary]"

KEPT, LEAST_KEPT = 0.15, 6  # the newest messages, which no summary made ahead of time stands for: share and number


def boundary(entries: Sequence[Entry], wanted: int) -> int:
    """`wanted`, moved back so that no call is parted from its results; never below 0."""
    end = min(max(wanted, 0), len(entries))
    while 0 < end < len(entries) and holds_results(entries[end].message):
        end -= 1
    return end


def oldest(entries: Sequence[Entry]) -> int:
    """The end of the oldest part, for which a summary made ahead of time or a digest stands.

    Half of a few messages, of many all but the newest 15 %: the more goes at once, the longer the prefix stays.
    """
    return boundary(entries, len(entries) - min(len(entries) // 2, max(LEAST_KEPT, int(len(entries) * KEPT))))


def parted(entries: Sequence[Entry], end: int, tiers: Tiers) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The positions below `end` that are pinned, and the active ones; a pair of which one half stays stays whole."""
    pinned = {position for position in range(end) if entries[position].pinned}
    active = {position for position in tiers.active(end) if position not in pinned}
    for kept in (pinned, active):
        for position in sorted(kept):
            if holds_results(entries[position].message) and position > 0:
                kept.add(position - 1)
            if entries[position].message.tool_uses and position + 1 < end:
                kept.add(position + 1)
    return tuple(sorted(pinned)), tuple(sorted(active - pinned))


def gone(entries: Sequence[Entry], end: int, kept: Sequence[int]) -> list[Entry]:
    """The entries below `end` that do not stay."""
    stays = set(kept)
    return [entries[position] for position in range(end) if position not in stays]


def drain(end: int, pinned: tuple[int, ...], active: tuple[int, ...], summary: Message) -> Drain:
    """The oldest `end` messages give way to the summary, then the pinned, then the active ones (Z-50, Z-51)."""
    return Drain(start=0, end=end, summary=summary, pinned=pinned, active=active)


def summary_message(
    text: str,
    *,
    label: str,
    stage: Stage,
    count: int,
    tokens_before: int,
    mechanical: bool,
    sealed: SummaryPart | None = None,
) -> Message:
    """The message for those that went, with the record of the compaction: seen by the model alone (Z-31)."""
    headed = f"{label.format(count=count)}\n{text}" if label else text
    record = CompactionPart(
        summary=text, stage=stage.value, messages=count, tokens_before=tokens_before, mechanical=mechanical
    )
    summary = SummaryPart(text=headed) if sealed is None else replace(sealed, text=headed)
    return Message(role="user", parts=(summary, record), user_visible=False, agent_visible=True)


# Microcompaction: old results of tools become a short notice before each call; nothing else moves. Pure.

CLEARED = "[Old tool result content cleared]"
SUPERSEDED = "[Superseded: the same was read again later]"
STUB = "[… {count} characters left out to save room; recall_transcript can find them …]"
LONGEST_ARGUMENT = 400  # characters of one argument of an old call, as JSON
STALE = "[cleared — stale tool output after {minutes}min idle]"

# Tools whose results cost little to get again.
LOW_VALUE = frozenset(
    {"shell", "bash", "grep", "glob", "find", "web_fetch", "web_search", "web_scrape", "read", "read_file", "cat", "ls",
     "list", "list_files"}
)  # fmt: skip


def cleared_but_recent(
    entries: Sequence[Entry],
    positions: Sequence[int],
    *,
    keep: int,
    tiers: Tiers,
    exempt: Collection[str] = (),
    only: Collection[str] | None = None,
    text: str = CLEARED,
) -> Clearing:
    """Positions to clear of the results at `positions` (ascending, up to the newest), so that `keep` stay (R-06, R-07).

    Left alone: what is pinned, belongs to the active subgoal, is of an `exempt` tool (or not of one of `only`), was
    cleared before, or is not longer than the notice.
    """
    found: list[Cleared] = []
    shortest, seen = len(text.encode()), 0
    for position in reversed(positions):
        entry = entries[position]
        names = None
        for part in reversed(entry.message.tool_results):
            seen += 1
            if seen <= keep or entry.pinned or len(part.content.encode()) <= shortest:
                continue
            if names is None:
                names = names_before(entries, position)
            name = names.get(part.tool_use_id, "")
            if name in exempt or (only is not None and name not in only) or tiers.tier(position) is Tier.ACTIVE:
                continue
            found.append(Cleared(position=position, call=part.tool_use_id, text=text))
    return Clearing(results=tuple(reversed(found)))


def superseded(
    entries: Sequence[Entry], positions: Sequence[int], *, tiers: Tiers, exempt: Collection[str] = ()
) -> tuple[Cleared, ...]:
    """Results at `positions` (ascending, up to the newest) of reads that were made again since, word for word.

    Only of tools that read what can change; what is pinned, active, exempt or no longer than the notice stays.
    """
    found: list[Cleared] = []
    again: set[str] = set()
    for position in reversed(positions):
        entry = entries[position]
        calls = {use.id: use for use in entries[position - 1].message.tool_uses} if position else {}
        for part in reversed(entry.message.tool_results):
            use = calls.get(part.tool_use_id)
            if use is None or use.name not in LOW_VALUE or use.name in exempt:
                continue
            made = f"{use.name} {json.dumps(dict(use.input), sort_keys=True)}"
            spared = entry.pinned or len(part.content) <= len(SUPERSEDED) or tiers.tier(position) is Tier.ACTIVE
            if made in again and not spared:
                found.append(Cleared(position=position, call=part.tool_use_id, text=SUPERSEDED))
            if not part.is_error:  # one that failed tells nothing of what was read before
                again.add(made)
    return tuple(reversed(found))


def stubbed(
    entries: Sequence[Entry], positions: Sequence[int], *, keep: int, tiers: Tiers, exempt: Collection[str] = ()
) -> tuple[Stubbed, ...]:
    """Long arguments of the calls that were answered at `positions`, but for the newest `keep` answers.

    Pinned calls, those of the active subgoal and of exempt tools stay as they are.
    """
    found: list[Stubbed] = []
    for position in positions[: max(0, len(positions) - keep)]:
        entry = entries[position - 1] if position else None
        if entry is None or entry.pinned or tiers.tier(position - 1) is Tier.ACTIVE:
            continue
        for use in entry.message.tool_uses:
            arguments = {name: _stub(value) for name, value in use.input.items()}
            if use.name not in exempt and arguments != use.input:
                found.append(Stubbed(position=position - 1, call=use.id, arguments=arguments))
    return tuple(found)


def _stub(value: object) -> object:
    """The value, or how much of it was left out."""
    written = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(written) <= LONGEST_ARGUMENT else STUB.format(count=len(written))


def names_before(entries: Sequence[Entry], position: int) -> dict[str, str]:
    """The tool names of the calls in the message before `position`, by call id."""
    return {use.id: use.name for use in entries[position - 1].message.tool_uses} if position else {}


# Pairs of a call and its result: summarised ahead of time, applied when room is short. Pure.

LEAST_PAIRS, MOST_PAIRS = 4, 8  # in one question: fewer wait for more
WORTH = 400  # raw tokens of a pair as the model sees it; of shorter ones a summary costs more than it saves
PAIR_LABEL = "[tool summary]"


def pairs_to_summarise(window: Window, positions: Sequence[int], tiers: Tiers, *, cutoff: int, end: int) -> list[int]:
    """Positions of the oldest results that need a summary, so that `cutoff` pairs stay without one.

    `positions` are those of results, ascending; what stands at `end` or later belongs to the run that goes on.
    """
    open_pairs = [position for position in positions if position < end and not window[position].deferred]
    due = open_pairs[: max(0, len(open_pairs) - cutoff)]
    worth = [position for position in due if window[position - 1].tokens + window[position].tokens >= WORTH]
    return [position for position in worth if _may_give_way(window, position, tiers)][:MOST_PAIRS]


def summaries_to_apply(window: Window, positions: Sequence[int], tiers: Tiers, *, end: int) -> AppliedSummaries:
    """Every pair whose summary waits; one that lost its call, is pinned or active stays as it is."""
    pairs = [
        AppliedSummary(request=position - 1, response=position, summary=pair_summary_message(window[position].deferred))
        for position in positions
        if position < end and window[position].deferred and _may_give_way(window, position, tiers)
    ]
    return AppliedSummaries(pairs=tuple(pairs))


def pair_summary_message(summary: str) -> Message:
    """The message in the place of a summarised pair: seen by the model alone."""
    return Message(
        role="assistant", parts=(SummaryPart(text=f"{PAIR_LABEL} {summary}"),), user_visible=False, agent_visible=True
    )


def that_fit(pairs: Sequence[tuple[Entry, Entry]], count: Callable[[Message], int], most: int) -> int:
    """How many of the pairs, from the first on, weigh `most` raw tokens at most as stored; one at least."""
    room, taken = most, 0
    for request, response in pairs:
        room -= count(request.stored) + count(response.stored)
        if room < 0 and taken:
            break
        taken += 1
    return taken


def _may_give_way(window: Window, position: int, tiers: Tiers) -> bool:
    request, response = window[position - 1] if position else None, window[position]
    if request is None or response.pinned or request.pinned or not request.message.tool_uses:
        return False
    if Tier.ACTIVE in (tiers.tier(position), tiers.tier(position - 1)):
        return False
    # A person's words beside the results must not go with them.
    return all(part.kind == "tool_result" for part in response.message.parts)
