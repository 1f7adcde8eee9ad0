"""Signs of life in one chat, and answers to buttons."""

from dataclasses import dataclass
from typing import Any

from adapters.telegram.account import Account
from adapters.telegram.errors import BadRequest, in_channel_words, speaks_of
from gateway.channels.errors import ChannelRejected

ANSWER_LIMIT = 200  # characters of an answer to a button


@dataclass(frozen=True, slots=True)
class ChatPresence:
    account: Account
    chat: int
    topic: int | None

    async def typing(self, status: str = "") -> None:
        """Telegram has no line for `status`; the sign fades after 5 s."""
        self.account.limiter.aside(self.chat)
        topic = {} if self.topic is None else {"message_thread_id": self.topic}
        with in_channel_words():
            await self.account.ask("sendChatAction", self.chat, action="typing", **topic)

    async def react(self, message_id: str, emoji: str, *, on: bool = True) -> None:
        """A bot has one reaction a message; which emoji it may use, the chat's owners and Telegram decide."""
        if not message_id.isdigit():
            raise ChannelRejected(f"not a message of Telegram: {message_id!r}")
        self.account.limiter.aside(self.chat)
        reaction = [{"type": "emoji", "emoji": emoji}] if on else []
        with in_channel_words():
            await self.account.ask("setMessageReaction", self.chat, message_id=int(message_id), reaction=reaction)


@dataclass(frozen=True, slots=True)
class ButtonAnswers:
    account: Account

    async def acknowledge(self, interaction: str, text: str = "", *, visible: bool = False) -> None:
        """Shown to the one who pressed: as a passing line, or with `visible` as a box to close."""
        shown: dict[str, Any] = {"text": text[:ANSWER_LIMIT], "show_alert": visible} if text else {}
        with in_channel_words():
            try:
                await self.account.api.call("answerCallbackQuery", callback_query_id=interaction, **shown)
            except BadRequest as error:
                # Too old: the waiting sign is gone by itself. Only words that nobody saw are a loss.
                if text or not speaks_of(error, "query is too old", "query_id_invalid"):
                    raise
