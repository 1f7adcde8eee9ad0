"""A chat platform in memory: its screen can be looked at, each ability switched off, each call made to fail or wait."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import anyio
from starlette.routing import BaseRoute

from gateway.channels.adapter import Admit, Diagnosis, Health, State, Withheld
from gateway.channels.channel import (
    Attempt,
    Capabilities,
    Files,
    History,
    HistoryPage,
    Interactions,
    Position,
    Presence,
    Streams,
)
from gateway.channels.document import Document
from gateway.channels.errors import ChannelFatal, ChannelRejected, GatewayUnavailable
from gateway.channels.inbound import Attachment, ButtonClicked, Inbound, MessageReceived, Sender
from gateway.channels.keys import ConversationKey, UserId
from gateway.channels.outbound import CommandSpec, Outbound, SentRef
from tests.fakes.readable import readable, utf16_length

Act = Literal[
    "send",
    "edit",
    "delete",
    "whisper",
    "open",
    "update",
    "finish",
    "drop",
    "typing",
    "react",
    "acknowledge",
    "find",
    "fetch",
]


@dataclass(frozen=True, slots=True)
class Shown:
    """One message of the bot on the screen."""

    id: str
    message: Outbound
    private_to: UserId | None = None
    frame: bool = False  # a growing answer, not yet final

    @property
    def text(self) -> str:
        return readable(self.message.document)

    @property
    def actions(self) -> tuple[str, ...]:
        return tuple(button.action for row in self.message.buttons for button in row)


@dataclass(frozen=True, slots=True)
class Call:
    """One call that reached the platform, carried out or not."""

    act: Act
    text: str
    ref: str = ""
    carried_out: bool = True


@dataclass(slots=True)
class _Fault:
    act: Act
    error: Exception
    carried_out: bool
    skip: int
    times: int
    late: bool = False


DEFAULT = Capabilities(
    measure=utf16_length, text_limit=4096, typing=True, reactions=True, upload_limit=1_000_000, stream_every_s=1.0
)


@dataclass(slots=True)
class Screen:
    """The platform's record of one place; it outlives every `FakeChannel` over it, as it outlives a restart."""

    shown: list[Shown] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    by_key: dict[str, str] = field(default_factory=dict)
    said: list[MessageReceived] = field(default_factory=list)
    reactions: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    notes: list[str] = field(default_factory=list)  # what interactions were acknowledged with
    faults: list[_Fault] = field(default_factory=list)
    gates: dict[Act, anyio.Event] = field(default_factory=dict)
    under_way: list[Callable[[], str]] = field(default_factory=list)  # given up by who asked, not by the platform
    last_id: int = 0
    watch: Callable[[Call], None] | None = None  # sees each call before it is carried out

    @property
    def texts(self) -> list[str]:
        return [shown.text for shown in self.shown]

    def made(self, act: Act) -> list[str]:
        """The texts of the calls of that sort that were carried out."""
        return [call.text for call in self.calls if call.act == act and call.carried_out]

    def fail(self, act: Act, error: Exception, *, carried_out: bool = False, skip: int = 0, times: int = 1) -> None:
        """The next `times` calls of that sort, after `skip` good ones, raise, `carried_out` or not."""
        self.faults.append(_Fault(act, error, carried_out, skip, times))

    def delay(self, act: Act, error: Exception) -> None:
        """The next call of that sort raises, and is carried out when `catch_up` says so."""
        self.faults.append(_Fault(act, error, carried_out=False, skip=0, times=1, late=True))

    def catch_up(self) -> None:
        """Carry out what was delayed."""
        while self.under_way:
            self.under_way.pop(0)()

    def hold(self, act: Act) -> anyio.Event:
        """Calls of that sort wait until the event is set."""
        self.gates[act] = anyio.Event()
        return self.gates[act]

    def fault_for(self, act: Act) -> _Fault | None:
        for fault in self.faults:
            if fault.act != act or not fault.times:
                continue
            if fault.skip:
                fault.skip -= 1
                continue
            fault.times -= 1
            return fault
        return None

    def find(self, message_id: str) -> int:
        for index, shown in enumerate(self.shown):
            if shown.id == message_id:
                return index
        raise ChannelRejected(f"no message {message_id!r}")


