"""State of one run, from intake to commit, and the values that its stages hand to each other."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal

import anyio
from sqlalchemy import Connection

from agent.core.cancellation import CancelToken, TimeLimit
from agent.core.ids import ConversationId, CostAttribution, RunId, SessionId
from agent.core.messages import FilePart, Message
from agent.core.outbox import Audience, Buttons, Outbox
from agent.core.tools import ExecutionContext
from agent.definitions import Definition
from agent.documents.documents import Document
from agent.inbox import Work
from agent.memory.records import Scope
from agent.providers.usage import Spent, read_of
from agent.run.environment import NOWHERE_SPECIAL, Environment
from agent.run.guards import Progress
from agent.run.prefix import Prefix
from agent.run.settings import Settings
from agent.sessions.runs import Checkpoint, Loop
from agent.storage.audit_rows import Record

# Speech: the texts of a run's rounds, one below the other, as the person sees them. Previews may vanish, `text`
# arrives.

BETWEEN = "\n\n"


class Speech:
    """Follows one run; `earlier` are the texts of rounds before a crash that are not committed yet.

    `was_committed`: a part of the run's text stands in the outbox already.
    """

    def __init__(self, outbox: Outbox, earlier: tuple[str, ...] = (), *, was_committed: bool = False) -> None:
        self._outbox = outbox
        self._rounds = [text for text in earlier if text]
        self._open: list[str] = []
        self._previewed = False  # the preview holds the rounds before this one
        self.was_committed = was_committed

    @property
    def text(self) -> str:
        """Everything that is said and not committed yet, what is being streamed included."""
        return BETWEEN.join(text for text in (*self._rounds, self.unfinished) if text)

    @property
    def unfinished(self) -> str:
        """The text streamed in a round that has not ended."""
        return "".join(self._open)

    def delta(self, text: str) -> None:
        """The round grows by `text`: show it."""
        if not self._open:
            if self._rounds:
                self._outbox.preview(BETWEEN if self._previewed else BETWEEN.join(self._rounds) + BETWEEN)
            self._previewed = True
        self._open.append(text)
        self._outbox.preview(text)

    def retract(self) -> None:
        """Drop the text streamed in this round; it will come again (G-24)."""
        if self._open:
            self._open = []
            self._previewed = False
            self._outbox.reset_preview()

    def end_round(self, text: str) -> None:
        """The round said `text`, all in all."""
        self._open = []
        if text:
            self._rounds.append(text)

    def committed(self) -> None:
        """The rounds so far stand in the outbox: `text` begins anew, and so does the preview."""
        self._rounds = []
        self._previewed = False
        self.was_committed = True
        self._outbox.end_preview()


SUBAGENT = "subagent"  # the purpose of its calls
SHUTDOWN = "shutdown"  # the reason that leaves a run unfinished, to be resumed by the next process


class LeftForLater(Exception):
    """The process ends: the run stays as it is stored, and the next owner goes on with it."""


Verdict = Literal["answered", "waiting", "failed", "cancelled", "refused", "suspended"]


class Interrupts:
    """Waits that a stop ends at once: for the model and for tools, and for nothing that is stored.

    A shutdown cuts no listening to a voice message short: the words would be stored without what was said, and never be
    heard again. It ends waits from the context stage on (`agent.turn.pipeline`).
    """

    def __init__(self, token: CancelToken) -> None:
        self._token = token
        self._open: set[anyio.CancelScope] = set()
        token.tells(self._heed)

    @contextmanager
    def scope(self) -> Iterator[anyio.CancelScope]:
        """A scope that the stop cancels; look at the token afterwards to know why it ended."""
        with anyio.CancelScope() as scope:
            self._open.add(scope)
            if self._token.fired:
                scope.cancel()
            try:
                yield scope
            finally:
                self._open.discard(scope)

    def _heed(self) -> None:
        if self._token.reason != SHUTDOWN:
            self.fire()

    def fire(self) -> None:
        """End every open wait."""
        for scope in tuple(self._open):
            scope.cancel()


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedChanges:
    """Changes of the session by a command; committed with the command's own end, or with the run's intake.

    Being in that transaction it happens exactly once, whatever crashes between.
    """

    hide_from: int | None = None  # messages of the current session from this id on
    hide_from_people: bool = False
    taken_back: str = ""  # the request whose answer goes with that: it has not gone well
    complete_goal: bool = False
    switch_session: bool = False
    session: SessionId | None = None  # the session to switch to; None: a fresh one with the next message
    keep_tasks: bool = False  # the fresh one takes over what is still to be done
    closes: SessionId | None = None  # for good (B-13)

    @property
    def any(self) -> bool:
        return self.hide_from is not None or self.switch_session or self.complete_goal or self.closes is not None

    @property
    def clears(self) -> bool:
        """The model no longer sees anything of the session; people still do."""
        return self.hide_from is not None and not self.hide_from_people


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One reply of the model and what it led to (R-35). `cwd` is where the work goes on."""

    index: int
    tool_calls: tuple[str, ...]
    failures: int
    cwd: Path


