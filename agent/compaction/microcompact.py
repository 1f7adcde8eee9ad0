"""L0: old results of tools give way to a short notice before each call; nothing else moves (SPEC §8.2, §8.3). Pure."""

from collections.abc import Collection, Sequence

from agent.compaction.changes import Cleared, Clearing
from agent.compaction.tiers import Tier, Tiers
from agent.compaction.window import Entry

CLEARED = "[Old tool result content cleared]"
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


def names_before(entries: Sequence[Entry], position: int) -> dict[str, str]:
    """Which tool each call answered at `position` was of."""
    return {use.id: use.name for use in entries[position - 1].message.tool_uses} if position else {}
