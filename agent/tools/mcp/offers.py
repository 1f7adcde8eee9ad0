"""MCP tools and results as the model sees them: named by their origin, and rid of instructions to the model. Pure.

A description is a stranger's text that stands among the gateway's own: it is cut, look-alikes of the gateway's tags are
made harmless, and one that speaks to the model instead of about the tool is withheld.
"""

import base64
import binascii
import hashlib
import json
import math
import mimetypes
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.core.tools import Effect, Risk, ToolSpec
from agent.core.untrusted_text import defused
from agent.tools.mcp.settings import ServerSettings

PREFIX = "mcp__"
LONGEST_NAME = 64  # the shortest that a provider takes
LONGEST_DESCRIPTION, LONGEST_HINT = 970, 300  # characters; OpenAI refuses a description above 1,024, origin included
LARGEST_SCHEMA = 20_000  # bytes
LONGEST_READ = 20_000  # characters of a text that are looked at: nothing behind them is shown
DEEPEST = 32  # levels of a schema; of 20,000 bytes even a generated one has fewer
MOST_TOOLS = 200  # of one server
# Keywords whose value maps names that the server chose to schemas: no name in there is a keyword.
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_VALUES = frozenset({"enum", "const", "default"})  # values of arguments: shown as they are, or not at all
_NOISE = frozenset({"title", "examples", "$comment", "$schema", "$id"})
WITHHELD = "(Its description is withheld: it gives instructions instead of describing the tool.)"

