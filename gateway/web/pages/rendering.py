"""Fills the templates; everything that is filled in is escaped."""

from datetime import UTC, datetime
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_FOLDER = Path(__file__).parent / "templates"


def _moment(at: datetime | None) -> str:
    """For the `datetime` attribute of `<time>`; the browser shows it in its own zone."""
    return at.astimezone(UTC).isoformat(timespec="seconds") if at else ""


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["moment"] = _moment
    return environment


_ENVIRONMENT = _environment()  # a cache of compiled templates, no state


def render(name: str, **values: object) -> str:
    """The page as HTML."""
    return _ENVIRONMENT.get_template(name).render(**values)
