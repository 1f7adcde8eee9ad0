"""The unmodified adapter against the Telegram double on loopback, and a person at the other end."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import uvicorn
from aiohttp import web
from starlette.applications import Starlette
from starlette.routing import Mount

from adapters.telegram.adapter import TelegramAdapter
from adapters.telegram.settings import TelegramSettings
from agent.core.clock import Clock, SystemClock
from gateway.channels.adapter import AdapterContext, AdapterStore, Forgetful, Place, State
from gateway.channels.channel import Channel
from gateway.channels.keys import UserId
from gateway.testing.harness import Act, AdapterHarness, Fault, Happening, Seen, eventually
from tests.doubles.telegram_api import TelegramDouble, flat

TOKEN = "123456:TEST-token"
PERSON = {"id": 77, "first_name": "Ann", "language_code": "de"}
GROUP = {"id": -1005, "type": "supergroup", "title": "G"}


Store = Callable[[str], AdapterStore]


def forgetting(_: str) -> AdapterStore:
    return Forgetful()


async def no_places(_: str) -> Sequence[Place]:
    return ()


class Telegram:
    """The double as a server, with what a test does to it."""

    def __init__(self) -> None:
        self.double = TelegramDouble([TOKEN])
        self.url = ""
        self._http: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Telegram"]:
        runner = web.AppRunner(self.double.app(), shutdown_timeout=0.01, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with aiohttp.ClientSession(self.url) as http:
            self._http = http
            await self.control("chats", chat={"id": 77, "first_name": "Ann"})
            try:
                yield self
            finally:
                self.double.settings["webhook_max_attempts"] = 0
                await runner.cleanup()

    async def control(self, path: str, body: Any = None, **fields: Any) -> Any:
        assert self._http is not None
        payload = body if body is not None else {"token": TOKEN, **fields}
        async with self._http.post(f"/_control/{path}", json=payload) as response:
            if response.status != 200:
                raise AssertionError(await response.text())
            return await response.json()

    async def fault(self, method: str, kind: str, **fields: Any) -> None:
        await self.control("faults", {"method": method, "kind": kind, **fields})

    async def settings(self, **fields: Any) -> None:
        await self.control("settings", fields)

    async def update(self, **spec: Any) -> dict[str, Any]:
        """One update from a person; returns it."""
        answer = await self.control("updates", {"token": TOKEN, "user": PERSON, **spec})
        update: dict[str, Any] = answer["updates"][0]
        return update

    async def state(self) -> dict[str, Any]:
        assert self._http is not None
        async with self._http.get("/_control/state", params={"token": TOKEN}) as response:
            state: dict[str, Any] = await response.json()
            return state

    def calls(self, *methods: str) -> list[dict[str, Any]]:
        wanted = {method.lower() for method in methods}
        return [call for call in self.double.calls if call["method"].lower() in wanted]

    async def bot_messages(self, chat: int = 77) -> list[dict[str, Any]]:
        state = await self.state()
        return [m for m in state["messages"] if m["from"]["id"] == 123456 and m["chat"]["id"] == chat]


def settings_for(telegram: Telegram, **fields: Any) -> TelegramSettings:
    return TelegramSettings.model_validate({"token": TOKEN, "api_base_url": telegram.url, "poll_timeout_s": 5} | fields)


def adapter_context(tmp: Path, clock: Clock | None = None, **fields: Any) -> AdapterContext:
    return AdapterContext(clock=clock or SystemClock(), home=tmp, known_places=no_places, **fields)


class Stage(AdapterHarness):
    """Fulfils the contract suite's `Harness`."""

    faults: frozenset[Fault] = frozenset({"busy", "server_error", "cut_after", "refuse", "gone"})

    def __init__(self, telegram: Telegram, adapter: TelegramAdapter) -> None:
        super().__init__()
        self.telegram = telegram
        self.adapter: TelegramAdapter = adapter
        self.person = UserId("77")
        self.channel: Channel = adapter.channel("77")

    async def seen(self) -> Sequence[Seen]:
        messages = [_seen(message) for message in await self.telegram.bot_messages()]
        drafts = (await self.telegram.state())["drafts"]
        return [*messages, *(Seen(id=key.partition(":")[2], text=text) for key, text in drafts.items())]

    async def says(self, text: str) -> str:
        update = await self.telegram.update(text=text)
        return str(update["message"]["message_id"])

    happenings: frozenset[Happening] = frozenset({"edits", "leaves", "returns", "group", "mention", "file", "reply"})

    async def happens(self, what: Happening, text: str = "", message_id: str = "") -> str:
        group: dict[str, Any] = {"chat": GROUP}
        match what:
            case "edits":
                update = await self.telegram.update(kind="edited_message", message_id=message_id, text=text)
            case "group":
                update = await self.telegram.update(text=text, **group)
            case "mention":
                update = await self.telegram.update(text=f"@double_bot {text}", **group)
            case "reply":
                update = await self.telegram.update(text=text, reply_to=int(message_id))
            case "file":
                update = await self.telegram.update(file={"name": "notes.txt", "mime_type": "text/plain", "text": text})
            case _:
                member = {"user": {"id": 123456, "is_bot": True}, "status": "kicked" if what == "leaves" else "member"}
                changed = {"chat": {"id": 77, "type": "private"}, "from": PERSON, "date": 1, "new_chat_member": member}
                await self.telegram.update(raw={"my_chat_member": changed})
                return ""
        return str(next(update[one]["message_id"] for one in ("message", "edited_message") if one in update))

    async def refused(self) -> TelegramAdapter:
        return TelegramAdapter(settings_for(self.telegram, token="654321:REVOKED-token"), adapter_context(Path()))

    async def presses(self, message_id: str, action: str) -> None:
        await self.telegram.update(kind="callback", message_id=int(message_id), data=action)

    async def breaks_next(self, fault: Fault, act: Act) -> None:
        method = "sendMessage" if act == "send" else "editMessageText"
        if fault == "gone":
            await self.telegram.control("chats", chat={"id": 77}, blocked=True)
            return
        kinds: dict[Fault, dict[str, Any]] = {
            "busy": {"kind": "rate_limit", "retry_after": 3},
            "server_error": {"kind": "server_error", "status": 502},
            "cut_after": {"kind": "drop_after"},
            "refuse": {"kind": "error", "status": 400, "description": "Bad Request: message can't be sent"},
        }
        await self.telegram.fault(method, **kinds[fault])


