"""Keeps tool uses and tool results in pairs; providers refuse a request with an orphan (SPEC §9). Pure."""

from collections.abc import Sequence
from dataclasses import replace

from agent.core.messages import Message, Part, ToolResult

NOT_RUN = "This call was not run or was cut off before it gave a result."


def without_orphaned_results(messages: Sequence[Message]) -> list[Message]:
    """The messages without tool results that answer no call of the message right before them (SPEC §9.1).

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
    """The messages with an error result for each call that has none in the message right after it (SPEC §9.2).

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
