"""A chat made of files. `<path>/anna/` is Anna's room: what she puts there as `*.txt` is a message, answers are `*.md`.

A message that was taken in is renamed to `*.read`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from anyio import to_thread
from starlette.routing import BaseRoute

from gateway.channels.adapter import AdapterContext, Admit, Diagnosis, Health, State
from gateway.channels.channel import Capabilities, Files, History, Interactions, Presence, Streams
from gateway.channels.errors import ChannelBusy, ChannelFatal, ChannelGone, ChannelRejected, GatewayUnavailable
from gateway.channels.inbound import Mention, MessageReceived, Sender
from gateway.channels.keys import ConversationKey, UserId
from gateway.channels.outbound import CommandSpec, Outbound, SentRef
from gateway.channels.plain_text import as_text
from tests.examples.folder.settings import FolderSettings

CAPABILITIES = Capabilities(
    measure=lambda document: len(as_text(document)),
    text_limit=20_000,
    buttons=False,  # questions are then answered by writing "yes" or "no"
    stream_every_s=0.5,
    idempotent_send="nonce",  # a second message with the same key is refused: its file is there already
)


class FolderAdapter:
    """One folder of rooms."""

    def __init__(self, settings: FolderSettings, context: AdapterContext) -> None:
        """Nothing is opened and nobody is asked here: this runs in a thread, before anything is served."""
        self.channel_type = settings.channel_type
        self.routes: Sequence[BaseRoute] = ()
        self._path = context.home / settings.path
        self._look_every_s = settings.look_every_s
        self._clock = context.clock
        self._state = State.STARTING

    async def run(self, admit: Admit) -> None:
        try:
            await to_thread.run_sync(lambda: self._path.mkdir(parents=True, exist_ok=True))
        except OSError as error:
            self._state = State.FAILED
            raise ChannelFatal(f"cannot make {self._path}: {error.strerror}; choose another path") from error
        self._state = State.CONNECTED
        while True:
            with suppress(GatewayUnavailable):  # not stored: it stays where it is, and is found again at the next look
                for file, said in await to_thread.run_sync(self._waiting):
                    await admit(said)  # returns when it is on disk; whatever the receipt says, it is dealt with
                    await to_thread.run_sync(file.rename, file.with_suffix(".read"))  # the acknowledgement: only now
            await self._clock.sleep(self._look_every_s)

    def channel(self, channel_id: str) -> "FolderChannel":
        return FolderChannel(ConversationKey(self.channel_type, channel_id), self._path / channel_id)

    def health(self) -> Health:
        return Health(state=self._state, last_event_at=self._clock.now())

    async def publish(self, commands: Sequence[CommandSpec]) -> None:
        """A folder has no menu; commands are typed."""

    async def diagnose(self) -> Sequence[Diagnosis]:
        """For `tieline doctor`; may be called without `run`."""
        there = self._path.is_dir()
        finding = f"{self._path} {'is there' if there else 'is made at the start'}"
        return [Diagnosis(subject=self.channel_type, level="ok", finding=finding)]

    async def aclose(self) -> None:
        """There is no connection to close."""

    def _waiting(self) -> list[tuple[Path, MessageReceived]]:
        """Messages nobody has taken in, oldest first; an empty file is still being written."""
        files = [(file.stat().st_mtime_ns, file) for file in self._path.glob("*/*.txt")]
        return [(file, self._parsed(file, at)) for at, file in sorted(files) if file.stat().st_size]

    def _parsed(self, file: Path, written_ns: int) -> MessageReceived:
        person = file.parent.name
        return MessageReceived(
            key=ConversationKey(self.channel_type, person),
            place=person,
            message_id=f"{written_ns}-{file.name}",  # the same after a crash, another for the next file of that name
            sender=Sender(id=UserId(person), display=person.title()),
            received_at=self._clock.now(),
            text=file.read_text(errors="replace").strip(),
            mention=Mention.DIRECT,
        )


class FolderChannel:
    """One room. What it lacks is None: delivery asks, and does without."""

    streams: Streams | None = None  # answers grow by edits
    presence: Presence | None = None
    files: Files | None = None
    history: History | None = None
    interactions: Interactions | None = None

    def __init__(self, key: ConversationKey, room: Path) -> None:
        self.key = key
        self.capabilities = CAPABILITIES
        self._room = room

    async def send(self, message: Outbound) -> SentRef:
        return SentRef(await to_thread.run_sync(self._put, message))

    async def edit(self, sent: SentRef, message: Outbound) -> None:
        if not (self._room / sent.id).exists():
            raise ChannelRejected(f"{sent.id} is gone")
        await to_thread.run_sync(self._write, sent.id, message)

    async def delete(self, sent: SentRef) -> None:
        (self._room / sent.id).unlink(missing_ok=True)

    async def send_ephemeral(self, message: Outbound, to: UserId | None) -> SentRef | None:
        return await self.send(message)  # the caller takes it away again

    def _put(self, message: Outbound) -> str:
        if message.key and (known := next(self._room.glob(f"*-{message.key}.md"), None)):
            return known.name
        last = max((int(file.name.partition("-")[0]) for file in self._room.glob("*-*.md")), default=0)
        name = f"{last + 1:06d}-{message.key or uuid4().hex}.md"
        self._write(name, message)
        return name

    def _write(self, name: str, message: Outbound) -> None:
        with in_channel_words():
            new = self._room / f".{name}"
            new.write_text(as_text(message.document))
            new.replace(self._room / name)  # readers see the old text or the new one, never half of it


@contextmanager
def in_channel_words() -> Iterator[None]:
    """The class of the error tells delivery what to do next; that is all it looks at."""
    try:
        yield
    except FileNotFoundError as error:
        raise ChannelGone("the room is gone") from error
    except OSError as error:
        raise ChannelBusy(f"cannot write: {error.strerror}", after_s=5.0) from error
