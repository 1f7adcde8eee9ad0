"""`tieline slack-manifest`: what to paste into Slack's "create app from manifest"."""

import json
from importlib import import_module

import click

from gateway.cli.options import fail
from gateway.commands.all import specs
from gateway.phrases.catalogue import read_catalogue


@click.command("slack-manifest")
@click.option("--name", default="Tieline", show_default=True, help="The app's name in Slack.")
@click.option(
    "--request-url", help="Public address of this gateway (https://chat.example.org); leave it out for Socket Mode."
)
@click.option("--account", default="default", show_default=True, help="The account of the [[channels]] section.")
@click.option("--slash-command", default="/tieline", show_default=True, help="As in the [[channels]] section.")
@click.option("--format", "form", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def command(name: str, request_url: str | None, account: str, slash_command: str, form: str) -> None:
    """Print the manifest for your Slack app.

    Create the app at https://api.slack.com/apps → Create New App → From a manifest, and paste it there.
    """
    phrase = read_catalogue()
    try:
        manifest = import_module("adapters.slack.manifest").manifest(
            specs(lambda key: phrase(key, "en")),
            name=name,
            request_url=_endpoint(request_url, account),
            slash_command=slash_command,
        )
    except ValueError as error:
        fail(str(error))
    if form == "json":
        click.echo(json.dumps(manifest, indent=2))
    else:
        click.echo(import_module("yaml").safe_dump(manifest, sort_keys=False, allow_unicode=True), nl=False)


def _endpoint(address: str | None, account: str) -> str | None:
    """Where the gateway at this address takes Slack's requests; an address that names the path already is kept."""
    if address is None or address.endswith("/events"):
        return address
    channel = "slack" if account == "default" else f"slack@{account}"
    return f"{address.rstrip('/')}/channels/{channel}/events"
