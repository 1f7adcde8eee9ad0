"""How a feature takes part in the turns of a conversation: the moments at which the pipeline asks it.

A feature keeps this promise in its `feature.py`; the turn imports no feature. `agent.assembly` declares their order.
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
    """What a feature adds to the system prompt of a run's requests.

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
    """Takes part in the turns of one conversation. It overrides the moments that it needs and is asked at no other."""

    def opened(self, conn: Connection, work: Work, *, new: bool) -> OnOpened | None:
        """The run is being opened, before its words are stored; `new`: these words have not been seen before.

        Runs in the storage's thread; raises nothing but what stops every write.
        """

    async def begun(self, run: Run) -> Executed | None:
        """The run and its words are on disk, its context is made next; an end of the run takes the place of that."""

    async def context(self, run: Run) -> None:
        """The run's context is made; the time for it is limited."""

    def before_call(self, run: Run, tokens: int) -> bool:
        """The run's first request comes next and has `tokens` so far; whether this made it longer."""
        return False

    def prompt(self, run: Run) -> Additions:
        """A request of the run is made."""
        raise NotImplementedError

    def changing(self, conn: Connection, staged: StagedChanges, session: SessionId, at: int) -> None:
        """What a command wants changed in the session is being written."""

    def changed(self, staged: StagedChanges) -> None:
        """It is on disk."""

    def forgotten(self) -> None:
        """Words were forgotten, or the memory switched: nothing that was read before counts any more."""

    def committing(self, conn: Connection, ended: Ended) -> Callable[[], None] | None:
        """The end of a run is being committed; gives what is to be done once it is on disk. May be called again."""

    def hides(self, run: Run) -> frozenset[str]:
        """The names of tools that the run may not call, whatever its definition says."""
        return frozenset()

    def stored(self, conn: Connection, run: Run, ids: Sequence[int | None], at: int) -> None:
        """All messages of the run are stored, in the transaction that ends it; later turns may see them."""

    def left_alone(self, run: Run) -> None:
        """The turn is over: what nobody waits for may begin in the background."""

    async def closing(self, run: Run) -> None:
        """However the run came to its end: that is committed next. Raises StorageTrouble."""

    async def ended(self, run: Run, executed: Executed) -> None:
        """The turn is on disk."""


class Features:
    """Those of one conversation, moment by moment, in the declared order."""

    __slots__ = (
        "before_call",
        "begun",
        "changed",
        "changing",
        "closing",
        "committing",
        "context",
        "ended",
        "forgotten",
        "hides",
        "left_alone",
        "opened",
        "prompt",
        "stored",
    )

    def __init__(self, features: Iterable[Feature]) -> None:
        all = tuple(features)
        self.opened = tuple(one.opened for one in all if type(one).opened is not Feature.opened)
        self.context = tuple(one.context for one in all if type(one).context is not Feature.context)
        self.prompt = tuple(one.prompt for one in all if type(one).prompt is not Feature.prompt)
        self.changing = tuple(one.changing for one in all if type(one).changing is not Feature.changing)
        self.changed = tuple(one.changed for one in all if type(one).changed is not Feature.changed)
        self.forgotten = tuple(one.forgotten for one in all if type(one).forgotten is not Feature.forgotten)
        self.committing = tuple(one.committing for one in all if type(one).committing is not Feature.committing)
        self.hides = tuple(one.hides for one in all if type(one).hides is not Feature.hides)
        self.stored = tuple(one.stored for one in all if type(one).stored is not Feature.stored)
        self.left_alone = tuple(one.left_alone for one in all if type(one).left_alone is not Feature.left_alone)
        self.begun = tuple(one.begun for one in all if type(one).begun is not Feature.begun)
        self.before_call = tuple(one.before_call for one in all if type(one).before_call is not Feature.before_call)
        self.ended = tuple(one.ended for one in all if type(one).ended is not Feature.ended)
        self.closing = tuple(one.closing for one in all if type(one).closing is not Feature.closing)
