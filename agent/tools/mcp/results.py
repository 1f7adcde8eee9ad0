"""What a model reads of a call's result: its texts, and a line for each thing that is none. Pure."""

import base64
import binascii
import json
import mimetypes
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LONGEST = 1_000_000  # characters
MOST_FILES = 8  # of one result


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """As the server gave it: blocks as plain mappings, in its own words."""

    blocks: Sequence[dict[str, Any]] = ()
    structured: Any = None
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """A picture, a sound or a file that came in a block. `name` is safe as a file's name."""

    name: str
    mime_type: str
    content: bytes


def blobs_of(result: Result) -> Mapping[int, Blob]:
    """What can be kept as files, by the position of their block; of many the first."""
    found: dict[int, Blob] = {}
    for position, block in enumerate(result.blocks):
        inner = block.get("resource") if block.get("type") == "resource" else block
        encoded = (inner or {}).get("blob" if block.get("type") == "resource" else "data")
        if len(found) == MOST_FILES or not isinstance(inner, dict) or not isinstance(encoded, str):
            continue
        try:
            content = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            continue
        kind = str(inner.get("mimeType") or "application/octet-stream").partition(";")[0].strip().lower()
        name = re.sub(r"[^A-Za-z0-9_-]+", "_", str(inner.get("uri") or block.get("type")).rpartition("/")[2])[:40]
        found[position] = Blob(
            name=f"{name}{mimetypes.guess_extension(kind) or '.bin'}", mime_type=kind, content=content
        )
    return found


def text_of(result: Result, kept: Mapping[int, str] = {}) -> str:
    """One text for the model; what stands in no text is named, and where it is `kept`, by the block's position."""
    written = [kept.get(position) or _block(block) for position, block in enumerate(result.blocks)]
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