class FakeChannel:
    """`Channel` and all its features over one `Screen`. `streams=True` gives it a native way to stream."""

    def __init__(
        self,
        key: ConversationKey,
        capabilities: Capabilities = DEFAULT,
        *,
        screen: Screen | None = None,
        streams: bool = False,
        ephemeral_reachable: bool = True,
    ) -> None:
        self.key = key
        self.capabilities = capabilities
        self.screen = screen or Screen()
        self.streams: Streams | None = FakeStreams(self) if streams else None
        self.presence: Presence | None = self if capabilities.typing or capabilities.reactions else None
        self.files: Files | None = self
        self.history: History | None = self if capabilities.idempotent_send == "lookup" else None
        self.interactions: Interactions | None = self
        self._ephemeral_reachable = ephemeral_reachable

    async def call(self, act: Act, text: str, ref: str, carry_out: Callable[[], str]) -> str:
        """Wait at the gate, fail as told, else carry it out."""
        if gate := self.screen.gates.get(act):
            await gate.wait()
        await anyio.lowlevel.checkpoint()
        fault = self.screen.fault_for(act)
        done = fault is None or fault.carried_out
        made = Call(act, text, ref, done)
        if self.screen.watch is not None:
            self.screen.watch(made)
        self.screen.calls.append(made)
        result = carry_out() if done else ""
        if fault:
            if fault.late:
                self.screen.under_way.append(carry_out)
            raise fault.error
        return result

    # -- Channel

    async def send(self, message: Outbound) -> SentRef:
        return SentRef(await self.call("send", readable(message.document), "", lambda: self.put(message)))

    async def edit(self, sent: SentRef, message: Outbound) -> None:
        def change() -> str:
            self.check(message)
            index = self.screen.find(sent.id)
            self.screen.shown[index] = replace(self.screen.shown[index], message=message)
            return ""

        await self.call("edit", readable(message.document), sent.id, change)

    async def delete(self, sent: SentRef) -> None:
        await self.call("delete", "", sent.id, lambda: self.remove(sent.id))

    async def send_ephemeral(self, message: Outbound, to: UserId | None) -> SentRef | None:
        private = to if self.capabilities.ephemeral else None
        sent = await self.call("whisper", readable(message.document), "", lambda: self.put(message, private_to=private))
        return SentRef(sent, "whisper") if self._ephemeral_reachable else None

    # -- Presence

    async def typing(self, status: str = "") -> None:
        await self.call("typing", status, "", lambda: "")

    async def react(self, message_id: str, emoji: str, *, on: bool = True) -> None:
        def change() -> str:
            kept = self.screen.reactions[message_id]
            if on:
                kept.add(emoji)
            else:
                kept.discard(emoji)
            return ""

        await self.call("react", emoji if on else f"-{emoji}", message_id, change)

    # -- Files, History, Interactions

    async def fetch(self, attachment: Attachment, to: Path, *, limit: int) -> int:
        if gate := self.screen.gates.get("fetch"):
            await gate.wait()
        content = attachment.handle.encode("utf-8", "surrogateescape")  # a binary file's, decoded in the same way
        if len(content) > limit:
            raise ChannelRejected(f"{attachment.name} is larger than {limit} bytes")
        await anyio.Path(to).write_bytes(content)
        return len(content)

    async def since(self, after: Position) -> HistoryPage:
        """All at once; ids are numbers, and told at one moment."""
        behind = int(after.message_id) if after.message_id is not None else 0
        later = [replace(one, from_history=True) for one in self.screen.said if int(one.message_id) > behind]
        return HistoryPage(messages=[one for one in later if one.received_at >= after.at])

    async def find(self, key: str, attempt: Attempt | None = None) -> SentRef | None:
        found = await self.call("find", key, "", lambda: self.screen.by_key.get(key, ""))
        return SentRef(found) if found else None

    async def acknowledge(self, interaction: str, text: str = "", *, visible: bool = False) -> None:
        def note() -> str:
            self.screen.notes.append(text)
            return ""

        await self.call("acknowledge", text, interaction, note)

    # -- the platform's side

    def check(self, message: Outbound) -> None:
        """Refuse what a platform refuses."""
        if not readable(message.document).strip() and not message.files:
            raise ChannelRejected("message text is empty")
        length = self.capabilities.measure(message.document)
        if length > self.capabilities.text_limit:
            raise ChannelRejected(f"message is too long: {length} > {self.capabilities.text_limit}")
        for row in message.buttons:
            for button in row:
                if len(button.action.encode()) > 64:
                    raise ChannelRejected(f"action is too long: {button.action!r}")

    def put(self, message: Outbound, *, private_to: UserId | None = None, frame: bool = False) -> str:
        self.check(message)
        known = self.screen.by_key.get(message.key) if self.capabilities.idempotent_send == "nonce" else None
        if known is not None:
            return known
        self.screen.last_id += 1
        new = str(self.screen.last_id)
        self.screen.shown.append(Shown(new, message, private_to, frame))
        if message.key:
            self.screen.by_key[message.key] = new
        return new

    def remove(self, message_id: str) -> str:
        self.screen.shown[:] = [shown for shown in self.screen.shown if shown.id != message_id]
        return ""


