"""A Slack workspace in the process: the double on loopback, the real adapter on it, and Ann."""

import asyncio
import base64
import json
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from aiohttp import web
from starlette.applications import Starlette
from starlette.routing import Mount

from adapters.slack.adapter import SlackAdapter
from adapters.slack.parse import unescaped
from adapters.slack.settings import SlackSettings
from agent.core.clock import Clock, SystemClock
from gateway.channels.adapter import AdapterContext, AdapterStore, Forgetful, Place, State
from gateway.channels.errors import GatewayUnavailable
from gateway.channels.inbound import Inbound, MessageReceived, Outcome, Receipt
from gateway.channels.keys import UserId
from gateway.testing.harness import Act, Fault, Happening, Seen, eventually
from tests.doubles.slack_api import BOT_USER, TEAM, SlackDouble
from tests.fakes.commonmark import read
from tests.fakes.readable import readable

SECRET = "s3cret"
ANN = UserId("U0ANN")
DM = f"{TEAM}:D0ANN"


@dataclass
class World:
    """The double, and what the adapter admitted. Both that and looks may be set to fail or to wait."""

    double: SlackDouble
    base: str
    admitted: list[Inbound] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    broken_admits: int = 0  # so many admits fail, as with a full disk
    broken_lookups: int = 0  # so many looks at the known places too
    gate: anyio.Event | None = None
    waiting: int = 0  # admits that wait for it
    on_admit: Callable[[Inbound], Awaitable[None]] | None = None  # before anything is admitted
    lookup_gate: anyio.Event | None = None
    home: Path = Path()
    store: Callable[[str], AdapterStore] = lambda scope: Forgetful()
    not_taken: str = ""  # how the house words that something could not be stored

    async def admit(self, inbound: Inbound) -> Receipt:
        if self.on_admit is not None:
            await self.on_admit(inbound)
        if self.gate is not None:
            self.waiting += 1
            await self.gate.wait()
            self.waiting -= 1
        if self.broken_admits:
            self.broken_admits -= 1
            raise GatewayUnavailable("disk full")
        self.admitted.append(inbound)
        return Receipt(Outcome.ACCEPTED)

    async def known_places(self, channel_type: str) -> Sequence[Place]:
        if self.lookup_gate is not None:
            await self.lookup_gate.wait()
        if self.broken_lookups:
            self.broken_lookups -= 1
            raise GatewayUnavailable("the database is locked")
        return [place for place in self.places if place.key.channel_type == channel_type]

    def said(self) -> list[MessageReceived]:
        return [inbound for inbound in self.admitted if isinstance(inbound, MessageReceived)]

    def adapter_context(
        self, home: Path, *, clock: Clock | None = None, public_url: str | None = None
    ) -> AdapterContext:
        return AdapterContext(
            clock=clock or SystemClock(),
            home=home,
            known_places=self.known_places,
            public_url=public_url,
            not_taken=lambda _: self.not_taken,
            store=self.store,
        )

    def settings(self, **keys: Any) -> SlackSettings:
        given = {"bot_token": "xoxb-test", "app_token": "xapp-test", "api_base_url": f"{self.base}/api/"} | keys
        return SlackSettings.model_validate(given)

    async def event(self, **spec: Any) -> list[dict[str, Any]]:
        """Let Slack send something; waits until the app has acknowledged it, and gives the deliveries."""
        tasks = self.double.make_request(spec)
        return list(await asyncio.gather(*tasks))

    async def write(self, text: str, **spec: Any) -> str:
        """Ann writes; gives the timestamp."""
        ts = self.double.ts()
        await self.event(text=text, ts=ts, **spec)
        return ts

    def hidden_from_history(self, text: str, channel: str = "D0ANN", **fields: str) -> str:
        """Ann writes, and no event tells of it; gives the timestamp."""
        ts = self.double.ts()
        self.double.store(
            self.double.channels[channel], {"type": "message", "user": ANN, "text": text, "ts": ts} | fields
        )
        return ts

    def calls(self, method: str) -> list[dict[str, Any]]:
        return [call for call in self.double.calls if call["method"] == method]

    def fault(self, method: str, kind: str, **more: Any) -> None:
        self.double.faults.append({"method": method, "kind": kind, **more})

    def by_bot(self, channel: str = "D0ANN") -> list[dict[str, Any]]:
        found = sorted(self.double.messages.items())
        return [message for (where, _), message in found if where == channel and message.get("user") == BOT_USER]


