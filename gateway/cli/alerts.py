"""`tieline alerts test`: the running gateway sends a test alert by each way and tells what came of it."""

from pathlib import Path

import click

from gateway.cli.offline import operate
from gateway.cli.options import config_option, typed

HINT = "Beyond the chats nobody is told: see [alerts.email] and [alerts.webhook] in the configuration."


@click.group("alerts")
def command() -> None:
    """Alerts to the owners: in their chats, by e-mail and by webhook."""


@command.command("test")
@config_option
def test(config_path: Path | None, home: Path | None) -> None:
    """Send a test alert by each way and tell what came of it. Exit code 1 when one did not go."""
    outcomes = operate("alerts.test", config_path, home)
    for outcome in outcomes:
        mark, colour = ("✓", "green") if outcome["is_sent"] else ("✗", "red")
        click.echo(typed(f"{click.style(mark, fg=colour)} {outcome['where']}: {outcome['text']}"))
    if all(outcome["where"].startswith("chat") for outcome in outcomes):
        click.echo(HINT)
    raise SystemExit(0 if all(outcome["is_sent"] for outcome in outcomes) else 1)
