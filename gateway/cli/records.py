"""`tieline audit`, `export`, `feedback`, `find`, `misses`, `skills` and `usage`: what the database has recorded."""

import sys
from pathlib import Path
from typing import TextIO

import click

from agent.core.untrusted_text import without_steering
from gateway.cli.offline import local_minute, operate, shown
from gateway.cli.options import config_option, fail, typed


@click.command("audit")
@click.argument("conversation", required=False)
@click.option(
    "--most", type=click.IntRange(min=1), default=100, show_default=True, help="So many calls, the last ones."
)
@config_option
def audit(conversation: str | None, most: int, config_path: Path | None, home: Path | None) -> None:
    """Print the record of tool calls: by whom, and what became of each.

    JSON lines, oldest first; secrets are taken out. CONVERSATION is a key such as telegram:77; left out: all of them.
    """
    lines = operate("audit", config_path, home, conversation=conversation, most=most)["lines"]
    click.echo("".join(lines), nl=False)


@click.command("export")
@click.argument("conversation")
@click.option("--session", help="The beginning of a session's id; else the current one.")
@click.option("--output", type=click.Path(path_type=Path), help="Write to this file; else to the terminal.")
@config_option
def export(
    conversation: str, session: str | None, output: Path | None, config_path: Path | None, home: Path | None
) -> None:
    """Write a conversation as JSON lines. CONVERSATION is its key, such as telegram:77."""
    lines = operate("export", config_path, home, conversation=conversation, session=session)["lines"]
    if output is None:
        click.echo("".join(lines), nl=False)
        return
    try:
        output.write_text("".join(lines), "utf-8")
    except OSError as error:
        fail(f"cannot write {output}: {error.strerror}")
    click.echo(f"{len(lines)} messages: {output}")


