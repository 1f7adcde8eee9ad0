"""/help and /start."""

from dataclasses import replace
from difflib import get_close_matches

from gateway.commands.command import Call, Command, Commands, Group, Reply

GROUPS: tuple[Group, ...] = ("chat", "later", "model", "people", "more")


def help_of(commands: Commands, call: Call) -> Reply:
    """One command, where words name it; else all that this person may type here."""
    if not call.args:
        return Reply(text=help_text(commands, call), private=True)
    name = call.words[0].removeprefix("/").lower()
    found = commands.named(name.replace("_", "-"))
    if found is None:
        return unknown(commands, replace(call, name=name))
    phrase, language = call.house.phrase, call.incoming.language
    lines = [_line(found, call)]
    if found.aliases:
        lines.append(phrase("help_also", language, names=", ".join(f"/{alias}" for alias in found.aliases)))
    if not found.allowed(call.role, in_group=call.in_group):
        lines.append(phrase("help_admins", language))
    if found.examples:
        lines += ["", phrase(found.examples, language)]
    return Reply(text="\n".join(lines), private=True)


def help_text(commands: Commands, call: Call) -> str:
    """What this person may type here, by group."""
    phrase, language = call.house.phrase, call.incoming.language
    lines = [phrase("help_title", language)]
    for group in GROUPS:
        shown = [
            f"- {_line(command, call)}"
            for command in commands.all
            if command.group == group and _is_shown(command, call)
        ]
        if shown:
            lines += ["", f"**{phrase(f'help_{group}', language)}**", "", *shown]
    return "\n".join([*lines, "", phrase("help_hint", language)])


def _is_shown(command: Command, call: Call) -> bool:
    is_here = command.platform in ("", call.key.platform)
    return is_here and not command.hidden and command.allowed(call.role, in_group=call.in_group)


def _line(command: Command, call: Call) -> str:
    usage = f" {command.usage}" if command.usage else ""
    return f"`/{command.name}{usage}` {call.house.phrase(command.summary_key, call.incoming.language)}"


async def start(call: Call) -> Reply:
    """Platforms send /start when a person opens the chat for the first time."""
    phrase, language = call.house.phrase, call.incoming.language
    name = f" {call.incoming.display}" if call.incoming.display else ""
    lines = [phrase("start", language, name=name, bot="Tieline")]
    if call.house.providers().default.family == "demo":
        lines.append(phrase("start_demo", language))
    return Reply(text="\n\n".join(lines))


def unknown(commands: Commands, call: Call) -> Reply:
    """A slash word that is no command."""
    close = get_close_matches(call.name, commands.names, n=1)
    key = "did_you_mean" if close else "unknown_command"
    values = {"close": close[0]} if close else {}
    return Reply(text=call.house.phrase(key, call.incoming.language, name=call.name, **values))


START = Command(name="start", run=start, group="chat", hidden=True)
