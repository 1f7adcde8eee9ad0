"""`tieline usage`: what was spent, and every call as CSV."""

import sys
from pathlib import Path
from typing import TextIO

import click

from gateway.cli.offline import operate, shown
from gateway.cli.options import config_option, fail

COLUMNS = {
    "name": "",
    "calls": "calls",
    "input": "input",
    "cached": "from cache",
    "output": "output",
    "usd": "USD",
    "unpriced": "unpriced",
    "estimated": "estimated",
}


@click.group("usage", invoke_without_command=True)
@click.option("--by", "group", default="provider", help="provider, model, purpose, person, channel, job or goal.")
@click.option("--since", help="A day (UTC) such as 2026-11-01; else this month.")
@config_option
@click.pass_context
def command(context: click.Context, group: str, since: str | None, config_path: Path | None, home: Path | None) -> None:
    """What was spent, by whom and for what; every call as CSV."""
    if context.invoked_subcommand is None:
        rows = operate("usage", config_path, home, group=group, since=since)
        shown(rows, {**COLUMNS, "name": group}, "No calls yet.")


@command.command()
@click.option("--since", help="A day (UTC) such as 2026-11-01; else from the first.")
@click.option("--until", help="The day (UTC) before which it ends.")
@click.option("--conversation", help="Only this one, by its key such as telegram:77.")
@click.option("--output", type=click.Path(path_type=Path), help="Write to this file; else to the terminal.")
@config_option
def export(
    since: str | None,
    until: str | None,
    conversation: str | None,
    output: Path | None,
    config_path: Path | None,
    home: Path | None,
) -> None:
    """Every call as comma-separated values."""

    def write(to: TextIO) -> int:
        after: int | None = None
        lines = -1  # the heading is none
        while True:
            arguments = {"since": since, "until": until, "conversation": conversation, "after": after}
            page = operate("usage.export", config_path, home, **arguments)
            to.write(page["lines"])
            lines += str(page["lines"]).count("\n")
            after = page["next"]
            if after is None:
                return lines

    if output is None:
        write(sys.stdout)
        return
    try:
        with output.open("w", encoding="utf-8", newline="") as file:
            count = write(file)
    except OSError as error:
        fail(f"cannot write {output}: {error.strerror}")
    click.echo(f"{count} calls: {output}")