@asynccontextmanager
async def workspace() -> AsyncIterator[World]:
    """A fresh double. Its rate limits are on, as on the service."""
    double = SlackDouble(SECRET)
    runner = web.AppRunner(double.app(), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    double.origin = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield World(double, double.origin)
    finally:
        for link in list(double.sockets):
            await link.close()
        await runner.cleanup()


@asynccontextmanager
async def running(
    world: World, home: Path, *, ready: bool = True, clock: Clock | None = None, **keys: Any
) -> AsyncIterator[SlackAdapter]:
    """The adapter at work by Socket Mode (or, with `app_token=None`, by signed HTTP behind a web server)."""
    adapter = SlackAdapter(world.settings(**keys), world.adapter_context(home, clock=clock))
    # A fixture begins and ends in different tasks, which a task group may not: plain tasks, cancelled and awaited.
    tasks = [asyncio.ensure_future(adapter.run(world.admit))]
    try:
        if adapter.routes:
            tasks.append(await served(world, adapter))
        if ready:
            await eventually(lambda: adapter.health().state is State.CONNECTED)
        yield adapter
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await adapter.aclose()


async def served(world: World, adapter: SlackAdapter) -> asyncio.Task[None]:
    """The adapter's routes behind a real web server; Slack is told the address."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    app = Starlette(routes=[Mount("/channels/slack", routes=list(adapter.routes))])
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    task = asyncio.ensure_future(server.serve(sockets=[listener]))
    await eventually(lambda: server.started)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/channels/slack/events"
    world.double.settings.update(events_url=url, commands_url=url, interactivity_url=url)
    return task


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


# -- reading what a person sees


def shown(message: dict[str, Any]) -> str:
    """A message's text with Slack's markup taken out."""
    blocks = message.get("blocks") or []
    markdown = "streaming" in message or message.get("streamed")
    texts = [_block_text(block) for block in blocks if block["type"] in ("markdown", "rich_text", "section")]
    if texts:
        return "\n\n".join(texts)
    return readable(read(message["text"])) if markdown else unescaped(message["text"])


def _block_text(block: dict[str, Any]) -> str:
    match block["type"]:
        case "markdown":
            return readable(read(block["text"]))
        case "rich_text":
            return "".join(part["text"] for element in block["elements"] for part in element["elements"])
        case _:
            return unescaped(block["text"]["text"])


def _read_by_slack(params: dict[str, Any]) -> Iterator[str]:
    """The texts of a request that Slack looks through for markup."""
    yield str(params.get("text") or params.get("markdown_text") or "")
    blocks = params.get("blocks") or []
    for block in json.loads(blocks) if isinstance(blocks, str) else blocks:
        if block["type"] in ("markdown", "section"):
            yield block["text"] if block["type"] == "markdown" else block["text"]["text"]


# -- the harness of the contract suite


class SlackHarness:
    """See `gateway.testing.harness.Harness`."""

    person = ANN
    faults: frozenset[Fault] = frozenset({"busy", "server_error", "cut_after", "refuse", "gone"})

    def __init__(self, world: World, adapter: SlackAdapter, channel_id: str) -> None:
        self.world = world
        self.adapter = adapter
        self.channel = adapter.channel(channel_id)
        self.admitted = world.admitted
        _, self._where, *thread = channel_id.split(":")
        self._thread = thread[0] if thread else None

    async def seen(self) -> Sequence[Seen]:
        public = [self._as_seen(message) for message in self.world.by_bot(self._where) if self._is_here(message)]
        private = [
            self._as_seen(message, private_to=message["to"])
            for message in self.world.double.ephemeral
            if message["channel"] == self._where and message.get("thread_ts") == self._thread
        ]
        return public + private

    async def says(self, text: str) -> str:
        thread = {"thread_ts": self._thread} if self._thread else {}
        return await self.world.write(text, channel=self._where, **thread)

    calling = ("<!channel>", "<!here>", "<!everyone>", f"<@{ANN}>", "<!subteam^S0TEAM>")

    async def called(self) -> Sequence[str]:
        """Slack calls whom a text names between angle brackets; `rich_text` shows these as they are."""
        sent = [call["params"] for call in self.world.double.calls if call["method"].startswith("chat.")]
        texts = [text for params in sent for text in _read_by_slack(params)]
        assert any("subteam" in text for text in texts)
        return [text for text in texts if re.search(r"<[@!]", text)]

    @property
    def happenings(self) -> frozenset[Happening]:
        """A reply to a message begins a thread below it; in a thread there are no replies to one message."""
        everywhere: frozenset[Happening] = frozenset(
            {"edits", "deletes", "leaves", "returns", "group", "mention", "file"}
        )
        return everywhere if self._thread else everywhere | {"reply"}

    async def happens(self, what: Happening, text: str = "", message_id: str = "") -> str:
        thread = {"thread_ts": self._thread} if self._thread else {}
        match what:
            case "edits":
                await self.world.event(kind="edit", ts=message_id, channel=self._where, text=text)
            case "deletes":
                await self.world.event(kind="delete", ts=message_id, channel=self._where)
            case "group":
                return await self.world.write(text, channel="C0GENERAL")
            case "mention":
                return await self.world.write(f"<@{BOT_USER}> {text}", channel="C0GENERAL")
            case "file":
                content = base64.b64encode(text.encode()).decode()
                files = [{"name": "notes.txt", "mimetype": "text/plain", "content_base64": content}]
                return await self.world.write("", channel=self._where, files=files, **thread)
            case "reply":
                return await self.world.write(text, channel=self._where, thread_ts=message_id)
            case "leaves":
                raw = {"type": "member_left_channel", "user": BOT_USER, "channel": "C0GENERAL", "event_ts": "1.1"}
                await self.world.event(raw_event=raw)
            case "returns":
                raw = {"type": "member_joined_channel", "user": BOT_USER, "channel": "C0GENERAL", "event_ts": "2.1"}
                await self.world.event(raw_event=raw)
        return message_id

    def stores_nothing(self, times: int) -> None:
        self.world.broken_admits = times

    async def refused(self) -> SlackAdapter:
        self.world.double.settings["revoked"] = True
        return SlackAdapter(self.world.settings(), self.world.adapter_context(Path()))

    async def presses(self, message_id: str, action: str) -> None:
        await self.world.event(kind="action", channel=self._where, ts=message_id, action_id=action)

    async def breaks_next(self, fault: Fault, act: Act) -> None:
        method = "chat.postMessage" if act == "send" else "chat.update"
        match fault:
            case "busy":
                self.world.fault(method, "rate_limit", retry_after=2)
            case "server_error":
                self.world.fault(method, "server_error", status=503)
            case "cut_after":
                self.world.fault(method, "drop_after")
            case "refuse":
                self.world.fault(method, "error", error="restricted_action")
            case "gone":
                self.world.fault(method, "error", error="is_archived")

    def _is_here(self, message: dict[str, Any]) -> bool:
        return message.get("thread_ts") == self._thread and message["ts"] != self._thread

    def _as_seen(self, message: dict[str, Any], private_to: str | None = None) -> Seen:
        actions = [e["value"] for b in message.get("blocks") or [] if b["type"] == "actions" for e in b["elements"]]
        files = tuple(file["title"] for file in message.get("files", []))
        return Seen(id=message["ts"], text=shown(message), actions=tuple(actions), files=files, private_to=private_to)
