"""The command line: names and help here, each sub-command in a module loaded when it is called.

So `tieline --help` imports nothing but click.
"""

from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import cast

import click

# name: (module:command object, one line of help)
COMMANDS = {
    "run": ("gateway.cli.run:command", "Start the gateway."),
    "console": ("gateway.cli.terminal.console:command", "Talk to the bot in this terminal."),
    "sign-in": ("gateway.cli.running_gateway:sign_in", "Print a link to the chat page."),
    "status": ("gateway.cli.running_gateway:status", "Tell whether the running gateway is well."),
    "init": ("gateway.cli.init:command", "Write a configuration, step by step."),
    "doctor": ("gateway.cli.doctor:command", "Check everything and tell how to mend it."),
    "import": ("gateway.cli.programs.imports:command", "Move over from OpenClaw, Hermes Agent or nanobot."),
    "config": ("gateway.cli.config:command", "Check or show the configuration."),
    "pair": ("gateway.cli.pair:command", "Let people in: list, approve or deny pairing codes."),
    "people": ("gateway.cli.people:command", "Give people an account of the web page: list, add, disable, link."),
    "sign-ins": ("gateway.cli.people:sign_ins", "List who is signed in to the web page, or end a sign-in."),
    "key": ("gateway.cli.programs.keys:command", "Give other programs keys: create, list, revoke."),
    "send": ("gateway.cli.programs.words:send", "Say something in a chat, as the bot."),
    "ask": ("gateway.cli.programs.words:ask", "Have the bot answer something in a chat."),
    "webhook": ("gateway.cli.programs.webhooks:command", "Look at webhooks that come in, try one, drop what waits."),
    "rights": ("gateway.cli.rights:command", "Show who may have what done, and by which rule."),
    "mcp": ("gateway.cli.mcp:command", "Log in at MCP servers that ask for it."),
    "skills": ("gateway.cli.records:skills", "Show what changed in a skill since it was last in use."),
    "inbox": ("gateway.cli.queues:inbox", "Messages that wait for their turn."),
    "outbox": ("gateway.cli.queues:outbox", "Answers that are on their way."),
    "dead": ("gateway.cli.queues:dead", "Messages and answers that were given up: list, retry or drop them."),
    "alerts": ("gateway.cli.alerts:command", "Alerts to the owners: send a test by each way and tell what came of it."),
    "events": (
        "gateway.cli.programs.events:command",
        "Events for other programs: list, retry or test their deliveries.",
    ),
    "find": ("gateway.cli.records:find", "Tell what a reference stands for that a person was told with an error."),
    "export": ("gateway.cli.records:export", "Write a conversation as JSON lines."),
    "audit": ("gateway.cli.records:audit", "Print the record of tool calls: by whom, and what became of each."),
    "feedback": ("gateway.cli.records:feedback", "List the ratings and remarks of /feedback."),
    "misses": ("gateway.cli.records:misses", "Searches of the memory that found nothing."),
    "usage": ("gateway.cli.records:usage", "Show the tokens and money spent; every call as CSV."),
    "backup": ("gateway.cli.backups:backup", "Put everything into one archive, also while the gateway runs."),
    "restore": ("gateway.cli.backups:restore", "Put a backup into the data directory."),
    "upgrade": ("gateway.cli.upgrade:command", "Print how to upgrade, and what a new version will change here."),
    "migrate": ("gateway.cli.migrate:command", "Move the database to PostgreSQL, or check a rolling upgrade."),
    "slack-manifest": ("gateway.cli.slack_manifest:command", "Print the manifest for your Slack app."),
    "version": ("gateway.cli.main:version", "Print the version."),
}


class LazyGroup(click.Group):
    """A group that knows its commands by name only."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        return cast(click.Command, getattr(import_module(module), name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = get_close_matches(args[0], COMMANDS, n=1)
            meant = f"; did you mean {near[0]}? There are: " if near else "; there are: "
            ctx.fail(f"no such command {args[0]!r}{meant}{', '.join(COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.command("version")
def version() -> None:
    """Print the version of Tieline and of Python."""
    python, tieline = import_module("platform").python_version(), import_module("importlib.metadata").version("tieline")
    click.echo(f"tieline {tieline} (Python {python})")


def _show_version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        context.invoke(version)
        context.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Print the version."
)
@click.option("--home", type=click.Path(path_type=Path), help="Data directory, for every command.")
@click.option("--config", "config_path", type=click.Path(path_type=Path), help="Configuration, for every command.")
def cli(**_: Path | None) -> None:
    """Tieline puts one LLM agent into every Telegram, Discord and Slack conversation.

    `tieline run` needs no configuration: it starts a demo in your browser. `tieline init` sets up the real thing.
    """
