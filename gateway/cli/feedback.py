"""`tieline feedback`: what people said of answers with /feedback."""

from pathlib import Path

import click

from gateway.cli.offline import local_minute, operate, shown
from gateway.cli.options import config_option

LONGEST = 60  # characters of a remark and of an answer in the list
HEADINGS = {
    "at": "at",
    "conversation": "conversation",
    "person": "by",
    "rating": "rating",
    "text": "remark",
    "answer": "answer",
}


@click.command("feedback")
@click.option("--days", default=30, show_default=True, type=click.IntRange(1, 3650), help="How far back.")
@click.option("--last", default=100, show_default=True, type=click.IntRange(1, 10_000), help="How many at most.")
@click.option("--conversation", help="Only this one, by its key such as telegram:77.")
@config_option
def command(days: int, last: int, conversation: str | None, config_path: Path | None, home: Path | None) -> None:
    """What people said of answers with /feedback, newest first, with the beginning of each answer."""
    rows = operate("feedback", config_path, home, days=days, most=last, conversation=conversation)
    for row in rows:
        row["at"] = local_minute(row["at"])
        for key in ("text", "answer"):
            row[key] = " ".join(row[key].split())[:LONGEST]
    shown(rows, HEADINGS, f"Nobody has used /feedback in the last {days} days.")
