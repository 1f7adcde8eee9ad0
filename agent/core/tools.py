"""The contract of a tool: its description for the model, the look at a call before it runs, and the call.

A tool is a `ToolSpec` and a `run`; `agent.core.function_tools` makes both of a typed function. Scope, hooks, gate,
approval, time limit, audit, framing and redaction are the dispatcher's (`agent.turn.tool_calls`).
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from agent.core.cancellation import CancelToken
from agent.core.ids import CallId, ConversationId, CostAttribution, PersonId, RunId, SessionId
from agent.core.outbox import Answer, Question
from agent.core.phrases import in_english

# Port of the sub-agents: their task and their answer. Used by the `Agent` tool, by a person's command and by plans.

AGENT = "Agent"  # what the tool is called
STEPS = 10  # calls of the model in one sub-agent task
TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentTask:
    """One piece of work, told in full: who does it knows nothing of the conversation but `context`.

    `tools` are the only ones it may call, of those the conversation has; None: all of them. `context` is told beside
    the text, such as what the work before has found; it is data. `agent` names a definition (`agents/<name>.md`),
    whose steps and time count then.
    """

    text: str
    tools: frozenset[str] | None = None
    steps: int = STEPS
    timeout_s: float = TIMEOUT_S
    context: str = ""
    agent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of a sub-agent task. `steps` are the replies of the model it took, `cost` is in USD or None."""

    text: str
    is_error: bool = False
    steps: int = 0
    cost: float | None = 0.0


class Subagents(Protocol):
    """Runs sub-agent tasks of one conversation, each with a history of its own."""

    async def run(self, subagent_task: SubagentTask, *, request: str, cancel: CancelToken) -> Finding:
        """Run it to its end. `request` is the id its calls are audited and logged under: `<parent>-sub`.

        Every end of the work is a Finding, also a stop by `cancel` (within a second), the time limit and a used-up
        budget. Raises Fenced or StorageTrouble only.
        """


# Port of the task list that a model keeps in its session.

TaskStatus = Literal["pending", "in_progress", "completed", "failed"]
STATUSES: tuple[TaskStatus, ...] = ("pending", "in_progress", "completed", "failed")
MOST_TASKS = 200  # in one session
LONGEST_DESCRIPTION, LONGEST_OUTPUT = 2_000, 8_000  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One of them. `output` is what it came to."""

    id: int
    description: str
    status: TaskStatus = "pending"
    output: str = ""


class Tasks(Protocol):
    """The tasks of the session that a call belongs to; those of others are unknown here."""

    async def create(self, description: str, status: TaskStatus, *, call: str) -> Task:
        """Add one; the same `call` adds it once. Raises ToolError when the list is full."""

    async def update(self, id: int, *, status: TaskStatus | None, output: str | None) -> Task:
        """Change it. Raises ToolError when there is none."""

    async def find(self, id: int) -> Task:
        """Raises ToolError when there is none."""

    async def all(self) -> tuple[Task, ...]:
        """All of them, the oldest first."""


S = TypeVar("S")

Category = Literal["exec", "mcp", "info", "edit"]  # sets the time limit; "info" looks and changes nothing
Risk = Literal["safe", "write", "unrated"]  # safe runs, all else is asked for
Gate = Literal["allow", "ask", "deny"]
Touches = Literal["own", "place", "outside"]
Effect = Literal["write", "run", "spend"]
EVERY_EFFECT: frozenset[Effect] = frozenset({"write", "run", "spend"})
SKILLS = "/skills"  # what the folders of skills lie below, for a model and in the sandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Appraisal:
    """The effect of one call, found out before it runs and again after it was approved.

    `arguments` are the grounded ones (canonical paths, defaults filled in): these are shown, frozen, approved and run.
    `gate` None: the tool's risk decides. `reason` tells the person why it is asked, or the model why it is denied.
    `shown` is what the person sees of the call, plain text; "" shows its name and arguments. `covers` is what "always
    allow this in this chat" would allow: every later call of this tool with the same `covers`; "" means these very
    arguments, None that it cannot be allowed for good.
    """

    arguments: Mapping[str, Any]
    gate: Gate | None = None
    reason: str = ""
    shown: str = ""
    covers: str | None = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """The specification of a tool. `schema` is the JSON schema of its arguments, `check` lists mistakes in those of a
    call; without it the schema decides. `agent.core.function_tools` makes both of a typed function.

    `appraise` looks at one call, whose arguments fit the schema; it may look at files and changes nothing. It raises
    OutOfScope for what lies outside of the conversation's reach: refused whatever is approved or set. Without it the
    arguments are taken as they are.

    `touches` says whose things a call reaches: those of the person and of the work itself, those that all people of the
    chat share, or anything beyond it. `effects` says what a call does there; none: it only looks. Rights follow from
    both (`agent.tools.rights`), and a tool that says nothing counts as the most dangerous.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    check: Callable[[Mapping[str, Any]], list[str]] | None = field(default=None, compare=False)
    category: Category = "edit"  # what only looks says "info": plan mode leaves nothing else
    risk: Risk = "unrated"
    touches: Touches = "outside"
    effects: frozenset[Effect] = EVERY_EFFECT
    concurrency_safe: bool = True
    keys: Callable[[Mapping[str, Any]], frozenset[str]] | None = None  # calls with a key in common run one by one
    retryable: bool = False  # may be run again after a transient failure or a crash
    core: bool = False  # used in most turns: always shown to the model, others once `tool_search` asks
    untrusted: bool = False  # strangers wrote what it returns: it is framed before the model reads it
    appraise: "Callable[[Mapping[str, Any], ToolContext], Awaitable[Appraisal]] | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionContext:
    """Where the calls of a turn happen: made when it begins, the same until it ends, never stored (Z-110, Z-111).

    `workspace` is the conversation's own folder, which may not exist yet; `cwd` lies in it. `env` is what hooks and
    the skills in use have set, on top of what a program gets anyway. `skills` are the folders of those that have files
    beside their text, by name: they may be read, never written; `at_hand` names those whose text the model has.
    `settings` are the operator's sections for tools as the turn began, by their class (Z-21).
    """

    workspace: Path
    cwd: Path
    env: Mapping[str, str] = field(default_factory=dict)
    session: SessionId | None = None
    skills: Mapping[str, Path] = field(default_factory=dict)
    at_hand: tuple[str, ...] = ()
    settings: Mapping[type[object], object] = field(default_factory=dict)

    def section(self, kind: type[S], in_force: Callable[[], S]) -> S:
        """The settings of that section as the turn began; outside of a turn the ones `in_force`."""
        taken = self.settings.get(kind)
        return taken if isinstance(taken, kind) else in_force()


