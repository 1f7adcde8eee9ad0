"""Checks of arguments against the JSON schema of an MCP server; each mistake is told so that it can be mended.

The library `jsonschema` checks type, enum, const, properties, required, additionalProperties, items, lengths, bounds,
anyOf/oneOf/allOf; `pattern` and local `$ref` are checked here, within limits. Other keywords are hints and are not
enforced: they could take any time. A schema is a stranger's: what cannot be decided by it is no mistake, since the
server checks the value itself, and a call is not refused for the form of its schema.
"""

import re
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from agent.core.function_tools import MOST_MISTAKES, missing, mistake, unknown

# Regular expressions of strangers: a model's for `grep`, an MCP server's in the schema of a tool. Pure.

if TYPE_CHECKING:
    import regex

LONGEST = 1_000  # characters
HEAVIEST = 20_000  # pieces that it grows to: some 50 ms and 10 MB

# Sets of characters, comments and escapes hold brackets that open nothing.
_PIECE = re.compile(
    r"(?P<comment>\(\?#[^)]*\)?)|(?P<opens>\()|(?P<closes>\))|(?P<set>\[\^?\]?(?:[^\]\\]|\\.)*\]?)"
    r"|\{(?P<least>\d*)(?P<more>,\d*)?\}|(?P<plus>\+)|(?P<other>\\?.)",
    re.DOTALL,
)
# Free spacing and nested sets are read by other rules than these.
_OTHER_RULES = re.compile(r"\(\?[A-Za-z0-9]*(?:x|V1)")


class Unfit(ValueError):
    """The pattern cannot be used; the text says why."""


def compiled(pattern: str, *, ignore_case: bool = False) -> "regex.Pattern[str]":
    """The expression, to be run with a timeout; loads the library the first time. Raises Unfit."""
    if len(pattern) > LONGEST:
        raise Unfit(f"it has more than {LONGEST} characters")
    if _OTHER_RULES.search(pattern):
        raise Unfit("the flags x and V1 are not supported")
    if weight(pattern) > HEAVIEST:
        raise Unfit("its repeats are too large; count less, or nest them less")
    import regex  # only here: most processes never need it, and it takes more than a megabyte

    try:
        return regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)
    except (regex.error, RecursionError, OverflowError) as error:
        raise Unfit(str(error)) from error


def weight(pattern: str) -> int:
    """Roughly how many pieces it grows to: a repeat writes its piece out as often as it must occur, and once more where
    it may go on. Each costs twice, since the library looks through nested ones again."""
    levels, last = [0], 0  # what each open group weighs so far, without its last piece
    for piece in _PIECE.finditer(pattern):
        match piece.lastgroup:
            case "comment":
                continue
            case "opens":
                levels[-1] += last
                levels.append(0)
                last = 1
            case "closes" if len(levels) > 1:
                last += levels.pop()
            case "plus":
                last *= 4
            case "least" | "more":
                last *= 2 * max(1, int(piece["least"] or 0) + (piece["more"] is not None))
            case _:
                levels[-1] += last
                last = 1
    return sum(levels) + last


PATTERNS_S = 0.05  # for all patterns of a call
MOST_REFERENCES = 1_000  # followed in the check of one call
LONG = 10_000  # characters of arguments; to check more may take some milliseconds, and goes to a thread
_DEEPEST = 32

