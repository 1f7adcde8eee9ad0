"""`tieline find`."""

from pathlib import Path

import click

from gateway.cli.offline import local_minute, operate
from gateway.cli.options import config_option, typed

LABELS = {"person": "by", "at": "at", "state": "state", "why": "why", "said": "said", "run": "run"}

# How the database calls it, and how an operator would.
STATES = {
    "new": "waits for its turn",
    "running": "under work",
    "waiting": "waits for an answer to a question",
    "failed": "ended with an error",
    "cancelled": "stopped",
    "merged": "answered together with a later message",
    "refused": "not taken up",
    "dead": "given up; `tieline dead` lists it",
    "sending": "on its way",
    "dropped": "not sent any more",
}


@click.command("find")
@click.argument("ref")
@config_option
def command(ref: str, config_path: Path | None, home: Path | None) -> None:
    """Tell what a reference stands for that a person was told with an error, such as 60db5234."""
    for found in operate("find", config_path, home, ref=ref):
        click.echo(f"Message {found['message']} in {found['conversation']}")
        found["at"], found["state"] = local_minute(found["at"]), STATES.get(found["state"], found["state"])
        for key, label in LABELS.items():
            if found[key]:
                click.echo(f"  {label}: {typed(found[key]) if key == 'state' else found[key]}")
        for answer in found["answered"]:
            click.echo(f"  answered: {answer}")
        for call in found["calls"]:
            click.echo(f"  tool {call}")
        what = f'"run" {found["run"]}' if found["run"] else f"{found['message']} or {found['conversation']}"
        click.echo(f"  The log has more: search it for {what}.")
