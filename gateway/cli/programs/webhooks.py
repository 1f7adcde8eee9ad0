"""`tieline webhook`: requests as other services send them, to try what is configured."""

import json
import secrets
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from agent.core.untrusted_text import without_steering
from gateway.cli.options import config_option, fail, home_from, settings_from
from gateway.config.settings import Settings
from gateway.web.control_client import NoGateway, Refused, call
from gateway.webhooks.settings import WebhookSection
from gateway.webhooks.signatures import signed

WITHIN_S = 60.0
LARGEST = 64 * 1024  # bytes of the answer
PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.- ")


@click.group("webhook")
def command() -> None:
    """Look at webhooks of the configuration, and try one."""


@command.command(short_help="Sign a request as the service would, send it, and print the answer.")
@click.argument("name")
@click.option(
    "--body", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A file of JSON; else a short sample."
)
@click.option("--event", default="", help="Its kind of event; else the first of the section's `events`.")
@config_option
def test(name: str, body: Path | None, event: str, config_path: Path | None, home: Path | None) -> None:
    """Sign a request for the webhook NAME as its service would, send it to the running gateway, and print the answer.

    It is taken like any other: the text is said, or the agent answers, in the chat of the webhook.
    """
    hook = _hook(name, settings_from(config_path, home))
    id = f"test-{secrets.token_hex(8)}"
    kind = event or next((one for one in hook.events if PLAIN.issuperset(one)), "test")
    content = body.read_bytes() if body is not None else _sample(id, kind)
    headers = signed(hook.style, hook.secrets[0], content, id=id, event=kind, now=datetime.now(UTC))
    address = urlsplit(_asked(home, "web.address"))
    try:
        status, answer = _posted(address.hostname or "", address.port, f"/api/hooks/{name}", content, headers)
    except (OSError, HTTPException) as error:
        fail(f"the gateway does not answer: {error}")
    click.echo(f"{status} {without_steering(answer)}")
    raise SystemExit(0 if 200 <= status < 300 else 1)


@command.command("list", short_help="Show all webhooks, with the newest delivery of each.")
@config_option
def list_(config_path: Path | None, home: Path | None) -> None:
    """Show all webhooks of the running gateway, with the newest delivery of each that is kept, and how many wait."""
    rows = _asked(home, "webhooks.list")
    offline = import_module("gateway.cli.offline")
    for row in rows:
        row["newest"] = offline.local_minute(row["newest"]) if row["newest"] else "-"
    columns = {"name": "name", "style": "style", "mode": "mode", "place": "place"}
    offline.shown(rows, {**columns, "newest": "newest", "waiting": "waiting"}, "There is no webhook: see [[webhooks]].")


@command.command(short_help="Drop the turns of a webhook that wait.")
@click.argument("name")
@config_option
def drop(name: str, config_path: Path | None, home: Path | None) -> None:
    """Let the turns of the webhook NAME that wait never begin. One that has begun goes on: see /stop."""
    click.echo(f"{_asked(home, 'webhooks.drop', name=name)['dropped']} dropped.")


def _asked(home: Path | None, operation: str, **arguments: object) -> Any:
    """The answer of the running gateway; ends the program with the reason and the fix."""
    try:
        return call(home_from(home), operation, **arguments)
    except (NoGateway, Refused) as error:
        fail(f"{error}{'; ' + error.fix if isinstance(error, Refused) and error.fix else ''}")


def _hook(name: str, settings: Settings) -> WebhookSection:
    hook = next((one for one in settings.webhooks if one.name == name), None)
    if hook is None:
        known = ", ".join(one.name for one in settings.webhooks)
        fail(
            f"there is no webhook {name!r}; {f'there are: {known}' if known else 'write a [[webhooks]] section first'}"
        )
    return hook


def _sample(id: str, event: str) -> bytes:
    """A payload where none was given; services that name the event in the body do so in these fields."""
    payload = {"id": id, "type": event, "text": "A try by `tieline webhook test`; nothing has happened."}
    return json.dumps(payload).encode()


def _posted(host: str, port: int | None, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, str]:
    """Status and text of the answer."""
    connection = HTTPConnection(host, port, timeout=WITHIN_S)
    try:
        connection.request("POST", path, body, {"content-type": "application/json", **headers})
        answer = connection.getresponse()
        return answer.status, answer.read(LARGEST).decode(errors="replace")
    finally:
        connection.close()
