"""Filling of the dashboard's templates; every value is escaped."""

import re
from collections.abc import Collection
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from markupsafe import Markup, escape

from agent.core.phrases import counted
from gateway.config.settings import Sections
from gateway.web.overview import compact, money
from gateway.web.pages.rendering import environment


def took(ms: int | None) -> str:
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


_TABLE = re.compile(r"\[{1,2}([a-z][a-z_]*)((?:\.[a-z][a-z_]*)*)\]{1,2}")


def _tables(text: str, rights: Collection[str]) -> Markup:
    """A sentence whose names of configuration tables, as in `[alerts.email]`, lead who may configure to their forms."""

    def linked(found: re.Match[str]) -> str:
        if found[1] not in Sections.model_fields:
            return found[0]
        return f'<a href="/settings/{found[1]}{found[2]}">{found[0]}</a>'

    written = escape(text)
    # Nothing that the expression finds needs escaping, and what is around it was escaped.
    return Markup(_TABLE.sub(linked, str(written))) if "configure" in rights else written  # noqa: S704


_ENVIRONMENT = environment(Path(__file__).parent.parent / "templates")  # a cache of compiled templates, no state
_ENVIRONMENT.filters["compact"] = compact
_ENVIRONMENT.filters["counted"] = counted
_ENVIRONMENT.filters["kind"] = _kind
_ENVIRONMENT.filters["money"] = money
_ENVIRONMENT.filters["exact_money"] = partial(money, exact=True)
_ENVIRONMENT.filters["size"] = size_in_words
_ENVIRONMENT.filters["tables"] = _tables
_ENVIRONMENT.filters["took"] = took
_ENVIRONMENT.filters["utc"] = _utc


def render(name: str, **values: object) -> str:
    """The page as HTML."""
    return _ENVIRONMENT.get_template(name).render(**values)
