"""What a session keeps, as values: its row and its messages."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from agent.core.ids import PersonId, SessionId
from agent.core.messages import Message

SessionStatus = Literal["active", "ended", "terminated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session as `/sessions` lists it. `terminated`: closed for good, no run may go on in it (B-13)."""

    id: SessionId
    title: str
    state: SessionStatus
    message_count: int
    prompt_tokens: int
    output_tokens: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the tools of a session work, as a path below its workspace (None: the workspace itself), and what hooks
    and loaded skills have set for the programs they start."""

    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A message of the transcript with the run that wrote it and whose words it holds.

    `counted` tells what it weighs, as the estimator wrote it down; "" is not known.
    """

    message: Message
    inbox_id: int | None
    position: int
    person: PersonId | None = None
    counted: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What a model may see of a session, oldest first. `damaged` counts rows that could not be read (B-23)."""

    messages: tuple[Message, ...]
    damaged: int = 0
