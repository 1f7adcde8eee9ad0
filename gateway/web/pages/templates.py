"""Pages, with the template engine imported at the first one: the server must answer before that (DESIGN §11)."""

from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

from anyio import to_thread
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from agent.core.phrases import program_as_typed


async def page(name: str, **values: object) -> str:
    """The HTML of a template in `templates/`."""
    rendering = await to_thread.run_sync(import_module, "gateway.web.pages.templates")
    text: str = rendering.render(name, **values)
    return text


async def sign_in_page(problem: str = "") -> str:
    """What is shown to whoever is not signed in."""
    return await page("sign_in.html", problem=problem, program=program_as_typed(to_unpaired=True))


# Fills the templates; everything that is filled in is escaped.

_FOLDER = Path(__file__).parent / "templates"


def _moment(at: datetime | None) -> str:
    """For the `datetime` attribute of `<time>`; the browser shows it in its own zone."""
    return at.astimezone(UTC).isoformat(timespec="seconds") if at else ""


def _code(text: str) -> Markup:
    """A sentence whose commands stand between backticks, as they do in a terminal."""
    pieces = [escape(piece) for piece in text.split("`")]
    marked = (Markup("<code>{}</code>").format(piece) if number % 2 else piece for number, piece in enumerate(pieces))
    return Markup("").join(marked) if len(pieces) % 2 else escape(text)


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["moment"] = _moment
    environment.filters["code"] = _code
    return environment


_ENVIRONMENT = _environment()  # a cache of compiled templates, no state


def render(name: str, **values: object) -> str:
    """The page as HTML."""
    return _ENVIRONMENT.get_template(name).render(**values)