LONGEST_REMARK = 60  # characters of a remark and of an answer in the list
FEEDBACK_HEADINGS = {
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
def feedback(days: int, last: int, conversation: str | None, config_path: Path | None, home: Path | None) -> None:
    """List the ratings and remarks of /feedback, newest first, with the beginning of each answer."""
    rows = operate("feedback", config_path, home, days=days, most=last, conversation=conversation)
    for row in rows:
        row["at"] = local_minute(row["at"])
        for key in ("text", "answer"):
            row[key] = " ".join(row[key].split())[:LONGEST_REMARK]
    shown(rows, FEEDBACK_HEADINGS, f"Nobody has used /feedback in the last {days} days.")


LABELS = {"person": "by", "at": "at", "state": "state", "why": "why", "said": "said", "run": "run"}

# How the database calls it, and how an operator would.
STATES = {
    "new": "waits for its turn",
    "running": "under work",
    "waiting": "waits for an answer to a question",
    "failed": "ended with an error",
    "cancelled": "stopped",
    "merged": "answered together with a later message",
    "refused": "not taken up",
    "dead": "given up; `tieline dead` lists it",
    "sending": "on its way",
    "dropped": "not sent any more",
}


@click.command("find")
@click.argument("ref")
@config_option
def find(ref: str, config_path: Path | None, home: Path | None) -> None:
    """Tell what a reference stands for that a person was told with an error, such as 60db5234."""
    for found in operate("find", config_path, home, ref=ref):
        click.echo(f"Message {found['message']} in {found['conversation']}")
        found["at"], found["state"] = local_minute(found["at"]), STATES.get(found["state"], found["state"])
        for key, label in LABELS.items():
            if found[key]:
                click.echo(f"  {label}: {typed(found[key]) if key == 'state' else found[key]}")
        for answer in found["answered"]:
            click.echo(f"  answered: {answer}")
        for call in found["calls"]:
            click.echo(f"  tool {call}")
        what = f'"run" {found["run"]}' if found["run"] else f"{found['message']} or {found['conversation']}"
        click.echo(f"  The log has more: search it for {what}.")


LONGEST_QUERY = 80  # characters of a query in the list
MISSES_HEADINGS = {"at": "at", "conversation": "conversation", "strategy": "by", "error": "why", "query": "looked for"}


@click.command("misses")
@click.option("--days", default=7, show_default=True, type=click.IntRange(1, 3650), help="How far back.")
@click.option("--last", default=100, show_default=True, type=click.IntRange(1, 10_000), help="How many at most.")
@config_option
def misses(days: int, last: int, config_path: Path | None, home: Path | None) -> None:
    """Searches of the memory that found nothing, newest first.

    What comes up often is worth a note or a fact (/memory add); an error such as a timeout is worth a look at the log.
    """
    rows = operate("misses", config_path, home, days=days, most=last)
    for row in rows:
        row["at"] = local_minute(row["at"])
        row["query"] = " ".join(row["query"].split())[:LONGEST_QUERY]
    shown(rows, MISSES_HEADINGS, f"No search of the memory was in vain in the last {days} days.")


USAGE_COLUMNS = {
    "name": "",
    "calls": "calls",
    "input": "input",
    "cached": "from cache",
    "output": "output",
    "usd": "USD",
    "unpriced": "unpriced",
    "estimated": "estimated",
}


@click.group("usage", invoke_without_command=True)
@click.option("--by", "group", default="provider", help="provider, model, purpose, person, channel, job or goal.")
@click.option("--since", help="A day (UTC) such as 2026-11-01; else this month.")
@config_option
@click.pass_context
def usage(context: click.Context, group: str, since: str | None, config_path: Path | None, home: Path | None) -> None:
    """Show the tokens and money spent, by provider, person or purpose; `export` writes every call as CSV."""
    if context.invoked_subcommand is None:
        rows = operate("usage", config_path, home, group=group, since=since)
        shown(rows, {**USAGE_COLUMNS, "name": group}, "No calls yet.")


@usage.command("export")
@click.option("--since", help="A day (UTC) such as 2026-11-01; else from the first.")
@click.option("--until", help="The day (UTC) before which it ends.")
@click.option("--conversation", help="Only this one, by its key such as telegram:77.")
@click.option("--output", type=click.Path(path_type=Path), help="Write to this file; else to the terminal.")
@config_option
def usage_export(
    since: str | None,
    until: str | None,
    conversation: str | None,
    output: Path | None,
    config_path: Path | None,
    home: Path | None,
) -> None:
    """Every call as comma-separated values."""

    def write(to: TextIO) -> int:
        after: int | None = None
        lines = -1  # the heading is none
        while True:
            arguments = {"since": since, "until": until, "conversation": conversation, "after": after}
            page = operate("usage.export", config_path, home, **arguments)
            to.write(page["lines"])
            lines += str(page["lines"]).count("\n")
            after = page["next"]
            if after is None:
                return lines

    if output is None:
        write(sys.stdout)
        return
    try:
        with output.open("w", encoding="utf-8", newline="") as file:
            count = write(file)
    except OSError as error:
        fail(f"cannot write {output}: {error.strerror}")
    click.echo(f"{count} calls: {output}")


@click.group("skills")
def skills() -> None:
    """Show what changed in a skill since it was last in use."""


@skills.command("diff", short_help="Show what changed since it was last in use.")
@click.argument("name")
@config_option
def difference(name: str, config_path: Path | None, home: Path | None) -> None:
    """Show what changed in the skill NAME between the text that was last approved or in use and its present file."""
    found = operate("skills.diff", config_path, home, name=name)
    if found["decided"] is None:
        click.echo(f"No text of {found['name']} that was in use before is kept: read the whole file.")
    elif found["is_too_long"]:
        click.echo(f"The texts of {found['name']} have too many lines to be compared: read the whole file.")
    elif not found["lines"]:
        click.echo(f"{found['name']} has the text that was last in use.")
    else:
        click.echo("\n".join(without_steering(line) for line in found["lines"]))
