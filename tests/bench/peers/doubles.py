"""The Telegram and model doubles inside the harness, with hooks on what becomes visible to a user.

A model request is cut down to a few numbers once it is answered: a thousand whole histories would fill the memory.
"""

import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from aiohttp import web

from tests.doubles.limits import unhindered
from tests.doubles.llm_api import LlmDouble, text_of
from tests.doubles.telegram_api import TelegramDouble, flat

TOKEN = "123456:" + "A" * 35
TOKEN_RE = re.compile(r"\bq(\d+)n(\d+)\b")
FILLER = "This is a plain answer of ordinary length that a person could read in one breath."

Visible = Callable[[int, int, str, float], None]  # chat, message (a draft's is negative), its whole text, when


def answer_to(tokens: list[str]) -> str:
    """The reply of the model double; whole only when its last word has arrived."""
    return f"{FILLER} Reply to {' '.join(tokens)} over"


def words_of(message: dict[str, Any]) -> str:
    """The text of a message of the bot."""
    if "rich_message" in message:
        return flat(message["rich_message"]["blocks"])
    return message.get("text") or message.get("caption") or ""


class Telegram(TelegramDouble):
    """The Bot API double; tells what becomes visible and when polling begins."""

    def __init__(self) -> None:
        self.on_visible: Visible = lambda chat, message, text, at: None
        self.first_poll = anyio.Event()
        self.first_poll_at = 0.0
        super().__init__([TOKEN])
        self.settings.update(unhindered())

    def watch_start(self) -> None:
        """Forget the polls of an earlier life."""
        self.first_poll = anyio.Event()
        poller = self.bot(TOKEN).poller
        if poller:
            poller.cancel()

    async def do_getupdates(self, bot: Any, params: dict[str, Any], files: dict[str, Any]) -> list[Any]:
        if not self.first_poll.is_set():
            self.first_poll_at = time.time()
            self.first_poll.set()
        updates: list[Any] = await super().do_getupdates(bot, params, files)
        return updates

    def post(self, bot: Any, chat: dict[str, Any], params: dict[str, Any], **content: Any) -> dict[str, Any]:
        message: dict[str, Any] = super().post(bot, chat, params, **content)
        self.on_visible(chat["id"], message["message_id"], words_of(message), time.time())
        return message

    async def do_editmessagetext(self, bot: Any, params: dict[str, Any], files: dict[str, Any]) -> dict[str, Any]:
        message: dict[str, Any] = await super().do_editmessagetext(bot, params, files)
        self.on_visible(message["chat"]["id"], message["message_id"], words_of(message), time.time())
        return message

    def show_draft(self, bot: Any, chat: dict[str, Any], params: dict[str, Any], text: str) -> bool:
        shown: bool = super().show_draft(bot, chat, params, text)
        self.on_visible(chat["id"], -int(params["draft_id"]), text, time.time())
        return shown

    def inject(self, chat_id: int, text: str, *, duplicate: int = 0) -> dict[str, Any]:
        """A private message from the user whose id is the chat's; the update."""
        bot = self.bot(TOKEN)
        made = self.make_update(bot, {"user": {"id": chat_id, "first_name": f"U{chat_id}"}, "text": text})
        update = {"update_id": bot.next_update, **made}
        bot.next_update += 1
        self.push(update, duplicate=duplicate)
        return update

    def push(self, update: dict[str, Any], *, duplicate: int = 0) -> None:
        bot = self.bot(TOKEN)
        bot.queue.append({"update": update, "copies": 1 + duplicate, "ready_at": 0.0})
        self.kick(bot)

    def messages(self, chat_id: int) -> list[dict[str, Any]]:
        """The bot's own messages that stand in the chat now, oldest first."""
        bot = self.bot(TOKEN)
        found = [m for (chat, _), m in bot.messages.items() if chat == chat_id and m["from"]["id"] == bot.id]
        return sorted(found, key=lambda m: int(m["message_id"]))

    def calls_since(self, at: float, chat_id: int | None = None) -> list[dict[str, Any]]:
        return [
            call
            for call in self.calls
            if call["at"] >= at
            and call["method"].lower() not in ("getupdates", "getme")
            and (chat_id is None or str(call.get("params", {}).get("chat_id")) == str(chat_id))
        ]

    def forget(self) -> None:
        """Drop records that grow (not the chats): the harness stays light."""
        self.calls.clear()
        self.bot(TOKEN).messages.clear()


class Llm(LlmDouble):
    """The model double: answers every question token that the history leaves open."""

    def __init__(self) -> None:
        self.seen = anyio.Event()
        self.crosstalk = 0
        super().__init__()
        self.settings |= {"context_window": 2_000_000, "pieces": False}  # as `unhindered` has it
        self.settings["longest_description"] = 1_000_000  # one of nanobot's tools says more than OpenAI takes

    def choose(self, facts: dict[str, Any]) -> dict[str, Any]:
        reply: dict[str, Any] = super().choose(facts)
        if reply.get("text", "").startswith("echo: "):
            reply["text"] = answer_to(facts["open"]) if facts["open"] else "Nothing to do."
        return reply

    def facts(self, api: str, body: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = super().facts(api, body)
        trailing: list[str] = []
        for message in reversed(body["messages"]):
            if message["role"] == "assistant" and not message.get("tool_calls"):
                break
            if message["role"] == "user":
                trailing[:0] = _tokens(message)
        said = [token for message in body["messages"] if message["role"] == "user" for token in _tokens(message)]
        # A "go on" after a reply that was cut short holds no token: the newest one is meant.
        found["open"] = list(dict.fromkeys(trailing)) or said[-1:]
        owners = {token.partition("n")[0] for message in body["messages"][-12:] for token in _tokens(message)}
        self.crosstalk += len(owners) > 1
        return found

    async def handle(self, request: web.Request, api: str) -> web.StreamResponse:
        index = len(self.calls)  # the double appends its record before it first waits
        self.seen.set()
        try:
            response: web.StreamResponse = await super().handle(request, api)
            return response
        finally:
            if index < len(self.calls):
                _shrink(self.calls[index])


def _tokens(message: dict[str, Any]) -> list[str]:
    return [match[0] for match in TOKEN_RE.finditer(text_of(message))]


def _shrink(call: dict[str, Any]) -> None:
    body = call.pop("body", None)
    if not body:
        return
    messages = body.get("messages", [])
    users = [message for message in messages if message["role"] == "user"]
    call.update(
        count=len(messages),
        chars=sum(len(text_of(message)) for message in messages),
        stream=bool(body.get("stream")),
        tools=len(body.get("tools") or []),
        last_tokens=_tokens(users[-1]) if users else [],
        asked=[token for message in users for token in _tokens(message)][-8:],
    )
    call.pop("headers", None)
    call.pop("reply", None)


@asynccontextmanager
async def listening(double: Any) -> AsyncIterator[str]:
    """Serve a double on loopback; its base URL."""
    runner = web.AppRunner(double.app(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()