def _seen(message: dict[str, Any]) -> Seen:
    rows = message.get("reply_markup", {}).get("inline_keyboard", [])
    text = message.get("text", message.get("caption", ""))
    reply = message.get("reply_to_message")
    return Seen(
        id=str(message["message_id"]),
        text=flat(message["rich_message"]["blocks"]) if "rich_message" in message else text,
        actions=tuple(button["callback_data"] for row in rows for button in row),
        files=tuple(message[field].get("file_name", field) for field in ("document",) if field in message),
        reply_to=str(reply["message_id"]) if reply else None,
    )


@asynccontextmanager
async def stage(tmp: Path, clock: Clock | None = None, *, limited: str = "", **fields: Any) -> AsyncIterator[Stage]:
    """An adapter that polls; a `limited` method is refused for 4 s at first."""
    async with Telegram().running() as telegram:
        if limited:
            await telegram.fault(limited, "rate_limit", retry_after=4)
        async with acting(telegram, tmp, clock, **fields) as actor:
            yield actor


@asynccontextmanager
async def acting(
    telegram: Telegram, tmp: Path, clock: Clock | None = None, *, store: Store = forgetting, **fields: Any
) -> AsyncIterator[Stage]:
    """One run of an adapter; several may follow each other on one double."""
    adapter = TelegramAdapter(settings_for(telegram, **fields), adapter_context(tmp, clock, store=store))
    actor = Stage(telegram, adapter)
    async with listening(actor):
        yield actor


@asynccontextmanager
async def listening(actor: Stage) -> AsyncIterator[None]:
    running = asyncio.create_task(actor.adapter.run(actor.admit))
    try:
        await eventually(lambda: running.done() or actor.adapter.health().state is not State.STARTING)
        if running.done():
            await running
        yield
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await actor.adapter.aclose()


@asynccontextmanager
async def hooked(
    tmp: Path, clock: Clock | None = None, *, stage_class: type[Stage] = Stage, limited: str = "", **fields: Any
) -> AsyncIterator[Stage]:
    """An adapter behind a web server of ours, which Telegram calls; a `limited` method is refused for 4 s at first."""
    async with Telegram().running() as telegram:
        if limited:
            await telegram.fault(limited, "rate_limit", retry_after=4)
        await telegram.settings(webhook_retry_delay=0.05)
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        config = settings_for(telegram, mode="webhook", **fields)
        adapter = TelegramAdapter(config, adapter_context(tmp, clock, public_url=base))
        app = Starlette(routes=[Mount(f"/channels/{adapter.channel_type}", routes=adapter.routes)])
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await eventually(lambda: server.started)
            actor = stage_class(telegram, adapter)
            async with listening(actor):
                await eventually(lambda: adapter.health().state is State.CONNECTED)
                yield actor
        finally:
            server.should_exit = True
            await serving
