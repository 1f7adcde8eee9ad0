"""What a person does and sees on each platform, in the words of the doubles."""

from typing import Any

from tests.program.doubles import Doubles, until

ANN = {"id": 77, "first_name": "Ann"}
GROUP = {"id": -1005, "type": "supergroup", "title": "G"}
DM, GENERAL, DISCORD_ANN, DISCORD_BOT = (
    "400000000000000001",
    "300000000000000001",
    "500000000000000001",
    "100000000000000001",
)


class OnTelegram:
    """Ann's Telegram. Final messages only: drafts and deleted ones are not among them."""

    def __init__(self, doubles: Doubles) -> None:
        self._double = doubles.telegram

    async def say(self, text: str, **more: Any) -> None:
        await self._double.post("updates", {"user": ANN, "text": text, **more})

    async def press(self, message_id: int, action: str, user: dict[str, Any] = ANN) -> None:
        await self._double.post("updates", {"kind": "callback", "user": user, "message_id": message_id, "data": action})

    async def messages(self, chat: int = 77) -> list[dict[str, Any]]:
        """What the bot's messages in the chat are now, oldest first."""
        state = await self._double.get("state")
        return [one for one in state["messages"] if one["chat"]["id"] == chat and one["from"].get("is_bot")]

    async def texts(self, chat: int = 77) -> list[str]:
        return [text_of(one) for one in await self.messages(chat)]

    async def hears(self, what: str, *, chat: int = 77, seconds: float = 15.0) -> str:
        """Wait for a message of the bot that holds these words."""

        async def found() -> str | None:
            return next((text for text in await self.texts(chat) if what in text), None)

        text: str = await until(found, seconds=seconds, what=f"{what!r} on Telegram")
        return text

    async def calls(self, method: str) -> list[dict[str, Any]]:
        calls: list[dict[str, Any]] = (await self._double.get("calls", method=method))["calls"]
        return calls


def text_of(message: dict[str, Any]) -> str:
    """A Telegram message's words, however it was sent."""
    if "rich_message" in message:
        rich = message["rich_message"]
        return str(rich.get("html") or rich.get("markdown") or rich)
    return str(message.get("text") or message.get("caption") or "")


class OnDiscord:
    def __init__(self, doubles: Doubles) -> None:
        self._double = doubles.discord

    async def say(self, text: str, channel: str = DM, **more: Any) -> None:
        await self._double.post("events", {"channel": channel, "content": text, **more})

    async def slash(self, command: str, options: dict[str, Any] | None = None, channel: str = DM) -> None:
        body = {"kind": "slash", "channel": channel, "command": command, "options": options or {}}
        await self._double.post("events", body)

    async def messages(self, channel: str = DM) -> list[dict[str, Any]]:
        state = await self._double.get("state")
        return [one for one in state["messages"] if one["channel_id"] == channel and one["author"]["bot"]]

    async def hears(self, what: str, *, channel: str = DM, seconds: float = 15.0) -> str:
        async def found() -> str | None:
            return next((one["content"] for one in await self.messages(channel) if what in one["content"]), None)

        text: str = await until(found, seconds=seconds, what=f"{what!r} on Discord")
        return text


class OnSlack:
    def __init__(self, doubles: Doubles) -> None:
        self._double = doubles.slack

    async def say(self, text: str, channel: str = "D0ANN", **more: Any) -> None:
        await self._double.post("events", {"channel": channel, "user": "U0ANN", "text": text, **more})

    async def slash(self, command: str, text: str, channel: str = "D0ANN") -> None:
        body = {"kind": "slash", "channel": channel, "user": "U0ANN", "command": command, "text": text}
        await self._double.post("events", body)

    async def messages(self, channel: str = "D0ANN") -> list[dict[str, Any]]:
        state = await self._double.get("state")
        return [one for one in state["messages"] if one["channel"] == channel and one["user"] == "U0DOUBLE"]

    async def hears(self, what: str, *, channel: str = "D0ANN", seconds: float = 15.0) -> str:
        async def found() -> str | None:
            return next((one["text"] for one in await self.messages(channel) if what in one["text"]), None)

        text: str = await until(found, seconds=seconds, what=f"{what!r} on Slack")
        return text
