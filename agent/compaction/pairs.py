"""Pairs of tool uses and tool results; providers refuse a request with an orphan. Pure."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from agent.compaction.window import Change, Drain, Window
from agent.core.messages import Message, Part, ToolResult

NOT_RUN = "This call was not run or was cut off before it gave a result."


def without_orphaned_results(messages: Sequence[Message]) -> list[Message]:
    """The messages without tool results that answer no call of the message right before them (Z-80).

    A message that held nothing else goes as well. Messages that need no change are the same objects.
    """
    kept: list[Message] = []
    for message in messages:
        if not _has_results(message):
            kept.append(message)
            continue
        asked = {use.id for use in kept[-1].tool_uses} if kept and kept[-1].role == "assistant" else set()
        parts: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolResult):
                if part.tool_use_id not in asked or message.role != "user":
                    continue
                asked.discard(part.tool_use_id)  # a second answer to one call is an orphan too
            parts.append(part)
        if len(parts) == len(message.parts):
            kept.append(message)
        elif parts:
            kept.append(replace(message, parts=tuple(parts)))
    return kept


def with_orphaned_uses_answered(messages: Sequence[Message], *, because: str = NOT_RUN) -> list[Message]:
    """The messages with an error result for each call that has none in the message right after it (W-39).

    Results come before anything else in their message. Doing it twice changes nothing.
    """
    answered: list[Message] = []
    for index, message in enumerate(messages):
        before = answered[-1] if answered else None
        uses = before.tool_uses if before is not None and before.role == "assistant" else ()
        if uses:
            if message.role == "user":
                message = _answering(message, tuple(use.id for use in uses), because)
            else:
                answered.append(_answers(tuple(use.id for use in uses), because))
        answered.append(message)
        if index == len(messages) - 1 and message.role == "assistant" and message.tool_uses:
            answered.append(_answers(tuple(use.id for use in message.tool_uses), because))
    return answered


def repaired(messages: Sequence[Message], *, because: str = NOT_RUN) -> list[Message]:
    """Both repairs, in the order that leaves no orphan of either kind."""
    return with_orphaned_uses_answered(without_orphaned_results(messages), because=because)


def _has_results(message: Message) -> bool:
    return any(isinstance(part, ToolResult) for part in message.parts)


def _answers(ids: tuple[str, ...], because: str) -> Message:
    return Message(role="user", parts=tuple(_missing(id, because) for id in dict.fromkeys(ids)))


def _answering(message: Message, ids: tuple[str, ...], because: str) -> Message:
    """`message` with a result for each of `ids`, results first."""
    present = {part.tool_use_id for part in message.parts if isinstance(part, ToolResult)}
    missing = [_missing(id, because) for id in dict.fromkeys(ids) if id not in present]
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    others = [part for part in message.parts if not isinstance(part, ToolResult)]
    parts = (*results, *missing, *others)
    return message if parts == message.parts else replace(message, parts=parts)


def _missing(id: str, because: str) -> ToolResult:
    return ToolResult(tool_use_id=id, content=because, is_error=True)


# Repair of tool pairs after every stage (Z-78): an orphan costs a refused request.

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
    """Give every call below `end` that nothing answered an error result; returns where `end` is then.

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
