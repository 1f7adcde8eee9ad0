"""`tieline upgrade`: what a new version will change here, and the steps. It installs and changes nothing."""

import os
import shlex
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import click

from gateway.channels.adapter import Diagnosis
from gateway.cli.options import MISCONFIGURED, config_option, home_from, typed
from gateway.config.errors import ConfigError
from gateway.config.read import load

WHEEL = "./tieline-NEW-py3-none-any.whl"
IN_A_CONTAINER = (Path("/.dockerenv"), Path("/run/.containerenv"))


@click.command("upgrade")
@click.option("--check", is_flag=True, help="Say what this version will change in the data directory; change nothing.")
@config_option
def command(check: bool, config_path: Path | None, home: Path | None) -> None:
    """Print the steps of an upgrade; --check, with the program of the new version: what its start will change.

    Neither installs or changes anything, and a gateway may run meanwhile. The exit code of --check is 0 when nothing
    stands in the way of the start, 78 for a mistake in the configuration, else 1.
    """
    if check:
        raise SystemExit(_checked(config_path, home))
    source = Path(__file__).parents[2]
    steps = steps_for(
        clone=source if (source / "pyproject.toml").exists() else None,
        is_image="KUBERNETES_SERVICE_HOST" in os.environ or any(one.exists() for one in IN_A_CONTAINER),
        is_uv_tool=(Path(sys.prefix) / "uv-receipt.toml").exists(),
        python=sys.executable,
        has_pip=find_spec("pip") is not None,
    )
    click.echo("Tieline installs nothing by itself. The steps for this installation:")
    for number, step in enumerate(steps, start=1):
        click.echo(f"  {number}. {typed(step)}")


def steps_for(*, clone: Path | None, is_image: bool, is_uv_tool: bool, python: str, has_pip: bool) -> Sequence[str]:
    """The steps of an upgrade, for the way in which the program was installed. Pure."""
    if clone is not None:
        install = f"install the new version: cd {shlex.quote(str(clone))} && git pull && make setup"
    elif is_uv_tool:
        install = f"install the new version, where its wheel lies: uv tool install --force {WHEEL}"
    elif is_image:
        return (
            "`tieline backup`, in the container that runs",
            "build or load the new image, while the old container runs on",
            "run `tieline upgrade --check` in a new container of that image, with the same volume and environment",
            "replace the container: docker compose up --detach, or the image in the manifest",
            "`tieline doctor`, in the new container",
        )
    else:
        pip = f"{shlex.quote(python)} -m pip install" if has_pip else f"uv pip install --python {shlex.quote(python)}"
        install = f"install the new version, where its wheel lies: {pip} {WHEEL}"
    return (
        "`tieline backup`",
        "stop the gateway: Ctrl-C, or systemctl stop tieline",
        install,
        "`tieline upgrade --check` says what the next start will change",
        "start the gateway again, then `tieline doctor`",
    )


def _checked(config_path: Path | None, home: Path | None) -> int:
    """Print all findings; gives the exit code."""
    folder = home_from(home)
    tell = import_module("gateway.cli.doctor").tell
    checks = import_module("gateway.cli.checks.upgrade")
    try:
        settings = load(config_path, {**os.environ, "TIELINE_HOME": str(folder)})
    except ConfigError as error:
        for one in (*checks.versions(folder), *map(_mistake, error.mistakes)):
            tell(one, folder)
        click.echo("This version does not start with that configuration; the database was not looked at.")
        return MISCONFIGURED
    worst = False
    for found in checks.findings(settings):
        tell(found, folder)
        worst |= found.level == "error"
    click.echo("This version would not start." if worst else "Nothing stands in the way. Nothing was changed.")
    return int(worst)


def _mistake(text: str) -> Diagnosis:
    return Diagnosis(subject="configuration", level="error", finding=text, fix="correct it, or stay with your version")
