"""The command menu of the bot, changed only where it differs. The list is pure, the rest a short shell."""

import re
from collections.abc import Sequence

from adapters.telegram.api import Api
from adapters.telegram.errors import in_channel_words
from gateway.channels.outbound import CommandSpec

# Telegram shows the most special scope that fits a person and a chat. Privately everybody administers the chat.
SCOPES = {"default": False, "all_private_chats": True, "all_chat_administrators": True}  # with admins' commands?
_NAME = re.compile(r"[a-z0-9_]{1,32}")
LIMIT, DESCRIPTION_LIMIT = 100, 256


def menu(commands: Sequence[CommandSpec], *, admin: bool) -> list[dict[str, str]]:
    """What setMyCommands takes: the everyday commands, without their grammar, for one line is seen of each.

    A name that Telegram cannot carry is left out (it still works as text).
    """
    entries: list[dict[str, str]] = []
    for command in commands:
        name = command.name.lower().replace("-", "_")
        if not command.menu or (command.admin and not admin) or not _NAME.fullmatch(name):
            continue
        entries.append({"command": name, "description": command.description[:DESCRIPTION_LIMIT] or name})
    return entries[:LIMIT]


async def publish(api: Api, commands: Sequence[CommandSpec]) -> None:
    """Raises ChannelError; what is registered by then is not written again by the next try."""
    for scope, admin in SCOPES.items():
        wanted = menu(commands, admin=admin)
        with in_channel_words():
            present = await api.call("getMyCommands", scope={"type": scope})
            if _pairs(present) == _pairs(wanted):
                continue
            if wanted:
                await api.call("setMyCommands", commands=wanted, scope={"type": scope})
            else:
                await api.call("deleteMyCommands", scope={"type": scope})


def _pairs(entries: Sequence[dict[str, str]]) -> list[tuple[str, str]]:
    return [(entry["command"], entry["description"]) for entry in entries]
