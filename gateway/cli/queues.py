"""`tieline inbox`, `outbox` and `dead`: a list, `retry NUMBER` and `drop NUMBER` for each."""

from collections.abc import Sequence
from pathlib import Path

import click

from gateway.cli.offline import local_minute, operate, shown
from gateway.cli.options import config_option

HEADINGS = {
    "id": "no.",
    "at": "at",
    "conversation": "conversation",
    "attempts": "tries",
    "state": "state",
    "why": "why",
    "text": "text",
}
LONGEST = 60  # characters of a text in a list


def queue(name: str, about: str, *, columns: Sequence[str], empty: str, retry: str, drop: str) -> click.Group:
    """The group of commands for one queue; the operations bear its name."""

    def listed(config_path: Path | None, home: Path | None) -> None:
        rows = operate(f"{name}.list", config_path, home)
        for row in rows:
            row["at"] = local_minute(row["at"])
            row["state"] += f" until {local_minute(row['until'])}" if row["until"] else ""
            row["text"] = " ".join(row["text"].split())[:LONGEST]
        shown(rows, {column: HEADINGS[column] for column in columns}, empty)

    @click.group(name, invoke_without_command=True, help=about)
    @config_option
    @click.pass_context
    def command(context: click.Context, config_path: Path | None, home: Path | None) -> None:
        if context.invoked_subcommand is None:
            listed(config_path, home)

    @command.command("list", help=about)
    @config_option
    def list_(config_path: Path | None, home: Path | None) -> None:
        listed(config_path, home)

    @command.command("retry", help=retry)
    @click.argument("number")
    @config_option
    def retry_(number: str, config_path: Path | None, home: Path | None) -> None:
        answer = operate(f"{name}.retry", config_path, home, id=_number(number))
        click.echo(f"{answer['conversation']} tries it again.")

    @command.command("drop", help=drop)
    @click.argument("number")
    @config_option
    def drop_(number: str, config_path: Path | None, home: Path | None) -> None:
        answer = operate(f"{name}.drop", config_path, home, id=_number(number))
        click.echo(f"Dropped, in {answer['conversation']}.")

    return command


def _number(given: str) -> int | str:
    """A plain number, or a dead letter's with its queue."""
    return int(given) if given.isdecimal() else given


inbox = queue(
    "inbox",
    "Messages that wait for their turn, or are under work.",
    columns=("id", "at", "conversation", "attempts", "state", "text"),
    empty="No message waits.",
    retry="Let a message that waits for its moment be due now.",
    drop="Take a message out before its turn begins.",
)


outbox = queue(
    "outbox",
    "Answers and notices that are not yet sent.",
    columns=("id", "at", "conversation", "attempts", "state", "text"),
    empty="Everything is sent.",
    retry="Send it now, also where the bot counted as removed.",
    drop="Never send it.",
)


dead = queue(
    "dead",
    "Messages and answers that were given up.",
    columns=("id", "at", "conversation", "attempts", "why", "text"),
    empty="No dead letters.",
    retry="Try it again.",
    drop="Settle it: it leaves the list and is not tried again.",
)