_KINDS = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})
_NUMBERS = frozenset(
    {"minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
)


async def checked(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    """`mistakes_in`, in a thread where it may take long."""
    if _names(schema, frozenset({"pattern", "$ref"})) or len(repr(arguments)) > LONG:
        return await anyio.to_thread.run_sync(mistakes_in, arguments, schema)
    return mistakes_in(arguments, schema)


def _names(schema: Any, keywords: frozenset[str]) -> bool:
    """Whether one of the keywords stands anywhere in the schema."""
    if isinstance(schema, Mapping):
        return not keywords.isdisjoint(schema) or any(_names(value, keywords) for value in schema.values())
    return isinstance(schema, list | tuple) and any(_names(value, keywords) for value in schema)


def mistakes_in(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    """Mistakes in `arguments`, at most `MOST_MISTAKES` lines; empty when they fit."""
    enforced = _enforced(schema, 0)
    if not isinstance(enforced, dict):
        return []
    token = _CALL.set(_Call(enforced))
    found: dict[str, None] = {}  # in order; each once
    try:
        for error in _validator()(enforced).iter_errors(dict(arguments)):
            found |= dict.fromkeys(_sentences(error))
            if len(found) >= MOST_MISTAKES:
                break
    except RecursionError:  # arguments that are nested so deep; what was found before is still wrong
        pass
    finally:
        _CALL.reset(token)
    return list(found)[:MOST_MISTAKES]


def _sentences(error: Any) -> Iterator[str]:
    path = tuple(error.absolute_path)
    properties = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
    match error.validator:
        case "required":
            yield from (missing(path, name) for name in error.validator_value if name not in error.instance)
        case "additionalProperties":
            yield from (unknown(path, name, properties) for name in error.instance if name not in properties)
        case "type":
            kinds = error.validator_value
            limit = kinds if isinstance(kinds, str) else " or ".join(kinds)
            yield mistake(path, "type", limit, error.instance)
        case "enum":
            yield mistake(path, "enum", ", ".join(map(repr, error.validator_value)), error.instance)
        case "const":
            yield mistake(path, "const", repr(error.validator_value), error.instance)
        case keyword:
            yield mistake(path, str(keyword), error.validator_value, error.instance)


@dataclass(slots=True)
class _Call:
    """State that the checks of one call share."""

    root: Mapping[str, Any]
    patterns_s: float = PATTERNS_S  # left for them
    references: int = MOST_REFERENCES  # left
    depth: int = 0  # of references that are followed now

    def fits(self, pattern: str, value: str) -> bool:
        """Whether the pattern is somewhere in the value; true where that is not decided."""
        if self.patterns_s <= 0:
            return True
        began = perf_counter()
        try:
            return compiled(pattern).search(value, timeout=self.patterns_s, concurrent=True) is not None
        except (Unfit, TimeoutError):
            return True
        finally:
            self.patterns_s -= perf_counter() - began


_CALL: ContextVar[_Call] = ContextVar("arguments_check")


@cache
def _validator() -> Any:
    """The library's checks with ours for `pattern` and `$ref`: its own run patterns without a limit, and fetch."""
    from jsonschema import Draft202012Validator, ValidationError  # only here: it takes three megabytes
    from jsonschema.validators import extend

    def pattern(validator: Any, pattern: str, value: Any, schema: Any) -> Iterator[Any]:
        if isinstance(value, str) and not _CALL.get().fits(pattern, value):
            yield ValidationError(pattern)

    def reference(validator: Any, reference: str, value: Any, schema: Any) -> Iterator[Any]:
        call = _CALL.get()
        if call.depth >= _DEEPEST or call.references <= 0:
            return
        call.references, call.depth = call.references - 1, call.depth + 1
        try:
            yield from validator.descend(value, _resolved(reference, call.root))
        finally:
            call.depth -= 1

    any_of = Draft202012Validator.VALIDATORS["anyOf"]  # that several forms fit is no mistake of the model
    return extend(Draft202012Validator, {"pattern": pattern, "$ref": reference, "oneOf": any_of})


def _enforced(schema: Any, depth: int) -> Any:
    """The part of a schema that is checked: known keywords of the right form. True stands for anything."""
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return schema is not False
    found: dict[str, Any] = {}
    for key, value in schema.items():
        match value:
            case str() | list() if key == "type" and _KINDS.issuperset([value] if isinstance(value, str) else value):
                found[key] = value
            case str() if key in ("pattern", "$ref"):
                found[key] = value
            case list() if key == "enum" or (key == "required" and all(isinstance(name, str) for name in value)):
                found[key] = value
            case _ if key == "const":
                found[key] = value
            case int() | float() if key in _NUMBERS and not isinstance(value, bool):
                found[key] = value
            case Mapping() if key in ("properties", "$defs", "definitions"):
                found[key] = {name: _enforced(inner, depth + 1) for name, inner in value.items()}
            case bool() | Mapping() if key == "items" or (
                key == "additionalProperties" and "patternProperties" not in schema  # whose names are not looked at
            ):
                found[key] = _enforced(value, depth + 1)
            case [_, *_] if key in ("anyOf", "oneOf", "allOf"):
                found[key] = [_enforced(inner, depth + 1) for inner in value]
    if "$ref" in found:  # what stands beside it counts in some dialects only
        return {key: value for key, value in found.items() if key in ("$ref", "$defs", "definitions")}
    return found


def _resolved(reference: str, root: Mapping[str, Any]) -> Any:
    """The part of the schema that a reference names; True, which anything fits, where there is none."""
    found: Any = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        if step:
            found = found.get(step.replace("~1", "/").replace("~0", "~"), True) if isinstance(found, Mapping) else True
    return found if isinstance(found, Mapping) else True
