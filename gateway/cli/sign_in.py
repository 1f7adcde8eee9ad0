"""`tieline sign-in`."""

from pathlib import Path

import click

from gateway.cli.options import config_option, fail, home_from
from gateway.web.control_client import NoGateway, Refused, call


@click.command("sign-in")
@config_option
def command(config_path: Path | None, home: Path | None) -> None:
    """Print a new one-time link to the chat page, good for ten minutes."""
    try:
        click.echo(call(home_from(home), "sign-in-link"))
    except (NoGateway, Refused) as error:
        fail(str(error))
