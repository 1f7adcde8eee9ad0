"""Checks of a model's arguments against a tool's JSON schema; each mistake is told so that the model can mend it.

Knows what tool schemas are made of: type, enum, const, properties, required, additionalProperties, items, lengths,
bounds, pattern, anyOf/oneOf/allOf and local $ref. Other keywords are hints and are not enforced.

A `pattern` comes from a stranger, an MCP server. One that is not decided in time, that is too large or of another
dialect is no mistake: the server checks the value itself, and a call is not refused for the form of its schema.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, ValidationError

from agent.core.errors import ToolError

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


MOST_MISTAKES = 8
PATTERNS_S = 0.05  # for all patterns of a call
_DEEPEST = 32


async def checked(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    """`mistakes_in`, in a thread where the schema holds patterns: those of strangers may take all of their time."""
    if _names(schema, "pattern"):
        return await anyio.to_thread.run_sync(mistakes_in, arguments, schema)
    return mistakes_in(arguments, schema)


def _names(schema: Any, keyword: str) -> bool:
    """Whether a keyword stands anywhere in the schema."""
    if isinstance(schema, Mapping):
        return keyword in schema or any(_names(value, keyword) for value in schema.values())
    return isinstance(schema, list | tuple) and any(_names(value, keyword) for value in schema)


def mistakes_in(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    """Mistakes in `arguments`, at most `MOST_MISTAKES` lines; empty when they fit."""
    found: list[str] = []
    for mistake in _check(dict(arguments), schema, "", _Call(schema, PATTERNS_S), 0):
        found.append(mistake)
        if len(found) == MOST_MISTAKES:
            break
    return found


@dataclass(slots=True)
class _Call:
    """State that the checks of one call share."""

    root: Mapping[str, Any]
    patterns_s: float  # left for them

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


def _check(value: Any, schema: Any, at: str, call: _Call, depth: int) -> Iterator[str]:
    if depth > _DEEPEST or schema is True or not isinstance(schema, Mapping):
        return
    if isinstance(reference := schema.get("$ref"), str):
        yield from _check(value, _resolved(reference, call.root), at, call, depth + 1)
        return
    where = at or "the arguments"
    kinds = schema.get("type")
    allowed = (kinds,) if isinstance(kinds, str) else tuple(kinds or ())
    if allowed and not any(_is(value, kind) for kind in allowed):
        yield f"{where}: expected {' or '.join(allowed)}, got {_kind_of(value)}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: must be one of {', '.join(map(repr, schema['enum']))}, not {value!r}"
    if "const" in schema and value != schema["const"]:
        yield f"{where}: must be {schema['const']!r}"
    yield from _check_combinations(value, schema, at, call, depth)
    match value:
        case str():
            yield from _check_text(value, schema, where, call)
        case bool():
            pass
        case int() | float():
            yield from _check_number(value, schema, where)
        case list():
            yield from _check_list(value, schema, at, call, depth)
        case dict():
            yield from _check_object(value, schema, at, call, depth)


def _check_combinations(value: Any, schema: Mapping[str, Any], at: str, call: _Call, depth: int) -> Iterator[str]:
    for option in schema.get("allOf", ()):
        yield from _check(value, option, at, call, depth + 1)
    for keyword in ("anyOf", "oneOf"):
        options = schema.get(keyword)
        if options and all(any(_check(value, option, at, call, depth + 1)) for option in options):
            yield f"{at or 'the arguments'}: fits none of the allowed forms"


def _check_text(value: str, schema: Mapping[str, Any], where: str, call: _Call) -> Iterator[str]:
    if len(value) < schema.get("minLength", 0):
        yield f"{where}: at least {schema['minLength']} characters"
    if (most := schema.get("maxLength")) is not None and len(value) > most:
        yield f"{where}: at most {most} characters"
    if (pattern := schema.get("pattern")) is not None and not call.fits(pattern, value):
        yield f"{where}: must match {pattern}"


def _check_number(value: float, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    if (least := schema.get("minimum")) is not None and value < least:
        yield f"{where}: at least {least}"
    if (most := schema.get("maximum")) is not None and value > most:
        yield f"{where}: at most {most}"
    if isinstance(above := schema.get("exclusiveMinimum"), int | float) and value <= above:
        yield f"{where}: more than {above}"
    if isinstance(below := schema.get("exclusiveMaximum"), int | float) and value >= below:
        yield f"{where}: less than {below}"


def _check_list(value: list[Any], schema: Mapping[str, Any], at: str, call: _Call, depth: int) -> Iterator[str]:
    where = at or "the arguments"
    if len(value) < schema.get("minItems", 0):
        yield f"{where}: at least {schema['minItems']} items"
    if (most := schema.get("maxItems")) is not None and len(value) > most:
        yield f"{where}: at most {most} items"
    for index, item in enumerate(value):
        yield from _check(item, schema.get("items", True), f"{at}[{index}]", call, depth + 1)


def _check_object(value: dict[str, Any], schema: Mapping[str, Any], at: str, call: _Call, depth: int) -> Iterator[str]:
    properties: Mapping[str, Any] = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{_join(at, name)}: missing"
    for name, item in value.items():
        if name in properties:
            yield from _check(item, properties[name], _join(at, name), call, depth + 1)
        elif schema.get("additionalProperties", True) is False:
            yield f"{_join(at, name)}: unknown{_nearest(name, list(properties))}"
        else:
            yield from _check(item, schema.get("additionalProperties", True), _join(at, name), call, depth + 1)


def _nearest(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else f"; known: {', '.join(known) or 'none'}"


def _resolved(reference: str, root: Mapping[str, Any]) -> Any:
    found: Any = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        if step:
            found = found.get(step.replace("~1", "/").replace("~0", "~"), True) if isinstance(found, Mapping) else True
    return found


def _is(value: Any, kind: str) -> bool:
    match kind:
        case "integer":
            return (isinstance(value, int) and not isinstance(value, bool)) or (
                isinstance(value, float) and value.is_integer()
            )
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case _:
            return _kind_of(value) == kind


def _kind_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer"
        case float():
            return "number"
        case list():
            return "array"
        case _:
            return "object"


def _join(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


# Arguments as pydantic models: the JSON schema for the provider, and the parsing of a call.

A = TypeVar("A", bound="Arguments")

_NOISE = ("title", "default")  # a default is for the tool; models take it for an example to be given


class Arguments(BaseModel):
    """Base of a tool's arguments: unknown ones are refused. Describe each field, the model reads it."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def schema_from(model: type[Arguments]) -> Mapping[str, Any]:
    """The JSON schema of these arguments: without titles, its definitions written in place, optional ones not null."""
    raw = model.model_json_schema()
    schema: Mapping[str, Any] = _plain(raw, raw.get("$defs", {}))
    return {key: value for key, value in schema.items() if key not in ("$defs", "description")}


