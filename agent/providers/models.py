"""Knowledge of models beyond the configuration: windows told by servers, sizes accepted or refused, dialects,
prices. In memory for each call; in the database for a restart and for other processes.
"""

import importlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol
from weakref import WeakKeyDictionary, WeakValueDictionary

import anyio
import anyio.to_thread

from agent.core.backoff import Backoff
from agent.core.clock import Clock, SystemClock
from agent.core.model_facts import ModelFacts, merged
from agent.providers.endpoints import without_login
from agent.providers.provider import Prices
from agent.providers.settings import ProviderSettings
from agent.storage.timestamps import to_timestamp

LEAST_WINDOW = 2_048  # tokens; no window is found to be smaller than this by what failed
# Tokens for the shipped instructions and tools, for an answer and for a few messages. In less a chat goes on, and
# forgets at nearly every turn.
USEFUL_WINDOW = 12_000

DAY_US = 24 * 3600 * 1_000_000
BELIEVED = Backoff(first_s=86_400.0, longest_s=32 * 86_400.0)  # a refusal, and twice as long each time it is confirmed
DIALECT_DAYS = 7  # then a server may have learned what it refused
WRITTEN_AT = 1.125  # times the largest answer that is written down: each turn of a growing chat makes a new one
TOLD_AGAIN_S = 24 * 3600.0  # a server may be started with another window
FIRST_AGAIN_S, LAST_AGAIN_S = 60.0, 6 * 3600.0  # where it did not tell

Source = Literal["configured", "listed", "told", "learned", "assumed"]

log = logging.getLogger("tieline.providers")


class LearnedWindow(Protocol):
    """`agent.providers.window_discovery.ServerWindow`, which comes with an HTTP client."""

    @property
    def tokens(self) -> int: ...
    @property
    def by(self) -> str: ...


class Answer(Protocol):
    """`agent.providers.window_discovery.ServerAnswer`."""

    @property
    def reached(self) -> bool: ...
    @property
    def told(self) -> LearnedWindow | None: ...


class Store(Protocol):
    """Where it is kept; `agent.storage.model_rows.ModelStore` is it. Neither raises: what fails is logged."""

    async def read_all(self) -> Sequence[ModelFacts]: ...
    async def put(self, facts: ModelFacts) -> ModelFacts | None:
        """The row as it stands now, with the findings of other processes; None where it could not be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowOrigin:
    """Where the size of a window is from. `by` is the server's own name for it; `at` in UTC microseconds."""

    source: Source
    by: str = ""
    at: int = 0
    answered: int = 0
    refused: int = 0


# Changes of what is known about a model. Pure.


def after_answer(facts: ModelFacts, tokens: int, at: int, *, estimated: int = 0) -> ModelFacts:
    """It answered a request of so many tokens. One as large was refused before: that does not hold any more.

    What was refused was never counted by the server, so it is compared with our own estimate as well.
    """
    facts = replace(facts, answered=max(facts.answered, tokens))
    if facts.refused is not None and max(tokens, estimated) >= facts.refused:
        facts = replace(facts, refused=None, refused_at=at, refusals=0)
    return facts


def after_refusal(facts: ModelFacts, tokens: int, at: int) -> ModelFacts:
    """It found a request of so many tokens too long."""
    smallest = min(tokens, facts.refused or tokens)
    return replace(facts, refused=smallest, refused_at=at, refusals=facts.refusals + 1)


def after_telling(facts: ModelFacts, told: int, by: str, at: int) -> ModelFacts:
    """Its server told the window. Another size than before is another start of it: what was refused before is over."""
    now = replace(facts, told=told, told_by=by, told_at=at)
    if told_exactly(now) is not None and told != facts.told and facts.refused is not None:
        now = replace(now, refused=None, refused_at=at, refusals=0)
    return now


