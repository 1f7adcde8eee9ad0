"""`tieline events`: what other programs were not told yet, tried again; a test to one; one switched on again."""

from pathlib import Path

import click

from agent.core.phrases import counted
from gateway.cli.offline import local_minute, operate, shown
from gateway.cli.options import config_option, typed

COLUMNS = {
    "id": "no.",
    "at": "at",
    "subscription": "subscription",
    "type": "event",
    "state": "state",
    "attempts": "tries",
    "why": "why",
}


def _listed(config_path: Path | None, home: Path | None) -> None:
    rows = operate("events.list", config_path, home)
    for row in rows:
        row["at"] = local_minute(row["at"])
    shown(rows, COLUMNS, "Every event is delivered.")


@click.group("events", invoke_without_command=True)
@config_option
@click.pass_context
def command(context: click.Context, config_path: Path | None, home: Path | None) -> None:
    """Events for other programs ([[events]] in the configuration): those that wait or were given up."""
    if context.invoked_subcommand is None:
        _listed(config_path, home)


@command.command("list")
@config_option
def list_(config_path: Path | None, home: Path | None) -> None:
    """List the events that wait or were given up."""
    _listed(config_path, home)


@command.command("retry")
@click.argument("number", type=int, required=False)
@click.option("--to", "subscription", default="", help="Of this subscription alone.")
@config_option
def retry(number: int | None, subscription: str, config_path: Path | None, home: Path | None) -> None:
    """Send an event again; without a number all that were given up."""
    told = operate("events.retry", config_path, home, id=number, subscription=subscription)
    click.echo(f"{counted(told['events'], 'event')} to {', '.join(told['subscriptions'])} tried again.")


@command.command("test")
@click.argument("name")
@config_option
def test(name: str, config_path: Path | None, home: Path | None) -> None:
    """Send a test to a subscription and tell what its receiver answered. Exit code 1 when it did not take it."""
    outcome = operate("events.test", config_path, home, name=name)
    mark, colour = ("✓", "green") if outcome["is_sent"] else ("✗", "red")
    click.echo(typed(f"{click.style(mark, fg=colour)} {outcome['where']}: {outcome['text']}"))
    raise SystemExit(0 if outcome["is_sent"] else 1)


@command.command("on")
@click.argument("name")
@config_option
def on(name: str, config_path: Path | None, home: Path | None) -> None:
    """Tell a program again whose address had answered 410 Gone."""
    told = operate("events.on", config_path, home, name=name)
    click.echo(f"{told['name']} is told of events again. `tieline events retry --to {told['name']}` sends the former.")
