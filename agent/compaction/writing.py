"""What the store must be told of a window: which rows it hides, places and clears; and how a window is read from it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agent.compaction import guidelines
from agent.compaction.state import CompactionState, SessionSummary
from agent.compaction.window import Unwritten, Window
from agent.core.messages import Message, Part, ToolResult, ToolUse
from agent.sessions.store import STEP
from agent.sessions.windows import LoadedWindow, WindowChanges


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """Changes on their way into the store, and the keys of the entries that get an id or a place by that."""

    changes: WindowChanges
    inserted: tuple[tuple[int, int], ...]  # (key, place), as in `changes.inserted`
    placed: tuple[tuple[int, int], ...]  # (key, place)


def writing_of(state: CompactionState) -> Writing | None:
    """What is not yet written; None where there is nothing, or where a message is not stored itself yet."""
    window = state.window
    unwritten = window.unwritten
    remembered = summary_to_write(state)
    compacted = state.tally.last if state.tally.last != state.compacted_written else None
    if not (unwritten.any or remembered is not None or state.has_learnt or compacted is not None):
        return None
    by_key = {entry.key: entry for entry in window if entry.key in _touched(unwritten)}
    places = _places(window) if unwritten.placed else {}
    inserted = [(key, place) for key, place in places.items() if by_key[key].stored.id is None]
    placed = [(key, place) for key, place in places.items() if by_key[key].stored.id is not None]
    cleared = [(by_key[key].stored, call, text) for (key, call), text in unwritten.cleared.items() if key in by_key]
    changes = WindowChanges(
        hidden=tuple(entry.stored for entry in unwritten.hidden if entry.stored.id is not None),
        inserted=tuple((by_key[key].stored, place) for key, place in inserted),
        placed=tuple((id, place) for key, place in placed if (id := by_key[key].stored.id) is not None),
        cleared=tuple(item for item in cleared if item[0].id is not None),
        deferred=tuple(
            (id, text)
            for key, text in unwritten.deferred.items()
            if key in by_key and (id := by_key[key].stored.id) is not None
        ),
        summary=remembered,
        guidelines=guidelines.written(state.guidelines) if state.has_learnt else None,
        compacted=compacted,
    )
    return Writing(changes=changes, inserted=tuple(inserted), placed=tuple(placed))


def settle(state: CompactionState, writing: Writing, ids: Sequence[int]) -> None:
    """The changes are in the store; `ids` are those of what was inserted, in order."""
    window = state.window
    window.unwritten = Unwritten()
    state.summary_written, state.guidelines_written = state.summary, state.guidelines
    if writing.changes.compacted is not None:
        state.compacted_written = writing.changes.compacted
    known: dict[int, tuple[int, int | None]] = {key: (place, None) for key, place in writing.placed}
    known |= {key: (place, id) for (key, place), id in zip(writing.inserted, ids, strict=True)}
    if not known:
        return
    for position in range(len(window)):
        entry = window[position]
        if entry.key in known:
            place, id = known[entry.key]
            stored = entry.stored if id is None else replace(entry.stored, id=id)
            window.stored_as(position, stored, place=place)


def summary_to_write(state: CompactionState) -> tuple[str, int | None] | None:
    """The session summary as it is to be stored; None where the store has it already."""
    if state.summary is state.summary_written:
        return None
    if state.summary is None:
        return ("", None)
    last = state.window[state.summary.end - 1].stored
    return (state.summary.text, last.id)


def fill(state: CompactionState, loaded: LoadedWindow) -> None:
    """Take what the store has of the session into an empty window."""
    window = state.window
    for one in loaded.entries:
        shown = _shown(one.message, one.cleared) if one.cleared else None
        place = one.place if one.message.id is None or one.place != one.message.id * STEP else None
        window.append(one.message, shown=shown, place=place, deferred=one.deferred)
        if one.message.id is not None and one.message.id == loaded.summary_upto and loaded.summary:
            state.summary = SessionSummary(text=loaded.summary, end=len(window))
    state.summary_written = state.summary
    learnt = guidelines.read(loaded.guidelines)
    state.guidelines = state.guidelines_written = learnt if loaded.told_here else learnt.without_words()
    state.looked_upto = window.newest_key
    if not state.tally.last_at_ms:
        state.tally.last_was(loaded.compacted)
        state.compacted_written = loaded.compacted


def _shown(message: Message, cleared: Mapping[str, str]) -> Message:
    return replace(message, parts=tuple(_part_shown(part, cleared) for part in message.parts))


def _part_shown(part: Part, cleared: Mapping[str, str]) -> Part:
    if isinstance(part, ToolResult) and part.tool_use_id in cleared:
        return replace(part, content=cleared[part.tool_use_id])
    if isinstance(part, ToolUse) and part.id in cleared:
        return replace(part, input=json.loads(cleared[part.id]))
    return part


def _touched(unwritten: Unwritten) -> set[int]:
    return {key for key, _ in unwritten.cleared} | set(unwritten.deferred) | unwritten.placed


def _places(window: Window) -> dict[int, int]:
    """A place for each entry that was inserted or moved: right before what follows it, in order."""
    follows: int | None = None
    newest = max((entry.stored.id or 0 for entry in window), default=0)
    places: dict[int, int] = {}
    for position in range(len(window) - 1, -1, -1):
        entry = window[position]
        if entry.key in window.unwritten.placed:
            follows = (newest + 1) * STEP - 1 if follows is None else follows - 1
            places[entry.key] = follows
        elif entry.place is not None:
            follows = entry.place
        elif entry.stored.id is not None:
            follows = entry.stored.id * STEP
    return dict(reversed(places.items()))