def believed(facts: ModelFacts, now: int) -> ModelFacts:
    """Without what is too old to be relied on: a refusal may have had another reason, a server may be another one."""
    believed_us = int(BELIEVED.wait_s(facts.refusals) * 1_000_000)
    if facts.refused is not None and now >= facts.refused_at + believed_us:
        facts = replace(facts, refused=None, refused_at=now)
    if facts.dialect and now >= facts.dialect_at + DIALECT_DAYS * DAY_US:
        facts = replace(facts, dialect={}, dialect_at=now)
    return facts


def told_exactly(facts: ModelFacts) -> int | None:
    """The window that the server keeps, where it tells just that."""
    return facts.told if not facts.told_by.endswith(("n_ctx_train", "max_context_length", "model_info")) else None


class KnownModel:
    """Knowledge of one model at one address. Changes are written by `KnownModels`."""

    def __init__(self, facts: ModelFacts, owner: "KnownModels") -> None:
        self.facts = facts
        self.says_too_long = False  # its server said so in this process: no guess
        self._cut_off = 0  # times that its server went away over a request and had answered another before
        self._answered_since = True
        self._owner = owner
        self._written = facts.answered

    def answered(self, tokens: int, estimated: int = 0) -> None:
        """It answered a request of so many tokens, by its own count and by our estimate."""
        self._answered_since = True
        refused = self.facts.refused
        if tokens > self.facts.answered or (refused is not None and max(tokens, estimated) >= refused):
            self._cut_off = 0
            self.facts = after_answer(self.facts, tokens, self._owner.now(), estimated=estimated)
            if self.facts.refused != refused:
                self.says_too_long = False
            if self.facts.answered > self._written * WRITTEN_AT or self.facts.refused != refused:
                self._written = self.facts.answered
                self._owner.changed(self)

    def went_away(self) -> int:
        """Its server cut a call off and is not there; how often so far. One outage counts once, however long it is."""
        if self._answered_since:
            self._cut_off, self._answered_since = self._cut_off + 1, False
        return self._cut_off

    def refused(self, tokens: int, *, said: bool = False) -> None:
        """It found a request of so many tokens too long. `said`: in words, so that it is no guess."""
        self.says_too_long = self.says_too_long or said
        self.facts = after_refusal(self.facts, tokens, self._owner.now())
        self._owner.changed(self)

    def forget_refusal(self) -> None:
        """Forget which length was too long for it; the next refusal for length counts again."""
        if self.facts.refused is not None:
            self.says_too_long = False
            self.facts = replace(self.facts, refused=None, refused_at=self._owner.now())
            self._owner.changed(self)

    def told(self, told: LearnedWindow) -> None:
        """Its server told the window."""
        self.facts = after_telling(self.facts, told.tokens, told.by, self._owner.now())
        self._owner.changed(self)

    def speaks(self, dialect: Mapping[str, Any]) -> None:
        """Its server differs in this from what was guessed."""
        if dialect != self.facts.dialect:
            self.facts = replace(self.facts, dialect=dialect, dialect_at=self._owner.now())
            self._owner.changed(self)


class Windowed(Protocol):
    """A provider whose window is asked for; `agent.providers.registry.LazyProvider` is one."""

    name: str
    settings: ProviderSettings
    known: KnownModel

    @property
    def context_window(self) -> int: ...


@dataclass(slots=True)
class _Due:
    at: float  # monotonic seconds
    again_s: float = FIRST_AGAIN_S


