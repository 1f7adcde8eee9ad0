"""`tieline find`."""

from pathlib import Path

import click

from gateway.cli.offline import operate
from gateway.cli.options import config_option

LABELS = {"person": "by", "at": "at", "state": "ended", "why": "why", "said": "said", "run": "run"}


@click.command("find")
@click.argument("ref")
@config_option
def command(ref: str, config_path: Path | None, home: Path | None) -> None:
    """Tell what a reference stands for that a person was told with an error, such as 60db5234."""
    for found in operate("find", config_path, home, ref=ref):
        click.echo(f"Message {found['message']} in {found['conversation']}")
        for key, label in LABELS.items():
            if found[key]:
                click.echo(f"  {label}: {found[key]}")
        for answer in found["answered"]:
            click.echo(f"  answered: {answer}")
        for call in found["calls"]:
            click.echo(f"  tool {call}")
        what = f'"run" {found["run"]}' if found["run"] else f"{found['message']} or {found['conversation']}"
        click.echo(f"  The log has more: search it for {what}.")
