"""The work that reaches an agent: one prioritised stream, and the contract of its source."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, cast

from agent.core.ids import ConversationId, PersonId
from agent.core.messages import FilePart, ToolUse

WorkKind = Literal["message", "reminder", "system"]
ChatType = Literal["direct", "group", "channel"]
AccessRole = Literal["owner", "admin", "member", "guest"]


@dataclass(frozen=True, slots=True)
class HeldRoles:
    """The rank of a person and the operator's named roles that they have."""

    role: AccessRole
    roles: tuple[str, ...] = ()


def written_role(role: AccessRole, roles: tuple[str, ...]) -> str:
    """Rank and named roles as one text of a row: the rank, then the names. A name holds no blank."""
    return " ".join((role, *roles))


def read_role(text: str) -> tuple[AccessRole, tuple[str, ...]]:
    """Rank and named roles of such a text; a row from before there were named roles is a rank alone."""
    role, *roles = text.split()
    return cast(AccessRole, role), tuple(roles)


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeUp:
    """The goal for which the agent is woken: the session of its own work, and the number of the wake-up in it."""

    goal: int
    round: int
    tick: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    """The plan for which the agent is woken, and the number of the wake-up."""

    plan: int
    tick: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlace:
    """Where in a group something was said. `channel` is the channel or group as a whole; `stream` is what it stands in:
    the channel, a topic of it, or the thread. `root` is the platform's id of the message that begins the thread.
    """

    channel: ConversationId
    stream: ConversationId
    root: str | None = None


@dataclass(frozen=True, slots=True)
class Brought:
    """A stranger's words. `source` says where they are from."""

    text: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotation:
    """The words of the message replied to, "" of one without, and their writer, "" where nobody tells."""

    text: str
    writer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """One thing said to the agent, as the inbox stores it. The platform's own shapes stay outside.

    `role` is the rank that the person had when they said it, `roles` are the operator's named roles that they had.
    `files` are its own, and behind them those of the message replied to, which are marked so. `quoted` is the text of
    that message, "" of one without words, `quoted_from` its writer, "" where nobody tells. `brought` is what a
    command has fetched from strangers for the turn that it begins. `place` is what people call the group or channel,
    "" where nobody does. `interaction` is the platform's handle for answering a slash command or a button.
    `message_ref` is the platform's id of the message, to reply to and to react on. `notes` are the last lines of
    `text`: what could not be read of the message; an edit keeps them. `version` is that of the edit that was taken
    last, "" before any. `zone` is the IANA time zone of the sender: as the platform tells it while the message waits,
    as the gateway knows it (always a real one) in a run. `album` is the platform's id of the album of files that this
    is of. What `may_be_silent` is shown to nobody while it is worked on; what is `ambient` was said to nobody in
    particular, and the bot may speak. `group` tells where in a group it was said. `wake_up` is there for a goal's own
    turns, `plan` for work on a plan, `job` names what asks in a person's place: a schedule, a webhook.
    `granted_tools` are there where nobody has spoken at all: patterns of tools that the turn may use beyond looking.
    `traceparent` is the trace context (W3C) of the program that brought it, "" where there is none: its turn is a part
    of that trace.
    """

    text: str
    person: PersonId | None = None
    display: str = ""
    language: str = "en"
    role: AccessRole = "member"
    roles: tuple[str, ...] = ()
    chat_type: ChatType = "direct"
    group: GroupPlace | None = None
    files: tuple[FilePart, ...] = ()
    quoted: str | None = None
    quoted_from: str = ""
    brought: Brought | None = None
    place: str = ""
    message_ref: str | None = None
    interaction: str | None = None
    notes: tuple[str, ...] = ()
    version: str = ""
    album: str | None = None
    zone: str | None = None
    may_be_silent: bool = False
    ambient: bool = False
    wake_up: WakeUp | None = None
    plan: PlanStep | None = None
    job: str | None = None
    granted_tools: tuple[str, ...] | None = None
    traceparent: str = ""
    received_at: datetime

    @property
    def quotation(self) -> Quotation | None:
        return None if self.quoted is None else Quotation(text=self.quoted, writer=self.quoted_from)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One run's worth of inbox: usually one row, several where texts in quick succession were merged (G-13).

    `attempt` counts the runs begun for it, 1 for the first; after a crash what is stored of the run is reused.
    `opened` is what the agent's own opening gave (`Source.opens_with`). `by_hand` is a call that a person made with a
    command: it is run in place of asking the model.
    """

    inbox_ids: tuple[int, ...]
    kind: WorkKind
    incoming: Incoming
    attempt: int
    epoch: int
    opened: object = None
    by_hand: ToolUse | None = None
    inbox_id: int = field(init=False)  # the first, under which all of it is kept

    def __post_init__(self) -> None:
        object.__setattr__(self, "inbox_id", self.inbox_ids[0])


RunOpener = Callable[[Any, Work], object]  # of the storage's connection and the work; runs in the storage's thread


class Source(Protocol):
    """A conversation's work in its order: tasks that are due, then people, then what was put off (Z-22)."""

    conversation: ConversationId
    epoch: int

    def opens_with(self, opening: RunOpener) -> None:
        """Let the agent write the start of a run in the very transaction that counts it: one commit instead of two.

        An opening that fails takes nothing with it: the work is begun without.
        """

    def park(self) -> None:
        """The run waits for a person and takes no place of those that work; may be said by several of its calls."""

    async def unpark(self) -> None:
        """It goes on, as soon as there is a place; once for each `park`."""

    def __aiter__(self) -> AsyncIterator[Work]:
        """Work until there has been none for the linger time."""
