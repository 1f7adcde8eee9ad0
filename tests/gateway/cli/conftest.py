"""`tieline …` as somebody types it, on a data directory of its own."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.cli.main import cli

Tieline = Callable[..., Result]

# What of the surroundings would change what the commands do.
_AWAY = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "LLM_API_KEY", "TIELINE_HOME"))


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("h")  # short: the path of the control socket must fit into 107 bytes


@pytest.fixture
def tieline(home: Path) -> Tieline:
    """Runs a command in this process; exceptions other than an exit are the test's."""
    runner = CliRunner(env={**_AWAY, "TIELINE_HOME": str(home)})

    def run(*args: str, stdin: str | None = None, config: str | None = None, **environ: str) -> Result:
        if config is not None:
            (home / "gateway.toml").write_text(config)
        return runner.invoke(
            cli, list(args), input=stdin, env=environ or None, prog_name="tieline", catch_exceptions=False
        )

    return run
