"""Filling of the dashboard's templates; every value is escaped."""

from datetime import UTC, datetime
from pathlib import Path

from agent.core.phrases import counted
from gateway.web.overview import compact, money
from gateway.web.pages.rendering import environment


def _took(ms: int | None) -> str:
    """A time for people: "340 ms", "12.4 s", "3 min 20 s"; "–" where it is not known."""
    if ms is None:
        return "–"
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1_000:.1f} s"
    return f"{ms // 60_000} min {ms % 60_000 // 1_000} s"


def size_in_words(size: int | None) -> str:
    """A size in bytes for people: "340 kB", "1.2 GB"; "–" where it is not known."""
    if size is None:
        return "–"
    for unit, bytes_in in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= bytes_in:
            return f"{size / bytes_in:.1f} {unit}" if size < 100 * bytes_in else f"{size / bytes_in:,.0f} {unit}"
    return f"{size} B"


def _utc(at: datetime) -> str:
    """To the minute, for the title of a time and for a reader without scripts; the script tells the reader's zone."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _kind(piece: object) -> str:
    """The class of a piece of a document, by which its template tells it from others."""
    return type(piece).__name__


_ENVIRONMENT = environment(Path(__file__).parent.parent / "templates")  # a cache of compiled templates, no state
_ENVIRONMENT.filters["compact"] = compact
_ENVIRONMENT.filters["counted"] = counted
_ENVIRONMENT.filters["kind"] = _kind
_ENVIRONMENT.filters["money"] = money
_ENVIRONMENT.filters["size"] = size_in_words
_ENVIRONMENT.filters["took"] = _took
_ENVIRONMENT.filters["utc"] = _utc


def render(name: str, **values: object) -> str:
    """The page as HTML."""
    return _ENVIRONMENT.get_template(name).render(**values)
