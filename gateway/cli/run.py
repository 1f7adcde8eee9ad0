"""`tieline run`."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import anyio
import click

from agent.storage.errors import StorageError
from gateway.app import StartError, TakenOver, serve
from gateway.cli.options import config_option, fail, overlay, refuse_to_open_gates, run_options, settings_from


@click.command("run")
@config_option
@run_options
@click.option(
    "--role", help="What this process does: all, or ingress, worker, scheduler, delivery with commas between."
)
@click.option("--debug-dump", is_flag=True, help="Write all that goes to models and comes back into files.")
@click.option(
    "--dump-to", type=click.Path(file_okay=False, path_type=Path), help="Where to; left out: dumps below the data."
)
def command(
    config_path: Path | None,
    home: Path | None,
    max_turns: int | None,
    compaction: str | None,
    auto_approve: bool,
    yolo: bool,
    role: str | None,
    debug_dump: bool,
    dump_to: Path | None,
) -> None:
    """Start the gateway; it ends in order with Ctrl-C or SIGTERM."""
    os.environ.update(overlay(max_turns, compaction, auto_approve=auto_approve, yolo=yolo))
    if role is not None:
        os.environ["TIELINE__CLUSTER__ROLES"] = role
    settings = settings_from(config_path, home)
    if auto_approve or yolo:
        refuse_to_open_gates(settings, "--yolo" if yolo else "--auto-approve")
    if debug_dump or dump_to is not None:
        settings = settings.with_dumps(dump_to)
    try:
        anyio.run(
            serve,
            settings,
            click.echo,
            sys.stdout.isatty(),
            backend_options={"use_uvloop": find_spec("uvloop") is not None},
        )
    except StartError as error:
        fail(f"tieline cannot start: {error}")
    except BaseExceptionGroup as group:
        told, rest = group.split((StartError, StorageError))
        if told is None or rest is not None:
            raise
        first = _first(told)
        before = isinstance(first, StartError) and not isinstance(first, TakenOver)
        fail(f"tieline {'cannot start' if before else 'has ended'}: {first}")


def _first(group: BaseException) -> BaseException:
    return _first(group.exceptions[0]) if isinstance(group, BaseExceptionGroup) else group
