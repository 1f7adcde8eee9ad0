"""A history in which user and assistant take turns, for servers that refuse two messages of one role in a row. Pure.

Chat templates of Mistral, Gemma and others want that. Ours has such neighbours after a compaction (the summary, then
what is pinned) and after a turn that failed. Joined messages are kept as long as the first of theirs lives, so that a
history is encoded once here as well.
"""

import re
from collections.abc import Iterator, Sequence
from weakref import WeakKeyDictionary

from agent.core.messages import FilePart, Message, Part, Role, SummaryPart, TextPart, ToolResult, ToolUse

# Templates (Mistral, Gemma), Bedrock, Perplexity, DeepSeek, and Mistral's own service.
COMPLAINT = re.compile(
    r"must alternate|should (?:be )?alternat|(?:successive|consecutive) (?:user|assistant)"
    r"|unexpected role '?(?:user|assistant)'? after role",
    re.IGNORECASE,
)
# What is heard between results of tools and what a person wrote meanwhile; without it that would be user after tool.
HEARD = "I have the results."


class Alternation:
    """One encoder's. `results_apart`: results of tools are messages of their own on the wire."""

    def __init__(self, *, results_apart: bool) -> None:
        self._results_apart = results_apart
        self._kept: WeakKeyDictionary[Message, tuple[tuple[Message, ...], tuple[Message, ...]]] = WeakKeyDictionary()

    def of(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The same words in the same order; messages that need no joining are the same objects."""
        found: list[Message] = []
        for run in _runs(messages):
            first, rest = run[0], tuple(run[1:])
            if not rest and not (self._results_apart and first.tool_results):
                found.append(first)
                continue
            kept = self._kept.get(first)
            if kept is None or kept[0] != rest:  # messages are compared by identity
                kept = self._kept[first] = (rest, self._joined(run))
            found += kept[1]
        return found

    def _joined(self, run: Sequence[Message]) -> tuple[Message, ...]:
        role: Role = "assistant" if run[0].role == "assistant" else "user"
        parts = tuple(part for message in run for part in message.parts)
        results = tuple(part for part in parts if isinstance(part, ToolResult))
        words = tuple(part for part in parts if not isinstance(part, ToolResult))
        if self._results_apart and results and any(_is_sent(part) for part in words):
            heard = Message(role="assistant", parts=(TextPart(text=HEARD),))
            return (Message(role=role, parts=results), heard, Message(role=role, parts=words))
        return (Message(role=role, parts=parts),)


def _runs(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Neighbours of one role; replies of which nothing is sent are left out."""
    run: list[Message] = []
    for message in messages:
        if message.role == "assistant" and not any(_is_sent(part) for part in message.parts):
            continue
        if run and (run[0].role == "assistant") != (message.role == "assistant"):
            yield run
            run = []
        run.append(message)
    if run:
        yield run


def _is_sent(part: Part) -> bool:
    return isinstance(part, FilePart | ToolUse) or (isinstance(part, TextPart | SummaryPart) and bool(part.text))
