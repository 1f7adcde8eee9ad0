"""Checks what a model wrote against a tool's JSON schema, and says each mistake so that the model can mend it.

Knows what tool schemas are made of: type, enum, const, properties, required, additionalProperties, items, lengths,
bounds, pattern, anyOf/oneOf/allOf and local $ref. Other keywords are hints and are not enforced.

A `pattern` comes from a stranger, an MCP server. One that is not decided in time, that is too large or of another
dialect is no mistake: the server checks the value itself, and a call is not refused for the form of its schema.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from time import perf_counter
from typing import Any

import anyio.to_thread

from agent.tools.patterns import Unfit, compiled

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
    """What is wrong with `arguments`, at most `MOST_MISTAKES` lines; empty when they fit."""
    found: list[str] = []
    for mistake in _check(dict(arguments), schema, "", _Call(schema, PATTERNS_S), 0):
        found.append(mistake)
        if len(found) == MOST_MISTAKES:
            break
    return found


@dataclass(slots=True)
class _Call:
    """What the checks of one call have in common."""

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
