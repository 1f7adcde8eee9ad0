"""`tieline inbox [retry ID]`: what could not be answered."""

from pathlib import Path

import click

from gateway.cli.options import config_option
from gateway.cli.through import operate, shown


@click.group("inbox", invoke_without_command=True)
@config_option
@click.pass_context
def command(context: click.Context, config_path: Path | None, home: Path | None) -> None:
    """Messages that could not be answered."""
    if context.invoked_subcommand is None:
        rows = operate("inbox.list", config_path, home)
        for row in rows:
            row["text"] = " ".join(row["text"].split())[:60]
        columns = {
            "id": "no.",
            "at": "at",
            "conversation": "conversation",
            "attempts": "tries",
            "why": "why",
            "text": "text",
        }
        shown(rows, columns, "No dead letters.")


@command.command()
@click.argument("number", type=int)
@config_option
def retry(number: int, config_path: Path | None, home: Path | None) -> None:
    """Try to answer one of them again."""
    answer = operate("inbox.retry", config_path, home, id=number)
    click.echo(f"{answer['conversation']} tries it again.")
