"""`tieline export`."""

from pathlib import Path

import click

from gateway.cli.offline import operate
from gateway.cli.options import config_option, fail


@click.command("export")
@click.argument("conversation")
@click.option("--session", help="The beginning of a session's id; else the current one.")
@click.option("--output", type=click.Path(path_type=Path), help="Write to this file; else to the terminal.")
@config_option
def command(
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
