"""`tieline status` and `sign-in`: the gateway that runs answers them."""

from pathlib import Path

import click

from gateway.cli.options import config_option, fail, home_from, typed
from gateway.web.control_client import RESTART, NoGateway, Refused, call, differing

COLOURS = {"All is well": "green", "Needs attention": "yellow"}


@click.command("status")
@config_option
def status(config_path: Path | None, home: Path | None) -> None:
    """Tell whether the running gateway is well. Exit code 1 when something needs you, or none runs."""
    try:
        found = call(home_from(home), "status")
    except (NoGateway, Refused) as error:
        fail(f"{error}{'; ' + error.fix if isinstance(error, Refused) and error.fix else ''}")
    click.secho(found["headline"], fg=COLOURS.get(found["headline"], "red"), bold=True)
    for reason in (*found["reasons"], *found["attention"]):
        click.echo(typed(f"  {reason['subject']}: {reason['text']}"))
        if reason.get("fix"):
            click.echo(typed(f"    → {reason['fix']}"))
    if versions := differing(found["version"]):
        click.secho(f"  version: {versions}", fg="yellow")
        click.echo(typed(f"    → {RESTART}"))
    click.echo(f"Tieline {found['version']}, default provider {found['provider']}")
    for name, state in found["accounts"].items():
        click.echo(f"  {name}: {state}")
    for name, value in found["figures"]:
        click.echo(f"  {name}: {value}")
    raise SystemExit(0 if found["ready"] else 1)


@click.command("sign-in")
@config_option
def sign_in(config_path: Path | None, home: Path | None) -> None:
    """Print a new one-time link to the chat page, good for ten minutes."""
    try:
        click.echo(call(home_from(home), "sign-in-link"))
    except (NoGateway, Refused) as error:
        fail(str(error))
