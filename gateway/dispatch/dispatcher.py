"""The contract of the dispatcher, which has each conversation's work done, and its needs of other packages."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import Connection

from agent.core.backoff import Backoff
from agent.core.ids import ConversationId
from agent.core.outbox import OutgoingMessage
from agent.inbox import Incoming, Source
from gateway.storage.queues.given_up import Buried, untold


class Dispatcher(Protocol):
    """Runs one turn a conversation at a time, in order, everywhere, many conversations at once (G-06, B-60, B-88).

    What is in the inbox is worked on whether or not somebody calls `wake`; `wake` makes it happen at once.
    """

    def wake(self, conversation: ConversationId, row: int | None = None) -> None:
        """There is (perhaps) work; call it after the commit. Never waits, may be called at any time and too often.

        `row` of the inbox is the work: nothing happens if it was found meanwhile.
        """

    def expect(self, conversation: ConversationId) -> None:
        """Work is about to be written: the very next that the caller gives to the database. `wake` follows the commit.

        Where the database does in order what it is given, the work is begun in the same transaction.
        """

    def is_running(self, conversation: ConversationId) -> bool:
        """A turn of it is under way in this process."""

    async def run(self) -> None:
        """Work until `drain` was called or until cancelled. First takes up what an earlier process left."""

    async def drain(self, timeout_s: float) -> None:
        """Begin nothing new, wait so long for what runs, cancel the rest; its rows stay for the next start (G-27).

        What must be cancelled is asked to end first, with the reason that leaves a run unfinished.
        """


class RunningDispatcher(Dispatcher, Protocol):
    """A dispatcher of which is known what it does."""

    @property
    def running(self) -> tuple[ConversationId, ...]:
        """The conversations that have a turn under way in this process."""


class Runner(Protocol):
    """The methods of an agent that a dispatcher needs."""

    def run(self, source: Source) -> Awaitable[None]: ...


class Agents(Protocol):
    """Where agents come from (`gateway.conversations`)."""

    def use(self, conversation: ConversationId) -> AbstractAsyncContextManager[Runner]:
        """The conversation's agent, woken if it sleeps; it stays awake at least until the end of the block."""

    def stop(self, conversation: ConversationId, reason: str) -> bool:
        """Ask the turn under way to end; False when there is none."""

    async def forget(self, conversation: ConversationId) -> None:
        """Forget the agent in memory: what it knows may be wrong. Fine when it sleeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message that was given up. `why` is for the operator and names no secrets."""

    conversation: ConversationId
    inbox_id: int
    incoming: Incoming
    attempts: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchDeps:
    """The gateway's loans to a dispatcher.

    `zone_of` is the IANA zone where the person of the work lives, as far as anybody knows; it is asked in the
    transaction that begins a run. `notice` words what the person is told of a dead letter (None: nothing); it is
    stored with the letter's end. `locked` words what the person is told whose message waits because another owner keeps
    the conversation (B-12).
    `deliver` is called when rows of the outbox were committed. `on_dead` tells the operator, `buried` writes of
    the letter in the transaction that ends it. `merge_within` is how long messages of that place count as one, in
    seconds; None: as long as everywhere.
    """

    zone_of: Callable[[Connection, Incoming], str]
    notice: Callable[[DeadLetter], OutgoingMessage | None]
    locked: Callable[[Incoming], OutgoingMessage]
    deliver: Callable[[ConversationId], None]
    on_dead: Callable[[DeadLetter], None]
    buried: Buried = untold
    merge_within: Callable[[ConversationId], float | None] = lambda conversation: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The dispatcher's numbers, in seconds unless named otherwise."""

    merge_within: float = 0.5
    linger: float = 2.0  # how long an agent stays with its conversation for the next message
    queue_timeout: float = 30.0  # B-83: how long to wait for a lease that somebody else holds
    lock_timeout: float = 900.0  # B-85: when the lease of a dead owner ends
    heartbeat: float = 30.0
    look_around: float = 5.0  # how often to look for work that nobody woke us for
    first_pause: float = 1.0  # before a failed run is tried again; doubles up to `longest_pause`
    longest_pause: float = 30.0
    last_grace: float = 10.0  # for turns that are cut off at the end to store what they have
    most_attempts: int = 5
    most_turns: int = 200  # turns under way at once, over all conversations

    @property
    def backoff(self) -> Backoff:
        """How long a message waits after runs in vain."""
        return Backoff(first_s=self.first_pause, longest_s=self.longest_pause)
