"""`tieline pair list | approve | deny`."""

from pathlib import Path

import click

from agent.core.phrases import home_as_typed, program_as_typed
from gateway.cli.offline import operate, shown
from gateway.cli.options import config_option, home_from


@click.group("pair")
def command() -> None:
    """Let people in: list, approve or deny pairing codes."""


@command.command("list", short_help="Show who asks to be let in.")
@config_option
def list_(config_path: Path | None, home: Path | None) -> None:
    """Show who asks to be let in. The code itself only the person has; the number works as well."""
    rows = operate("pair.list", config_path, home)
    columns = {"id": "no.", "person": "person", "display": "name", "channel": "channel", "seconds_left": "seconds left"}
    shown(rows, columns, "Nobody waits to be let in.")


@command.command(short_help="Let the person with this code or number in.")
@click.argument("code")
@click.option("--admin", is_flag=True, help="Make them an admin of the whole bot; also for somebody who is let in.")
@config_option
def approve(code: str, admin: bool, config_path: Path | None, home: Path | None) -> None:
    """Let the person with this code (or number of the list) in; they are told at once.

    With --admin also the name of somebody who was let in, such as telegram:77.
    """
    answer = operate("pair.approve", config_path, home, code=code, admin=admin)
    as_what = ", as an admin of the bot" if answer["role"] == "admin" else ""
    click.echo(f"{answer['display'] or 'The person'} ({answer['person']}) is let in{as_what}.")
    if not answer["has_admin"]:
        click.echo(
            "Nobody is an admin of the bot yet. If this person runs it: "
            f"{program_as_typed()} pair approve {answer['person']} --admin{home_as_typed(home_from(home))}"
        )


@command.command(short_help="Turn the person with this code or number away.")
@click.argument("code")
@config_option
def deny(code: str, config_path: Path | None, home: Path | None) -> None:
    """Turn the person with this code (or number of the list) away; they are not told."""
    answer = operate("pair.deny", config_path, home, code=code)
    click.echo(f"{answer['display'] or 'The person'} ({answer['person']}) is turned away.")
