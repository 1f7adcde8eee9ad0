"""The ledger as comma-separated values, for a spreadsheet. Pure."""

import csv
from collections.abc import Iterable
from io import StringIO

from agent.ledger.attributions import Entry
from agent.storage.timestamps import from_timestamp

COLUMNS = (
    "time", "channel", "person", "purpose", "job", "goal", "provider", "model", "input_tokens", "output_tokens",
    "cache_write_tokens", "cache_read_tokens", "audio_seconds", "cost_usd", "estimated", "call",
)  # fmt: skip
HEADING = ",".join(COLUMNS) + "\r\n"

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def lines(entries: Iterable[Entry]) -> str:
    """One line a call. An unknown price is empty, never 0."""
    out = StringIO()
    writer = csv.writer(out)
    for entry in entries:
        attribution = entry.attribution
        named = (
            attribution.conversation,
            attribution.person,
            attribution.purpose,
            attribution.job,
            attribution.goal,
            entry.provider,
            entry.model,
        )
        writer.writerow(
            (
                from_timestamp(entry.at).isoformat(timespec="milliseconds"),
                *(_text(value) for value in named),
                entry.prompt,
                entry.output,
                entry.cache_creation,
                entry.cache_read,
                f"{entry.audio_s:g}" if entry.audio_s else "",
                "" if entry.cost_usd is None else f"{entry.cost_usd:.9f}".rstrip("0").rstrip("."),
                "yes" if entry.estimated else "no",
                entry.call,
            )
        )
    return out.getvalue()


def _text(value: str | None) -> str:
    """What people name themselves must not become a formula."""
    text = value or ""
    return f"'{text}" if text.startswith(_FORMULA) else text
