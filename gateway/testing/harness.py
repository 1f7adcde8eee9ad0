"""Harness of the contract suite: an adapter on a double of its platform, and the person at the other end.

`Harness` is all that the suite asks for. `AdapterHarness` has the gateway's side; an adapter's own adds the person.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import anyio

from agent.core.clock import Clock, SystemClock
from gateway.channels.adapter import Adapter, AdapterContext, Place
from gateway.channels.channel import Channel
from gateway.channels.errors import GatewayUnavailable
from gateway.channels.inbound import Inbound, MessageReceived, Outcome, Receipt
from gateway.channels.keys import UserId

# busy: refused, with a time to wait (429). server_error: a 5xx. cut_after: carried out, but the connection goes
# before the answer. refuse: this message is refused for good. gone: the bot was blocked or removed.
Fault = Literal["busy", "server_error", "cut_after", "refuse", "gone"]
Act = Literal["send", "edit"]
# What can happen beyond writing and pressing, as far as the platform tells of it. edits, deletes: the person changes,
# takes back a message. leaves, returns: the bot is removed from a place, brought back. group, mention: somebody writes
# in a group, among people, to the bot. file: the person sends one. reply: the person replies to a message of theirs.
Happening = Literal["edits", "deletes", "leaves", "returns", "group", "mention", "file", "reply"]

CANCELLED_AGAIN_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A message of the bot as a person sees it now. `text` is what can be read, with the platform's markup taken out.

    `text` of a `Plain` document must be the very same text. `private_to` names the only person who sees it.
    """

    id: str
    text: str
    actions: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    reply_to: str | None = None
    private_to: str | None = None


class Harness(Protocol):
    """An adapter on its double with one direct conversation in it, and the person there."""

    @property
    def adapter(self) -> Adapter: ...

    @property
    def channel(self) -> Channel: ...

    @property
    def person(self) -> UserId: ...

    @property
    def admitted(self) -> Sequence[Inbound]:
        """Everything `admit` was given so far, in order."""

    @property
    def faults(self) -> frozenset[Fault]:
        """The faults that this platform knows."""

    @property
    def happenings(self) -> frozenset[Happening]:
        """The happenings that this platform tells of."""

    @property
    def calling(self) -> Sequence[str]:
        """Texts by which a message calls people here, everybody or one; empty where no adapter could stop that."""

    async def called(self) -> Sequence[str]:
        """The bot's messages by which somebody was called so far, those that are gone too: ids or texts."""

    async def happens(self, what: Happening, text: str = "", message_id: str = "") -> str:
        """It happens: the new text, words in a group (to the bot, where it is a mention) or the content of a file.

        `message_id` names the message that is changed, taken back or replied to. Returns the platform's id of the
        message it is about, if it is about one.
        """

    def stores_nothing(self, times: int) -> None:
        """The next so many calls of `admit` raise GatewayUnavailable, as with a full disk."""

    async def refused(self) -> Adapter | None:
        """Another adapter of the account, not running, whose login the platform refuses. None: nobody signs in."""

    async def seen(self) -> Sequence[Seen]:
        """The bot's messages in the conversation, oldest first; drafts and frames of a stream count."""

    async def says(self, text: str) -> str:
        """The person writes in the conversation; returns the platform's id of the message."""

    async def presses(self, message_id: str, action: str) -> None:
        """The person presses the button with that action on that message of the bot."""

    async def breaks_next(self, fault: Fault, act: Act) -> None:
        """The next call of that sort meets this fault, once."""


class Undeclared(AssertionError):
    """A harness declares something of its platform and has no method for it; the words name the method."""


class AdapterHarness(ABC):
    """The gateway's side of a `Harness`, and what a platform without buttons, faults and happenings says to the rest.

    A subclass sets `adapter` and `channel` before `running`, and writes `seen`, `says` and what its platform has more.
    """

    adapter: Adapter
    channel: Channel
    person: UserId = UserId("ann")
    faults: frozenset[Fault] = frozenset()
    happenings: frozenset[Happening] = frozenset()
    calling: Sequence[str] = ()

    def __init__(self) -> None:
        self.admitted: list[Inbound] = []
        self.places: list[Place] = []  # what the gateway has stored of earlier runs
        self._failing = 0

    def context(self, home: Path, *, clock: Clock | None = None, **fields: Any) -> AdapterContext:
        """The context for the adapter under test; `fields` are those of `AdapterContext`."""
        given: Mapping[str, Any] = {"known_places": self.known_places} | fields
        return AdapterContext(clock=clock or SystemClock(), home=home, **given)

    async def admit(self, inbound: Inbound) -> Receipt:
        if self._failing:
            self._failing -= 1
            raise GatewayUnavailable("disk full")
        self.admitted.append(inbound)
        return Receipt(Outcome.ACCEPTED)

    async def known_places(self, channel_type: str) -> Sequence[Place]:
        return [place for place in self.places if place.key.channel_type == channel_type]

    @property
    def said(self) -> list[MessageReceived]:
        return [inbound for inbound in self.admitted if isinstance(inbound, MessageReceived)]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The adapter at work; the block begins when it hears."""
        async with running(lambda: self.adapter.run(self.admit)):
            await eventually(lambda: self.adapter.health().hears)
            yield
        await self.adapter.aclose()

    def stores_nothing(self, times: int) -> None:
        self._failing = times

    async def refused(self) -> Adapter | None:
        return None

    @abstractmethod
    async def seen(self) -> Sequence[Seen]:
        """The bot's messages that a person sees: see `Harness.seen`."""

    @abstractmethod
    async def says(self, text: str) -> str:
        """A person writes: see `Harness.says`."""

    # The suite asks for the rest only where the platform declares it. A platform that declares none has no method.

    async def presses(self, message_id: str, action: str) -> None:
        raise Undeclared("the capabilities name buttons: `presses` has to let a person press one")

    async def called(self) -> Sequence[str]:
        raise Undeclared("`calling` names texts: `called` has to tell which messages of the bot called somebody")

    async def happens(self, what: Happening, text: str = "", message_id: str = "") -> str:
        raise Undeclared(f"`happenings` names {what!r}: `happens` has to let it happen")

    async def breaks_next(self, fault: Fault, act: Act) -> None:
        raise Undeclared(f"`faults` names {fault!r}: `breaks_next` has to let the platform do it")


@asynccontextmanager
async def running(*jobs: Callable[[], Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Run the jobs until the block ends, then cancel them; what one of them raised is raised here.

    A task group will not do: pytest-asyncio enters and leaves a fixture in different tasks. Like one it cancels until
    the job has ended: on Python 3.11 `asyncio.wait_for`, in a library, may swallow a cancellation.
    """
    tasks = [asyncio.ensure_future(job()) for job in jobs]
    try:
        yield
    finally:
        going = set(tasks)
        while going:
            for task in going:
                task.cancel()
            _, going = await asyncio.wait(going, timeout=CANCELLED_AGAIN_S)
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result


async def eventually(holds: Callable[[], bool | Awaitable[bool]], *, within_s: float = 60.0) -> None:
    """Poll until it holds; fails after `within_s`."""
    with anyio.fail_after(within_s):
        while True:
            result = holds()
            if result if isinstance(result, bool) else await result:
                return
            await anyio.sleep(0.01)
