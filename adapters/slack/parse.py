"""Events of Slack's Events API → inbound values. Pure; never asks Slack anything."""

import re
from collections.abc import Collection, Container, Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from adapters.slack.account import Account, Address, address_of, is_ts, moment
from gateway.channels.inbound import (
    Attachment,
    ButtonClicked,
    ChatType,
    Deleted,
    Edited,
    Inbound,
    Membership,
    Mention,
    MessageReceived,
    Quoted,
    Sender,
)
from gateway.channels.keys import ConversationKey, UserId

# Slack's wire text made readable: escapes undone; links, mentions and the bot's own name resolved. Pure.

_TOKEN = re.compile(r"<([^<>\n]+)>")
_PEOPLE = re.compile(r"<(?:@|!subteam\^)(\w+)[>|]")  # one, or a group of them
ESCAPES = {">": "&gt;", "<": "&lt;", "&": "&amp;"}  # read in this order: `&amp;lt;` is the text `&lt;`
_ESCAPED = str.maketrans(ESCAPES)


def readable(text: str) -> str:
    """Text as a person sees it, from text as Slack sends it (docs.slack.dev, "Formatting message text")."""
    return unescaped(_TOKEN.sub(lambda match: _shown(match[0], match[1]), text)) if "<" in text else unescaped(text)


def without_mention(text: str, bot_user: str) -> tuple[str, bool]:
    """The wire text with the bot's mention taken out, and whether there was one."""
    if not bot_user or f"<@{bot_user}" not in text:
        return text, False
    name = rf"<@{re.escape(bot_user)}(?:\|[^<>]*)?>"
    shorter, found = re.subn(rf"^\s*{name}[:,]?\s*|[ \t]?{name}", "", text)
    return (shorter.strip(), True) if found else (text, False)


def unescaped(text: str) -> str:
    """The three entities of Slack's wire text as the characters they stand for."""
    if "&" in text:
        for character, entity in ESCAPES.items():
            text = text.replace(entity, character)
    return text


def escaped(text: str) -> str:
    """Text for Slack's wire: a reader sees exactly `text`, and nothing in it can become a mention or a link."""
    return text.translate(_ESCAPED)


def _shown(token: str, content: str) -> str:
    target, _, label = content.partition("|")
    if target.startswith(("@", "#")):
        return target[0] + (label or target[1:]).removeprefix(target[0])
    if target.startswith("!"):  # <!here>, <!subteam^S1|@team>, <!date^…|fallback>
        return label or "@" + target[1:].partition("^")[0]
    if target.startswith(("mailto:", "tel:")):
        address = target.partition(":")[2]
        return address if label in ("", address) else f"{label} ({address})"
    if "://" in target:
        bare = target.partition("://")[2].rstrip("/")
        # Slack makes a link of a bare host name by itself: `<http://x.org|x.org>` was typed as `x.org`.
        return label if label.rstrip("/") == bare else (f"{label} ({target})" if label else target)
    return token


Event = Mapping[str, Any]

# Other subtypes are Slack's own lines ("joined the channel", "set the topic"), not somebody's words.
_WORDS = (None, "file_share", "thread_broadcast", "bot_message", "me_message")
_LEFT = ("channel_left", "group_left", "channel_archive", "group_archive", "channel_deleted", "group_deleted")
_BACK = ("channel_unarchive", "group_unarchive")
UNREADABLE = (KeyError, TypeError, ValueError, AttributeError)  # what a payload of another form than Slack's raises
UNTOLD = "file:"  # begins the handle of a file whose address Slack has not told; its id follows
UNINSTALLED = ("app_uninstalled", "tokens_revoked")
GROUPS_CHANGED = ("subteam_created", "subteam_members_changed", "subteam_updated")


def parse_event(
    event: Event,
    account: Account,
    *,
    received_at: datetime,
    joined: Container[str] = (),
    event_id: str | None = None,
) -> Inbound | None:
    """The inbound value of an `event_callback`'s event, or None for the bot's own words and for what is no message.

    `joined` holds the channel ids of the threads the bot takes part in: words there are meant for it too.
    A message and its `app_mention` twin give the same `MessageReceived` but for files, which Slack leaves out of the
    latter (see `intake.Twins`), so neither can be answered beside the other.
    """
    kind, subtype = event.get("type"), event.get("subtype")
    if kind in ("message", "app_mention"):
        if subtype == "message_changed":
            return _changed(event, account, received_at, joined, event_id)
        if subtype == "message_deleted":
            return _deleted(event, event.get("previous_message") or {}, account, received_at, event_id)
        return parse_message(event, account, received_at=received_at, joined=joined)
    return _membership(event, account, received_at, event_id)


