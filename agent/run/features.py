"""Hooks of a turn for features: the moments at which the pipeline asks them.

A feature keeps this promise in `agent.features`, or in the gateway where it needs what only the gateway has; the turn
imports no feature. `agent.assembly` declares their order.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from agent.core.ids import RunId, SessionId
from agent.core.messages import ToolUse
from agent.core.outbox import Answer, Question
from agent.inbox import Work
from agent.run.run import Executed, Run, StagedChanges
from agent.run.settings import Settings
from agent.storage.approval_rows import Approval
from agent.tools.executor import Cleared, Outcome

OnOpened = Callable[[Run], None]  # what the run gets of it, once its opening is on disk
Look = Callable[[ToolUse], Awaitable[Cleared | Outcome]]  # grounds a call anew, without running it


@dataclass(frozen=True, slots=True, kw_only=True)
class Additions:
    """Additions of a feature to the system prompt of a run's requests.

    `goal` is what the conversation is after; `named_goal` is it for an identity that says itself where it stands.
    `listed` ends the stable part: the same string until what it lists changes. `fitting` are the skills of the run.
    """

    goal: str = ""
    named_goal: str = ""
    listed: str = ""
    fitting: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A run that is being committed. `said` are the words of its end as people read them."""

    run: Run
    executed: Executed
    said: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Words on a step of a run. `blocked` says why the run must end here; `context` joins the step's requests."""

    blocked: str = ""
    context: str = ""


@dataclass(frozen=True, slots=True)
class Permitted:
    """A call that a person has approved, as it would run now."""

    cleared: Cleared
    approval: Approval


class Feature:
    """Takes part in the turns of one conversation. It overrides the moments that it needs and is asked at no other.

    They stand here in the order in which a turn comes to them. What takes a connection runs in the storage's thread,
    within the transaction of that moment, and may be run again when the transaction is.
    """

    __slots__ = ()

    def renew(self, settings: Settings) -> bool:
        """Between turns: take over changed settings and files; whether the feature takes part in the next turns."""
        return True

    def opened(self, conn: Connection, work: Work, *, new: bool) -> OnOpened | None:
        """The run is being opened, before its words are stored; `new`: these words have not been seen before."""

    async def ingested(self, run: Run) -> None:
        """The run and its words are on disk; what is set for programs here holds from this turn on."""

    async def begun(self, run: Run) -> Executed | None:
        """The run's context is made next; an end of the run takes the place of that."""

    async def context(self, run: Run) -> None:
        """The run's context is made; the time for it is limited."""

    def before_call(self, run: Run, tokens: int) -> bool:
        """The run's first request comes next and has `tokens` so far; whether this made it longer."""
        return False

    async def before_step(self, run: Run) -> Advice:
        """A step of the run begins: one reply of the model and the calls that it leads to. Also a sub-agent's."""
        return Advice()

    async def before_compaction(self, stage: str, run: RunId | None) -> None:
        """The window is about to be compacted, which nothing here keeps it from; `run`: the one that goes on."""

    def hides(self, run: Run) -> frozenset[str]:
        """The names of tools that the run may not call, whatever its definition says."""
        return frozenset()

    def prompt(self, run: Run) -> Additions:
        """A request of the run is made."""
        return Additions()

    async def before_request(self, run: Run, facts: Callable[[], Mapping[str, str]]) -> str:
        """The request of a step is made; gives what joins it. `facts` describes the request and takes its time."""
        return ""

    async def before_tool(self, run: Run, use: ToolUse) -> str:
        """A call is about to pass the approval gate; why it may not run, or ""."""
        return ""

    def denied(self, run: Run, use: ToolUse, outcome: Outcome) -> None:
        """A call was kept from running."""

    def after_tool(self, run: Run, use: ToolUse, outcome: Outcome, *, wrote: str = "") -> None:
        """A call has run; `wrote` is the path of the file that it has written."""

    def subagent(self, run: Run, agent: str, *, begins: bool) -> None:
        """A sub-agent's run begins, or has ended; `agent` is its profile."""

    async def closing(self, run: Run, executed: Executed) -> None:
        """However the run came to its end: that is committed next. Raises StorageTrouble."""

    def final_text(self, run: Run, text: str) -> str:
        """The run has answered: the words of its answer as people read them. Later turns see those of the model."""
        return text

    def stored(self, conn: Connection, run: Run, ids: Sequence[int | None], at: int) -> None:
        """All messages of the run are stored, in the transaction that ends it; later turns may see them."""

    def committing(self, conn: Connection, ended: Ended) -> Callable[[], None] | None:
        """The end of the run is being committed; gives what is to be done once it is on disk."""

    async def ended(self, run: Run, executed: Executed) -> None:
        """The turn is on disk."""

    def left_alone(self, run: Run, executed: Executed) -> None:
        """Nobody waits any more: what may go on in the background begins."""

    def changing(self, conn: Connection, staged: StagedChanges, session: SessionId, at: int) -> None:
        """Write the feature's part of a command's change of the session."""

    def changed(self, staged: StagedChanges, session: SessionId | None) -> None:
        """It is on disk; `session` is the one that the conversation was in until then."""

    def forgotten(self) -> None:
        """Words were forgotten, or the memory switched: nothing that was read before counts any more."""

    async def resting(self, session: SessionId) -> None:
        """The conversation was left alone for long, and its agent goes to sleep."""


