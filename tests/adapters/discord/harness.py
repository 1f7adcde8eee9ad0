"""The unmodified adapter and discord.py against the Discord double, in one process on loopback."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import anyio
from aiohttp import web

from adapters.discord.adapter import DiscordAdapter
from adapters.discord.channel import DiscordChannel
from adapters.discord.settings import DiscordSettings
from agent.core.clock import Clock, SystemClock
from gateway.channels.adapter import AdapterContext, Place
from gateway.channels.errors import GatewayUnavailable
from gateway.channels.inbound import Inbound, MessageReceived, Outcome, Receipt
from gateway.channels.keys import ConversationKey, UserId
from gateway.testing import harness
from gateway.testing.harness import Act, Fault, Happening, Seen, running
from tests.adapters.discord.reading import readable
from tests.doubles.discord_api import ANN, DM, GENERAL, GUILD, DiscordDouble

TOKEN = "good-token"
BOT = "100000000000000001"

Heard = TypeVar("Heard", bound=Inbound)
Part = TypeVar("Part")


PATIENCE_S = 20.0  # for what comes over the wire, on a busy machine


async def eventually(holds: Callable[[], bool | Awaitable[bool]]) -> None:
    """Poll until it holds."""
    await harness.eventually(holds, within_s=PATIENCE_S)


def given(part: Part | None) -> Part:
    """A part of the channel that Discord has."""
    assert part is not None
    return part


class LaterClock(SystemClock):
    """The system's clock, set forward."""

    def __init__(self, ahead_s: float) -> None:
        self._ahead = timedelta(seconds=ahead_s)

    def now(self) -> datetime:
        return super().now() + self._ahead