@dataclass(slots=True)
class RunMemory:
    """Memory in a run: what it may see of it (None: it is off), and what it was reminded of, framed.

    `recalled_after`: what of the memory had been forgotten before that. `written`: lasting notes or facts were kept.
    """

    scope: Scope | None = None
    recall: str = ""
    recalled_after: int = 0
    written: bool = False


@dataclass(slots=True)
class RunGroup:
    """The group around a run: what was said there to others, framed, and the newest message of it that was read.

    `read` gives more of it, by how many hours to look back; None: nothing is kept there.
    """

    said: str = ""
    read_to: int = 0
    read: Callable[[float], Awaitable[str]] | None = None


@dataclass(slots=True)
class StoredProgress:
    """Part of a run that is on disk: ids of its first messages, how many calls and records, its checkpoint."""

    ids: list[int | None] = field(default_factory=list)
    next_position: int = 0
    usage: int = 0
    records: int = 0
    checkpoint: Checkpoint = field(default_factory=Checkpoint)


@dataclass(slots=True)
class RequestState:
    """Repairs that a run's requests have needed.

    `healed`: the one try to mend a history that a provider refuses was made; `quarantined` messages of the history were
    left out, and are hidden with the commit. `without_tools` is the model that has just turned out to take none.
    """

    shortened: int = 0
    healed: bool = False
    quarantined: int = 0
    without_tools: str = ""
    told_to_keep_short: bool = False
    prefix: Prefix | None = None  # of the newest request


