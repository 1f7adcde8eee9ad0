"""`tieline doctor`: tells every finding and how to mend what is wrong. Changes nothing, unless asked to."""

from functools import partial
from importlib import import_module
from pathlib import Path

import anyio
import click

from agent.core.phrases import as_typed, home_as_typed
from gateway.channels.adapter import Diagnosis
from gateway.cli.options import config_option, home_from, settings_from
from gateway.config.settings import Settings
from gateway.doctor.findings import everything
from gateway.web.control_client import call, is_running

MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "error": ("✗", "red")}


@click.command("doctor")
@click.option("--fix", is_flag=True, help="First mend what can be mended.")
@click.option("--offline", is_flag=True, help="Ask neither models nor platforms.")
@click.option("--drill", is_flag=True, help="Also restore the newest backup into a folder that is removed again.")
@config_option
def command(fix: bool, offline: bool, drill: bool, config_path: Path | None, home: Path | None) -> None:
    """Check everything and tell how to mend it. Exit code 1 when something is broken.

    Each model gets one small request, each platform is asked about its account; --offline asks neither. With --fix the
    rights of files, leftovers of a killed process and, while no gateway runs, the database are mended first.
    """
    if fix:  # a secret that others may read is no configuration: before that is read
        _mend_rights(home_from(home))
    settings = settings_from(config_path, home)
    if fix:
        anyio.run(_fix, settings)
    raise SystemExit(int(anyio.run(_tell_everything, settings, offline, drill)))


def _mend_rights(home: Path) -> None:
    try:
        for line in import_module("gateway.cli.checks.repair").rights(home):
            click.echo(f"{click.style('⚒', fg='green')} {line}")
    except OSError as error:
        click.echo(f"{click.style('✗', fg='red')} not mended: {as_typed(str(error), home_as_typed(home))}")


async def _fix(settings: Settings) -> None:
    mending, alone = import_module("gateway.cli.checks.repair"), import_module("gateway.cli.offline")
    try:
        async for line in mending.mended(settings, running=is_running(settings.home)):
            click.echo(f"{click.style('⚒', fg='green')} {line}")
    except (alone.AloneError, OSError) as error:
        click.echo(f"{click.style('✗', fg='red')} not mended: {as_typed(str(error), home_as_typed(settings.home))}")


async def _tell_everything(settings: Settings, offline: bool, drill: bool) -> bool:
    """Print each finding as soon as it is there; gives whether one is an error."""
    worst = False
    status = partial(anyio.to_thread.run_sync, call, settings.home, "status") if is_running(settings.home) else None
    async for found in everything(settings, status, offline=offline, drill=drill):
        tell(found, settings.home)
        worst |= found.level == "error"
    return worst


def tell(found: Diagnosis, home: Path) -> None:
    """Print a finding, its commands as they can be typed here."""
    mark, colour = MARKS[found.level]
    click.echo(f"{click.style(mark, fg=colour)} {found.subject}: {as_typed(found.finding, home_as_typed(home))}")
    if found.fix and found.level != "ok":
        click.echo(f"    → {as_typed(found.fix, home_as_typed(home))}")
