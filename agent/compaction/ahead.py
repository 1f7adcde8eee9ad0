"""Summaries made ahead of time, in the background: nobody waits for them, and they count between two calls (SPEC §8.4).

What was made for a window that is no longer there is dropped.
"""

import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from agent.compaction.asking import Ask
from agent.compaction.breaker import Breaker
from agent.compaction.deferred import LEAST_AT_ONCE, pairs_to_summarise, summaries_of, that_fit
from agent.compaction.draining import oldest
from agent.compaction.probe import Probed
from agent.compaction.stages import leaving_from, spared
from agent.compaction.state import CompactionState, ContextUsage, Options, SessionSummary
from agent.compaction.summaries import Brief, structured
from agent.compaction.window import Entry, Window
from agent.core.errors import AgentError

Job = Callable[[], Coroutine[Any, Any, None]]

MOST_ASKED = 0.5  # share of the window that a question about tool pairs fills

log = logging.getLogger("tieline.compaction")


class Ahead:
    """One conversation's. `failed` is told when no summary of the session could be had, `probed` what one knew."""

    def __init__(
        self, *, state: CompactionState, ask: Ask, failed: Callable[[], None], probed: Callable[[Probed], None]
    ) -> None:
        self._state = state
        self._ask = ask
        self._failed = failed
        self._probed = probed
        self._options = Options()
        self._found: list[Callable[[], None]] = []

    def job(self, load: ContextUsage, options: Options) -> Job | None:
        """One question to ask after this turn: about tool pairs where enough of them wait, else about the session."""
        self._options = options
        state, window = self._state, self._state.window
        cutoff = options.memory.tool_call_cutoff
        kept = spared(state, load)
        results = [position for position in window.results if position not in kept]
        due = pairs_to_summarise(window, results, state.tiers, cutoff=cutoff, end=len(window))
        if len(due) >= LEAST_AT_ONCE:
            pairs = [(window[position - 1], window[position]) for position in due]
            fitting = that_fit(pairs, state.count, load.raw(int(load.window * MOST_ASKED)))
            return partial(self._pairs, window, pairs[:fitting])
        return self._session if state.summary is None and oldest(window) >= 3 else None

    def take(self) -> None:
        """What was found out counts from here on."""
        found, self._found = self._found, []
        for take in found:
            take()

    async def _pairs(self, window: Window, pairs: Sequence[tuple[Entry, Entry]]) -> None:
        """Deferred summaries of the oldest pairs (SPEC §8.4)."""
        try:
            found = await summaries_of(self._ask, pairs, provider=self._options.memory.summary_provider)
        except (AgentError, TimeoutError) as error:
            log.info("tool pairs were not summarised: %s", error)
            return
        for place, text in found.items():
            self._found.append(partial(self._defer, window, pairs[place][1].key, text))

    async def _session(self) -> None:
        """The summary that L2 will need: of the oldest part, as it is now."""
        state, memory = self._state, self._options.memory
        window = state.window
        end = oldest(window)
        first, last = window[0].key, window[end - 1].key
        leaving = leaving_from(state, end)
        try:
            brief = Brief(missed=state.guidelines.for_summary, provider=memory.summary_provider)
            summary = await structured(self._ask, [entry.stored for entry in leaving], brief)
        except (AgentError, TimeoutError) as error:
            log.info("no summary was made ahead of time: %s", error)
            self._failed()
            return
        state.breaker = Breaker()
        self._probed(summary)
        self._found.append(partial(self._remember, window, first, last, summary.text))

    def _defer(self, window: Window, key: int, text: str) -> None:
        if window is not self._state.window:
            return  # people took something back or went elsewhere: it may tell of what is no longer there
        for position in window.results:
            if window[position].key == key:
                window.defer(position, text)
                return

    def _remember(self, window: Window, first: int, key: int, text: str) -> None:
        """The summary counts if the window begins as it did, and still holds the last message that is covered."""
        if window is not self._state.window or not len(window) or window[0].key != first:
            return
        for position in range(len(window)):
            if window[position].key == key:
                self._state.summary = SessionSummary(text=text, end=position + 1)
                return
