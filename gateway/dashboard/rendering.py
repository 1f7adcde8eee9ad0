"""Filling of the dashboard's templates; every value is escaped."""

from pathlib import Path

from agent.core.phrases import counted
from gateway.web.overview import compact, money
from gateway.web.pages.rendering import environment

_ENVIRONMENT = environment(Path(__file__).parent / "templates")  # a cache of compiled templates, no state
_ENVIRONMENT.filters["compact"] = compact
_ENVIRONMENT.filters["counted"] = counted
_ENVIRONMENT.filters["money"] = money


def render(name: str, **values: object) -> str:
    """The page as HTML."""
    return _ENVIRONMENT.get_template(name).render(**values)
