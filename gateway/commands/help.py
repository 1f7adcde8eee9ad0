"""/help and /start."""

from difflib import get_close_matches

from gateway.commands.command import Call, Command, Commands, Group, Reply

GROUPS: tuple[Group, ...] = ("chat", "later", "model", "people", "more")


def help_text(commands: Commands, call: Call) -> str:
    """What this person may type here, by group."""
    phrase, language = call.house.phrase, call.incoming.language
    lines = [phrase("help_title", language)]
    for group in GROUPS:
        shown = [
            f"- `/{command.name}{' ' + command.usage if command.usage else ''}` {phrase(command.summary_key, language)}"
            for command in commands.all
            if command.group == group and not command.hidden and command.allowed(call.role, in_group=call.in_group)
        ]
        if shown:
            lines += ["", f"**{phrase(f'help_{group}', language)}**", "", *shown]
    return "\n".join([*lines, "", phrase("help_hint", language)])


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
