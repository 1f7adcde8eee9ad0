"""Slash commands as Discord's application commands, and whether what is registered differs. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from adapters.discord.limits import CHOICE_LENGTH, CHOICES, COMMAND_DESCRIPTION, COMMANDS
from gateway.channels.outbound import CommandSpec

CHAT_INPUT, STRING = 1, 3
ARGUMENTS = "arguments"  # the one option: whatever would follow the command in text
_NAME = re.compile(r"[-_'\w]{1,32}")
_IN_GUILDS_AND_DIRECT = [0, 1]  # contexts
UMBRELLA = "tieline"
_UMBRELLA = CommandSpec(
    name=UMBRELLA, description="Any other command: help all lists them", options="<command>", suggests=True
)
MANAGE_GUILD = "32"  # a bit set, as text; whoever lacks it is not shown the command in a server

Command = dict[str, Any]


def payload_of(commands: Sequence[CommandSpec]) -> list[Command]:
    """The commands to register: the everyday commands, and one that takes every other as its first word.

    Names that Discord does not take work as text.

    Raises ValueError for more than Discord takes.
    """
    named = [spec for spec in commands if _NAME.fullmatch(spec.name) and spec.name == spec.name.lower()]
    shown = [spec for spec in named if spec.menu]
    if len(shown) >= COMMANDS:
        raise ValueError(f"Discord takes {COMMANDS} commands, and these are {len(shown) + 1}")
    return [_one(spec) for spec in shown] + ([_one(_UMBRELLA)] if len(shown) < len(commands) else [])


def differs(registered: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]) -> bool:
    """Registering counts against a daily limit, so it is done for a difference only. Order means nothing."""
    return sorted(map(_essence, registered)) != sorted(map(_essence, wanted))


def _one(spec: CommandSpec) -> Command:
    hint = spec.options.strip()
    options = [
        {
            "type": STRING,
            "name": ARGUMENTS,
            "description": hint[:COMMAND_DESCRIPTION],
            # `[name]` may be left out, `<name>` may not.
            "required": hint.startswith("<"),
        }
        | _words(spec)
    ]
    return {
        "type": CHAT_INPUT,
        "name": spec.name,
        "description": (spec.description or spec.name)[:COMMAND_DESCRIPTION],
        "options": options if hint else [],
        "contexts": _IN_GUILDS_AND_DIRECT,
        "default_member_permissions": MANAGE_GUILD if spec.admin else None,
    }


def _words(spec: CommandSpec) -> Command:
    """The words of the option: a short list is registered, what is longer or changes is asked for as somebody types."""
    if spec.suggests or len(spec.choices) > CHOICES:
        return {"autocomplete": True}
    return {"choices": [{"name": word, "value": word} for word in spec.choices]} if spec.choices else {}


def suggested(lines: Sequence[str], name: str) -> list[Command]:
    """Whole lines of commands as choices of the option of the command `name`; what Discord would refuse is left out.

    https://discord.com/developers/docs/interactions/application-commands#autocomplete
    """
    before = "" if name == UMBRELLA else f"{name} "
    values = (line.removeprefix(before) for line in lines if line.startswith(before))
    fitting = dict.fromkeys(value for value in values if 1 <= len(value) <= CHOICE_LENGTH)
    return [{"name": value, "value": value} for value in list(fitting)[:CHOICES]]


def _essence(command: Mapping[str, Any]) -> str:
    """The fields that we set, in one form: Discord fills in defaults of its own."""
    options = [
        (
            option.get("type"),
            option.get("name"),
            option.get("description"),
            bool(option.get("required")),
            [choice.get("value") for choice in option.get("choices") or ()],
            bool(option.get("autocomplete")),
        )
        for option in command.get("options") or ()
    ]
    contexts = command.get("contexts")
    kept = sorted(contexts) if contexts is not None and not command.get("guild_id") else _IN_GUILDS_AND_DIRECT
    may = command.get("default_member_permissions")
    return repr((command.get("name"), command.get("type", CHAT_INPUT), command.get("description"), options, kept, may))
