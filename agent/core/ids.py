"""Ids within an agent, which never looks into them, and their source."""

from collections.abc import Callable
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
