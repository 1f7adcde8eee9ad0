"""A tool that reads on in a result that was too long to show (SPEC §11)."""

from collections.abc import Mapping
from typing import Any

from agent.core.errors import ToolError
from agent.core.tools import ToolContext, ToolSpec
from agent.tools.overflow import Outputs

MOST_CHARS = 20_000
MOST_HITS = 40
AROUND = 200  # characters shown on either side of a hit


class ReadOutput:
    """`read_output(output, from_char?, find?)`: a stretch of a kept result, or the places where a text stands in it."""

    spec = ToolSpec(
        name="read_output",
        description=(
            "Reads more of a tool result of which only beginning and end were shown. Give `find` to see the places "
            "where a text stands, else a stretch from `from_char` on is given."
        ),
        schema={
            "type": "object",
            "properties": {
                "output": {"type": "string", "description": "The name in the notice.", "maxLength": 64},
                "from_char": {"type": "integer", "description": "First character, from 0.", "minimum": 0},
                "find": {"type": "string", "description": "A text to look for, as written.", "minLength": 1},
            },
            "required": ["output"],
            "additionalProperties": False,
        },
        retryable=True,
        untrusted=True,  # what stands there may be a stranger's
        category="info",
        risk="safe",
    )

    def __init__(self, outputs: Outputs) -> None:
        self._outputs = outputs

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        content = await self._outputs.read(context.conversation, arguments["output"])
        if "find" in arguments:
            return _found(content, arguments["find"])
        begin = int(arguments.get("from_char", 0))
        if begin >= len(content):
            raise ToolError(f"the output has {len(content)} characters; from_char is {begin}")
        end = min(begin + MOST_CHARS, len(content))
        more = f"go on with from_char={end}" if end < len(content) else "this is its end"
        return f"[characters {begin} to {end} of {len(content)}; {more}]\n{content[begin:end]}"


def _found(content: str, wanted: str) -> str:
    """Each place with what stands around it; overlapping surroundings are joined."""
    stretches: list[tuple[int, int]] = []
    hits, at = 0, content.find(wanted)
    while at >= 0 and hits < MOST_HITS:
        hits += 1
        begin, end = max(0, at - AROUND), min(len(content), at + len(wanted) + AROUND)
        if stretches and begin <= stretches[-1][1]:
            stretches[-1] = (stretches[-1][0], end)
        else:
            stretches.append((begin, end))
        at = content.find(wanted, at + len(wanted))
    if not stretches:
        raise ToolError(f"{wanted!r} does not stand in that output of {len(content)} characters")
    rest = f"\n[there are more places than {MOST_HITS}; look for something rarer]" if at >= 0 else ""
    return "\n".join(f"[from character {begin}]\n{content[begin:end]}" for begin, end in stretches) + rest
