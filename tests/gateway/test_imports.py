"""The start is light: what is slow to import is loaded by name when it is configured (DESIGN §2, §11)."""

import subprocess
import sys

import pytest

HEAVY = {
    *("aiohttp", "alembic", "anthropic", "discord", "jinja2", "litellm", "markdown_it", "mcp", "numpy", "openai"),
    *("psycopg", "slack_bolt", "slack_sdk", "sqlalchemy", "telegram", "tiktoken", "yaml"),
}


def loaded_by(*modules: str) -> set[str]:
    """The top-level packages that a fresh interpreter has after importing these."""
    script = f"import sys, {', '.join(modules)}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return set(ran.stdout.split())


@pytest.mark.parametrize("module", ["gateway.cli.main", "gateway.cli.run", "gateway.app"])
def test_the_start_imports_nothing_heavy(module: str) -> None:
    assert loaded_by(module).isdisjoint(HEAVY)


def test_the_help_imports_nothing_but_click() -> None:
    """Not even our own rooms: `tieline --help` must be there at once."""
    light = loaded_by("gateway.cli.main")
    assert light.isdisjoint({"anyio", "pydantic", "pydantic_core", "starlette", "uvicorn", "agent", "adapters"})
    assert "click" in light


def test_the_house_is_what_is_heavy() -> None:
    """The counterpart: the check above can see what it looks for."""
    assert {"sqlalchemy", "alembic"} & loaded_by("gateway.building")


def test_the_house_loads_nothing_that_is_seldom_needed() -> None:
    """Each would take one to eight megabytes of every idle process."""
    loaded = loaded_by("gateway.building", "adapters.web.adapter", "adapters.console")
    assert loaded.isdisjoint({"cryptography", "jinja2", "pygments", "regex", "rich"})


def test_the_settings_of_every_platform_come_without_its_library() -> None:
    modules = [f"adapters.{name}.settings" for name in ("telegram", "discord", "slack", "web")]
    assert loaded_by("gateway.config.reading", *modules, "adapters.console").isdisjoint(HEAVY)
