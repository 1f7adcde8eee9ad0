"""Keeps the tool pairs of a window whole after every stage (SPEC §9.1): an orphan costs a refused request."""

import logging
from collections.abc import Callable

from agent.compaction.changes import Change, Drain
from agent.compaction.pairs import with_orphaned_uses_answered, without_orphaned_results
from agent.compaction.window import Window
from agent.core.messages import Message

log = logging.getLogger("tieline.compaction")


def orphans_in(window: Window) -> list[int]:
    """Positions of results that do not follow their calls; costs what came since none was found."""
    found = [
        position
        for position in window.results[window.paired :]
        if not _answering_calls(window[position].message, window[position - 1].message if position else None)
    ]
    if not found:
        window.paired = len(window.results)
    return found


def mend(window: Window, make: Callable[[Change], int], *, aloud: bool = False) -> int:
    """Take out every result whose call is not right before it; a message that held nothing else goes too.

    `make` makes a change to the window and lets all follow that goes by its positions. Returns how many messages were
    touched. `aloud`: each is logged, for a dump that is on (Z-81).
    """
    found = orphans_in(window)
    for position in reversed(found):
        before = [window[position - 1].message] if position else []
        left = without_orphaned_results([*before, window[position].message])[len(before) :]
        if aloud:
            log.warning("orphaned tool results at position %d taken out", position)
        if left:
            window.show(position, left[0])
            continue
        make(Drain(start=position, end=position + 1, summary=None))
    return len(found)


def answer(window: Window, end: int) -> int:
    """Give every call below `end` that nothing answered an error result; returns where `end` is then (SPEC §9.2).

    For a window that was just read: it looks at every message.
    """
    position = 0
    while position < end:
        message = window[position].message
        following = window[position + 1].message if position + 1 < end else None
        if message.role == "assistant" and message.tool_uses:
            pair = [message] if following is None else [message, following]
            answered = with_orphaned_uses_answered(pair)
            if len(answered) > len(pair):
                window.put(position + 1, answered[1])
                end += 1
            elif following is not None and answered[1] is not following:
                window.show(position + 1, answered[1])
        position += 1
    return end


def _answering_calls(message: Message, before: Message | None) -> bool:
    asked = {use.id for use in before.tool_uses} if before is not None and before.role == "assistant" else set()
    answered = [part.tool_use_id for part in message.tool_results]
    return len(answered) == len(set(answered)) and asked.issuperset(answered)
