"""Options that several sub-commands share: the place of the configuration, and the telling of mistakes."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click

from agent.core.phrases import as_typed, home_as_typed
from gateway.config.errors import ConfigError
from gateway.config.read import ALWAYS, home_directory, load
from gateway.config.settings import Settings

MISCONFIGURED = 78  # EX_CONFIG of sysexits.h: starting again does not help until somebody changes the configuration


def config_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--config FILE` and `--home DIR`."""
    return click.option(
        "--config",
        "config_path",
        type=click.Path(path_type=Path),
        callback=_or_before,
        help="Configuration; else TIELINE_CONFIG, else gateway.toml in the data directory.",
    )(home_option(command))


def home_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--home DIR` alone."""
    return click.option(
        "--home",
        type=click.Path(path_type=Path),
        callback=_or_before,
        help="Data directory; else TIELINE_HOME, else ~/.tieline.",
    )(command)


def _or_before(context: click.Context, option: click.Parameter, given: Path | None) -> Path | None:
    """The option as given to the sub-command, else as given to a command before it: `tieline --home DIR inbox list`."""
    here: click.Context | None = context
    while given is None and here is not None:
        given, here = here.params.get(str(option.name)), here.parent
    return given


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--max-turns`, `--compaction`, `--auto-approve`, `--yolo`: what a file says otherwise, for this process."""
    for option in (
        click.option("--yolo", is_flag=True, help="Open every gate; only where nobody but this machine is served."),
        click.option("--auto-approve", is_flag=True, help="Answer yes for people; only as --yolo."),
        click.option("--compaction", type=click.Choice(["off", "safe", "full"]), help="As [context] compaction."),
        click.option("--max-turns", type=click.IntRange(min=1), help="Calls of the model in one run."),
    ):
        command = option(command)
    return command


def overlay(max_turns: int | None, compaction: str | None, *, auto_approve: bool, yolo: bool) -> dict[str, str]:
    """These options as the environment would say them: so they outlive a file that is read anew."""
    said = {
        "TIELINE__AGENT__MAX_TURNS": str(max_turns) if max_turns is not None else "",
        "TIELINE__CONTEXT__COMPACTION": compaction or "",
        "TIELINE__APPROVALS__AUTO_APPROVE": "true" if auto_approve or yolo else "",
        "TIELINE__APPROVALS__FORCE": "true" if yolo else "",
    }
    return {name: value for name, value in said.items() if value}


def refuse_to_open_gates(settings: Settings, flag: str) -> None:
    """End the program where other people than those at this machine are served: their word would be law (W-51)."""
    others = [one.type for one in settings.channels if one.type not in ALWAYS]
    if settings.web.allow_remote:
        others.append("the web from outside")
    if others:
        fail(f"{flag} opens gates for everybody, and there is {', '.join(others)}: set [approvals] in the file")


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


def typed(text: str) -> str:
    """`text`, its commands as they can be typed here for the data directory that this call is about."""
    context, home = click.get_current_context(silent=True), None
    while home is None and context is not None:
        home, context = context.params.get("home"), context.parent
    return as_typed(text, home_as_typed(home_from(home)))


def fail(message: str, code: int = 1) -> NoReturn:
    """Say what is wrong, to the error output, and end."""
    for line in typed(message).splitlines():
        click.secho(line, err=True, fg="red" if sys.stderr.isatty() else None)
    raise SystemExit(code)
