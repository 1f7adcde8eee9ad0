"""The terminal as a channel, served on the control socket; `channel_id` is "" (Z-67). The whole contract, to copy.

Below `/channels/console`: `GET /events` streams JSON lines, first what nobody has printed yet, then what comes:
`{"type": "message" | "edit" | "whisper", "id", "text", "markdown", "document", "buttons": [[{"label", "action"}]],
"files": [{"name", "path"}], "reply_to", "answers", "tone", "silent"}` (`text` is for readers that render nothing;
`document`, null where `markdown` is false, is the same for others, as `gateway.channels.document_json` writes it;
`answers` is the id of its post; a message may have `"replaces"`: the draft it takes the place of; a silent "whisper"
is a status line, which does not stay; with the `tone` "behind" it tells that it waits behind an open question),
`{"type": "draft", "id", "text", "markdown", "document"}` (the whole text so far), `{"type": "gone", "id"}`,
`{"type": "typing", "status"}`, `{"type": "toast", "text"}`, `{"type": "commands", "commands"}`, `{"type": "demo"}`
while no model is connected, `{"type": "caught_up"}` after what nobody had printed, `{"type": "alive"}`,
`{"type": "ending"}` when the gateway ends. `POST /say {"id", "text"}` and `POST /press {"id", "message", "action"}`
answer `{"outcome", "reason"}`; `id` is the client's own, so that posting twice is posting once. `POST /printed {"ids"}`
names messages that are on a screen: until then they wait for the next reader.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import ClassVar, TypeVar

import anyio
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from adapters.console_screen import KEPT, Event, Screen
from agent.core.bounded_body import BodyTooLarge, whole_body
from gateway.channels.adapter import (
    AdapterContext,
    Admit,
    ChannelSettings,
    Diagnosis,
    Entrance,
    Health,
    SignedIn,
    State,
)
from gateway.channels.channel import Capabilities, Files, History, Interactions, Presence, Streams
from gateway.channels.document import Document, Plain
from gateway.channels.document_json import to_json
from gateway.channels.errors import ChannelBusy, ChannelRejected, GatewayUnavailable
from gateway.channels.inbound import ButtonClicked, Inbound, Mention, MessageReceived, Sender
from gateway.channels.keys import ConversationKey, UserId
from gateway.channels.outbound import CommandSpec, Outbound, SentRef
from gateway.channels.plain_text import as_text

LARGEST_POST = 1024 * 1024  # bytes

P = TypeVar("P", bound=BaseModel)


class ConsoleSettings(ChannelSettings):
    """Nothing to set."""

    adapter: ClassVar[str] = "adapters.console:Console"
    entrance: ClassVar[Entrance] = "control"

    type: str = "console"


class _Posted(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: str = Field(min_length=8, max_length=64)
    text: str = ""
    message: str = ""
    action: str = ""


class _Printed(BaseModel):
    model_config = ConfigDict(extra="forbid")

    ids: list[str] = Field(max_length=KEPT)


class Console:
    """The adapter: whoever may open the control socket is the one person of the one conversation."""

    def __init__(self, settings: ConsoleSettings, adapter_context: AdapterContext) -> None:
        self.channel_type = settings.channel_type
        self.key = ConversationKey(self.channel_type, "")
        self.screen = Screen(adapter_context.home / f"{self.channel_type}.jsonl")
        self._clock = adapter_context.clock
        self._only_demo = adapter_context.only_demo
        self._admit: Admit | None = None
        self.routes: Sequence[BaseRoute] = [
            Route("/events", self._events),
            Route("/say", self._say, methods=["POST"]),
            Route("/press", self._press, methods=["POST"]),
            Route("/printed", self._printed, methods=["POST"]),
        ]

    async def run(self, admit: Admit) -> None:
        self._admit = admit
        try:
            await anyio.sleep_forever()
        finally:
            self._admit = None

    def channel(self, channel_id: str) -> "ConsoleChannel":
        return ConsoleChannel(ConversationKey(self.channel_type, channel_id), self.screen)

    def health(self) -> Health:
        state = State.STARTING if self._admit is None else State.CONNECTED
        return Health(state=state, last_event_at=self._clock.now())

    async def publish(self, commands: Sequence[CommandSpec]) -> None:
        names = [{"name": each.name, "description": each.description, "options": each.options} for each in commands]
        self.screen.commands = {"type": "commands", "commands": names}
        self.screen.show(self.screen.commands)

    async def diagnose(self) -> Sequence[Diagnosis]:
        return [Diagnosis(subject="console", level="ok", finding="served on the control socket")]

    async def aclose(self) -> None:
        self.screen.close()

    async def _events(self, request: Request) -> Response:
        return StreamingResponse(self.screen.lines(only_demo=self._only_demo()), media_type="application/x-ndjson")

    async def _say(self, request: Request) -> Response:
        posted = await _posted(request, _Posted)
        now = self._clock.now()
        said = MessageReceived(
            key=self.key, place="", message_id=posted.id, sender=_sender(request), received_at=now, sent_at=now,
            text=posted.text, mention=Mention.DIRECT,
        )  # fmt: skip
        return await self._take(said)

    async def _press(self, request: Request) -> Response:
        posted = await _posted(request, _Posted)
        pressed = ButtonClicked(
            key=self.key, place="", message_id=posted.message, sender=_sender(request), received_at=self._clock.now(),
            action=posted.action, interaction=posted.id, interaction_id=posted.id,
        )  # fmt: skip
        return await self._take(pressed)

    async def _printed(self, request: Request) -> Response:
        printed = await _posted(request, _Printed)
        with suppress(OSError):  # then these are shown once more
            await self.screen.printed(frozenset(printed.ids))
        return JSONResponse({})

    async def _take(self, inbound: Inbound) -> Response:
        if self._admit is None:
            return JSONResponse({"error": "the gateway is starting or stopping", "fix": "try again"}, status_code=503)
        try:
            receipt = await self._admit(inbound)
        except GatewayUnavailable as error:
            return JSONResponse({"error": str(error), "fix": "send it again"}, status_code=503)
        return JSONResponse({"outcome": receipt.outcome, "reason": receipt.reason})


class ConsoleChannel:
    """The conversation; as simple as a channel can be it is its own streams, presence and interactions too."""

    capabilities = Capabilities(
        measure=lambda document: len(as_text(document)), text_limit=100_000, ephemeral=True, typing=True,
        typing_every_s=2.0, stream_every_s=0.1, upload_limit=1 << 40, idempotent_send="nonce",
    )  # fmt: skip
    files: Files | None = None
    history: History | None = None

    def __init__(self, key: ConversationKey, screen: Screen) -> None:
        self.key = key
        self._screen = screen
        self.streams: Streams | None = self
        self.presence: Presence | None = self
        self.interactions: Interactions | None = self

    async def send(self, message: Outbound) -> SentRef:
        return await self._say(message, {})

    async def edit(self, sent: SentRef, message: Outbound) -> None:
        if not self._screen.stands(sent.id):
            raise ChannelRejected(f"message {sent.id} is gone")
        with _busy_without_disk():
            await self._screen.change({"type": "edit", "id": sent.id, **_content(message)})

    async def delete(self, sent: SentRef) -> None:
        if self._screen.stands(sent.id):
            with _busy_without_disk():
                await self._screen.take_away(sent.id)

    async def send_ephemeral(self, message: Outbound, to: UserId | None) -> SentRef:
        return self._shown({"type": "whisper", **_content(message)}, "whisper")

    async def open(self, document: Document, *, reply_to: str | None, to: UserId | None) -> SentRef:
        return self._shown({"type": "draft", **_text(document)}, "draft")

    async def update(self, sent: SentRef, document: Document) -> None:
        self._screen.show({"type": "draft", "id": sent.id, **_text(document)})

    async def finish(self, sent: SentRef, message: Outbound) -> SentRef:
        self._screen.passed(sent.id)
        return await self._say(message, {"replaces": sent.id})

    async def drop(self, sent: SentRef) -> None:
        await self.delete(sent)

    async def typing(self, status: str = "") -> None:
        self._screen.show({"type": "typing", "status": status})

    async def react(self, message_id: str, emoji: str, *, on: bool = True) -> None:
        raise ChannelRejected("a terminal has no reactions")  # as `capabilities` says

    async def acknowledge(self, interaction: str, text: str = "", *, visible: bool = False) -> None:
        if text:
            self._screen.show({"type": "toast", "text": text})

    async def _say(self, message: Outbound, more: Event) -> SentRef:
        if message.key in self._screen.keys:
            return SentRef(self._screen.keys[message.key])
        event = {"type": "message", "id": self._screen.new_id(), **_content(message), **more}
        with _busy_without_disk():
            await self._screen.keep(event, message.key)
        return SentRef(event["id"])

    def _shown(self, event: Event, kind: str) -> SentRef:
        event["id"] = self._screen.new_id()
        self._screen.pass_by(event)
        return SentRef(event["id"], kind)


@contextmanager
def _busy_without_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ChannelBusy(f"what the console shows cannot be kept: {error.strerror}", after_s=5.0) from error


def _text(document: Document) -> Event:
    markdown = not all(isinstance(block, Plain) for block in document)
    return {"text": as_text(document), "markdown": markdown, "document": to_json(document) if markdown else None}


def _content(message: Outbound) -> Event:
    buttons = [[{"label": button.label, "action": button.action} for button in row] for row in message.buttons]
    files = [{"name": file.name, "path": str(file.path)} for file in message.files]
    said = {
        "buttons": buttons,
        "files": files,
        "reply_to": message.reply_to,
        "answers": message.answers,
        "tone": message.tone,
        "silent": message.silent,
    }
    return {**_text(message.document), **said}


def _sender(request: Request) -> Sender:
    person: SignedIn = request.state.person
    return Sender(id=person.id, display=person.display, is_chat_admin=True)


async def _posted(request: Request, what: type[P]) -> P:
    try:
        return what.model_validate_json(await whole_body(request.stream(), LARGEST_POST))
    except BodyTooLarge as error:
        raise HTTPException(413, str(error)) from error
    except ValidationError as error:
        raise HTTPException(400, error.errors(include_url=False, include_input=False)[0]["msg"]) from error
