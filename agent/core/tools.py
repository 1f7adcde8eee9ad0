"""The contract of a tool: what the model sees of it, and one call."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from agent.core.cancel import CancelToken
from agent.core.ids import CallId, ConversationId, PersonId, RunId

Category = Literal["exec", "mcp", "info", "edit"]
Risk = Literal["safe", "write"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """How a tool presents itself. `schema` is the JSON schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, Any]
    category: Category = "info"
    risk: Risk = "safe"
    concurrency_safe: bool = True
    retryable: bool = False  # may be run again after a transient failure or a crash
    core: bool = False  # always shown to the model, however many tools there are (SPEC §6.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Whose words the run answers, as far as is known. `zone` is an IANA name, where the platform tells it."""

    display: str = ""
    language: str = "en"
    role: Literal["owner", "admin", "member"] = "member"
    chat_type: Literal["direct", "group", "channel"] = "direct"
    zone: str | None = None


class Bracketing(Protocol):
    """The focus of a conversation: what lies between opening and closing it leaves the window (SPEC §8.15)."""

    def start(self, scope: str) -> str:
        """Open it; returns what the model reads. Raises ToolError while one is open."""

    def complete(self, summary: str) -> str:
        """Close it with what was found. Raises ToolError when none is open."""


class Recall(Protocol):
    """What left the conversation's window."""

    async def search(self, query: str) -> str:
        """The passages that fit the words best, 1,500 tokens at most."""

    async def read(self, message: int, from_char: int) -> str:
        """The whole of one message, a page at a time. Raises ToolError when it is none of those."""


class Remembering(Protocol):
    """What is kept for longer than a session, as far as who is present may see it. Each call returns what the model
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
    """What a call may know of its surroundings. `idempotency_key` is the same when a call is repeated after a crash.

    `recall` finds what left the window. `focus` is there where the operator has switched Focus on, `memory` where
    nobody has switched it off.
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


class Tool(Protocol):
    """Something the model may call."""

    @property
    def spec(self) -> ToolSpec: ...

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        """Do it and return what the model shall read.

        `arguments` were validated against `spec.schema`. Raises ToolError; any other exception is a defect and is
        reported to the model as a permanent failure. Must end soon after `context.cancel` fires.
        """