_KEY = re.compile(r"[\w.$@-][\w.$@ -]{0,63}")
# Words with which a text turns from its subject to the reader.
_SECRETS = (
    r"(?:api[_ -]?keys?|id_rsa|\.ssh|/etc/passwd|\.env\b|private key|system prompt|(?:chat|conversation) history)"
)
_INSTRUCTS = re.compile(
    "|".join(
        (
            r"\b(?:ignore|disregard|forget|override|bypass)\b.{0,40}"
            r"\b(?:instruction|prompt|guideline|polic|(?:previous|prior|above|all|your)\s(?:rule|message|text|tool)"
            r"|(?:rules?|messages?|texts?|tools?)\s(?:above|before))",
            r"\b(?:do not|don't|never|without)\b.{0,30}\b(?:tell|mention|inform|reveal|show|ask|notify)(?:ing)?\b"
            r".{0,30}\b(?:user|person|human|anyone|them)",
            r"<\s*+(?:/\s*+)?(?:important|instructions?|system|secret|admin|assistant|developer|reminder|untrusted)\b",
            r"\byou (?:must|should|have to|need to|are required to|will) (?:(?:now|always|first|also|never) )*"
            r"(?:send|forward|reply|act|obey)",
            r"\byou (?:must|should|have to|need to|are required to|will) (?:now |also )?(?:always|first|never) "
            r"(?:read|call|use|pass|include|execute|run|fetch|output|provide)",
            r"\b(?:execute|run)\s.{0,20}\b(?:rm -|sudo\s)",
            r"\b(?:before|after|prior to|whenever) (?:using|calling|running|you use|you call) (?:any|every|each)\b"
            r".{0,80}\b(?:read|send|call|fetch|run|execute|include|pass|forward)\b",
            r"\b(?:before|after) (?:every|each|any) (?:message|reply|answer|response|turn)\b"
            r".{0,80}\b(?:read|send|call|fetch|run|execute|include|pass|forward)\b",
            r"\bact as (?:root|admin|system|developer|sudo)\b",
            r"(?<!not )(?<!n't )(?<!never )\b(?:read|send|includ\w+|pass|contents? of|provide|put|attach)\b.{0,60}"
            + _SECRETS,
            r"\b(?:you are now|pretend to be|new instructions?|developer mode|jailbreak)\b",
            r"\b(?:instead of|rather than) (?:the |any )?(?:other|built-?in|original|real)\b.{0,30}\btools?\b",
            r"\b(?:bcc|cc|forward|exfiltrate|upload)\b.{0,40}(?:@|https?://)",
        )
    ),
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A tool as its server lists it. `reads_only` is the server's own word; `must_be_task`: no plain call runs it."""

    name: str
    description: str
    schema: Mapping[str, Any]
    reads_only: bool = False
    must_be_task: bool = False


class NotShown(ValueError):
    """A schema that the model cannot be shown; the text says why."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A server's tools as shown, each by the server's own name.

    `left_out` says why a tool is not there, `withheld` names those of whose texts something is withheld. What the
    operator does not want is in neither.
    """

    specs: Mapping[str, ToolSpec]
    left_out: Mapping[str, str]
    withheld: tuple[str, ...]


def shown_of(offers: Collection[Offer], server: ServerSettings) -> Shown:
    """A server's tools as the model sees them; those that cannot be shown safely are left out, each with the reason."""
    found: dict[str, ToolSpec] = {}
    left_out: dict[str, str] = {}
    withheld: list[str] = []
    taken: set[str] = set()
    wanted = [
        one for one in offers if (not server.tools or one.name in server.tools) and one.name not in server.blocked
    ]
    for offer in sorted(wanted, key=lambda one: one.name):
        try:
            if len(found) == MOST_TOOLS:
                raise NotShown(f"more than {MOST_TOOLS} tools of one server")
            if offer.must_be_task:
                raise NotShown("it runs only as a task, which is not supported")
            schema = clean_schema(offer.schema)
        except NotShown as error:
            left_out[plain(offer.name)] = str(error)
            continue
        name = name_of(server.name, offer.name, taken)
        taken.add(name)
        description = clean(offer.description, LONGEST_DESCRIPTION)
        if WITHHELD in description or WITHHELD in json.dumps(schema):
            withheld.append(plain(offer.name))
        found[offer.name] = ToolSpec(
            name=name,
            description=f"[From the MCP server {server.name}] {description}",
            schema=schema,
            category="mcp",
            risk=_risk(offer, server),
            touches="outside",
            effects=_effects(offer, server),
            concurrency_safe=offer.reads_only,
            untrusted=True,
        )
    return Shown(found, left_out, tuple(withheld))


def plain(name: str) -> str:
    """A stranger's name as one line that can do nothing to a log, a terminal or a chat."""
    seen = "".join("?" if unicodedata.category(sign) in _HIDDEN else sign for sign in name[:LONGEST_NAME])
    return " ".join(seen.split()) or "?"


def prefix_of(server: str) -> str:
    """The prefix of the names of all its tools."""
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


def clean_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with clean texts. Raises NotShown for one that is too large, or whose names are no names."""
    try:
        size = len(json.dumps(schema))
    except (TypeError, ValueError, RecursionError) as error:
        raise NotShown("its schema is no JSON") from error
    if size > LARGEST_SCHEMA:
        raise NotShown(f"its schema has {size} bytes, more than {LARGEST_SCHEMA}")
    if schema.get("type", "object") != "object":
        raise NotShown("its schema describes no object")
    return {"properties": {}, **_cleaned(schema, 0), "type": "object"}


def _cleaned(value: Any, depth: int) -> Any:
    """A schema, or a list of them. Raises NotShown."""
    if depth > DEEPEST:
        raise NotShown(f"its schema is deeper than {DEEPEST} levels")
    if isinstance(value, str):
        return clean(value, LONGEST_HINT)
    if isinstance(value, list):
        return [_cleaned(one, depth + 1) for one in value]
    if not isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    for key, one in value.items():
        if key in _NOISE:
            continue
        _check_name(str(key))
        if key in _NAMED and isinstance(one, dict):
            found[key] = {_check_name(name): _cleaned(inner, depth + 1) for name, inner in one.items()}
        elif key == "required" and isinstance(one, list):
            found[key] = [_check_name(str(name)) for name in one]
        elif key in _VALUES:
            if _is_clean(one):  # else the server judges the value alone
                found[key] = one
        elif key == "pattern" and isinstance(one, str):
            found[key] = one
        elif key == "$ref":
            if not str(one).startswith("#"):
                raise NotShown("its schema refers to another document")
            found[key] = one
        else:
            found[key] = _cleaned(one, depth + 1)
    return found


def _check_name(name: str) -> str:
    if not _KEY.fullmatch(name):
        raise NotShown(f"its schema has the name {plain(name)!r}, which no provider takes")
    return name


def _is_clean(value: Any) -> bool:
    """Whether values of arguments can be shown as they are: cleaning them would make others of them."""
    if isinstance(value, str):
        hidden = any(unicodedata.category(sign) in _HIDDEN and sign not in "\n\t" for sign in value)
        return not hidden and len(value) <= LONGEST_HINT and clean(value, LONGEST_HINT) == " ".join(value.split())
    if isinstance(value, list):
        return all(map(_is_clean, value))
    if isinstance(value, dict):
        return all(_is_clean(str(key)) and _is_clean(one) for key, one in value.items())
    return True


def _risk(offer: Offer, server: ServerSettings) -> Risk:
    if server.approval == "never" or (server.approval == "writes" and offer.reads_only):
        return "safe"
    return "write"


def _effects(offer: Offer, server: ServerSettings) -> frozenset[Effect]:
    """None where the server says that it only reads, and the operator takes its word for that."""
    only_reads = offer.reads_only and server.approval != "always"
    return frozenset() if only_reads else frozenset({"write"})


# Results of calls as the model reads them: texts, and a line for each part that is none. Pure.

LONGEST = 1_000_000  # characters
MOST_FILES = 8  # of one result


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result that the server gave: blocks as plain mappings, in its own words."""

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
    """Blobs to keep as files, by the position of their block; of many the first."""
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


# Choice among many MCP tools: those that fit the task, and those used lately. Pure.

K1, B = 1.5, 0.75
SHORTEST = 4  # letters of a word that counts
PER_USE = 0.5  # what one recent use adds


def curated(
    specs: Sequence[ToolSpec], message: str, uses: Mapping[str, int], *, most: int, kept: Sequence[str]
) -> tuple[str, ...]:
    """The names to show: those of `kept` that are still there, then the best `most`; all where `most` is 0 or enough.

    Only MCP tools are to be given; no others are ever left out (W-34).
    """
    names = [spec.name for spec in specs]
    if most == 0 or len(names) <= most:
        return tuple(names)
    still = [name for name in kept if name in set(names)]
    fitting = ranked(specs, message, uses)[:most]
    return (*still, *(name for name in fitting if name not in set(still)))


def ranked(specs: Sequence[ToolSpec], message: str, uses: Mapping[str, int]) -> list[str]:
    """The names, the best first: BM25 of the message against name and description, plus half a point for each use."""
    documents = {spec.name: Counter(words_of(f"{spec.name} {spec.description}")) for spec in specs}
    lengths = {name: sum(words.values()) for name, words in documents.items()}
    average = sum(lengths.values()) / max(1, len(lengths)) or 1.0
    asked = set(words_of(message))
    holding = {word: sum(word in words for words in documents.values()) for word in asked}

    def score(name: str) -> float:
        words, total = documents[name], 0.0
        for word in asked & words.keys():
            idf = math.log(1 + (len(documents) - holding[word] + 0.5) / (holding[word] + 0.5))
            count = words[word]
            total += idf * count * (K1 + 1) / (count + K1 * (1 - B + B * lengths[name] / average))
        return total + PER_USE * uses.get(name, 0)

    return sorted(documents, key=lambda name: (-score(name), name))


def words_of(text: str) -> list[str]:
    """Words of more than three letters, small; `_` and `-` part them, as in names of tools."""
    return [word for word in re.findall(r"[^\W_]+", text.lower()) if len(word) >= SHORTEST]
