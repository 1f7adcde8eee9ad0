"""What a model is shown of a server's tools: named by their origin, and rid of what would instruct the model. Pure.

A description is a stranger's text that stands among the house's own: it is cut, look-alikes of the house's tags are
made harmless, and one that speaks to the model instead of about the tool is withheld.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from agent.core.framing import defused
from agent.core.tools import Risk, ToolSpec
from agent.tools.mcp.settings import ServerSettings

PREFIX = "mcp__"
LONGEST_NAME = 64  # the shortest that a provider takes
LONGEST_DESCRIPTION, LONGEST_HINT = 1_000, 300  # characters
LARGEST_SCHEMA = 20_000  # bytes
LONGEST_READ = 20_000  # characters of a text that are looked at: nothing behind them is shown
DEEPEST = 12
MOST_TOOLS = 200  # of one server
WITHHELD = "(Its description is withheld: it gives instructions instead of describing the tool.)"

_KEY = re.compile(r"[\w.$@-][\w.$@ -]{0,63}")
# Words with which a text turns from its subject to the reader.
_SECRETS = (
    r"(?:api[_ -]?keys?|id_rsa|\.ssh|/etc/passwd|\.env\b|credentials?|private key|access token|system prompt|history)"
)
_INSTRUCTS = re.compile(
    "|".join(
        (
            r"\b(?:ignore|disregard|forget|override|bypass)\b.{0,40}"
            r"\b(?:instruction|rule|prompt|previous|above|prior|guideline|polic)",
            r"\b(?:do not|don't|never|without)\b.{0,30}\b(?:tell|mention|inform|reveal|show|ask|notify)(?:ing)?\b"
            r".{0,30}\b(?:user|person|human|anyone|them)",
            r"<\s*+(?:/\s*+)?(?:important|instructions?|system|secret|admin|assistant|developer|reminder|untrusted)\b",
            r"\byou (?:must|should|have to|need to|are required to|will) (?:(?:now|always|first|also|never) )*"
            r"(?:read|send|call|use|pass|include|execute|run|fetch|forward|output|reply|act|obey|provide)",
            r"\b(?:before|after|prior to|when|whenever) (?:using|calling|running|you use|you call|every|each|any)\b"
            r".{0,80}\b(?:read|send|call|fetch|run|execute|include|pass|forward)\b",
            rf"\b(?:read|send|includ\w+|pass|contents? of|provide|put|attach)\b.{{0,60}}{_SECRETS}",
            r"\b(?:you are now|act as|pretend to be|new instructions?|developer mode|jailbreak)\b",
            r"\b(?:instead of|rather than) (?:the |any )?(?:other|built-?in|original|real)\b.{0,30}\btools?\b",
            r"\b(?:bcc|cc|forward|exfiltrate|upload)\b.{0,40}(?:@|https?://)",
        )
    ),
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A tool as its server lists it. `reads_only` is the server's own word."""

    name: str
    description: str
    schema: Mapping[str, Any]
    reads_only: bool = False


def specs_of(offers: Collection[Offer], server: ServerSettings) -> dict[str, ToolSpec]:
    """What is shown of a server's tools, by the server's own names; those that cannot be shown safely are left out."""
    found: dict[str, ToolSpec] = {}
    taken: set[str] = set()
    for offer in sorted(offers, key=lambda one: one.name)[:MOST_TOOLS]:
        if (server.tools and offer.name not in server.tools) or offer.name in server.blocked:
            continue
        schema = clean_schema(offer.schema)
        if schema is None:
            continue
        name = name_of(server.name, offer.name, taken)
        taken.add(name)
        found[offer.name] = ToolSpec(
            name=name,
            description=f"[From the MCP server {server.name}] {clean(offer.description, LONGEST_DESCRIPTION)}",
            schema=schema,
            category="mcp",
            risk=_risk(offer, server),
            concurrency_safe=offer.reads_only,
            untrusted=True,
        )
    return found


def prefix_of(server: str) -> str:
    """What the names of all its tools begin with."""
    return f"{PREFIX}{server}__"


def name_of(server: str, tool: str, taken: Collection[str] = ()) -> str:
    """`mcp__server__tool`, of letters that every provider takes, unlike any in `taken` (W-32)."""
    name = f"{prefix_of(server)}{re.sub(r'[^A-Za-z0-9_-]', '_', tool)}"
    if len(name) <= LONGEST_NAME and name not in taken:
        return name
    mark = hashlib.blake2b(tool.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    return f"{name[: LONGEST_NAME - 9]}_{mark}"


def clean(text: str, longest: int) -> str:
    """The text without hidden signs, cut; or a line that says that it is withheld."""
    text = text[:LONGEST_READ]
    seen = "".join(sign for sign in defused(text) if sign in "\n\t" or unicodedata.category(sign) not in _HIDDEN)
    if _INSTRUCTS.search(unicodedata.normalize("NFKC", text)) or _INSTRUCTS.search(seen):
        return WITHHELD
    seen = " ".join(seen.split())
    return seen if len(seen) <= longest else f"{seen[:longest]}…"


_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})


def clean_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema with clean texts; None for one that is too large, or whose names are no names."""
    try:
        if len(json.dumps(schema)) > LARGEST_SCHEMA:
            return None
    except (TypeError, ValueError, RecursionError):
        return None
    if schema.get("type", "object") != "object":
        return None
    cleaned = _cleaned(schema, 0)
    if not isinstance(cleaned, dict):
        return None
    return {"properties": {}, **cleaned, "type": "object"}


def _cleaned(value: Any, depth: int) -> Any:
    """None stands for what must not be shown."""
    if depth > DEEPEST:
        return None
    if isinstance(value, str):
        return clean(value, LONGEST_HINT)
    if isinstance(value, list):
        inner = [_cleaned(one, depth + 1) for one in value]
        return None if any(one is None and raw is not None for one, raw in zip(inner, value, strict=True)) else inner
    if not isinstance(value, dict):
        return value
    found = {}
    for key, one in value.items():
        if key in ("title", "examples", "$comment", "$schema", "$id"):
            continue
        if not _KEY.fullmatch(str(key)) or (key == "$ref" and not str(one).startswith("#")):
            return None
        made = one if key in ("pattern", "$ref") and isinstance(one, str) else _cleaned(one, depth + 1)
        if made is None and one is not None:
            return None
        found[str(key)] = made
    return found


def _risk(offer: Offer, server: ServerSettings) -> Risk:
    if server.approval == "never" or (server.approval == "writes" and offer.reads_only):
        return "safe"
    return "write"
