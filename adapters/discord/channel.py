"""One channel, thread or direct conversation on Discord. Holds no connection; whatever waits is the caller's."""

import logging
from base64 import b64encode

import anyio

from adapters.discord.account import Bot
from adapters.discord.files import DiscordFiles
from adapters.discord.history import DiscordHistory, Locate
from adapters.discord.limits import (
    FILES,
    IS_VOICE_MESSAGE,
    NONCE_LIMIT,
    OUTLINE_POINTS,
    ROW_LENGTH,
    ROWS,
    SILENT,
    SUPPRESS_EMBEDS,
)
from adapters.discord.parse import Handle
from adapters.discord.render import action_rows, render
from adapters.discord.rest import Json
from agent.core.ogg_opus import NotOpus, read_opus
from gateway.channels.channel import Files, History, Interactions, Presence, Streams
from gateway.channels.document import Plain, is_blank
from gateway.channels.errors import ChannelGone, ChannelRejected
from gateway.channels.keys import ConversationKey, UserId
from gateway.channels.outbound import Outbound, SentRef

log = logging.getLogger("tieline.discord")

WHISPER = "whisper:"  # a message only one person sees; behind it the interaction by which it is reached


class DiscordChannel:
    """Text with Markdown, buttons, files; answers grow by edits."""

    def __init__(self, key: ConversationKey, bot: Bot, locate: Locate) -> None:
        self.key = key
        self.capabilities = bot.capabilities
        self.streams: Streams | None = None  # answers grow by edits
        self.presence: Presence | None = DiscordPresence(bot, key.channel_id)
        self.files: Files | None = DiscordFiles(bot)
        self.history: History | None = DiscordHistory(bot, key.channel_id, locate)
        self.interactions: Interactions | None = DiscordInteractions(bot, self)
        self._bot = bot
        self._id = key.channel_id

    async def send(self, message: Outbound) -> SentRef:
        """Deliver once. A slash command that still waits is answered by it, else it is an ordinary message."""
        body = self._body(message)
        if message.interaction is not None and not message.files:
            answered = await self._bot.answers.answer(message.interaction, body)
            if answered is not None:
                self._bot.own.note(self._id, answered, message.key)
                return SentRef(answered)
        # An interaction is no message one could reply to.
        if (
            message.reply_to is not None
            and message.interaction is None
            and not self._bot.answers.knows(message.reply_to)
        ):
            body["message_reference"] = {"message_id": message.reply_to, "fail_if_not_exists": False}
        sent = await self._create(message, body)
        await self._bot.answers.settle(self._id)
        if message.interaction is not None and (handle := Handle.read(message.interaction)):
            await self._bot.answers.close(handle)
        return sent

    async def edit(self, sent: SentRef, message: Outbound) -> None:
        body = self._body(message)
        body.pop("flags", None)  # they stay as they were
        body["components"] = action_rows(message.buttons)
        if handle := _sent_ephemeral(sent):
            await self._bot.rest.followed("PATCH", handle.token, sent.id, body)
        else:
            await self._bot.rest.edit_message(self._id, sent.id, body)

    async def delete(self, sent: SentRef) -> None:
        """Take it away; fine when it is gone already, or when the place is."""
        try:
            if handle := _sent_ephemeral(sent):
                await self._bot.rest.followed("DELETE", handle.token, sent.id)
            else:
                await self._bot.rest.delete_message(self._id, sent.id)
        except ChannelGone:
            raise
        except ChannelRejected as error:
            log.debug("nothing to delete: %s", error, extra={"conversation": str(self.key)})

    async def send_ephemeral(self, message: Outbound, to: UserId | None) -> SentRef | None:
        """Ephemeral where an interaction of that person is open, else a silent message that the caller deletes."""
        body = self._body(message)
        handle = message.interaction or (self._bot.answers.latest(self._id, to) if to else None)
        if handle is not None and not message.files:
            sent_ephemeral = await self._bot.answers.send_ephemeral(handle, body)
            if sent_ephemeral is not None:
                return SentRef(sent_ephemeral, WHISPER + handle)
        body["flags"] = int(body.get("flags", 0)) | SILENT
        return await self._create(message, body)

    async def _create(self, message: Outbound, body: Json) -> SentRef:
        if message.key:
            body |= {"nonce": message.key, "enforce_nonce": True}
            self._bot.own.tries(self._id, message.key)
        made = await self._made(message, body)
        self._bot.own.note(self._id, str(made["id"]), message.key)
        return SentRef(str(made["id"]))

    async def _made(self, message: Outbound, body: Json) -> Json:
        """The message as Discord made it: a voice message where it is one and may be sent here, else a file."""
        rest = self._bot.rest
        if (voice := await _voice_message(message)) is not None:
            flags = IS_VOICE_MESSAGE | int(body.get("flags", 0)) & SILENT
            try:
                return await rest.create_message(
                    self._id, _without_text(body) | voice | {"flags": flags}, message.files
                )
            except ChannelGone:
                raise
            except ChannelRejected as error:
                log.info("no voice message here, so a file: %s", error, extra={"conversation": str(self.key)})
        return await rest.create_message(self._id, body, message.files)

    def _body(self, message: Outbound) -> Json:
        """The message as Discord takes it. Nobody is ever pinged by it."""
        if len(message.key) > NONCE_LIMIT:
            raise ChannelRejected(f"the key {message.key!r} is longer than Discord's {NONCE_LIMIT} characters")
        if sum(map(len, message.buttons)) > ROWS * ROW_LENGTH:
            raise ChannelRejected(f"more than {ROWS * ROW_LENGTH} buttons do not fit under one message")
        if len(message.files) > FILES:
            raise ChannelRejected(f"more than {FILES} files do not fit into one message")
        body: Json = {"content": render(message.document), "allowed_mentions": {"parse": []}}
        flags = (0 if self._bot.settings.link_previews else SUPPRESS_EMBEDS) | (SILENT if message.silent else 0)
        if flags:
            body["flags"] = flags
        if message.buttons:
            body["components"] = action_rows(message.buttons)
        return body


