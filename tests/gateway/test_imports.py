"""The start is light: what is slow to import is loaded by name when it is configured."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.waiting import until
from tests.program.running import Program

HEAVY = {
    *("aiohttp", "alembic", "anthropic", "discord", "jinja2", "litellm", "markdown_it", "mcp", "numpy", "openai"),
    *("psycopg", "pytest", "slack_bolt", "slack_sdk", "sqlalchemy", "telegram", "tiktoken", "yaml"),
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
    assert {"sqlalchemy", "alembic"} & loaded_by("gateway.composition")


def test_the_house_loads_nothing_that_is_seldom_needed() -> None:
    """Each would take one to eight megabytes of every idle process."""
    loaded = loaded_by("gateway.composition", "adapters.web.adapter", "adapters.console")
    assert loaded.isdisjoint({"cryptography", "jinja2", "pygments", "regex", "rich", "tarfile", "tomlkit"})


def test_the_settings_of_every_platform_come_without_its_library() -> None:
    modules = [f"adapters.{name}.settings" for name in ("telegram", "discord", "slack", "web")]
    assert loaded_by("gateway.config.read", *modules, "adapters.console").isdisjoint(HEAVY)


LATER = {"apscheduler", "h11", "httpx", "jinja2", "markdown_it", "multipart", "nh3", "regex", "telegram", "yaml"}
EARLY_MOST = 190  # modules of our own; all of them together are three times as many
TELEGRAM = '[[channels]]\ntype = "telegram"\ntoken = "123456:TEST-token"\napi_base_url = "http://127.0.0.1:9"\n'


async def test_a_platform_is_signed_in_to_before_the_rest_of_the_gateway_is_imported(tmp_path: Path) -> None:
    program = Program(tmp_path / "home", TELEGRAM, {"PYTHONPROFILEIMPORTTIME": "1"})
    program.start()
    try:
        await until(lambda: " gateway.services\n" in program.log.read_text(), longest_s=100.0)
    finally:
        program.kill()
    names = re.findall(r"^import time:[ \d]+\|[ \d]+\| +([\w.]+)$", program.log.read_text(), re.MULTILINE)
    early = names[: 1 + max(at for at, name in enumerate(names) if name.startswith("adapters.telegram."))]
    assert {name.partition(".")[0] for name in early} & {*LATER, *HEAVY} <= {"aiohttp", "sqlalchemy"}
    assert not [name for name in names if name.startswith("sqlalchemy.dialects.postgresql")]
    ours = [name for name in early if name.partition(".")[0] in ("agent", "gateway", "adapters")]
    assert len(ours) <= EARLY_MOST, f"{len(ours)} modules are imported before a platform is called"
