"""What a model reads of a call's result: its texts, and a line for each thing that is none. Pure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

LONGEST = 1_000_000  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """As the server gave it: blocks as plain mappings, in its own words."""

    blocks: Sequence[dict[str, Any]] = ()
    structured: Any = None
    is_error: bool = False


def text_of(result: Result) -> str:
    """One text for the model; what stands in no text is named."""
    written = [_block(block) for block in result.blocks]
    if not any(written) and result.structured is not None:
        written = [json.dumps(result.structured, ensure_ascii=False)]
    return "\n".join(text for text in written if text)[:LONGEST] or "(nothing)"


def _block(block: dict[str, Any]) -> str:
    match block.get("type"):
        case "text":
            return str(block.get("text", ""))
        case "image" | "audio" as kind:
            size = len(str(block.get("data", ""))) * 3 // 4
            return f"[{kind}, {block.get('mimeType', 'of no type')}, about {size} bytes; it cannot be shown]"
        case "resource":
            inner = block.get("resource") or {}
            text = inner.get("text")
            return f"[{inner.get('uri', 'resource')}]\n{text}" if text is not None else f"[{inner.get('uri')}, no text]"
        case "resource_link":
            return f"[{block.get('name', '')}: {block.get('uri', '')}]"
        case other:
            return f"[{other or 'something'} that cannot be shown]"