def parsed(model: type[A], arguments: Mapping[str, Any]) -> A:
    """The arguments of a call, which its schema has taken. Raises ToolError for what only the model can tell."""
    try:
        return model.model_validate(dict(arguments))
    except ValidationError as error:
        found = (f"{'.'.join(map(str, one['loc'])) or 'the arguments'}: {one['msg']}" for one in error.errors())
        raise ToolError("; ".join(found)) from error


def _plain(value: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_plain(item, definitions) for item in value]
    if not isinstance(value, dict):
        return value
    if isinstance(reference := value.get("$ref"), str):
        rest = {key: inner for key, inner in value.items() if key != "$ref"}
        return _plain({**definitions[reference.rpartition("/")[2]], **rest}, definitions)
    options = value.get("anyOf")
    if isinstance(options, list) and {"type": "null"} in options:
        kept = [option for option in options if option != {"type": "null"}]
        rest = {key: inner for key, inner in value.items() if key != "anyOf"}
        return _plain({**rest, **(kept[0] if len(kept) == 1 else {"anyOf": kept})}, definitions)
    return {
        key: {name: _plain(inner, definitions) for name, inner in item.items()}
        if key == "properties"
        else _plain(item, definitions)
        for key, item in value.items()
        if key not in _NOISE
    }
