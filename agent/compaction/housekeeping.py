"""What runs beside the ladder: Focus with its auto-consolidation, and SideQuest. Both are off unless asked for.

Models are asked between turns only; what they say counts before the next call (SPEC §8.15, §8.16).
"""

import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import anyio

from agent.compaction import consolidation, sidequest
from agent.compaction.asking import Ask
from agent.compaction.changes import Cleared, Clearing, Drain
from agent.compaction.sidequest import Cursor
from agent.compaction.stages import goal_of
from agent.compaction.state import CompactionState, Options
from agent.compaction.window import holds_results
from agent.core.errors import AgentError

Job = Callable[[], Coroutine[Any, Any, None]]

log = logging.getLogger("tieline.compaction")


class Housekeeping:
    """One conversation's."""

    def __init__(self, *, state: CompactionState, ask: Ask, count_text: Callable[[str], int]) -> None:
        self._state = state
        self._ask = ask
        self._count_text = count_text
        self._found: list[Callable[[], None]] = []

    def take(self, options: Options) -> None:
        """Let the window follow what tools and background have brought since the last call."""
        state = self._state
        if options.memory.focus.enabled and len(state.window):
            left = state.focus.take(state.window, state.change, options.memory.focus, self._count_text)
            if left:
                log.info("a focus was closed: %d messages left the window", left)
        found, self._found = self._found, []
        for take in found:
            take()

    def job(self, options: Options) -> Job | None:
        """One question to ask in the background after this turn."""
        state, memory = self._state, options.memory
        if state.focus.is_open:
            return None
        if sidequest.is_due(state.turn, memory.sidequest):
            return partial(self._evict, options)
        least, passed = memory.focus.auto_consolidate_min_window, state.focus.turns - state.focus.looked
        if memory.focus.enabled and consolidation.should_auto_consolidate(passed, least):
            return partial(self._consolidate, options)
        return None

    async def _consolidate(self, options: Options) -> None:
        """Find a stretch that tells nothing new and have its facts written down; 20 s, or nothing happens."""
        state, settings = self._state, options.memory.focus
        state.focus.looked = state.focus.turns  # whatever comes of it: a look that brings nothing is paid for as well
        window, goal = state.window, goal_of(state.window)
        if not goal:
            return
        entries, active = list(window), frozenset(state.tiers.active(len(window)))
        least = settings.auto_consolidate_min_window
        stretch = await anyio.to_thread.run_sync(consolidation.stretch_in, entries, active, goal, least)
        if stretch is None:
            return
        chosen = [entries[place] for place in stretch]
        try:
            with anyio.fail_after(consolidation.CONSOLIDATION_TIMEOUT_S):
                facts = await consolidation.facts_of(
                    self._ask, [entry.stored for entry in chosen], provider=options.memory.summary_provider
                )
        except (AgentError, TimeoutError) as error:
            log.info("nothing was consolidated: %s", error or "too slow")
            return
        if facts:
            keys = [entry.key for entry in chosen]
            self._found.append(lambda: self._replace(keys, facts, options))

    def _replace(self, keys: list[int], facts: list[str], options: Options) -> None:
        """The stretch leaves the window if it still stands there as it was read."""
        state = self._state
        window = state.window
        begin = next((place for place in range(len(window)) if window[place].key == keys[0]), None)
        if begin is None or [entry.key for entry in window[begin : begin + len(keys)]] != keys:
            return
        end = begin + len(keys)
        active = set(state.tiers.active(len(window)))
        if not active.isdisjoint(range(begin, end)) or (end < len(window) and holds_results(window[end].message)):
            return
        state.change(Drain(start=begin, end=end, summary=None))
        state.focus.know(facts, window, state.change, options.memory.focus, self._count_text)
        state.focus.count_anew()

    async def _evict(self, options: Options) -> None:
        """Ask which results can go; five seconds, or all stay.

        SideQuest starts beside no strategy that goes by subgoals, but one that did may have been replaced while the
        agent is awake: what the active subgoal held then is still being worked on (H-13).
        """
        state, settings = self._state, options.memory.sidequest
        cursors = sidequest.cursors_in(state.window, state.watch.subgoals, settings)
        if not cursors:
            return
        try:
            with anyio.fail_after(sidequest.SIDEQUEST_TIMEOUT_S):
                chosen = await sidequest.chosen(self._ask, cursors, settings)
        except (AgentError, TimeoutError) as error:
            log.info("sidequest got no answer: %s", error or "too slow")
            return
        self._found.append(lambda: self._clear(chosen))

    def _clear(self, chosen: list[Cursor]) -> None:
        state = self._state
        places = {entry.key: place for place, entry in enumerate(state.window) if not entry.is_cleared}
        active = set(state.watch.subgoals.active(len(state.window)))
        results = tuple(
            Cleared(position=places[cursor.key], call=cursor.call, text=sidequest.EVICTED)
            for cursor in chosen
            if cursor.key in places and places[cursor.key] not in active
        )
        if results:
            state.tally.prunes += len(results)
            state.tally.sidequests += 1
            state.tally.sidequest_evicted += len(results)
            state.change(Clearing(results=results))
