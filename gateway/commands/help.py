"""/help and /start."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from difflib import get_close_matches

from agent.providers.registry import Registry
from gateway.commands.command import AnyCall, AnyCommand, Call, Command, Commands, Group, Reply
from gateway.phrases.catalogue import MARK

GROUPS: tuple[Group, ...] = ("chat", "later", "model", "people", "more")
EXAMPLES = frozenset({"remind", "memory", "provider"})  # everyday commands that nobody guesses how to write


ALL = ("all", "alle", "alles")


@dataclass(frozen=True, slots=True, kw_only=True)
class HelpCommandDeps:
    """The features that are switched off, and the models that are connected."""

    providers: Registry
    switched_off: Callable[[], Collection[str]]  # features, as `Command.feature` names them


def help_of(commands: Commands, call: Call[HelpCommandDeps]) -> Reply:
    """The everyday commands; all that this person may type here; or the one that words name."""
    if not call.args:
        return Reply(text=help_text(commands, call), private=True)
    name = call.words[0].removeprefix("/").lower()
    if name in ALL:
        return Reply(text=all_text(commands, call), private=True)
    found = commands.named(name.replace("_", "-"))
    if found is None:
        return unknown(commands, replace(call, name=name))
    phrase, language = call.phrase, call.incoming.language
    usage = f" {found.usage}" if found.usage else ""
    lines = [f"`{MARK}/{found.name}{usage}`", phrase(found.summary_key, language)]
    if found.aliases:
        lines.append(phrase("help_also", language, names=", ".join(f"{MARK}/{alias}" for alias in found.aliases)))
    if not found.allowed(call.role, call.roles, in_group=call.in_group):
        lines.append(phrase("help_admins", language))
    if found.examples:
        lines += ["", _listed(phrase(found.examples, language))]
    return Reply(text="\n".join(lines), private=True)


def _listed(examples: str) -> str:
    """With one list item for each line that shows a command: Markdown runs plain lines together."""
    lines: list[str] = []
    for line in examples.splitlines():
        item = f"- {line}" if line.startswith(f"{MARK}/") else line
        if lines and item.startswith("- ") != lines[-1].startswith("- "):
            lines.append("")
        lines.append(item)
    return "\n".join(lines)


def help_text(commands: Commands, call: Call[HelpCommandDeps]) -> str:
    """Everyday commands, with an example where words follow; and where the rest is."""
    phrase, language = call.phrase, call.incoming.language
    shown = [command for command in commands.all if command.everyday and _is_shown(command, call)]
    lines = [phrase("help_title", language), "", *(f"- {_line(command, call)}" for command in shown)]
    examples = [phrase(f"example.{command.name}", language) for command in shown if command.name in EXAMPLES]
    lines += ["", phrase("help_examples", language), "", *(f"- {example}" for example in examples)]
    return "\n".join([*lines, "", phrase("help_rest", language)])


def all_text(commands: Commands, call: Call[HelpCommandDeps]) -> str:
    """All commands that this person may type here, by group."""
    phrase, language = call.phrase, call.incoming.language
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


def _is_shown(command: AnyCommand, call: Call[HelpCommandDeps]) -> bool:
    is_here = command.platform in ("", call.key.platform) and command.feature not in call.deps.switched_off()
    return is_here and not command.hidden and command.allowed(call.role, call.roles, in_group=call.in_group)


def _line(command: AnyCommand, call: Call[HelpCommandDeps]) -> str:
    """Plain text: Telegram makes a command tappable, but not in code."""
    return f"{MARK}/{command.name}: {call.phrase(command.summary_key, call.incoming.language)}"


async def start(call: Call[HelpCommandDeps]) -> Reply:
    """Platforms send /start when a person opens the chat for the first time."""
    phrase, language = call.phrase, call.incoming.language
    name = f" {call.incoming.display}" if call.incoming.display else ""
    lines = [phrase("start", language, name=name, bot="Tieline")]
    if call.deps.providers.default.family == "demo":
        lines.append(phrase("start_demo", language))
    return Reply(text="\n\n".join(lines))


def unknown(commands: Commands, call: AnyCall) -> Reply:
    """A slash word that is no command."""
    close = get_close_matches(call.name, commands.names, n=1)
    key = "did_you_mean" if close else "unknown_command"
    values = {"close": close[0]} if close else {}
    return Reply(text=call.phrase(key, call.incoming.language, name=call.name, **values))


START = Command(name="start", deps=HelpCommandDeps, run=start, group="chat", hidden=True)
