"""Forms of MCP servers, field by field, and the meaning of people's words for each. Pure.

The schema is the flat one of the protocol: text, numbers, yes or no, one choice, several choices. A form that asks for
a secret is refused: the protocol forbids it, and a chat keeps what is written in it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, Literal
from urllib.parse import urlsplit

from agent.tools.arguments import mistakes_in
from agent.tools.mcp.offers import clean, plain

MOST_FIELDS, MOST_OPTIONS = 30, 60
LONGEST_LABEL, LONGEST_HELP, LONGEST_TEXT = 80, 300, 4_000  # characters
YES = frozenset({"yes", "y", "true", "on", "1", "ja", "j", "wahr"})
NO = frozenset({"no", "n", "false", "off", "0", "nein", "falsch"})

Kind = Literal["text", "number", "integer", "boolean", "choice", "choices"]

_SECRET = re.compile(
    r"\b(?:pass ?words?|passwort|kennwort|pass ?phrase|pass ?code|secrets?|api ?keys?|(?:private|secret|access) ?keys?|"
    r"(?:access|auth|api|bearer|refresh|session|secret) ?tokens?|credentials?|pins?|pin codes?|cvv|cvc|otp|"
    r"credit card(?: number)?|card number|one.?time (?:code|password)|(?:seed|recovery) phrase|security code)\b",
    re.IGNORECASE,
)
_ASKS_FOR_SECRET = re.compile(
    r"\b(?:enter|provide|give|type|tell|send|paste|what is|confirm)\b[^.!?]{0,30}?\b(?:your|the|a|an)\b[^.!?]{0,20}?"
    + _SECRET.pattern,
    re.IGNORECASE,
)
_EMAIL = re.compile(r"[^@\s]+@[^@\s.]+(?:\.[^@\s.]+)+")


class NotAsked(ValueError):
    """A form that people are not asked; the text says why, for the model and the log."""


class Unfit(ValueError):
    """Words that are no answer. `phrase` says why to the person, with `values`."""

    def __init__(self, phrase: str, **values: object) -> None:
        super().__init__(phrase)
        self.phrase = phrase
        self.values = values


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    value: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """`default` None: there is none. `schema` is what the server checks a value by."""

    name: str
    label: str
    help: str
    kind: Kind
    required: bool
    options: tuple[Option, ...] = ()
    default: Any = None
    schema: Mapping[str, Any]

    @property
    def may_be_skipped(self) -> bool:
        return not self.required or self.default is not None


def fields_of(message: str, schema: Mapping[str, Any]) -> tuple[Field, ...]:
    """Fields of the form, in their order; none where a yes is all that is wanted. Raises NotAsked."""
    properties = schema.get("properties") or {}
    if not isinstance(properties, Mapping):
        raise NotAsked("its form is no form of the protocol")
    if len(properties) > MOST_FIELDS:
        raise NotAsked(f"its form has {len(properties)} fields, more than {MOST_FIELDS}")
    required = schema.get("required")
    needed = frozenset(map(str, required)) if isinstance(required, Sequence) else frozenset()
    found = tuple(_field(str(name), wanted, str(name) in needed) for name, wanted in properties.items())
    written = [field for field in found if field.kind in ("text", "number", "integer")]
    secret = [field for field in written if _is_secret(field)]
    if secret or (written and _ASKS_FOR_SECRET.search(message[:LONGEST_TEXT])):
        raise NotAsked("it asks for a secret, which no server may do in a chat")
    return found


def _is_secret(field: Field) -> bool:
    spoken = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_\-.]+", " ", field.name)
    return field.schema.get("format") == "password" or any(map(_SECRET.search, (spoken, field.label)))


def _field(name: str, wanted: Any, required: bool) -> Field:
    if not isinstance(wanted, Mapping):
        raise NotAsked(f"its field {plain(name)!r} is no field of the protocol")
    kind, options = _kind_of(name, wanted)
    default = wanted.get("default")
    field = Field(
        name=name,
        label=clean(str(wanted.get("title") or name), LONGEST_LABEL),
        help=clean(str(wanted.get("description") or ""), LONGEST_HELP),
        kind=kind,
        required=required,
        options=options,
        schema=wanted,
    )
    if default is None or mistakes_in({name: default}, {"properties": {name: wanted}}):
        return field
    return replace(field, default=default)


def _kind_of(name: str, wanted: Mapping[str, Any]) -> tuple[Kind, tuple[Option, ...]]:
    match wanted.get("type"):
        case "boolean":
            return "boolean", ()
        case "integer":
            return "integer", ()
        case "number":
            return "number", ()
        case "array":
            return "choices", _options(name, wanted.get("items") or {})
        case "string" | None if any(key in wanted for key in ("enum", "oneOf", "anyOf")):
            return "choice", _options(name, wanted)
        case "string":
            return "text", ()
    raise NotAsked(f"its field {plain(name)!r} is of a kind that nobody can be asked for in a chat")


def _options(name: str, wanted: Mapping[str, Any]) -> tuple[Option, ...]:
    """Each once; by their values where two have one title."""
    titled = wanted.get("oneOf") or wanted.get("anyOf")
    if titled:
        pairs = [(one.get("const"), one.get("title")) for one in titled if isinstance(one, Mapping)]
    else:
        values, names = wanted.get("enum") or (), wanted.get("enumNames") or ()
        pairs = [(value, names[at] if at < len(names) else None) for at, value in enumerate(values)]
    if not 0 < len(pairs) <= MOST_OPTIONS or not all(isinstance(value, str) for value, _ in pairs):
        raise NotAsked(f"its field {plain(name)!r} has no choices that people can be shown")
    labels = [clean(str(title or value), LONGEST_LABEL) for value, title in pairs]
    if len({label.casefold() for label in labels}) < len(labels):
        labels = [clean(str(value), LONGEST_LABEL) for value, _ in pairs]
    return tuple(Option(value=str(value), label=label) for (value, _), label in zip(pairs, labels, strict=True))


def value_of(field: Field, words: str) -> Any:
    """The value of the words for the server. Raises Unfit."""
    words = words.strip()
    value: Any
    match field.kind:
        case "text":
            value = words
        case "integer":
            value = _number(words, whole=True)
        case "number":
            value = _number(words, whole=False)
        case "boolean":
            value = _truth(words)
        case "choice":
            value = _option(field, words)
        case "choices":
            parts = [part for part in re.split(r"[,;\n]", words) if part.strip()]
            value = list(dict.fromkeys(_option(field, part) for part in parts))
    _check(field, value)
    return value


def _number(words: str, *, whole: bool) -> float | int:
    try:
        if re.fullmatch(r"[+-]?[0-9]{1,18}", words):
            return int(words)
        value = float(words.replace(",", ".") if words.count(",") == 1 and "." not in words else words)
    except ValueError:
        value = float("nan")
    if value != value or value in (float("inf"), float("-inf")) or (whole and not value.is_integer()):
        raise Unfit("form_whole_number" if whole else "form_number")
    return int(value) if whole else value


def _truth(words: str) -> bool:
    word = words.casefold().rstrip(".!")
    if word not in YES | NO:
        raise Unfit("form_yes_no")
    return word in YES


def _option(field: Field, words: str) -> str:
    """By its words, its value or its number in the list."""
    word = words.strip().casefold()
    for option in field.options:
        if word in (option.label.casefold(), option.value.casefold()):
            return option.value
    if word.isdecimal() and 0 < int(word) <= len(field.options):
        return field.options[int(word) - 1].value
    raise Unfit("form_choice", words=plain(words))


def _check(field: Field, value: Any) -> None:
    schema = field.schema
    if isinstance(value, str) and field.kind == "text":
        least, most = _bound(schema, "minLength") or 0, min(_bound(schema, "maxLength") or LONGEST_TEXT, LONGEST_TEXT)
        if not least <= len(value) <= most:
            raise Unfit("form_length", least=least, most=most, length=len(value))
        if not _has_format(value, schema.get("format")):
            raise Unfit(f"form_{str(schema['format']).replace('-', '_')}")
    elif isinstance(value, list):
        least, most = _bound(schema, "minItems") or 0, _bound(schema, "maxItems") or len(field.options)
        if not least <= len(value) <= most:
            raise Unfit("form_count", least=least, most=most)
    elif not isinstance(value, (bool, str)):
        low, high = _bound(schema, "minimum"), _bound(schema, "maximum")
        if low is not None and value < low:
            raise Unfit("form_least", least=low)
        if high is not None and value > high:
            raise Unfit("form_most", most=high)
    if mistakes_in({field.name: value}, {"properties": {field.name: schema}}):
        raise Unfit("form_pattern")


def _bound(schema: Mapping[str, Any], key: str) -> Any:
    value = schema.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _has_format(value: str, format: Any) -> bool:
    try:
        match format:
            case "email":
                return _EMAIL.fullmatch(value) is not None
            case "uri":
                parts = urlsplit(value)
                return bool(parts.scheme and (parts.netloc or parts.path)) and not re.search(r"\s", value)
            case "date":
                return date.fromisoformat(value) is not None and len(value) == len("2026-01-31")
            case "date-time":
                return datetime.fromisoformat(value) is not None and "T" in value
    except ValueError:
        return False
    return True


def in_one_message(fields: Sequence[Field], words: str) -> Mapping[str, str] | None:
    """Each field's part of words that answer several at once, a line each (`Name: Ann`); None where they do not."""
    found: dict[str, str] = {}
    lines = [line for line in words.splitlines() if line.strip()]
    known = {key.casefold(): field.name for field in fields for key in (field.label, field.name)}
    for line in lines:
        head, colon, rest = line.partition(":")
        name = known.get(head.strip().strip("-*• ").casefold())
        if not colon or name is None:
            return None
        found[name] = rest.strip()
    return found if len(found) > 1 or (found and len(fields) > 1) else None