class KnownModels:
    """All of them. Without a store they are known for as long as the process lives."""

    def __init__(
        self,
        clock: Clock | None = None,
        store: Store | None = None,
        *,
        on_window: Callable[[str, str, int], None] = lambda provider, model, tokens: None,
    ) -> None:
        """`on_window` hears of each window that became known: provider, model, tokens."""
        self._clock = clock or SystemClock()
        self._store = store
        self._on_window = on_window
        self._stored: dict[tuple[str, str, str], ModelFacts] = {}
        self._models: WeakValueDictionary[tuple[str, str, str], KnownModel] = WeakValueDictionary()
        self._changed: dict[KnownModel, None] = {}
        self._due: WeakKeyDictionary[Windowed, _Due] = WeakKeyDictionary()
        self._something = anyio.Event()

    def now(self) -> int:
        return to_timestamp(self._clock.now())

    @property
    def is_unwritten(self) -> bool:
        """Whether something has changed since it was written."""
        return bool(self._changed)

    async def load(self) -> None:
        """Read what is stored, before the first provider is made. What cannot be read is found out again."""
        if self._store is not None:
            self._stored = {facts.key: facts for facts in await self._store.read_all()}

    def of(self, settings: ProviderSettings) -> KnownModel:
        """The knowledge of that model at that address; the same object for all who ask."""
        key = (settings.name, settings.model, without_login(settings.base_url))
        known = self._models.get(key)
        if known is None:
            facts = self._stored.get(key) or ModelFacts(provider=key[0], model=key[1], address=key[2])
            known = self._models[key] = KnownModel(believed(facts, self.now()), self)
        return known

    def changed(self, known: KnownModel) -> None:
        """It is to be written."""
        self._changed[known] = None
        self._something.set()

    def expect(self, provider: Windowed) -> None:
        """Its window is not known: ask its server, soon and in the background."""
        if provider not in self._due:
            self._due[provider] = _Due(self._clock.monotonic())
            self._something.set()

    def window_is(self, provider: Windowed) -> None:
        """Tell who wants to know how large that window is, as far as is known now."""
        self._on_window(provider.name, provider.settings.model or provider.settings.type, provider.context_window)

    async def run(self) -> None:
        """Ask servers and write what was found out, until cancelled; no turn waits for either."""
        while True:
            self._something = anyio.Event()
            await self.flush()
            await self._ask_due()
            for known in list(self._models.values()):
                known.facts = believed(known.facts, self.now())
            with anyio.move_on_after(self._idle_s()):
                await self._something.wait()

    async def ask(self, provider: Windowed) -> Answer:
        """The window that its server tells now. Never raises; takes some seconds at most."""
        discovery = await anyio.to_thread.run_sync(importlib.import_module, "agent.providers.window_discovery")
        answer: Answer = await discovery.ask(provider.settings)
        if answer.told is not None:
            before = provider.known.facts
            provider.known.told(answer.told)
            if (before.told, before.told_by) != (answer.told.tokens, answer.told.by):
                log.info("%s tells a window of %d tokens (%s)", provider.name, answer.told.tokens, answer.told.by)
            self.window_is(provider)
        return answer

    async def flush(self) -> None:
        """Write what has changed; what cannot be written now is tried again with the next change."""
        for known in list(self._changed):
            if not await self.write(known):
                return

    async def write(self, known: KnownModel) -> bool:
        """Write what is known of one model, and take over what other processes know of it. Never raises."""
        self._changed.pop(known, None)
        facts = known.facts
        stored = facts if self._store is None else await self._store.put(facts)
        if stored is None:
            self._changed[known] = None
            return False
        self._stored[facts.key] = stored
        known.facts = believed(merged(known.facts, stored), self.now())
        return True

    async def _ask_due(self) -> None:
        now = self._clock.monotonic()
        for provider, due in list(self._due.items()):
            if due.at > now:
                continue
            answer = await self.ask(provider)
            exact = answer.told is not None and told_exactly(provider.known.facts) is not None
            due.at = self._clock.monotonic() + (TOLD_AGAIN_S if exact else due.again_s)
            due.again_s = FIRST_AGAIN_S if exact else min(2 * due.again_s, LAST_AGAIN_S)

    def _idle_s(self) -> float:
        now = self._clock.monotonic()
        first = min((due.at - now for due in self._due.values()), default=LAST_AGAIN_S)
        return max(0.0, min(first, FIRST_AGAIN_S if self._changed else LAST_AGAIN_S))


