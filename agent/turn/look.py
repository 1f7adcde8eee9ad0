"""What fills the window of a conversation, by kind, for whoever asks (/context). Changes nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.compaction.window import Entry
from agent.core.messages import FilePart, SummaryPart, TextPart


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """Raw tokens and messages of one kind: prompt, pinned, summaries, people, assistant, calls, results, files."""

    kind: str
    tokens: int
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextView:
    """Scaled tokens. `cleared` results stand in the window as a notice; `left` messages have left it so far."""

    used: int
    window: int
    fillings: tuple[Filling, ...]
    cleared: int
    compactions: int
    badge: str


def fillings_of(fixed: int, entries: Sequence[Entry], scale: float) -> tuple[Filling, ...]:
    """The kinds that are there, the heaviest first."""
    found: dict[str, tuple[int, int]] = {"prompt": (fixed, 0)} if fixed else {}
    for entry in entries:
        kind = kind_of(entry)
        tokens, messages = found.get(kind, (0, 0))
        found[kind] = (tokens + entry.tokens, messages + 1)
    listed = [
        Filling(kind=kind, tokens=int(tokens * scale), messages=messages) for kind, (tokens, messages) in found.items()
    ]
    return tuple(sorted(listed, key=lambda filling: -filling.tokens))


def kind_of(entry: Entry) -> str:
    """What a message mostly is."""
    message = entry.message
    if entry.pinned:
        return "pinned"
    if any(isinstance(part, SummaryPart) for part in message.parts):
        return "summaries"
    if message.tool_results:
        return "results"
    if message.tool_uses:
        return "calls"
    if message.role == "assistant":
        return "assistant"
    texts = sum(len(part.text) for part in message.parts if isinstance(part, TextPart))
    return "files" if not texts and any(isinstance(part, FilePart) for part in message.parts) else "people"
