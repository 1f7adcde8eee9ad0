"""`tieline audit`."""

from pathlib import Path

import click

from gateway.cli.offline import operate
from gateway.cli.options import config_option


@click.command("audit")
@click.argument("conversation", required=False)
@click.option(
    "--most", type=click.IntRange(min=1), default=100, show_default=True, help="So many calls, the last ones."
)
@config_option
def command(conversation: str | None, most: int, config_path: Path | None, home: Path | None) -> None:
    """Print the record of tool calls: by whom, and what became of each.

    JSON lines, oldest first; secrets are taken out. CONVERSATION is a key such as telegram:77; left out: all of them.
    """
    lines = operate("audit", config_path, home, conversation=conversation, most=most)["lines"]
    click.echo("".join(lines), nl=False)