# Table of models: price, window and inputs. `make lock` makes it of litellm's (`tools/model_table.py`). It is read
# where litellm is installed too, so that a model has one price and one window with and without that extra.

DEFAULT_WINDOW = 128_000  # tokens, where nobody says
TABLE = Path(__file__).with_name("models.json")
PER = 1_000_000  # the table counts dollars a token, we a million


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """The table's facts about a model; None and empty where it has none."""

    window: int | None = None
    max_output: int | None = None
    prices: Prices | None = None
    sees: bool | None = None
    calls_tools: bool | None = None
    reasons: bool | None = None
    adapts: bool = False  # finds out by itself how much to think
    documents: tuple[str, ...] = ()
    usd_per_second: float | None = None  # of sound, where that is sold by the second


UNKNOWN = Card()


def lookup(type_: str, model: str, table: Path = TABLE, *, cache_ttl: str = "auto") -> Card:
    """The card of `model`. Reads a file of half a megabyte: call it in a thread. Unknown models give `UNKNOWN`.

    A cache entry that lives for an hour has its own price; "auto" chooses the hour for all that is worth caching
    so only "5m" is priced as five minutes.
    """
    if type_ == "demo":
        return UNKNOWN
    try:
        entries = json.loads(table.read_bytes())
    except (OSError, ValueError):
        return UNKNOWN
    for name in _names(type_, model):
        entry = entries.get(name)
        if isinstance(entry, dict):
            return _card(entry, hour=cache_ttl != "5m")
    return UNKNOWN


def cards(type_: str, models: Sequence[str], table: Path = TABLE, *, beginning: str = "") -> Mapping[str, Card]:
    """The cards of those of the models that the table knows, and of all whose name begins so. Call it in a thread."""
    if type_ == "demo":
        return {}
    try:
        entries = json.loads(table.read_bytes())
    except (OSError, ValueError):
        return {}
    names = [*models, *(name for name in entries if beginning and name.startswith(beginning))]
    found = {model: next((entries[name] for name in _names(type_, model) if name in entries), None) for model in names}
    return {model: _card(entry, hour=True) for model, entry in found.items() if isinstance(entry, dict)}


def _names(type_: str, model: str) -> Iterator[str]:
    yield model
    yield f"{type_}/{model}"
    if type_ == "litellm" and "/" in model:
        yield model.split("/", 1)[1]  # litellm's models carry their vendor, the table often does not


def _card(entry: Mapping[str, Any], *, hour: bool) -> Card:
    return Card(
        window=_tokens(entry.get("max_input_tokens") or entry.get("max_tokens")),
        max_output=_tokens(entry.get("max_output_tokens")),
        prices=_prices(entry, hour=hour),
        sees=_bool(entry.get("supports_vision")),
        calls_tools=_bool(entry.get("supports_function_calling")),
        reasons=_bool(entry.get("supports_reasoning")),
        adapts=entry.get("supports_adaptive_thinking") is True,
        documents=("application/pdf",) if entry.get("supports_pdf_input") is True else (),
        usd_per_second=_dollars(entry, "input_cost_per_second", 1),
    )


def _prices(entry: Mapping[str, Any], *, hour: bool) -> Prices | None:
    read, written = _dollars(entry, "input_cost_per_token"), _dollars(entry, "output_cost_per_token")
    if read is None or written is None:
        return None
    write = _dollars(entry, "cache_creation_input_token_cost")
    if hour:
        write = _dollars(entry, "cache_creation_input_token_cost_above_1hr") or write
    return Prices(
        input=read,
        output=written,
        cache_write=write,
        cache_read=_dollars(entry, "cache_read_input_token_cost"),
    )


def _dollars(entry: Mapping[str, Any], key: str, per: int = PER) -> float | None:
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        return None
    return round(value * per, 9)


def _bool(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _tokens(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
