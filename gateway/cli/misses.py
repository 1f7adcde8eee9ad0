"""`tieline misses`: what people and the agent looked for in the memory in vain."""

from pathlib import Path

import click

from gateway.cli.offline import local_minute, operate, shown
from gateway.cli.options import config_option

LONGEST = 80  # characters of a query in the list
HEADINGS = {"at": "at", "conversation": "conversation", "strategy": "by", "error": "why", "query": "looked for"}


@click.command("misses")
@click.option("--days", default=7, show_default=True, type=click.IntRange(1, 3650), help="How far back.")
@click.option("--last", default=100, show_default=True, type=click.IntRange(1, 10_000), help="How many at most.")
@config_option
def command(days: int, last: int, config_path: Path | None, home: Path | None) -> None:
    """Searches of the memory that found nothing, newest first.

    What comes up often is worth a note or a fact (/memory add); an error such as a timeout is worth a look at the log.
    """
    rows = operate("misses", config_path, home, days=days, most=last)
    for row in rows:
        row["at"] = local_minute(row["at"])
        row["query"] = " ".join(row["query"].split())[:LONGEST]
    shown(rows, HEADINGS, f"No search of the memory was in vain in the last {days} days.")