def parse_message(
    message: Event,
    account: Account,
    *,
    received_at: datetime,
    joined: Container[str] = (),
    channel: str = "",
    from_history: bool = False,
) -> MessageReceived | None:
    """A message as an event or the history has it (there it lacks its `channel`)."""
    ts = str(message.get("ts") or "")
    channel = str(message.get("channel") or channel)
    if message.get("subtype") not in _WORDS or message.get("hidden") or not channel or not is_ts(ts):
        return None
    if account.wrote(message):
        return None
    address, chat_type = _whereabouts(message, account, channel, ts)
    wire, mentioned = without_mention(str(message.get("text") or ""), account.bot_user)
    attachments = attachments_of(message)
    quoted = _quoted(message, account, channel)
    text = readable(wire)
    if not text and message.get("subtype") == "bot_message":
        text = "\n".join(readable(str(one.get("fallback") or "")) for one in message.get("attachments") or ()).strip()
    if not text and not attachments and not mentioned and quoted is None:
        return None
    return MessageReceived(
        key=account.key(address),
        place=address.place,
        message_id=ts,
        sender=_sender(message),
        received_at=received_at,
        chat_type=chat_type,
        grantable=(address.channel, address.team),
        around=address.around,
        thread_root=_root(address, ts),
        text=text,
        attachments=attachments,
        mention=_mention(message, account, address, mentioned, joined),
        to_others=_is_to_others(message, account),
        quoted=quoted,
        sent_at=moment(ts),
        from_history=from_history,
    )


def _changed(
    event: Event, account: Account, received_at: datetime, joined: Container[str], event_id: str | None
) -> Inbound | None:
    new, old = event.get("message") or {}, event.get("previous_message") or {}
    if new.get("subtype") == "tombstone":  # a deleted message with replies below it stays as a stone
        return _deleted({**event, "deleted_ts": new.get("ts")}, old, account, received_at, event_id)
    ts = str(new.get("ts") or "")
    # Slack also "changes" a message when it unfurls a link or counts a reply: nobody edited anything then.
    if account.wrote(new) or not is_ts(ts) or not new.get("edited") or new.get("text") == old.get("text"):
        return None
    channel = str(event.get("channel") or "")
    address, chat_type = _whereabouts({**new, "channel_type": event.get("channel_type")}, account, channel, ts)
    wire, mentioned = without_mention(str(new.get("text") or ""), account.bot_user)
    return Edited(
        key=account.key(address),
        place=address.place,
        message_id=ts,
        sender=_sender(new),
        received_at=received_at,
        chat_type=chat_type,
        grantable=(address.channel, address.team),
        around=address.around,
        event_id=event_id,
        text=readable(wire),
        version=str(new["edited"].get("ts") or event.get("ts") or ts),
        mention=_mention(new, account, address, mentioned, joined),
    )


def _deleted(event: Event, old: Event, account: Account, received_at: datetime, event_id: str | None) -> Deleted | None:
    ts = str(event.get("deleted_ts") or old.get("ts") or "")
    channel = str(event.get("channel") or "")
    if account.wrote(old) or not is_ts(ts) or not channel:
        return None
    address, chat_type = _whereabouts({**old, "channel_type": event.get("channel_type")}, account, channel, ts)
    return Deleted(
        key=account.key(address),
        place=address.place,
        message_id=ts,
        sender=_sender(old),
        received_at=received_at,
        chat_type=chat_type,
        grantable=(address.channel, address.team),
        around=address.around,
        event_id=event_id,
    )


def _membership(event: Event, account: Account, received_at: datetime, event_id: str | None) -> Membership | None:
    kind, channel = event.get("type"), event.get("channel")
    if kind in ("member_joined_channel", "member_left_channel"):
        if not account.bot_user or event.get("user") != account.bot_user:
            return None
        present = kind == "member_joined_channel"
    elif kind in _BACK or kind in _LEFT or kind in UNINSTALLED:
        present = kind in _BACK
    else:
        return None
    if kind in UNINSTALLED:
        address = Address(account.team, "")
        name = place = account.team  # every conversation of the workspace
    else:
        address = Address(account.team, str(channel or ""))
        name, place = str(address), address.place
        if not address.channel:
            return None
    return Membership(
        key=ConversationKey(account.channel_type, name),
        place=place,
        message_id=str(event.get("event_ts") or event_id or kind),
        sender=Sender(id=UserId(str(event.get("inviter") or event.get("actor_id") or event.get("user") or ""))),
        received_at=received_at,
        chat_type=ChatType.DIRECT if address.is_direct else ChatType.GROUP,
        grantable=(address.channel, address.team) if address.channel else (address.team,),
        around=address.around,
        event_id=event_id,
        present=present,
    )


