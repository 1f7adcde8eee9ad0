"""The app manifest for `tieline slack-manifest`: commands, scopes and events, as Slack wants them. Pure.

Source: docs.slack.dev, "App manifest reference". Slack's slash commands live in it; an app cannot register them.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from gateway.channels.outbound import CommandSpec

SCOPES = (
    "app_mentions:read",
    "assistant:write",
    "channels:history",
    "channels:read",
    "chat:write",
    "commands",
    "files:read",
    "files:write",
    "groups:history",
    "groups:read",
    "im:history",
    "im:read",
    "metadata.message:read",
    "mpim:history",
    "mpim:read",
    "reactions:write",
    "usergroups:read",
    "users:read",
)
EVENTS = (
    "app_mention",
    "app_uninstalled",
    "assistant_thread_started",
    "channel_archive",
    "channel_deleted",
    "channel_left",
    "channel_unarchive",
    "group_archive",
    "group_deleted",
    "group_left",
    "group_unarchive",
    "member_joined_channel",
    "member_left_channel",
    "message.channels",
    "message.groups",
    "message.im",
    "message.mpim",
    "subteam_created",
    "subteam_members_changed",
    "subteam_updated",
    "tokens_revoked",
)
_MOST_COMMANDS = 50
_NAME_LIMIT, _COMMAND_LIMIT, _DESCRIPTION_LIMIT, _HINT_LIMIT = 35, 32, 2000, 1000


def manifest(
    commands: Sequence[CommandSpec], *, name: str, request_url: str | None, slash_command: str = "/tieline"
) -> dict[str, Any]:
    """The text to paste at api.slack.com/apps → Create New App → From a manifest.

    `request_url` is the public address of `/channels/<channel type>/events`; None means Socket Mode. Raises ValueError
    for a name or command that Slack would refuse.
    """
    if not 1 <= len(name) <= _NAME_LIMIT:
        raise ValueError(f"a Slack app's name has 1 to {_NAME_LIMIT} characters, and {name!r} has {len(name)}")
    if request_url is not None and not request_url.startswith("https://"):
        raise ValueError(f"Slack calls https addresses only, not {request_url!r}; or use Socket Mode without one")
    url = {} if request_url is None else {"url": request_url}
    endpoint = {} if request_url is None else {"request_url": request_url}
    return {
        "_metadata": {"major_version": 1, "minor_version": 1},
        "display_information": {"name": name, "description": "An assistant in your conversations, run by Tieline"},
        "features": {
            "app_home": {
                "home_tab_enabled": False,
                "messages_tab_enabled": True,
                "messages_tab_read_only_enabled": False,
            },
            "bot_user": {"display_name": name, "always_online": True},
            "assistant_view": {"assistant_description": "Ask me anything, or mention me in a channel."},
            "slash_commands": [command | url for command in _slash_commands(commands, slash_command)],
        },
        "oauth_config": {"scopes": {"bot": list(SCOPES)}},
        "settings": {
            "event_subscriptions": {**endpoint, "bot_events": list(EVENTS)},
            "interactivity": {"is_enabled": True, **endpoint},
            "org_deploy_enabled": False,
            "socket_mode_enabled": request_url is None,
            "token_rotation_enabled": False,
        },
    }


def native_name(command: str, slash_command: str = "/tieline") -> str:
    """Under which name Slack knows a command of ours: names are shared by all apps of a workspace and with Slack."""
    return f"{slash_command}-{command}"


def _slash_commands(commands: Sequence[CommandSpec], slash_command: str) -> Iterable[dict[str, Any]]:
    """The umbrella, which takes every command as its first word, and those of the menu by names of their own.

    Raises ValueError for more than Slack takes: none is left out in silence.
    """
    shown = [command for command in commands if command.menu]
    if len(shown) >= _MOST_COMMANDS:
        raise ValueError(f"Slack takes {_MOST_COMMANDS} commands of an app, and these are {len(shown) + 1}")
    hint = " | ".join(["help", "help all", "a command such as status", "or what you want to say"])
    yield _slash_command(slash_command, "Talk to the assistant, or give it a command", hint)
    for command in shown:
        yield _slash_command(native_name(command.name, slash_command), command.description, command.options)


def _slash_command(command: str, description: str, hint: str) -> dict[str, Any]:
    if len(command) > _COMMAND_LIMIT or command != command.lower() or " " in command:
        raise ValueError(f"Slack takes commands of at most {_COMMAND_LIMIT} lower-case characters, not {command!r}")
    entry: dict[str, Any] = {
        "command": command,
        "description": description[:_DESCRIPTION_LIMIT],
        "should_escape": False,
    }
    return entry | ({"usage_hint": hint[:_HINT_LIMIT]} if hint else {})
