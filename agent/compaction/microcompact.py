"""L0: old results of tools give way to a short notice before each call; nothing else moves (SPEC §8.2, §8.3). Pure.

At level `full` so do long arguments of old calls, and results of reads that were made again (SPEC §8.13).
"""

import json
from collections.abc import Collection, Sequence

from agent.compaction.changes import Cleared, Clearing, Stubbed
from agent.compaction.tiers import Tier, Tiers
from agent.compaction.window import Entry

CLEARED = "[Old tool result content cleared]"
SUPERSEDED = "[Superseded: the same was read again later]"
STUB = "[… {count} characters left out to save room; recall_transcript can find them …]"
LONGEST_ARGUMENT = 400  # characters of one argument of an old call, as JSON
STALE = "[cleared — stale tool output after {minutes}min idle]"

# What costs little to get again (SPEC §8.3).
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
    """What to clear of the results at `positions` (ascending, up to the newest), so that `keep` stay (R-06, R-07).

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
    """Which tool each call answered at `position` was of."""
    return {use.id: use.name for use in entries[position - 1].message.tool_uses} if position else {}
