"""What a model costs, holds and reads, from the table in litellm's wheel; litellm itself is never imported here."""

import importlib.util
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.providers.provider import Prices

DEFAULT_WINDOW = 128_000  # tokens, where nobody says (SPEC §21.2)
TABLE = "model_prices_and_context_window_backup.json"
PER = 1_000_000  # the table counts dollars a token, we a million


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What is known of a model; None and empty where nothing is."""

    window: int | None = None
    max_output: int | None = None
    prices: Prices | None = None
    sees: bool | None = None
    documents: tuple[str, ...] = ()
    usd_per_second: float | None = None  # of sound, where that is sold by the second


UNKNOWN = Card()


def lookup(type_: str, model: str, table: Path | None = None, *, cache_ttl: str = "auto") -> Card:
    """The card of `model`. Reads a file of some megabytes: call it in a thread. Unknown models give `UNKNOWN`.

    A cache entry that lives for an hour has its own price; "auto" chooses the hour for all that is worth caching
    (SPEC §6.4), so only "5m" is priced as five minutes.
    """
    path = table or _bundled()
    if type_ == "demo" or path is None:
        return UNKNOWN
    try:
        entries = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return UNKNOWN
    for name in _names(type_, model):
        entry = entries.get(name)
        if isinstance(entry, dict):
            return _card(entry, hour=cache_ttl != "5m")
    return UNKNOWN


def _bundled() -> Path | None:
    found = importlib.util.find_spec("litellm")
    if found is None or not found.submodule_search_locations:
        return None
    return Path(next(iter(found.submodule_search_locations))) / TABLE


def _names(type_: str, model: str) -> Iterator[str]:
    yield model
    yield f"{type_}/{model}"
    if type_ == "litellm" and "/" in model:
        yield model.split("/", 1)[1]  # litellm's models carry their vendor, the table often does not


def _card(entry: Mapping[str, Any], *, hour: bool) -> Card:
    sees = entry.get("supports_vision")
    return Card(
        window=_tokens(entry.get("max_input_tokens") or entry.get("max_tokens")),
        max_output=_tokens(entry.get("max_output_tokens")),
        prices=_prices(entry, hour=hour),
        sees=sees if isinstance(sees, bool) else None,
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


def _tokens(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
