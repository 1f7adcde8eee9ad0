"""Slash commands and pressed buttons of Slack → what happened, as inbound values. Pure."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from adapters.slack.account import Account
from adapters.slack.address import Address, is_ts
from adapters.slack.text import readable
from gateway.channels.inbound import ButtonClicked, ChatType, Mention, MessageReceived, Sender
from gateway.channels.keys import UserId


def parse_slash(
    payload: Mapping[str, Any], account: Account, *, received_at: datetime, umbrella: str, commands: Collection[str]
) -> MessageReceived | None:
    """A slash command as its text `/name args`.

    `umbrella` (`/tieline`) takes the command as its first word; words that begin with no known command are said to the
    bot as they are. `/tieline-status` stands for a command whose own name Slack keeps for itself. Slack does not tell
    from which thread a command was given, so it concerns the channel as a whole.
    """
    command, channel = str(payload.get("command") or ""), str(payload.get("channel_id") or "")
    trigger = str(payload.get("trigger_id") or "")
    if not command or not channel or not trigger:
        return None
    args = readable(str(payload.get("text") or "")).strip()
    if command == umbrella:
        first, _, rest = args.removeprefix("/").partition(" ")
        known = not commands or first.lower() in commands
        text = "/help" if not args else (f"/{first} {rest}" if known else args)
    else:
        text = f"/{command.removeprefix(umbrella + '-').removeprefix('/')} {args}"
    address = Address(account.team or str(payload.get("team_id") or ""), channel)
    user = str(payload.get("user_id") or "")
    direct = address.is_direct or payload.get("channel_name") == "directmessage"
    name = str(payload.get("channel_name") or "")
    return MessageReceived(
        key=account.key(address),
        place=address.place,
        message_id=trigger,
        sender=Sender(id=UserId(user), display=str(payload.get("user_name") or "")),
        received_at=received_at,
        chat_type=ChatType.DIRECT if direct else ChatType.GROUP,
        chat_title="" if direct or name == "privategroup" else name,
        grantable=(address.channel, address.team),
        interaction=handle(str(payload.get("response_url") or ""), user),
        text=text.strip(),
        mention=Mention.DIRECT,
        interaction_id=trigger,
    )


def parse_press(payload: Mapping[str, Any], account: Account, *, received_at: datetime) -> ButtonClicked | None:
    """A pressed button, or None for any other interaction (modals, menus, shortcuts)."""
    actions = payload.get("actions") or ()
    if payload.get("type") != "block_actions" or not actions or actions[0].get("type") != "button":
        return None
    pressed, container, message = actions[0], payload.get("container") or {}, payload.get("message") or {}
    channel = str((payload.get("channel") or {}).get("id") or container.get("channel_id") or "")
    ts = str(message.get("ts") or container.get("message_ts") or "")
    if not channel or not is_ts(ts):
        return None
    thread_ts = str(message.get("thread_ts") or container.get("thread_ts") or "")
    team = account.team or str((payload.get("team") or {}).get("id") or "")
    # A message of ours with replies below it has its own ts as thread_ts; it was sent to the channel all the same.
    address = Address(team, channel, thread_ts if thread_ts and thread_ts != ts else None)
    person = payload.get("user") or {}
    user = str(person.get("id") or "")
    return ButtonClicked(
        key=account.key(address),
        place=address.place,
        message_id=ts,
        sender=Sender(id=UserId(user), display=str(person.get("username") or person.get("name") or "")),
        received_at=received_at,
        chat_type=ChatType.DIRECT if address.is_direct else ChatType.GROUP,
        grantable=(address.channel, address.team),
        interaction=handle(str(payload.get("response_url") or ""), user),
        action=str(pressed.get("value") or pressed.get("action_id") or ""),
        interaction_id=str(payload.get("trigger_id") or pressed.get("action_ts") or ts),
    )


def handle(response_url: str, user: str) -> str | None:
    """The opaque name of an interaction that can be answered for 30 minutes, five times."""
    return f"{user}|{response_url}" if response_url else None


def response_url_of(interaction: str) -> str:
    return interaction.partition("|")[2]


def person_of(interaction: str) -> str:
    return interaction.partition("|")[0]
