"""Which part of a window gives way to a summary: where it ends, what in it stays, what stands there then. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from agent.compaction.changes import Drain
from agent.compaction.tiers import Tiers
from agent.compaction.window import Entry, holds_results
from agent.core.messages import CompactionPart, Message, SummaryPart

HARD = "[conversation summary — {count} messages compacted]"
HIGH = "[Conversation summary]"
SESSION = "[Session memory summary]"

KEPT, LEAST_KEPT = 0.15, 6  # the newest messages, which no summary made ahead of time stands for: share and number
Stage = Literal["mid", "high", "hard", "digest", "reactive"]


def boundary(entries: Sequence[Entry], wanted: int) -> int:
    """`wanted`, moved back so that no call is parted from its results; never below 0."""
    end = min(max(wanted, 0), len(entries))
    while 0 < end < len(entries) and holds_results(entries[end].message):
        end -= 1
    return end


def oldest(entries: Sequence[Entry]) -> int:
    """The end of the oldest part, for which a summary made ahead of time or a digest stands (SPEC §8.5).

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
    """What of the entries below `end` does not stay."""
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
    """What stands for the messages that went, with the record of the compaction: seen by the model alone (Z-31)."""
    headed = f"{label.format(count=count)}\n{text}" if label else text
    record = CompactionPart(
        summary=text, stage=stage, messages=count, tokens_before=tokens_before, mechanical=mechanical
    )
    summary = SummaryPart(text=headed) if sealed is None else replace(sealed, text=headed)
    return Message(role="user", parts=(summary, record), user_visible=False, agent_visible=True)