NOWHERE = ExecutionContext(workspace=Path("/dev/null"), cwd=Path("/dev/null"))  # no file can be there


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """The person whose words the run answers, as far as is known. `roles` are named ones; `zone` is an IANA name."""

    display: str = ""
    language: str = "en"
    role: Literal["owner", "admin", "member", "guest"] = "member"
    roles: tuple[str, ...] = ()
    chat_type: Literal["direct", "group", "channel"] = "direct"
    zone: str | None = None


class Bracketing(Protocol):
    """The focus of a conversation: what lies between opening and closing it leaves the window."""

    def start(self, scope: str) -> str:
        """Open it; returns what the model reads. Raises ToolError while one is open."""

    def complete(self, summary: str) -> str:
        """Close it with what was found. Raises ToolError when none is open."""


class Recall(Protocol):
    """Access to what left the conversation's window."""

    async def search(self, query: str) -> str:
        """The passages that fit the words best, 1,500 tokens at most."""

    async def read(self, message: int, from_char: int) -> str:
        """The whole of one message, a page at a time. Raises ToolError when it is none of those."""


class Remembering(Protocol):
    """Access to what is kept beyond a session, as far as those present may see it. Each call returns what the model
    reads; raises ToolError with what is wrong."""

    async def remember(self, text: str, *, confidence: float, replaces: int | None, call: str) -> str:
        """Keep a fact. Safe to repeat."""

    async def recall(self, query: str) -> str:
        """Facts and messages of any session that fit best."""

    async def forget(self, fact: int) -> str:
        """Forget one fact."""

    async def search_sessions(self, query: str) -> str:
        """Messages of other sessions that hold the words."""

    async def write_notes(self, text: str, *, replace: bool) -> str:
        """Add to the conversation's notes, or put the text in their place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """The surroundings of a call. `idempotency_key` is the same when a call is repeated after a crash.

    `recall` finds what left the window. `focus` is there where the operator has switched Focus on, `memory` where
    nobody has switched it off, `skill` where there are skills: it gives the text of one, or raises ToolError. `cancel`
    fires when the time is up, too. `progress` shows people one line while the call runs. `elicit` asks the person
    something that the call cannot go on without, in sentences that `phrase` gives in their language. `attach` keeps
    a file (name, type, content) in the workspace and shows the model a picture; it gives the path, or raises
    ToolError. `move` sets the working directory, from the next turn on (Z-112). `planning` turns plan mode on or
    off. `subagents` run sub-agent tasks; a sub-agent's own calls have none. `tasks` are those of the session.
    `read_chat` gives what people said in the group to each other, so many hours back; None: nothing is kept of it.
    `payer` is on whose account a tool spends.
    """

    conversation: ConversationId
    run: RunId
    call: CallId
    person: PersonId | None
    idempotency_key: str
    cancel: CancelToken
    asker: Asker = Asker()
    recall: Recall | None = None
    focus: Bracketing | None = None
    memory: Remembering | None = None
    skill: Callable[[str], str] | None = None
    execution: ExecutionContext = NOWHERE
    progress: Callable[[str], None] = lambda line: None
    elicit: Callable[[Question], Awaitable[Answer]] | None = None
    phrase: Callable[..., str] = in_english
    attach: Callable[[str, str, bytes], Awaitable[str]] | None = None
    move: Callable[[Path], None] = lambda folder: None
    planning: Callable[[bool], None] = lambda on: None
    subagents: Subagents | None = None
    tasks: Tasks | None = None
    read_chat: Callable[[float], Awaitable[str]] | None = None
    payer: CostAttribution | None = None


class Tool(Protocol):
    """Something the model may call."""

    @property
    def spec(self) -> ToolSpec: ...

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        """Do it and return what the model shall read.

        `arguments` fit `spec.schema`, or are those of its appraisal. Raises ToolError; any other exception is a defect
        and is reported to the model as a permanent failure. Must end soon after `context.cancel` fires.
        """
