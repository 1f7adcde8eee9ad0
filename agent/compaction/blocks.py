"""What pruning may take: results of tools outside the protected tail (SPEC §8.9). Pure."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from agent.compaction.changes import Cleared, Clearing
from agent.compaction.tiers import Tiers
from agent.compaction.window import Entry
from agent.core.messages import ToolResult

EVICTED = "[Result left out to save room; recall_transcript can find it.]"

CountText = Callable[[str], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One result that may be evicted. `tokens` is what that would free, raw."""

    position: int
    call: str
    tool: str  # "" where its call is not in the window
    text: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a score may depend on besides the blocks. `goal` is "" while none is known."""

    size: int  # messages in the window
    goal: str
    tiers: Tiers


def blocks_in(
    entries: Sequence[Entry],
    *,
    protect_tokens: int,
    count: CountText,
    exempt: Collection[str] = (),
) -> tuple[Block, ...]:
    """The results that may go, oldest first. Pinned and cleared ones may not, nor those of `exempt` tools."""
    placeholder = count(EVICTED)
    end, tail = len(entries), 0
    while end > 0 and tail + entries[end - 1].tokens <= protect_tokens:
        end -= 1
        tail += entries[end].tokens
    names = {use.id: use.name for entry in entries[:end] for use in entry.message.tool_uses}
    found = []
    for position, entry in enumerate(entries[:end]):
        if entry.pinned:
            continue
        for part, stored in zip(entry.message.parts, entry.stored.parts, strict=True):
            if not isinstance(part, ToolResult) or part != stored or names.get(part.tool_use_id, "") in exempt:
                continue
            saved = count(part.content) - placeholder
            if saved > 0:
                name = names.get(part.tool_use_id, "")
                found.append(
                    Block(position=position, call=part.tool_use_id, tool=name, text=part.content, tokens=saved)
                )
    return tuple(found)


def evicted(blocks: Sequence[Block], scores: Sequence[float | None], need: int) -> Clearing:
    """The blocks of the lowest scores, as many as free `need` raw tokens; None is never taken, ties go oldest first."""
    order = sorted((score, index) for index, score in enumerate(scores) if score is not None)
    taken: list[Cleared] = []
    freed = 0
    for _, index in order:
        if freed >= need:
            break
        block = blocks[index]
        taken.append(Cleared(position=block.position, call=block.call, text=EVICTED))
        freed += block.tokens
    return Clearing(results=tuple(taken))
