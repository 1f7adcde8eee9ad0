"""A tool with which the model finds what left its window: searched by words, read back by the message's number."""

from collections.abc import Mapping
from typing import Any

from agent.core.errors import ToolError
from agent.core.tools import ToolContext, ToolSpec


class RecallTranscript:
    """`recall_transcript(query?, message?, from_char?)`: passages that fit the words, or one message in full."""

    spec = ToolSpec(
        name="recall_transcript",
        description=(
            "Finds what was said or found out earlier in this conversation and is no longer shown: summarised "
            "messages, cleared tool results. Give `query` with names, numbers or other words that stood there; or "
            "`message`, the number of a passage that was found, to read all of it."
        ),
        schema={
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "Words to look for.", "minLength": 1, "maxLength": 500},
                "message": {"type": "integer", "description": "The number of a message.", "minimum": 1},
                "from_char": {"type": "integer", "description": "Where to read on in it, from 0.", "minimum": 0},
            },
            "additionalProperties": False,
        },
        retryable=True,
        untrusted=True,  # what stands there may be a stranger's
        category="info",
        risk="safe",
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        if context.recall is None:
            raise ToolError("nothing has left the window of this conversation")
        if "message" in arguments:
            return await context.recall.read(int(arguments["message"]), int(arguments.get("from_char", 0)))
        if "query" not in arguments:
            raise ToolError("give query or message")
        return await context.recall.search(arguments["query"])
