"""The ledger: every attempt at a call of a model is set aside for before it is made and entered after, whoever asks.

It never waits for the disk on the way of a call: rows are written with the turn's own commit, or a little later by
`run`; until then a journal beside the database keeps them (docs/decisions/0009).
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import anyio
from sqlalchemy.exc import SQLAlchemyError

from agent.core.clock import Clock
from agent.core.events import EventBus
from agent.core.ids_source import NewId
from agent.core.provider_events import CallBilled
from agent.ledger import rows
from agent.ledger.accounts import Hold
from agent.ledger.attributions import Entry
from agent.ledger.budgets import Budgets, Places
from agent.ledger.journal import Journal
from agent.ledger.spending import Spending
from agent.providers.metering import CostAttribution, Spent
from agent.providers.provider import Prices, Provider, Request
from agent.storage.database import Database
from agent.storage.errors import StorageTrouble
from agent.storage.timestamps import to_timestamp

OUTPUT_EXPECTED = 4096  # tokens set aside for an answer that nothing bounds
WRITTEN_WITHIN_S = 5.0  # what no turn's commit has taken along by then is written by itself
MOST_AT_ONCE = 500

_log = logging.getLogger("tieline.ledger")


@dataclass(slots=True)
class _Ended:
    """A call that is not known to be in the database, and since when (monotonic seconds)."""

    entry: Entry
    since: float


class Ledger:
    """One for the process; implements `agent.providers.metering.Meter`.

    `places` names a conversation and what holds it, its own name first.
    """

    def __init__(
        self,
        *,
        database: Database,
        clock: Clock,
        new_id: NewId,
        bus: EventBus,
        journal: Path,
        spending: Callable[[], Spending] = Spending,
        places: Places = lambda conversation: (conversation,),
    ) -> None:
        self._database = database
        self._clock = clock
        self._new_id = new_id
        self._bus = bus
        self._journal = Journal(journal)
        self.budgets = Budgets(database=database, clock=clock, bus=bus, spending=spending, places=places)
        self._open: dict[str, Entry] = {}
        self._ended: dict[int | None, dict[str, _Ended]] = {}  # by the work they were made for, then by call
        self._anything = anyio.Event()

    # -- its life

    async def open(self) -> None:
        """Take up what earlier processes spent, and what a killed one left in its journal. Before any call."""
        left = self._journal.recover()
        if left:
            await self._add(left)
            self._journal.shrink((), ())
            _log.info("%d calls that the last process left in its journal are in the ledger", len(left))
        await self.budgets.load()

    async def run(self) -> None:
        """Write what no turn has written, until cancelled."""
        while True:
            await self._anything.wait()
            await self._clock.sleep(WRITTEN_WITHIN_S)
            try:
                await self.flush(older_than_s=WRITTEN_WITHIN_S)
            except StorageTrouble as error:
                _log.warning("calls are entered later, the journal keeps them: %s", error)

    async def aclose(self) -> None:
        """Write all that has ended. May be called twice."""
        try:
            await self.flush()
        except StorageTrouble as error:
            _log.warning("calls are entered at the next start, the journal keeps them: %s", error)
        if not self._open and not self._ended:
            self._journal.shrink((), ())
        self._journal.aclose()

    # -- the way of a call

    async def reserve(
        self, attribution: CostAttribution, provider: Provider, request: Request, input_tokens: int
    ) -> "Reserved":
        """As the meter promises. Raises OverBudget or Unpriced."""
        output = request.max_tokens or provider.max_tokens or OUTPUT_EXPECTED
        return self.quarantined(
            attribution, provider.name, provider.model, tokens=input_tokens + output, prompt=input_tokens,
            usd=_most(input_tokens, output, provider.prices), least_usd=_most(input_tokens, 0, provider.prices),
        )  # fmt: skip

    def quarantined(
        self, attribution: CostAttribution, provider: str, model: str, *, tokens: int, prompt: int, usd: float | None,
        least_usd: float | None,
    ) -> "Reserved":  # fmt: skip
        """Set aside what a call may take: at most `tokens` and `usd` (None: price unknown).

        `prompt` and `least_usd` are what it is entered with if nothing more is ever heard of it. Raises OverBudget or
        Unpriced, and then nothing may be called.
        """
        hold = self.budgets.hold(attribution, provider, model, usd=usd, tokens=tokens)
        entry = Entry(
            call=self._new_id(), at=to_timestamp(self._clock.now()), attribution=attribution, provider=provider,
            model=model,
            prompt=prompt, cost_usd=least_usd, estimated=True,
        )  # fmt: skip
        self._open[entry.call] = entry
        self._journal.open(entry)
        return Reserved(entry, hold, self)

    def enter(self, entry: Entry, hold: Hold) -> None:
        """The call has ended and came to this."""
        del self._open[entry.call]
        of_work = self._ended.setdefault(entry.attribution.inbox_id, {})
        of_work[entry.call] = _Ended(entry, self._clock.monotonic())
        self._anything.set()
        self._journal.end(entry)
        self.budgets.settle(hold, entry)
        self._bus.publish(
            CallBilled(
                conversation=entry.attribution.conversation,
                run=entry.attribution.run,
                purpose=entry.attribution.purpose,
                provider=entry.provider,
                model=entry.model,
                prompt=entry.prompt,
                output=entry.output,
                cache_creation=entry.cache_creation,
                cache_read=entry.cache_read,
                cost_usd=entry.cost_usd,
                estimated=entry.estimated,
            )
        )

    def drop(self, call: str, hold: Hold) -> None:
        """The call took nothing."""
        del self._open[call]
        self._journal.void(call)
        self.budgets.release(hold)

    # -- onto the disk

    def unwritten(self, inbox_id: int | None) -> tuple[Entry, ...]:
        """The calls made for that work (None: for no message) which its commit should take along, by `rows.add`."""
        return tuple(ended.entry for ended in self._ended.get(inbox_id, {}).values())

    def written(self, entries: Iterable[Entry]) -> None:
        """They are in the database."""
        for entry in entries:
            of_work = self._ended.get(entry.attribution.inbox_id, {})
            if of_work.pop(entry.call, None) is not None and not of_work:
                del self._ended[entry.attribution.inbox_id]
        if not self._ended and self._anything.is_set():  # one that is waited for stays
            self._anything = anyio.Event()
        if self._journal.is_long:
            self._journal.shrink(self._open.values(), (ended.entry for ended in self._all_ended()))

    async def flush(self, *, older_than_s: float = 0.0) -> None:
        """Write what ended that long ago. Raises StorageTrouble."""
        before = self._clock.monotonic() - older_than_s
        while ripe := [ended.entry for ended in self._all_ended() if ended.since <= before][:MOST_AT_ONCE]:
            await self._add(ripe)
            self.written(ripe)

    def _all_ended(self) -> Iterator[_Ended]:
        return chain.from_iterable(of_work.values() for of_work in self._ended.values())

    async def _add(self, entries: Sequence[Entry]) -> None:
        """Write them; one that no database takes is left out, loudly, so that it cannot hold up the others for ever."""
        try:
            await self._database.write(lambda conn: rows.add(conn, entries))
        except (SQLAlchemyError, ArithmeticError, ValueError):
            if len(entries) == 1:
                _log.exception("a call cannot be entered and is left out: %s", entries[0])
                return
            for entry in entries:
                await self._add((entry,))


class Reserved:
    """What was set aside for one attempt; settled once, however it ends."""

    def __init__(self, entry: Entry, hold: Hold, ledger: Ledger) -> None:
        self._entry = entry
        self._hold = hold
        self._ledger = ledger

    def settle(self, spent: Spent) -> None:
        """As the meter promises."""
        if spent.is_nothing:
            self.release()
            return
        usage = spent.usage
        self.enter(
            replace(
                self._entry,
                model=spent.model,
                prompt=usage.prompt,
                output=usage.output,
                cache_creation=usage.cache_creation,
                cache_read=usage.cache_read,
                cost_usd=spent.cost_usd,
                estimated=spent.estimated,
            )
        )

    @property
    def entry(self) -> Entry:
        """What the call is entered with if nothing more is heard of it."""
        return self._entry

    def enter(self, entry: Entry) -> None:
        """It came to this."""
        self._ledger.enter(entry, self._hold)

    def release(self) -> None:
        """It took nothing."""
        self._ledger.drop(self._entry.call, self._hold)


def _most(prompt: int, output: int, prices: Prices | None) -> float | None:
    """USD of a call whose whole prompt is paid at the dearest tier that it may fall into; None: price unknown."""
    if prices is None:
        return None
    dearest = max(prices.input, prices.of_cache_write, prices.of_cache_read)
    return (prompt * dearest + output * prices.output) / 1_000_000