def _whereabouts(message: Event, account: Account, channel: str, ts: str) -> tuple[Address, ChatType]:
    direct = message.get("channel_type") == "im" or channel.startswith("D")
    thread_ts = message.get("thread_ts")
    address = address_of(account.team, channel, ts, str(thread_ts) if thread_ts else None, direct=direct)
    return address, ChatType.DIRECT if direct else ChatType.GROUP


def _mention(message: Event, account: Account, address: Address, mentioned: bool, joined: Container[str]) -> Mention:
    if mentioned:
        return Mention.DIRECT
    replies_to_bot = bool(account.bot_user) and message.get("parent_user_id") == account.bot_user
    return Mention.IMPLICIT if replies_to_bot or str(address) in joined else Mention.NONE


def _root(address: Address, ts: str) -> str | None:
    """The message that begins the thread which this one is a reply in."""
    return address.thread_ts if address.thread_ts != ts else None


def _is_to_others(message: Event, account: Account) -> bool:
    """Whether it names other people or a group of them, or replies in the thread of one."""
    named = {user for user in _PEOPLE.findall(str(message.get("text") or "")) if user != account.bot_user}
    above = message.get("parent_user_id")
    return bool(named) or (above is not None and above != account.bot_user)


def _sender(message: Event) -> Sender:
    user, bot = message.get("user"), message.get("bot_id")
    return Sender(
        id=UserId(str(user or bot or "")),
        display=str(message.get("username") or (message.get("bot_profile") or {}).get("name") or ""),
        is_bot=bool(bot) or message.get("subtype") == "bot_message" or user == "USLACKBOT",
    )


def _shared(message: Event) -> list[Event]:
    """Other messages that this one shares or links to."""
    return [one for one in message.get("attachments") or () if one.get("is_share") or one.get("is_msg_unfurl")]


def _words_of(shared: Event) -> str:
    """Its words; of files alone Slack's fallback says that there is no preview."""
    return readable(str(shared.get("text") or ("" if shared.get("files") else shared.get("fallback")) or ""))


def _quoted(message: Event, account: Account, channel: str) -> Quoted | None:
    """The messages that this one shares or links to, as one; None where they say nothing."""
    shared = _shared(message)
    words = tuple(filter(None, map(_words_of, shared)))
    attachments = _each_once(file for one in shared for file in one.get("files") or ())
    if not words and not attachments:
        return None
    first, is_one = shared[0], len(shared) == 1
    author = Sender(id=UserId(str(first.get("author_id") or "")), display=str(first.get("author_name") or ""))
    is_here = is_one and first.get("channel_id") == channel and is_ts(str(first.get("ts")))
    return Quoted(
        text="\n".join(words),
        attachments=attachments,
        sender=author if is_one else None,
        is_own=is_one and bool(account.bot_user) and author.id == account.bot_user,
        message_id=str(first["ts"]) if is_here else None,
    )


def quoted_root(root: Event, account: Account) -> Quoted | None:
    """The first message of a thread, as what a reply in it quotes; None where it says nothing or is Slack's line."""
    wire, _ = without_mention(str(root.get("text") or ""), account.bot_user)
    text, attachments = readable(wire), attachments_of(root)
    if root.get("subtype") not in _WORDS or not (text or attachments):
        return None
    return Quoted(
        text=text,
        attachments=attachments,
        sender=_sender(root),
        is_own=account.wrote(root),
        message_id=str(root["ts"]),
    )


def attachments_of(message: Event) -> tuple[Attachment, ...]:
    """Its own files, each once."""
    return _each_once(message.get("files") or ())


def _each_once(files: Iterable[Event]) -> tuple[Attachment, ...]:
    return tuple({str(file["id"]): attachment_of(file) for file in files if _is_readable(file)}.values())


def _is_readable(file: Event) -> bool:
    return bool(file.get("id")) and file.get("mode") not in ("tombstone", "hidden_by_limit")


def attachment_of(file: Event) -> Attachment:
    """A file object of Slack's; one that tells nothing but its id is asked for by that."""
    mime_type = str(file.get("mimetype") or "application/octet-stream")
    size = file.get("size")
    return Attachment(
        kind=_kind(mime_type),
        handle=str(file.get("url_private_download") or file.get("url_private") or f"{UNTOLD}{file['id']}"),
        name=str(file.get("name") or file.get("title") or file["id"]),
        mime_type=mime_type,
        size=int(size) if isinstance(size, int) else None,
    )


def _kind(mime_type: str) -> Literal["audio", "image", "video", "file"]:
    match mime_type.partition("/")[0]:
        case "audio":
            return "audio"
        case "image":
            return "image"
        case "video":
            return "video"
        case _:
            return "file"


# Slash commands and pressed buttons → inbound values. Pure.


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
        around=address.around,
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
        around=address.around,
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