class FakeStreams:
    """A native stream: frames are shown, the final message takes their place under a new id."""

    def __init__(self, channel: FakeChannel) -> None:
        self._channel = channel

    async def open(self, document: Document, *, reply_to: str | None, to: UserId | None) -> SentRef:
        message = Outbound(document=document, reply_to=reply_to)
        put = self._channel.put
        sent = await self._channel.call("open", readable(document), "", lambda: put(message, frame=True))
        return SentRef(sent, "stream")

    async def update(self, sent: SentRef, document: Document) -> None:
        screen = self._channel.screen

        def change() -> str:
            index = screen.find(sent.id)
            screen.shown[index] = replace(screen.shown[index], message=Outbound(document=document))
            return ""

        await self._channel.call("update", readable(document), sent.id, change)

    async def finish(self, sent: SentRef, message: Outbound) -> SentRef:
        def change() -> str:
            self._channel.check(message)
            screen = self._channel.screen
            screen.find(sent.id)
            self._channel.remove(sent.id)
            return self._channel.put(message)

        return SentRef(await self._channel.call("finish", readable(message.document), sent.id, change))

    async def drop(self, sent: SentRef) -> None:
        await self._channel.call("drop", "", sent.id, lambda: self._channel.remove(sent.id))


class FakeAdapter:
    """An account whose places are `FakeChannel`s; people speak through `says`, `presses` and `hears`."""

    def __init__(
        self, channel_type: str = "fake", capabilities: Capabilities = DEFAULT, *, streams: bool = False
    ) -> None:
        self.channel_type = channel_type
        self.capabilities = capabilities
        self.routes: Sequence[BaseRoute] = ()
        self.state = State.STARTING
        self.withheld: tuple[Withheld, ...] = ()
        self.published: tuple[CommandSpec, ...] = ()
        self.closed = False
        self.receipts: list[str] = []
        self._streams = streams
        self._channels: dict[str, FakeChannel] = {}
        self._admit: Admit | None = None
        self._running = anyio.Event()
        self._refused = anyio.Event()

    async def run(self, admit: Admit) -> None:
        self._admit = admit
        self.state = State.CONNECTED
        self._running.set()
        await self._refused.wait()
        self.state = State.FAILED
        raise ChannelFatal("token revoked")

    def refuse_login(self) -> None:
        """The platform takes the account's token no longer, and its connection notices."""
        self._refused.set()

    def channel(self, channel_id: str) -> FakeChannel:
        if channel_id not in self._channels:
            key = ConversationKey(self.channel_type, channel_id)
            self._channels[channel_id] = FakeChannel(key, self.capabilities, streams=self._streams)
        return self._channels[channel_id]

    def health(self) -> Health:
        return Health(state=self.state, withheld=self.withheld)

    async def publish(self, commands: Sequence[CommandSpec]) -> None:
        self.published = tuple(commands)

    async def diagnose(self) -> Sequence[Diagnosis]:
        return (Diagnosis(subject=self.channel_type, level="ok", finding="a fake"),)

    async def aclose(self) -> None:
        self.closed = True

    async def hears(self, inbound: Inbound) -> None:
        """Anything at all arrives from the platform; returns once it was admitted."""
        await self._running.wait()
        assert self._admit is not None
        self.receipts.append((await self._admit(inbound)).outcome)

    async def says(
        self, text: str, *, channel_id: str = "1", person: str = "ann", attachments: tuple[Attachment, ...] = ()
    ) -> str:
        """A person writes; returns the message's id. What could not be stored comes again at once."""
        screen = self.channel(channel_id).screen
        screen.last_id += 1
        said = MessageReceived(
            key=ConversationKey(self.channel_type, channel_id),
            place=channel_id,
            message_id=str(screen.last_id),
            sender=Sender(id=UserId(person), display=person.title()),
            received_at=datetime(2026, 1, 1, 12, 0, tzinfo=UTC),
            text=text,
            attachments=attachments,
        )
        screen.said.append(said)
        while True:
            with suppress(GatewayUnavailable):
                await self.hears(said)
                break
        return said.message_id

    async def presses(self, message_id: str, action: str, *, channel_id: str = "1", person: str = "ann") -> None:
        """A person presses a button that must be there."""
        screen = self.channel(channel_id).screen
        shown = screen.shown[screen.find(message_id)]
        assert action in shown.actions, f"{action!r} is not among {shown.actions}"
        pressed = ButtonClicked(
            key=ConversationKey(self.channel_type, channel_id),
            place=channel_id,
            message_id=message_id,
            sender=Sender(id=UserId(person), display=person.title()),
            received_at=datetime(2026, 1, 1, 12, 0, tzinfo=UTC),
            interaction=f"press-{message_id}",
            action=action,
            interaction_id=f"press-{message_id}-{screen.last_id}",
        )
        await self.hears(pressed)
