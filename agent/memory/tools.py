"""The tools with which a model keeps, finds and forgets; each works within the audience of its run alone."""

from collections.abc import Mapping
from typing import Any

from agent.core.errors import ToolError
from agent.core.tools import Remembering, ToolContext, ToolSpec
from agent.memory.notes import LONGEST as LONGEST_NOTES
from agent.memory.records import LONGEST_FACT

_QUERY = {"type": "string", "minLength": 1, "maxLength": 500}


def _memory(context: ToolContext) -> Remembering:
    if context.memory is None:
        raise ToolError("the memory is switched off in this conversation")
    return context.memory


class Remember:
    """`remember(fact, confidence?, replaces?)`: keeps one durable fact."""

    spec = ToolSpec(
        name="remember",
        description=(
            "Keeps one durable fact for later sessions, such as a preference, a decision or a date: a whole sentence "
            "that names whom it is about. Nothing secret."
        ),
        schema={
            "type": "object",
            "properties": {
                "fact": {"type": "string", "minLength": 3, "maxLength": LONGEST_FACT},
                "confidence": {"type": "number", "minimum": 0, "maximum": 1},
                "replaces": {"type": "integer", "description": "The number of a fact that is no longer true.",
                             "minimum": 1},
            },
            "required": ["fact"],
            "additionalProperties": False,
        },
        risk="safe",
        core=True,
        retryable=True,
    )  # fmt: skip

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        return await _memory(context).remember(
            arguments["fact"],
            confidence=float(arguments.get("confidence", 0.9)),
            replaces=arguments.get("replaces"),
            call=context.idempotency_key,
        )


class Recall:
    """`recall(query)`: facts and messages of every session."""

    spec = ToolSpec(
        name="recall",
        description="Finds facts and earlier messages of any session of these people, by meaning or words.",
        schema={"type": "object", "properties": {"query": _QUERY}, "required": ["query"],
                "additionalProperties": False},
        category="info",
        risk="safe",
        untrusted=True,
        retryable=True,
    )  # fmt: skip

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        return await _memory(context).recall(arguments["query"])


class SessionSearch:
    """`session_search(query)`: what was said in earlier sessions (W-68)."""

    spec = ToolSpec(
        name="session_search",
        description="Finds what was said in earlier sessions, by the words that stood there.",
        schema={"type": "object", "properties": {"query": _QUERY}, "required": ["query"],
                "additionalProperties": False},
        category="info",
        risk="safe",
        untrusted=True,
        retryable=True,
    )  # fmt: skip

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        return await _memory(context).search_sessions(arguments["query"])


class Forget:
    """`forget(fact)`: forgets one fact by its number."""

    spec = ToolSpec(
        name="forget",
        description="Forgets one fact, by its number as recall or remember gave it.",
        schema={
            "type": "object",
            "properties": {"fact": {"type": "integer", "minimum": 1}},
            "required": ["fact"],
            "additionalProperties": False,
        },
        risk="safe",
        retryable=True,
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        return await _memory(context).forget(int(arguments["fact"]))


class WriteNotes:
    """`write_notes(text, replace?)`: MEMORY.md of this conversation."""

    spec = ToolSpec(
        name="write_notes",
        description=(
            "Adds Markdown to the notes of this conversation (MEMORY.md), which you see in every turn; with replace "
            "the text takes their place."
        ),
        schema={
            "type": "object",
            "properties": {
                "text": {"type": "string", "minLength": 1, "maxLength": LONGEST_NOTES},
                "replace": {"type": "boolean"},
            },
            "required": ["text"],
            "additionalProperties": False,
        },
        risk="safe",
        concurrency_safe=False,
        retryable=True,
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        return await _memory(context).write_notes(arguments["text"], replace=bool(arguments.get("replace", False)))


MEMORY_TOOLS = frozenset(tool.spec.name for tool in (Remember, Recall, SessionSearch, Forget, WriteNotes))
FLUSH_TOOLS = frozenset({Remember.spec.name, WriteNotes.spec.name})
