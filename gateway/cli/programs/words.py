"""`tieline send` and `tieline ask`: words into chats, from a shell."""

import sys
from pathlib import Path

import click

from agent.core.untrusted_text import without_steering
from gateway.cli.options import config_option, fail, home_from
from gateway.web.control_client import NoGateway, Refused, call


@click.command("send")
@click.argument("place")
@click.argument("text", required=False, default="")
@click.option("--file", "files", multiple=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@config_option
def send(place: str, text: str, files: tuple[Path, ...], config_path: Path | None, home: Path | None) -> None:
    """Say TEXT in the chat PLACE (telegram:77), as the bot. TEXT may be -, for what comes by standard input."""
    paths = [str(file.resolve()) for file in files]
    sent = _called(home, "send", place=place, text=_given(text), files=paths)
    if sent["state"] == "failed":
        fail(f"it was not delivered: {sent['reason']}")
    click.echo("Sent." if sent["state"] == "sent" else f"It is on its way: {sent['reason'] or 'not delivered yet'}")


@click.command("ask")
@click.argument("place")
@click.argument("text")
@config_option
def ask(place: str, text: str, config_path: Path | None, home: Path | None) -> None:
    """Have TEXT answered in the chat PLACE (telegram:77), and print the answer, which people there see as well."""
    answer = _called(home, "ask", place=place, text=_given(text))
    if answer["state"] != "answered":
        fail(answer["text"] or f"there is no answer: {answer['state']}")
    click.echo(without_steering(answer["text"]))


def _given(text: str) -> str:
    return sys.stdin.read() if text == "-" else text


def _called(home: Path | None, operation: str, **arguments: object) -> dict[str, str]:
    try:
        answer: dict[str, str] = call(home_from(home), operation, **arguments)
    except (NoGateway, Refused) as error:
        fail(f"{error}{'; ' + error.fix if isinstance(error, Refused) and error.fix else ''}")
    return answer
