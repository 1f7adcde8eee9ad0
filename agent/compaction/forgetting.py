"""Which results a hard compaction gives up first: those remembered worst (SPEC §8.7, §8.12; Z-30). Pure."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from agent.compaction.blocks import Block
from agent.compaction.window import Entry
from agent.core.messages import ToolUse
from agent.memory.retention import retention

SHORTEST = 4  # characters of a value that can be told from chance


def retentions(blocks: Sequence[Block], entries: Sequence[Entry], now: datetime) -> list[float]:
    """How well each block is remembered: a later call that took a value out of a result has used it again."""
    uses = [
        (position, entry.stored.created_at, _values(entry.message.tool_uses))
        for position, entry in enumerate(entries)
        if entry.message.tool_uses
    ]
    found = []
    for block in blocks:
        used_at = entries[block.position].stored.created_at
        accesses = 0
        for position, at, values in uses:
            if position > block.position and any(value in block.text for value in values):
                accesses, used_at = accesses + 1, at
        age_s = (now - used_at).total_seconds() if used_at is not None else 0.0
        found.append(retention(age_s, accesses))
    return found


def _values(uses: Iterable[ToolUse]) -> frozenset[str]:
    return frozenset(
        value
        for use in uses
        for given in use.input.values()
        for value in (given if isinstance(given, list) else [given])
        if isinstance(value, str) and len(value) >= SHORTEST
    )
