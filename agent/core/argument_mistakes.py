"""Mistakes in the arguments of a call as the model reads them, by the keywords of JSON schema. Pure."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

MOST_MISTAKES = 8  # told of one call
_LONGEST = 100  # characters of a wrong value or name that are told


_TOLD: Mapping[str, str] = {
    "enum": "must be one of {limit}, not {value}",
    "const": "must be {limit}",
    "minLength": "at least {limit} characters",
    "maxLength": "at most {limit} characters",
    "pattern": "must match {limit}",
    "minimum": "at least {limit}",
    "maximum": "at most {limit}",
    "exclusiveMinimum": "more than {limit}",
    "exclusiveMaximum": "less than {limit}",
    "minItems": "at least {limit} items",
    "maxItems": "at most {limit} items",
}


def mistake(path: Iterable[str | int], keyword: str, limit: Any, value: Any) -> str:
    """The sentence for a value that does not keep the limit of a keyword."""
    where = written(path) or "the arguments"
    if keyword == "type":
        return f"{where}: expected {limit}, got {_kind_of(value)}"
    if keyword not in _TOLD:
        return f"{where}: fits none of the allowed forms"
    return f"{where}: {_TOLD[keyword].format(limit=limit, value=_short(repr(value)))}"


def unknown(path: Iterable[str | int], name: str, known: Iterable[str]) -> str:
    """The sentence for an argument that there is not, with the nearest that there is."""
    names, name = list(known), _short(name)
    near = get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(names) or 'none'}"
    return f"{written((*path, name))}: unknown; {hint}"


def missing(path: Iterable[str | int], name: str) -> str:
    """The sentence for an argument that is required."""
    return f"{written((*path, name))}: missing"


def written(path: Iterable[str | int]) -> str:
    """Where a value stands in the arguments: `a.b[2]`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


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
