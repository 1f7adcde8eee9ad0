"""Hooks of a turn for features: the moments at which the pipeline asks them.

A feature keeps this promise in `agent.features`; the turn imports no feature. `agent.assembly` declares their order.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from agent.core.ids import SessionId
from agent.inbox import Work
from agent.run.run import Executed, Run, StagedChanges

OnOpened = Callable[[Run], None]  # what the run gets of it, once its opening is on disk


@dataclass(frozen=True, slots=True, kw_only=True)
class Additions:
    """Additions of a feature to the system prompt of a run's requests.

    `goal` is what the conversation is after; `named_goal` is it for an identity that says itself where it stands.
    `listed` ends the stable part: the same string until what it lists changes.
    """

    goal: str = ""
    named_goal: str = ""
    listed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A run that is being committed."""

    run: Run
    executed: Executed
    at: int


class Feature:
    """Takes part in the turns of one conversation. It overrides the moments that it needs and is asked at no other.

    They stand here in the order in which a turn comes to them. What takes a connection runs in the storage's thread,
    within the transaction of that moment, and may be run again when the transaction is.
    """

    __slots__ = ()

    def opened(self, conn: Connection, work: Work, *, new: bool) -> OnOpened | None:
        """The run is being opened, before its words are stored; `new`: these words have not been seen before."""

    async def begun(self, run: Run) -> Executed | None:
        """The run and its words are on disk, its context is made next; an end of the run takes the place of that."""

    async def context(self, run: Run) -> None:
        """The run's context is made; the time for it is limited."""

    def before_call(self, run: Run, tokens: int) -> bool:
        """The run's first request comes next and has `tokens` so far; whether this made it longer."""
        return False

    def hides(self, run: Run) -> frozenset[str]:
        """The names of tools that the run may not call, whatever its definition says."""
        return frozenset()

    def prompt(self, run: Run) -> Additions:
        """A request of the run is made."""
        return Additions()

    async def closing(self, run: Run) -> None:
        """However the run came to its end: that is committed next. Raises StorageTrouble."""

    def stored(self, conn: Connection, run: Run, ids: Sequence[int | None], at: int) -> None:
        """All messages of the run are stored, in the transaction that ends it; later turns may see them."""

    def committing(self, conn: Connection, ended: Ended) -> Callable[[], None] | None:
        """The end of the run is being committed; gives what is to be done once it is on disk."""

    async def ended(self, run: Run, executed: Executed) -> None:
        """The turn is on disk."""

    def left_alone(self, run: Run) -> None:
        """Nobody waits any more: what may go on in the background begins."""

    def changing(self, conn: Connection, staged: StagedChanges, session: SessionId, at: int) -> None:
        """Write the feature's part of a command's change of the session."""

    def changed(self, staged: StagedChanges) -> None:
        """It is on disk."""

    def forgotten(self) -> None:
        """Words were forgotten, or the memory switched: nothing that was read before counts any more."""


class Features:
    """Those of one conversation, moment by moment, in the declared order: only who has a use for a moment is asked."""

    def __init__(self, features: Iterable[Feature]) -> None:
        every = tuple(features)
        self.opened = tuple(one.opened for one in every if type(one).opened is not Feature.opened)
        self.begun = tuple(one.begun for one in every if type(one).begun is not Feature.begun)
        self.context = tuple(one.context for one in every if type(one).context is not Feature.context)
        self.before_call = tuple(one.before_call for one in every if type(one).before_call is not Feature.before_call)
        self.hides = tuple(one.hides for one in every if type(one).hides is not Feature.hides)
        self.prompt = tuple(one.prompt for one in every if type(one).prompt is not Feature.prompt)
        self.closing = tuple(one.closing for one in every if type(one).closing is not Feature.closing)
        self.stored = tuple(one.stored for one in every if type(one).stored is not Feature.stored)
        self.committing = tuple(one.committing for one in every if type(one).committing is not Feature.committing)
        self.ended = tuple(one.ended for one in every if type(one).ended is not Feature.ended)
        self.left_alone = tuple(one.left_alone for one in every if type(one).left_alone is not Feature.left_alone)
        self.changing = tuple(one.changing for one in every if type(one).changing is not Feature.changing)
        self.changed = tuple(one.changed for one in every if type(one).changed is not Feature.changed)
        self.forgotten = tuple(one.forgotten for one in every if type(one).forgotten is not Feature.forgotten)
