"""Ids within an agent, which never looks into them, their source, and the account of a call, which is made of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NewType
from uuid import uuid4

ConversationId = NewType("ConversationId", str)  # `<channel_type>:<channel_id>`, opaque here
SessionId = NewType("SessionId", str)  # UUID
RunId = NewType("RunId", str)  # UUID of one execution for one inbound item (B-04)
CallId = NewType("CallId", str)  # a tool call, as the model named it
PersonId = NewType("PersonId", str)  # `<platform>:<user id>`


# Source of new ids: an argument, so that a replay gets the same ones (B-02).

NewId = Callable[[], str]


def random_uuid() -> str:
    """A random UUID (version 4) as text."""
    return str(uuid4())


# Account of a call that costs money.


@dataclass(frozen=True, slots=True, kw_only=True)
class CostAttribution:
    """The account to which a call is charged, and its purpose.

    `purpose` is one word: "turn" for the answer itself, else the work behind it, such as "compaction", "judge" or
    "transcription". `job` names a schedule and `goal` a goal, where the call was made for one. `unattended`: no
    person has asked for it, the goal's own work needs it, so that its limits hold before the call is made.
    """

    purpose: str
    conversation: ConversationId
    session: SessionId | None = None
    inbox_id: int | None = None
    run: RunId | None = None
    person: PersonId | None = None
    job: str | None = None
    goal: str | None = None
    unattended: bool = False
