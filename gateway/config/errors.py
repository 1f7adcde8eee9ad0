"""Mistakes of a configuration: one line each, with the key and the fix."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

_WANTED = {  # in place of pydantic's own words
    'a list, such as ["one", "two"]': ("tuple_type", "list_type"),
    "a whole number": ("int_type", "int_parsing", "int_from_float"),
    "a number": ("float_type", "float_parsing"),
    "a finite number": ("finite_number",),
    "true or false": ("bool_type", "bool_parsing"),
    "a text in quotes": ("string_type",),
    "a section of its own": ("dict_type", "model_type", "dataclass_type"),
}
WANTED = {kind: words for words, kinds in _WANTED.items() for kind in kinds}


class ConfigError(Exception):
    """A configuration that cannot be used; `mistakes` are all of them."""

    def __init__(self, source: str, mistakes: Sequence[str]) -> None:
        super().__init__("\n".join(f"{source}: {mistake}" for mistake in mistakes))
        self.mistakes = tuple(mistakes)


def lines(errors: Iterable[ErrorDetails], model: Any, prefix: str = "") -> list[str]:
    """Pydantic's findings on `model`, in the words of somebody who edits a TOML file."""
    return [_line(error, model, prefix) for error in errors]


def _line(error: ErrorDetails, model: Any, prefix: str) -> str:
    location = error["loc"]
    key = _dotted(prefix, location)
    context: Mapping[str, Any] = error.get("ctx", {})
    match error["type"]:
        case "extra_forbidden" | "unexpected_keyword_argument":
            return f"{key}: unknown key{_nearest(str(location[-1]), keys_at(model, location[:-1]))}"
        case "missing":
            return f"{key}: missing; set it, for example {location[-1]} = {_example(str(location[-1]))}"
        case "literal_error":
            return f"{key}: {error['input']!r} is not one of {context['expected']}"
        case "value_error":
            return f"{key}: {context['error']}" if key else str(context["error"])
        case _:
            shown = "" if _is_secret(str(location[-1]) if location else "") else f", not {error['input']!r}"
            wanted = WANTED.get(error["type"])
            said = f"must be {wanted}" if wanted else error["msg"][0].lower() + error["msg"][1:]
            return f"{key}: {said}{shown}"


def told_once(unread: Sequence[str], found: Iterable[str]) -> list[str]:
    """All of `unread` (values that could not be read), and of `found` what does not merely follow from those."""
    lost = {line.partition(": ")[0] for line in unread}
    return [*unread, *(line for line in found if not any(_follows(line, key) for key in lost))]


def _follows(line: str, lost: str) -> bool:
    key, _, said = line.partition(": ")
    parent, _, name = lost.rpartition(".")
    return key == lost or (key == parent and f" {name} is missing" in said and ";" not in said)


def unknown(key: str, known: Iterable[str]) -> str:
    """The line for a key that does not exist."""
    return f"{key}: unknown key{_nearest(key.rpartition('.')[2], known)}"


def _nearest(key: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = get_close_matches(key, names, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; known here: {', '.join(names)}" if names else ""


def _dotted(prefix: str, location: Sequence[int | str]) -> str:
    text = prefix
    for step in location:
        text += f"[{step}]" if isinstance(step, int) else f"{'.' if text else ''}{step}"
    return text


def _example(key: str) -> str:
    return '"env:NAME"' if _is_secret(key) else '"…"'


def _is_secret(key: str) -> bool:
    return any(word in key for word in ("token", "secret", "key", "password"))


def keys_at(model: Any, location: Sequence[int | str]) -> list[str]:
    """The keys that exist at a place of the model; empty where they are not known."""
    here = model
    for step in location:
        if isinstance(step, int):
            continue
        here = _annotations(here).get(step)
        here = next((inner for inner in (here, *_inside(here)) if _annotations(inner)), None)
    return list(_annotations(here))


def _inside(annotation: Any) -> Iterable[Any]:
    for inner in get_args(annotation):
        yield inner
        yield from _inside(inner)


def _annotations(model: Any) -> dict[str, Any]:
    if isinstance(model, type) and issubclass(model, BaseModel):
        return {name: field.annotation for name, field in model.model_fields.items()}
    if is_dataclass(model):
        return {field.name: field.type for field in fields(model)}
    return {}
