"""`tieline backup`."""

from pathlib import Path

import click

from gateway.cli.offline import operate
from gateway.cli.options import config_option


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@config_option
def command(file: Path | None, config_path: Path | None, home: Path | None) -> None:
    """Copy the database to FILE (else below TIELINE_HOME/backups), also while the gateway runs."""
    answer = operate("backup", config_path, home, path=str(file.absolute()) if file else None)
    click.echo(f"{answer['path']} ({answer['bytes'] / 1e6:.1f} MB)")
