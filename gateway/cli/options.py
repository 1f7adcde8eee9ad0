"""What several sub-commands share: where the configuration is, and how mistakes are said."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click

from agent.core.program import as_typed
from gateway.config.mistakes import ConfigError
from gateway.config.reading import home_directory, load
from gateway.config.settings import Settings

MISCONFIGURED = 78  # EX_CONFIG of sysexits.h: starting again does not help until somebody changes the configuration


def config_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--config FILE` and `--home DIR`."""
    command = click.option(
        "--home", type=click.Path(path_type=Path), help="Data directory; else TIELINE_HOME, else ~/.tieline."
    )(command)
    return click.option(
        "--config",
        "config_path",
        type=click.Path(path_type=Path),
        help="Configuration; else TIELINE_CONFIG, else gateway.toml in the data directory.",
    )(command)


def settings_from(config_path: Path | None, home: Path | None) -> Settings:
    """The checked configuration; ends the program with one line a mistake."""
    environ = dict(os.environ)
    if home is not None:
        environ["TIELINE_HOME"] = str(home)
    try:
        return load(config_path, environ)
    except ConfigError as error:
        fail(str(error), MISCONFIGURED)


def home_from(home: Path | None) -> Path:
    """The data directory alone: whoever only speaks to a running gateway needs no configuration."""
    return home.absolute() if home is not None else home_directory(os.environ)


def fail(message: str, code: int = 1) -> NoReturn:
    """Say what is wrong, to the error output, and end."""
    for line in as_typed(message).splitlines():
        click.secho(line, err=True, fg="red" if sys.stderr.isatty() else None)
    raise SystemExit(code)
