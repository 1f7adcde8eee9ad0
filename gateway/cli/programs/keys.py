"""`tieline key`: keys of other programs."""

from pathlib import Path

import click

from gateway.api.keys import MOST_DAYS, MOST_PER_MINUTE, PER_MINUTE, SCOPES
from gateway.cli.offline import local_minute, operate, shown
from gateway.cli.options import config_option


@click.group("key")
def command() -> None:
    """Give other programs keys: create, list, revoke."""


@command.command(short_help="Make a key, and print it this once.")
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, required=True, type=click.Choice(SCOPES), help="What it may do.")
@click.option("--place", "places", multiple=True, help='A chat that it reaches, such as telegram:-1005; "*": all.')
@click.option("--days", type=click.IntRange(1, MOST_DAYS), help="It holds for so long; else until it is revoked.")
@click.option("--per-minute", type=click.IntRange(1, MOST_PER_MINUTE), default=PER_MINUTE, show_default=True)
@config_option
def create(
    name: str,
    scopes: tuple[str, ...],
    places: tuple[str, ...],
    days: int | None,
    per_minute: int,
    config_path: Path | None,
    home: Path | None,
) -> None:
    """Make a key called NAME, and print it this once: only its hash is kept.

    chat: the OpenAI-compatible door, in conversations of its own. send, ask, search, schedules: chats of people, each
    named by --place.
    """
    answer = operate(
        "keys.create",
        config_path,
        home,
        name=name,
        scopes=list(scopes),
        places=list(places),
        days=days,
        per_minute=per_minute,
    )
    click.echo(answer["key"])


@command.command("list", short_help="Show all keys.")
@config_option
def list_(config_path: Path | None, home: Path | None) -> None:
    """Show all keys, with when each was used last."""
    rows = operate("keys.list", config_path, home)
    for row in rows:
        for moment in ("created_at", "expires_at", "used_at"):
            row[moment] = local_minute(row[moment]) if row[moment] else "-"
    columns = {"name": "name", "key": "key", "state": "state", "scopes": "scopes", "places": "places"}
    times = {"created_at": "since", "expires_at": "until", "used_at": "last use"}
    shown(rows, {**columns, **times}, "There is no key: nothing is open to other programs.")


@command.command(short_help="Let a key open nothing any more, at once.")
@click.argument("name")
@config_option
def revoke(name: str, config_path: Path | None, home: Path | None) -> None:
    """Let the key called NAME open nothing any more, at once. Its conversations stay."""
    operate("keys.revoke", config_path, home, name=name)
    click.echo(f"The key {name} opens nothing any more.")