async def _voice_message(message: Outbound) -> Json | None:
    """Facts that Discord wants of a voice message; None for a message of any other kind.

    It has one file of sound and nothing else, and its player draws what it is told of the file (Discord's reference of
    messages, "Voice Messages").
    """
    if len(message.files) != 1 or not is_blank(message.document) or message.buttons:
        return None
    (file,) = message.files
    if not file.voice or file.mime_type != "audio/ogg":
        return None
    try:
        sound = read_opus(await anyio.Path(file.path).read_bytes())
    except (NotOpus, OSError):
        return None
    outline = b64encode(sound.outline(OUTLINE_POINTS)).decode()
    return {"attachments": [{"duration_secs": round(sound.seconds, 3), "waveform": outline}]}


def _without_text(body: Json) -> Json:
    return {key: value for key, value in body.items() if key not in ("content", "components")}


class DiscordPresence:
    """Typing and reactions. What the bot may not do here is no reason to take the place for closed."""

    def __init__(self, bot: Bot, channel_id: str) -> None:
        self._rest = bot.rest
        self._id = channel_id

    async def typing(self, status: str = "") -> None:
        """Shown for ten seconds; Discord has no line for `status`."""
        await self._rest.call("POST", "/channels/{channel_id}/typing", {"channel_id": self._id}, closes=False)

    async def react(self, message_id: str, emoji: str, *, on: bool = True) -> None:
        await self._rest.call(
            "PUT" if on else "DELETE",
            "/channels/{channel_id}/messages/{message_id}/reactions/{emoji}/@me",
            {"channel_id": self._id, "message_id": message_id, "emoji": emoji},
            closes=False,
        )


class DiscordInteractions:
    """Answers to slash commands and buttons that come from this channel."""

    def __init__(self, bot: Bot, channel: DiscordChannel) -> None:
        self._bot = bot
        self._channel = channel

    async def acknowledge(self, interaction: str, text: str = "", *, visible: bool = False) -> None:
        """Stop the waiting sign; `text` is shown to the person alone while the interaction lives."""
        content = render((Plain(text),)) if text else ""
        if not await self._bot.answers.acknowledge(interaction, content, visible=visible) and visible:
            await self._channel.send(Outbound(document=(Plain(text),), interaction=interaction))


def _sent_ephemeral(sent: SentRef) -> Handle | None:
    return Handle.read(sent.kind.removeprefix(WHISPER)) if sent.kind.startswith(WHISPER) else None
