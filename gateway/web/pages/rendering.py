"""Filling of the page templates; every value is escaped."""

from datetime import UTC, datetime
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from agent.core.phrases import as_typed

_FOLDER = Path(__file__).parent / "templates"


def _moment(at: datetime | None) -> str:
    """The `datetime` attribute of `<time>`; the browser shows it in its own zone."""
    return at.astimezone(UTC).isoformat(timespec="seconds") if at else ""


def _code(text: str) -> Markup:
    """A sentence whose commands stand between backticks, as they do in a terminal."""
    pieces = [escape(piece) for piece in text.split("`")]
    marked = (Markup("<code>{}</code>").format(piece) if number % 2 else piece for number, piece in enumerate(pieces))
    return Markup("").join(marked) if len(pieces) % 2 else escape(text)


def _typed(text: str, where: str) -> Markup:
    """The same, its commands as they are typed on the machine for the data directory of the option `where`."""
    return _code(as_typed(text, where))


def environment(folder: Path) -> Environment:
    """The templates of a folder, with the filters that all pages have."""
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters["coded"] = _code
    environment.filters["moment"] = _moment
    environment.filters["typed"] = _typed
    return environment


_ENVIRONMENT = environment(_FOLDER)  # a cache of compiled templates, no state


def render(name: str, **values: object) -> str:
    """The page as HTML."""
    return _ENVIRONMENT.get_template(name).render(**values)