class AskingFeature(Feature, ABC):
    """The feature by which a run asks people and waits for them; a conversation has one at most."""

    __slots__ = ()

    @abstractmethod
    async def permit(self, run: Run, cleared: Cleared, reason: str, look: Look) -> Permitted | Outcome:
        """A person must allow the call. An Outcome where none allows it.

        Raises LeftForLater, Fenced or StorageTrouble.
        """

    @abstractmethod
    async def elicit(self, run: Run, use: ToolUse, question: Question) -> Answer:
        """A call asks people. Does not return when the process ends."""

    @abstractmethod
    async def elicited(self, run: Run, use: ToolUse) -> str | None:
        """The question and answer of a call that a crash cut off, for the model; None: it had asked nothing.

        Raises LeftForLater.
        """


P = ParamSpec("P")
R = TypeVar("R")


class Features:
    """The features of one conversation in the declared order; each is asked only at the moments that it overrides."""

    def __init__(self, features: Iterable[Feature]) -> None:
        self._every = every = tuple(features)
        self._left_out: frozenset[int] = frozenset()
        self._take(every)
        self._renewed = tuple(one for one in every if type(one).renew is not Feature.renew)
        # What happens outside a turn is told to those as well that take no part in turns now.
        self.changing = _who(every, Feature.changing)
        self.changed = _who(every, Feature.changed)
        self.forgotten = _who(every, Feature.forgotten)
        self.resting = _who(every, Feature.resting)

    def renew(self, settings: Settings) -> None:
        """Between turns: let them take over changes, and ask those in the next turns that take part in them."""
        left_out = frozenset(id(one) for one in self._renewed if not one.renew(settings))
        if left_out != self._left_out:
            self._left_out = left_out
            self._take(tuple(one for one in self._every if id(one) not in left_out))

    def _take(self, features: tuple[Feature, ...]) -> None:
        self.opened = _who(features, Feature.opened)
        self.ingested = _who(features, Feature.ingested)
        self.begun = _who(features, Feature.begun)
        self.context = _who(features, Feature.context)
        self.before_call = _who(features, Feature.before_call)
        self.before_step = _who(features, Feature.before_step)
        self.before_compaction = _who(features, Feature.before_compaction)
        self.hides = _who(features, Feature.hides)
        self.prompt = _who(features, Feature.prompt)
        self.before_request = _who(features, Feature.before_request)
        self.before_tool = _who(features, Feature.before_tool)
        self.asking = next((one for one in features if isinstance(one, AskingFeature)), None)
        self.denied = _who(features, Feature.denied)
        self.after_tool = _who(features, Feature.after_tool)
        self.subagent = _who(features, Feature.subagent)
        self.closing = _who(features, Feature.closing)
        self.final_text = _who(features, Feature.final_text)
        self.stored = _who(features, Feature.stored)
        self.committing = _who(features, Feature.committing)
        self.ended = _who(features, Feature.ended)
        self.left_alone = _who(features, Feature.left_alone)


def _who(features: tuple[Feature, ...], moment: Callable[Concatenate[Feature, P], R]) -> tuple[Callable[P, R], ...]:
    """The bound methods of those that override the moment."""
    name = moment.__name__
    return tuple(getattr(one, name) for one in features if getattr(type(one), name) is not moment)
