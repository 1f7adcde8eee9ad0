"""Operations for commands: through the running gateway, or on the database itself when none runs (DESIGN §13.2)."""

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import click

from agent.core.whole_text import one_line
from gateway.cli.options import fail, home_from, settings_from
from gateway.web.control_client import NoGateway, Refused, call, is_running


def operate(operation: str, config_path: Path | None, home: Path | None, **arguments: Any) -> Any:
    """Do it and return its answer; ends the program with the reason and the fix."""
    folder = home_from(home)
    try:
        if is_running(folder):  # its configuration is its own affair: ours may have mistakes by now
            return call(folder, operation, **arguments)
    except (NoGateway, Refused) as error:
        fail(f"{error}{'; ' + error.fix if isinstance(error, Refused) and error.fix else ''}")
    # Loaded only now: a running gateway answers without the price of these imports.
    settings = settings_from(config_path, home)
    alone = import_module("gateway.cli.alone")
    try:
        return anyio.run(partial(alone.Alone(settings).operate, operation, arguments))
    except alone.AloneError as error:
        fail(str(error))


def local_minute(moment: str) -> str:
    """A stored moment (ISO 8601, UTC) on the clock of this machine, as people read one."""
    return f"{datetime.fromisoformat(moment).astimezone():%Y-%m-%d %H:%M}"


def shown(rows: list[Mapping[str, Any]], columns: Mapping[str, str], empty: str) -> None:
    """A plain table: `columns` maps a row's key to its heading."""
    if not rows:
        click.echo(empty)
        return
    cells = [list(columns.values()), *([one_line(str(row[key])) for key in columns] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(columns))]
    for line in cells:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
