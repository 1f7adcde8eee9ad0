"""Settings that need an extra which is not installed; `tests/tools/test_default_install.py` leaves it out for real."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.gateway.cli.test_init import typed

# as Python remembers a module that cannot be imported
NOT_HERE = "import sys; sys.modules['litellm'] = sys.modules['psycopg'] = None"
LITELLM = '[[llm.providers]]\nname = "bedrock"\ntype = "litellm"\nmodel = "bedrock/some-model"\n'
POSTGRES = '[database]\nurl = "postgresql://db.invalid/tieline"\n'
SENTENCE = 'type "litellm" needs the extra "litellm", which is not installed; `make setup` in '
ABOUT_POSTGRES = 'database.url: PostgreSQL needs the extra "postgresql", which is not installed; `make setup` in '


def ran(script: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"{NOT_HERE}\n{script}", *arguments],
        input=stdin, capture_output=True, text=True, timeout=60, check=False, start_new_session=True,
    )  # fmt: skip


@pytest.mark.requirement("G-29")
@pytest.mark.parametrize(
    ("config", "sentence"), [(LITELLM, f"llm.providers (bedrock): {SENTENCE}"), (POSTGRES, ABOUT_POSTGRES)]
)
@pytest.mark.parametrize("command", [("config", "check"), ("doctor", "--offline"), ("run",)], ids=" ".join)
def test_every_command_tells_how_to_install_it(
    tmp_path: Path, command: tuple[str, ...], config: str, sentence: str
) -> None:
    (tmp_path / "gateway.toml").write_text(config)
    told = ran("from gateway.__main__ import main; main()", *command, "--home", str(tmp_path))
    assert told.returncode == 78, "a service manager does not try again"
    assert sentence in told.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["gateway.toml"], "nothing was begun"


def test_the_wizard_tells_it_before_more_is_typed(tmp_path: Path) -> None:
    answers = typed("litellm", "demo", "", "", "", "", "", "")
    told = ran("from gateway.__main__ import main; main()", "init", "--home", str(tmp_path / "h"), stdin=answers)
    assert told.returncode == 0, told.stderr
    assert told.stdout.count(SENTENCE) == 1
    assert told.stdout.count("Model ") == 0
    assert 'type = "demo"' in (tmp_path / "h" / "gateway.toml").read_text()


def test_a_database_that_no_configuration_names_tells_it_too(tmp_path: Path) -> None:
    """As one that a caller of the package opens by its address."""
    script = """
import anyio
from pathlib import Path
from agent.storage.errors import DatabaseUnusable
from gateway.storage.repair import open_database
try:
    anyio.run(open_database, "postgresql://db.invalid/tieline", Path(sys.argv[1]))
except DatabaseUnusable as error:
    print(error)
"""
    told = ran(script, str(tmp_path))
    assert told.stdout.startswith(ABOUT_POSTGRES), told.stderr


def test_a_call_tells_it_too(tmp_path: Path) -> None:
    """Should it be taken away while the gateway runs."""
    script = """
import anyio
from pathlib import Path
from agent.core.clock import SystemClock
from agent.core.errors import ProviderRefused
from agent.providers.registry import LazyProvider, ProviderDeps
from agent.providers.settings import ProviderSettings
settings = ProviderSettings(name="bedrock", type="litellm", model="bedrock/some-model")
try:
    anyio.run(LazyProvider(settings, ProviderDeps(home=Path(sys.argv[1]), clock=SystemClock())).open)
except ProviderRefused as error:
    print(error, error.any_request)
"""
    told = ran(script, str(tmp_path))
    assert told.stdout.startswith(f"bedrock: {SENTENCE}"), told.stderr
    assert told.stdout.endswith("True\n"), "another provider stands in"
