"""What pruning may take: results of tools outside the protected tail (SPEC §8.9). Pure."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from agent.compaction.changes import Cleared, Clearing
from agent.compaction.microcompact import names_before
from agent.compaction.tiers import Tiers
from agent.compaction.window import Window

EVICTED = "[Result left out to save room; recall_transcript can find it.]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One result that may be evicted. `tokens` is about what that would free, raw."""

    position: int
    call: str
    tool: str  # "" where its call is not in the window
    text: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a score may depend on besides the blocks. `goal` is "" while none is known.

    `pause` lets others go on for a moment: a worker thread calls it now and then, so that the event loop is not late.
    """

    size: int  # messages in the window
    goal: str
    tiers: Tiers
    pause: Callable[[], None] | None = None


def blocks_in(
    window: Window, *, protect_tokens: int, notice_tokens: int, exempt: Collection[str] = ()
) -> tuple[Block, ...]:
    """The results that may go, oldest first; `notice_tokens` is the weight of the notice in their place.

    Pinned and cleared ones may not go, nor those of `exempt` tools, nor what stands in the newest `protect_tokens`.
    """
    if not window.results:
        return ()
    # The newest message is spared whatever it weighs: the model has not seen it yet.
    end, tail = len(window) - 1, window[-1].tokens
    while end > window.results[0] and tail + window[end - 1].tokens <= protect_tokens:
        end -= 1
        tail += window[end].tokens
    found = []
    for position in window.results:
        if position >= end:
            break
        entry = window[position]
        if entry.pinned:
            continue
        names = names_before(window, position)
        original = {part.tool_use_id: part.content for part in entry.stored.tool_results}
        chars = sum(len(part.content) for part in entry.message.tool_results)
        for part in entry.message.tool_results:
            name = names.get(part.tool_use_id, "")
            if part.content != original.get(part.tool_use_id) or name in exempt:
                continue
            saved = entry.tokens * len(part.content) // max(1, chars) - notice_tokens
            if saved > 0:
                found.append(
                    Block(position=position, call=part.tool_use_id, tool=name, text=part.content, tokens=saved)
                )
    return tuple(found)


def evicted(blocks: Sequence[Block], scores: Sequence[float | None], need: int) -> Clearing:
    """The blocks of the lowest scores, as many as free `need` raw tokens; None is never taken, ties go oldest first."""
    order = sorted((score, index) for index, score in enumerate(scores) if score is not None)
    taken: list[Cleared] = []
    reclaimed = 0
    for _, index in order:
        if reclaimed >= need:
            break
        block = blocks[index]
        taken.append(Cleared(position=block.position, call=block.call, text=EVICTED))
        reclaimed += block.tokens
    return Clearing(results=tuple(taken))
