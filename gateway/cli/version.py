"""`tieline version`."""

import platform
from importlib.metadata import version

import click


@click.command("version")
def command() -> None:
    """Print the version of Tieline and of Python."""
    click.echo(f"tieline {version('tieline')} (Python {platform.python_version()})")
