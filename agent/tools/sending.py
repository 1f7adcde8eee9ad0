"""Tools with which the model sends on its own account: a file of the workspace, a message here or to another chat."""

import mimetypes
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any, Protocol

import anyio
from pydantic import Field

from agent.core.errors import OutOfScope, ToolError
from agent.core.function_tools import tool
from agent.core.ids import ConversationId, PersonId
from agent.core.tools import Appraisal, ToolContext
from agent.tools.files.paths import PATH, appraised, meant, shown, tree_of

LARGEST = 20 * 1024 * 1024  # bytes of a file
LONGEST = 16_000  # characters of a message


class Sending(Protocol):
    """The port for what tools send. Each call says a thing once, however often it is repeated with the same `key`."""

    async def message(self, to: ConversationId, text: str, key: str) -> None: ...

    async def file(
        self, to: ConversationId, data: bytes, name: str, mime_type: str, caption: str, key: str
    ) -> None: ...

    async def knows(self, conversation: ConversationId) -> bool:
        """Whether people have talked with the bot there, and it could answer them now."""

    def may_send_elsewhere(self, person: PersonId | None) -> bool:
        """Whether this person is an admin of the whole bot, and not of a group alone."""


class SendTools:
    """Tools that send; `sending` says each thing once, whatever is repeated."""

    def __init__(self, sending: Sending) -> None:
        self._sending = sending

    @tool(
        category="exec",
        risk="safe",
        touches="place",
        effects=["write"],
        concurrency_safe=False,
        retryable=True,
        appraise=appraised,
    )
    async def send_file(
        self,
        context: ToolContext,
        *,
        path: Annotated[str, Field(min_length=1, description=f"A file of the workspace. {PATH}")],
        caption: Annotated[str, Field(max_length=1_000, description="A sentence that goes with it.")] = "",
    ) -> str:
        """Sends a file of the workspace to the people of this conversation."""
        names = meant(path, context)
        data = await anyio.to_thread.run_sync(tree_of(context).read, names, LARGEST)
        name = PurePosixPath(names[-1]).name
        mime_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
        await self._sending.file(context.conversation, data, name, mime_type, caption, context.idempotency_key)
        return f"{shown(names)} is on its way ({len(data)} bytes)."

    @tool(category="exec", risk="write", touches="outside", effects=["write"], concurrency_safe=False, retryable=True)
    async def send_message(
        self,
        context: ToolContext,
        *,
        text: Annotated[str, Field(min_length=1, max_length=LONGEST, description="In Markdown.")],
        to: Annotated[
            str,
            Field(
                max_length=200,
                description='Another chat of this bot, such as "telegram:-1005" (for admins of the bot, and a person '
                "is asked). Left out: this conversation.",
            ),
        ] = "",
    ) -> str:
        """Sends a message before your answer: an interim result here, or something to another chat. What you answer
        is sent anyway; do not repeat it with this."""
        target = ConversationId(to) if to else context.conversation
        await self._sending.message(target, text, f"{context.conversation}:{context.idempotency_key}")
        return f"On its way to {target}." if to else "On its way."

    @send_message.appraised_by
    async def _appraise_message(self, arguments: Mapping[str, Any], context: ToolContext) -> Appraisal:
        """Here it goes at once; elsewhere for admins, once a person has allowed it."""
        text, to = str(arguments["text"]), str(arguments.get("to") or "").strip()
        if to in ("", context.conversation):
            return Appraisal(arguments={"text": text, "to": ""}, gate="allow")
        if context.asker.role in ("member", "guest") or not self._sending.may_send_elsewhere(context.person):
            raise OutOfScope("only admins of the whole bot may have messages sent to other chats")
        if not await self._sending.knows(ConversationId(to)):
            raise ToolError(f"there is no chat {to!r} that this bot talks in")
        return Appraisal(
            arguments={"text": text, "to": to},
            gate="ask",
            reason=f"it goes to another chat: {to}",
            shown=f"Send to {to}:\n{text}",
            covers=None,
        )
