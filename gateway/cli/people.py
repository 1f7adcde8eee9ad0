"""`tieline people` and `tieline sign-ins`: who may sign in to the web server, and who is signed in."""

import sys
from pathlib import Path

import click

from gateway.cli.offline import local_minute, operate, shown
from gateway.cli.options import config_option, fail, home_from
from gateway.web.control_client import NoGateway, Refused, call


@click.group("people")
def command() -> None:
    """Give people an account of the web page: list, add, disable, link, password."""


@command.command("list", short_help="Show who has an account.")
@config_option
def list_(config_path: Path | None, home: Path | None) -> None:
    """Show who has an account. In [[roles]] and [access] the person anna is web:anna."""
    rows = operate("people.list", config_path, home)
    rows = [row | {"created_at": local_minute(row["created_at"])} for row in rows]
    columns = {"id": "id", "display": "name", "state": "state", "password": "password", "made_by": "made by"}
    shown(rows, {**columns, "sign_ins": "sign-ins", "created_at": "since"}, "Nobody but the owner has an account.")


@command.command(short_help="Make an account.")
@click.argument("id")
@click.option("--display", default="", help="The name that is shown; else the id.")
@click.option("--password", "ask", is_flag=True, help="Ask for a password, too.")
@config_option
def add(id: str, display: str, ask: bool, config_path: Path | None, home: Path | None) -> None:
    """Make an account. The person is a member of the bot, and has no right in the dashboard unless [[roles]] gives one.

    Without a password they come by a one-time link (`tieline people link`), or by an identity provider.
    """
    password = _asked() if ask else None
    answer = operate("people.add", config_path, home, id=id, display=display, password=password)
    click.echo(f"{answer['display']} (web:{answer['id']}) has an account.")


@command.command(short_help="Let a person in no more, at once.")
@click.argument("id")
@config_option
def disable(id: str, config_path: Path | None, home: Path | None) -> None:
    """Let a person in no more. Their sign-ins and open links end at once; what they wrote stays."""
    answer = operate("people.disable", config_path, home, id=id)
    click.echo(f"{answer['display']} (web:{answer['id']}) cannot sign in any more.")


@command.command(short_help="Let a disabled person in again.")
@click.argument("id")
@config_option
def enable(id: str, config_path: Path | None, home: Path | None) -> None:
    """Let a disabled person in again; they sign in anew."""
    answer = operate("people.enable", config_path, home, id=id)
    click.echo(f"{answer['display']} (web:{answer['id']}) can sign in again.")


@command.command(short_help="Print a one-time link for a person.")
@click.argument("id")
@config_option
def link(id: str, config_path: Path | None, home: Path | None) -> None:
    """Print a new one-time link for a person, good for ten minutes. The gateway must run."""
    try:
        click.echo(call(home_from(home), "sign-in-link", person=id))
    except (NoGateway, Refused) as error:
        fail(f"{error}{'; ' + error.fix if isinstance(error, Refused) and error.fix else ''}")


@command.command(short_help="Give a person a password.")
@click.argument("id")
@click.option("--stdin", is_flag=True, help="Read it from the standard input, one line.")
@config_option
def password(id: str, stdin: bool, config_path: Path | None, home: Path | None) -> None:
    """Give a person a password of 12 characters or more, asked for twice. Their sign-ins end."""
    given = sys.stdin.readline().rstrip("\r\n") if stdin else _asked()
    answer = operate("people.password", config_path, home, id=id, password=given)
    click.echo(f"{answer['display']} (web:{answer['id']}) has a new password.")


@click.group("sign-ins", invoke_without_command=True)
@click.pass_context
@config_option
def sign_ins(context: click.Context, config_path: Path | None, home: Path | None) -> None:
    """List who is signed in to the web page, from where; `revoke` ends one."""
    if context.invoked_subcommand is not None:
        return
    rows = [
        row
        | {"id": row["id"][:12], "created_at": local_minute(row["created_at"]), "seen_at": local_minute(row["seen_at"])}
        for row in operate("sign-ins.list", config_path, home)
    ]
    columns = {"id": "id", "person": "person", "method": "by", "created_at": "since", "seen_at": "seen"}
    shown(rows, {**columns, "address": "address", "agent": "browser"}, "Nobody is signed in.")


@sign_ins.command(short_help="End a sign-in.")
@click.argument("id")
@config_option
def revoke(id: str, config_path: Path | None, home: Path | None) -> None:
    """End the sign-in whose id begins so, in every copy of its cookie."""
    answer = operate("sign-ins.revoke", config_path, home, id=id)
    click.echo(f"A sign-in of {answer['person']} is ended.")


def _asked() -> str:
    answer: str = click.prompt("Password", hide_input=True, confirmation_prompt="The same again")
    return answer