class Discord:
    """The platform: the double on a port of its own, with its control API."""

    def __init__(self) -> None:
        self.double = DiscordDouble(TOKEN)
        self.base = ""
        self.client: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def served(self) -> AsyncIterator["Discord"]:
        runner = self._runner = web.AppRunner(self.double.app(), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        self.base = f"{host}:{port}"
        async with aiohttp.ClientSession(f"http://{self.base}") as self.client:
            # Discord's 3 s, for tests whose clock stands still while the machine's goes on.
            await self.control("settings", {"interaction_deadline": 60})
            yield self
        await runner.cleanup()

    async def control(self, path: str, body: object = None) -> Any:
        assert self.client is not None
        async with self.client.post(f"/_control/{path}", json=body if body is not None else {}) as response:
            response.raise_for_status()
            return await response.json()

    async def calls(self, name: str = "") -> list[dict[str, Any]]:
        return [call for call in self.double.calls if not name or call["name"] == name]

    def messages(self, channel: str = DM) -> list[dict[str, Any]]:
        found = [m for (c, _), m in self.double.messages.items() if c == channel]
        return sorted(found, key=lambda m: int(m["id"]))

    def mine(self, channel: str = DM) -> list[dict[str, Any]]:
        return [m for m in self.messages(channel) if m["author"]["id"] == BOT]

    async def event(self, **spec: Any) -> Any:
        return (await self.control("events", spec))["results"][0]

    async def says(self, content: str, channel: str = DM, **spec: Any) -> str:
        return str((await self.event(channel=channel, content=content, **spec))["message"]["id"])

    async def thread(self, channel: str, message: str) -> str:
        """Start a thread at a message; gives its id."""
        assert self.client is not None
        path = f"/api/v10/channels/{channel}/messages/{message}/threads"
        headers = {"Authorization": f"Bot {TOKEN}"}
        async with self.client.post(path, json={"name": "talk"}, headers=headers) as response:
            response.raise_for_status()
            return str((await response.json())["id"])

    async def goes_down(self) -> None:
        """Discord cannot be reached any more: every connection ends, and new ones are refused."""
        await self._runner.cleanup()

    async def fault(self, method: str, kind: str, **spec: Any) -> None:
        await self.control("faults", {"method": method, "kind": kind, **spec})

    def settings(self, **keys: Any) -> DiscordSettings:
        return DiscordSettings(
            **{
                "type": "discord",
                "token": TOKEN,
                "api_base_url": f"http://{self.base}/api/v10",
                "gateway_url": f"ws://{self.base}/gateway/",
                **keys,
            }
        )


class House:
    """The gateway's side: takes in what the adapter hears, as the router would."""

    def __init__(self, home: Path, *, clock: Clock | None = None) -> None:
        self.admitted: list[Inbound] = []
        self.outcome = Outcome.ACCEPTED
        self.places: list[Place] = []
        self.known_at: anyio.Event | None = None  # when the storage tells its places
        self.forgetful = False  # it cannot tell them
        self.asked = 0  # how often it was to tell them
        self.on_admit: Callable[[Inbound], Awaitable[None]] | None = None
        self._seen: set[tuple[str, str]] = set()
        self.adapter_context = AdapterContext(
            clock=clock or SystemClock(),
            home=home,
            known_places=self._known,
            not_taken=lambda inbound: f"not taken ({inbound.sender.language})",
        )

    async def admit(self, inbound: Inbound) -> Receipt:
        if self.on_admit is not None:
            await self.on_admit(inbound)
        key = (type(inbound).__name__, inbound.message_id)
        self.admitted.append(inbound)
        repeated = key in self._seen and isinstance(inbound, MessageReceived)
        self._seen.add(key)
        return Receipt(Outcome.DUPLICATE if repeated else self.outcome)

    async def _known(self, channel_type: str) -> Sequence[Place]:
        self.asked += 1
        if self.known_at is not None:
            await self.known_at.wait()
        if self.forgetful:
            raise GatewayUnavailable("the database is locked")
        return [place for place in self.places if place.key.channel_type == channel_type]

    def of(self, kind: type[Heard]) -> list[Heard]:
        return [inbound for inbound in self.admitted if isinstance(inbound, kind)]

    def texts(self) -> list[str]:
        return [said.text for said in self.of(MessageReceived)]


class DiscordHarness:
    """The contract's person at the other end of the direct conversation."""

    def __init__(self, discord: Discord, services: House, adapter: DiscordAdapter) -> None:
        self.discord = discord
        self.services = services
        self.adapter = adapter
        self.channel: DiscordChannel = adapter.channel(DM)
        self.person = UserId(ANN)
        self.faults: frozenset[Fault] = frozenset({"busy", "server_error", "cut_after", "refuse", "gone"})

    @property
    def admitted(self) -> Sequence[Inbound]:
        return self.services.admitted

    async def seen(self) -> Sequence[Seen]:
        return [
            Seen(
                id=str(message["id"]),
                text=readable(message["content"]),
                actions=tuple(
                    button["custom_id"] for row in message["components"] for button in row.get("components", ())
                ),
                files=tuple(file["filename"] for file in message["attachments"]),
                reply_to=(message.get("message_reference") or {}).get("message_id"),
                private_to=ANN if message["flags"] & 64 else None,
            )
            for message in self.discord.mine()
        ]

    async def says(self, text: str) -> str:
        return await self.discord.says(text)

    calling = ("@everyone", "@here", f"<@{ANN}>", "<@&500000000000000001>")

    async def called(self) -> Sequence[str]:
        """Discord calls whom a text names, unless the request says whom alone it may call."""
        names = ("create_message", "edit_message")
        bodies = [call["body"] for call in self.discord.double.calls if call["name"] in names]
        assert any("everyone" in body["content"] for body in bodies)
        return [body["content"] for body in bodies if body.get("allowed_mentions") != {"parse": []}]

    happenings: frozenset[Happening] = frozenset(
        {"edits", "deletes", "leaves", "returns", "group", "mention", "file", "reply"}
    )

    async def happens(self, what: Happening, text: str = "", message_id: str = "") -> str:
        match what:
            case "edits":
                row = next(one for one in self.discord.messages() if one["id"] == message_id)
                row |= {"content": text, "edited_timestamp": "2026-01-01T12:00:00+00:00"}
                await self.discord.event(t="MESSAGE_UPDATE", d=row)
                return message_id
            case "deletes":
                await self.discord.event(t="MESSAGE_DELETE", d={"id": message_id, "channel_id": DM})
                return message_id
            case "group":
                return await self.discord.says(text, GENERAL)
            case "mention":
                return await self.discord.says(f"<@{BOT}> {text}", GENERAL)
            case "file":
                return await self.discord.says("", files=[{"name": "notes.txt", "text": text}])
            case "reply":
                return await self.discord.says(text, reply_to=message_id)
            case "leaves":
                await self.discord.event(t="GUILD_DELETE", d={"id": GUILD})
            case "returns":
                await self.discord.event(t="GUILD_CREATE", d=self.discord.double.guild())
        return ""

    def stores_nothing(self, times: int) -> None:
        async def fail(inbound: Inbound) -> None:
            nonlocal times
            if times:
                times -= 1
                raise GatewayUnavailable("disk full")

        self.services.on_admit = fail

    async def refused(self) -> DiscordAdapter:
        return DiscordAdapter(self.discord.settings(token="revoked"), self.services.adapter_context)

    async def presses(self, message_id: str, action: str) -> None:
        await self.discord.event(kind="button", channel=DM, message_id=message_id, custom_id=action)

    async def breaks_next(self, fault: Fault, act: Act) -> None:
        method = "create_message" if act == "send" else "edit_message"
        match fault:
            case "busy":
                await self.discord.fault(method, "rate_limit", retry_after=3.5)
            case "server_error":
                await self.discord.fault(method, "server_error", status=502)
            case "cut_after":
                await self.discord.fault(method, "drop_after")
            case "refuse":
                await self.discord.fault(method, "error", status=400, code=50035, message="Invalid Form Body")
            case "gone":
                await self.discord.fault(
                    method, "error", status=403, code=50007, message="Cannot send messages to this user"
                )


@asynccontextmanager
async def connected(discord: Discord, services: House, **keys: Any) -> AsyncIterator[DiscordAdapter]:
    """The adapter, running and hearing."""
    adapter = DiscordAdapter(discord.settings(**keys), services.adapter_context)
    async with running(lambda: adapter.run(services.admit)):
        await eventually(lambda: adapter.health().hears)
        yield adapter


def place(channel_id: str, last_message_id: str | None, last_at: Any) -> Place:
    return Place(key=ConversationKey("discord", channel_id), last_message_id=last_message_id, last_at=last_at)


__all__ = [
    "ANN",
    "BOT",
    "DM",
    "GENERAL",
    "GUILD",
    "TOKEN",
    "Discord",
    "DiscordHarness",
    "House",
    "LaterClock",
    "connected",
    "place",
]