@dataclass(slots=True)
class CallState:
    """Tool calls of a run: how often each was repeated, the audit's records, pictures of the calls that run now.

    `within` are the tools of the skill that a person called up by name; None: all. `named` were loaded by a sub-agent.
    `has_workspace`: the workspace was brought to its stored state for this run. `kept_files` are calls that gave files.
    """

    repeats: dict[str, int] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    attached: dict[str, list[FilePart]] = field(default_factory=dict)
    within: frozenset[str] | None = None
    named: frozenset[str] = frozenset()
    has_workspace: bool = False
    kept_files: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Ending:
    """Facts for the end of a run. `preempted`: it ended before it was done, for a person's sake.

    `on_commit` is written with the end, in the same transaction. `hidden`: later turns should know of nothing of it but
    what it says. `reaches_goal`: the plan it carried out is completed, and so is what the session is after (Z-91).
    `voice_unheard`: a voice message came, and neither the model nor a transcriber hears it.
    """

    preempted: bool = False
    on_commit: "OnCommit | None" = None
    hidden: bool = False
    reaches_goal: bool = False
    voice_unheard: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class Run:
    """One execution for one piece of work (B-04). `messages` are its own; the first of them are stored.

    A sub-agent's has a `parent`; its messages are stored nowhere.
    """

    id: RunId
    work: Work
    conversation: ConversationId
    session: SessionId
    fresh: bool  # the session has no row yet
    settings: Settings
    definition: Definition
    token: CancelToken
    interrupts: Interrupts
    time: TimeLimit
    execution: ExecutionContext
    audience: Audience
    reminder: str
    speech: Speech
    environment: Environment = NOWHERE_SPECIAL  # where the conversation is, as its model is told
    staged: StagedChanges = field(default_factory=StagedChanges)
    goal: int | None = None  # the kept one that it works on, or counts for
    parent: "Run | None" = None
    opened: bool = False  # the turn row is committed
    resumed: bool = False
    loop: Loop | None = None  # of the run that asked what this one's message answers
    words: str = ""  # what the person said in the message that it answers
    documents: tuple[Document, ...] = ()  # files of its message that were read
    messages: list[Message] = field(default_factory=list)
    windowed: int = 0  # how many of the messages stand in the conversation's window
    stored: StoredProgress = field(default_factory=StoredProgress)
    progress: Progress = field(default_factory=Progress)
    steps: list[Step] = field(default_factory=list)
    usage: list[Spent] = field(default_factory=list)
    memory: RunMemory = field(default_factory=RunMemory)
    group: RunGroup = field(default_factory=RunGroup)
    requests: RequestState = field(default_factory=RequestState)
    calls: CallState = field(default_factory=CallState)
    ending: Ending = field(default_factory=Ending)
    subagent_tasks: int = 0  # how many sub-agents it has begun
    moved: Path | None = None  # where a sub-agent goes on after the step it is at

    def attribution(self, purpose: str = "turn") -> CostAttribution:
        """The payer of its own calls, and of others made for it; a sub-agent's are its parent's to pay."""
        incoming = self.work.incoming
        return CostAttribution(
            purpose=purpose if self.parent is None else SUBAGENT,
            conversation=self.conversation,
            session=self.session,
            inbox_id=self.work.inbox_id,
            run=self.id,
            person=incoming.person,
            job=incoming.job,
            goal=str(self.goal) if self.goal is not None else None,
            unattended=incoming.wake_up is not None,
        )

    def move(self, folder: Path) -> None:
        """Go on there after this step."""
        self.moved = folder


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence of the catalogue for the person, its values, and what may be pressed below it."""

    phrase: str
    values: dict[str, object] = field(default_factory=dict)
    buttons: Buttons = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """The result of a run. `text` is the model's words to the person, `notice` the gateway's addition (B-28).

    `error` goes into the log and the event, never into a chat.
    """

    verdict: Verdict
    text: str = ""
    notice: Notice | None = None
    error: str = ""

    @property
    def success(self) -> bool:
        return self.verdict in ("answered", "waiting")


# Called once with the connection, how the run came out and the moment; its end is committed with it.
OnCommit = Callable[[Connection, Executed, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The result of intake: the run is on disk, or it is refused."""

    refused: Executed | None = None
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The result of the context stage (B-14). `degraded`: it took too long and what was cached is used (Z-24)."""

    history: Sequence[Message]
    memory: str
    token_estimate: int
    degraded: bool = False
    ended: Executed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Persisted:
    """The writes of the commit (B-51); told with the run's end."""

    transcript_updated: bool = False
    session_updated: bool = False
    memory_updated: bool = False
    messages: int = 0  # for people, of the run's end


# Usage of a run's calls, as the meter reports it; the ledger keeps them one by one.


def note_spent(spent: Spent, run: Run) -> None:
    """Add one call to the run; a sub-agent's counts against its parent's limits too."""
    run.usage.append(spent)
    run.progress.tokens_in += read_of(spent.usage)
    run.progress.tokens_out += spent.usage.output
    run.progress.cost_usd += spent.cost_usd or 0.0
    if run.parent is not None:
        note_spent(spent, run.parent)


def note_tool_time(elapsed_ms: int, run: Run) -> None:
    """Add how long a call ran; a sub-agent's counts against its parent's limit too."""
    run.progress.tool_ms += elapsed_ms
    if run.parent is not None:
        note_tool_time(elapsed_ms, run.parent)


def total_cost(calls: Iterable[Spent]) -> float | None:
    """The sum of a run; None when one of its calls has no known price."""
    total = 0.0
    for call in calls:
        if call.cost_usd is None:
            return None
        total += call.cost_usd
    return total
