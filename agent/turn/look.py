"""Views of a conversation's window, for /context, /focus and /sidequest. Changes nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.compaction.optional_stages import turns_left
from agent.compaction.settings import FocusSettings, SidequestSettings
from agent.compaction.state import CompactionState, entries_of, knowledge_in
from agent.compaction.window import Entry
from agent.core.messages import FilePart, SummaryPart, TextPart
from agent.providers.models import WindowOrigin


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """Raw tokens and messages of one kind: prompt, pinned, summaries, people, assistant, calls, results, files."""

    kind: str
    tokens: int
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextView:
    """Scaled tokens. `cleared` results stand in the window as a notice. `origin`: where the window's size is from.

    Summaries made since the agent woke were `asked` so many questions, of which they `answered` some; so many facts
    were `put_back` into them. `missed` names the tools ("": words) whose results were looked up again after one.
    """

    used: int
    window: int
    fillings: tuple[Filling, ...]
    cleared: int
    compactions: int
    asked: int
    answered: int
    put_back: int
    missed: tuple[str, ...]
    badge: str
    origin: WindowOrigin | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FocusView:
    """Focus of one conversation. `scope` of the one that is open, "" for none, and the messages inside of it.

    `findings` are kept so far; they weigh `tokens` (raw) of `most_tokens`. `turns` since one was closed.
    """

    enabled: bool
    scope: str
    messages: int
    findings: tuple[str, ...]
    tokens: int
    most_tokens: int
    turns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SidequestView:
    """SideQuest of one conversation: every how many turns, turns until the next, what came of it so far."""

    enabled: bool
    every: int
    turns_left: int
    asked: int
    evicted: int


def focus_of(state: CompactionState, settings: FocusSettings) -> FocusView:
    """The state of Focus."""
    place = knowledge_in(state.window)
    entry = state.window[place] if place is not None else None
    return FocusView(
        enabled=settings.enabled,
        scope=state.focus.scope,
        messages=state.focus.inside(state.window),
        findings=tuple(entries_of(entry.message)) if entry is not None else (),
        tokens=entry.tokens if entry is not None else 0,
        most_tokens=settings.max_knowledge_tokens,
        turns=state.focus.turns,
    )


def sidequest_of(state: CompactionState, settings: SidequestSettings) -> SidequestView:
    """The state of SideQuest."""
    return SidequestView(
        enabled=settings.enabled,
        every=settings.interval_turns,
        turns_left=turns_left(state.turn, settings),
        asked=state.tally.sidequests,
        evicted=state.tally.sidequest_evicted,
    )


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
    """The main kind of a message."""
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
