"""A person's actions and view on each platform, through the doubles."""

from typing import Any

from tests.doubles.telegram_api import flat
from tests.fakes.waiting import PATIENCE_S
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
    """A person's Telegram. Final messages only: drafts and deleted ones are not among them."""

    def __init__(self, doubles: Doubles, user: dict[str, Any] = ANN) -> None:
        self._double = doubles.telegram
        self.user = user

    async def say(self, text: str, **more: Any) -> int:
        """Gives the message's id."""
        return await self.send({"user": self.user, "text": text, **more})

    async def send(self, update: dict[str, Any]) -> int:
        """Any message of any person, as the double describes it. Gives its id."""
        made = (await self._double.post("updates", update))["updates"]
        return int(made[0]["message"]["message_id"]) if made and "message" in made[0] else 0

    async def edit(self, message_id: int, text: str, **more: Any) -> None:
        edit = {"kind": "edited_message", "user": self.user, "message_id": message_id, "text": text}
        await self._double.post("updates", {**edit, **more})

    async def press(self, message_id: int, action: str, user: dict[str, Any] | None = None, **more: Any) -> None:
        press = {"kind": "callback", "user": user or self.user, "message_id": message_id, "data": action}
        await self._double.post("updates", {**press, **more})

    async def state(self) -> dict[str, Any]:
        """Everything the double knows."""
        found: dict[str, Any] = await self._double.get("state")
        return found

    async def messages(self, chat: int | None = None) -> list[dict[str, Any]]:
        """The bot's messages in the chat now, oldest first; without a chat the person's own."""
        state, place = await self.state(), chat or self.user["id"]
        return [one for one in state["messages"] if one["chat"]["id"] == place and one["from"].get("is_bot")]

    async def texts(self, chat: int | None = None) -> list[str]:
        return [text_of(one) for one in await self.messages(chat)]

    async def hears(self, what: str, *, chat: int | None = None, seconds: float = PATIENCE_S) -> str:
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
        return str(rich.get("html") or rich.get("markdown") or flat(rich.get("blocks", rich)))
    return str(message.get("text") or message.get("caption") or "")


class OnDiscord:
    def __init__(self, doubles: Doubles) -> None:
        self._double = doubles.discord

    async def say(self, text: str, channel: str = DM, **more: Any) -> str:
        """Gives the message's id."""
        made = await self._double.post("events", {"channel": channel, "content": text, **more})
        return str(made["results"][0]["message"]["id"])

    async def press(self, message_id: str, action: str, channel: str = DM, **more: Any) -> None:
        body = {"kind": "button", "channel": channel, "message_id": message_id, "custom_id": action, **more}
        await self._double.post("events", body)

    async def state(self) -> dict[str, Any]:
        """Everything the double knows."""
        found: dict[str, Any] = await self._double.get("state")
        return found

    async def calls(self, method: str = "") -> list[dict[str, Any]]:
        calls: list[dict[str, Any]] = (await self._double.get("calls", method=method))["calls"]
        return calls

    async def slash(self, command: str, options: dict[str, Any] | None = None, channel: str = DM) -> None:
        """A command of the menu; any other by the umbrella, which takes each."""
        known = {one["name"] for scope in (await self.state())["commands"].values() for one in scope}
        if known and command not in known:
            command, options = "tieline", {"arguments": " ".join([command, *(options or {}).values()])}
        body = {"kind": "slash", "channel": channel, "command": command, "options": options or {}}
        await self._double.post("events", body)

    async def messages(self, channel: str = DM) -> list[dict[str, Any]]:
        state = await self.state()
        return [one for one in state["messages"] if one["channel_id"] == channel and one["author"]["bot"]]

    async def hears(self, what: str, *, channel: str = DM, seconds: float = PATIENCE_S) -> str:
        async def found() -> str | None:
            return next((one["content"] for one in await self.messages(channel) if what in one["content"]), None)

        text: str = await until(found, seconds=seconds, what=f"{what!r} on Discord")
        return text


class OnSlack:
    def __init__(self, doubles: Doubles) -> None:
        self._double = doubles.slack

    async def say(self, text: str, channel: str = "D0ANN", **more: Any) -> str:
        """Gives the message's ts."""
        await self._double.post("events", {"channel": channel, "user": "U0ANN", "text": text, **more})
        state = await self.state()
        mine = [one for one in state["messages"] if one["channel"] == channel and one["user"] != "U0DOUBLE"]
        return str(mine[-1]["ts"]) if mine else ""

    async def slash(self, command: str, text: str, channel: str = "D0ANN") -> None:
        body = {"kind": "slash", "channel": channel, "user": "U0ANN", "command": command, "text": text}
        await self._double.post("events", body)

    async def press(self, ts: str, action_id: str, channel: str = "D0ANN", **more: Any) -> None:
        body = {"kind": "action", "channel": channel, "user": "U0ANN", "ts": ts, "action_id": action_id, **more}
        await self._double.post("events", body)

    async def state(self) -> dict[str, Any]:
        """Everything the double knows."""
        found: dict[str, Any] = await self._double.get("state")
        return found

    async def calls(self, method: str = "") -> list[dict[str, Any]]:
        calls: list[dict[str, Any]] = (await self._double.get("calls", method=method))["calls"]
        return calls

    async def messages(self, channel: str = "D0ANN") -> list[dict[str, Any]]:
        state = await self.state()
        return [one for one in state["messages"] if one["channel"] == channel and one["user"] == "U0DOUBLE"]

    async def hears(self, what: str, *, channel: str = "D0ANN", seconds: float = PATIENCE_S) -> str:
        async def found() -> str | None:
            return next((one["text"] for one in await self.messages(channel) if what in one["text"]), None)

        text: str = await until(found, seconds=seconds, what=f"{what!r} on Slack")
        return text
