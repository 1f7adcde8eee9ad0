"""The configuration as forms: tables and keys as the settings' own classes declare them, values as people type them.

Pure, but for `described`, which reads the shipped example of a configuration: its comments say what each key is for.
"""

import re
import tomllib
import types
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Literal, Union, get_args, get_origin, get_type_hints

import tomlkit
from pydantic import BaseModel, SecretStr
from pydantic_core import PydanticUndefined

from gateway.config.settings import Sections

Kind = Literal[
    "switch", "choice", "whole", "number", "text", "long", "lines", "whole lines", "secret", "secrets", "toml"
]

# Words of keys that a label writes another way; a unit at the end stands in brackets.
UNITS: Mapping[str, str] = {
    "s": "seconds",
    "secs": "seconds",
    "ms": "milliseconds",
    "minutes": "minutes",
    "hours": "hours",
    "days": "days",
    "kb": "KB",
    "mb": "MB",
    "usd": "USD",
}
LABELS: Mapping[str, str] = {"dm": "Direct messages"}  # of names that are no words
ANSWERS = (("true: ", "yes: "), ("false: ", "no: "))  # of the file, and of a choice of yes and no
ACRONYMS = frozenset({"api", "cpu", "id", "ids", "ip", "llm", "mcp", "oidc", "sql", "tls", "ttl", "url", "urls", "usd"})
LONG = ("instructions", "task", "template")  # texts of several lines
REFERENCES = ("env:", "file:")
SHIPPED = (
    Path(__file__).parents[2] / "config" / "gateway.toml",  # in a checkout
    Path(__file__).parents[1] / "gateway.toml",  # in an installed package
)
_HEADER = re.compile(r"(?:# )?(?P<open>\[\[?)(?P<path>[a-z_.]+)\]\]?\s*(?:#\s*(?P<about>.*))?")
_KEY = re.compile(r"(?:# (?:or )?)?(?P<key>[a-z_0-9]+) = (?P<value>.*?)(?:\s+#\s(?P<about>.*))?")
_MORE = re.compile(r"(?:# {8,}|\s{8,})#?\s*(?P<about>\S.*)")
_SECTION = re.compile(r"(?:One )?`\[+[a-z_.]+\]+`(?: section)?(?:: |, |\. )")  # at the beginning of a docstring
_IDS = re.compile(r"\s*\([A-Z]-\d+[^)]*\)")
_CROSS = re.compile(r"\s*\(docs/[^)]*\)|^↻ ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key. `default` is None where there is none; `about` says what it is for, `bounds` what it may be."""

    name: str
    kind: Kind
    default: object = None
    is_needed: bool = False
    choices: tuple[str, ...] = ()
    bounds: str = ""
    about: str = ""

    @property
    def label(self) -> str:
        """Its name in plain words: "Upload timeout (seconds)" for `upload_timeout_s`."""
        if self.name in LABELS:
            return LABELS[self.name]
        words = self.name.split("_")
        unit = UNITS.get(words[-1]) if len(words) > 1 else None
        shown = [word.upper() if word in ACRONYMS else word for word in (words[:-1] if unit else words)]
        text = " ".join(shown)
        return f"{text[:1].upper()}{text[1:]}{f' ({unit})' if unit else ''}"

    @property
    def help(self) -> str:
        """Its purpose for a form, where a switch says yes and no in place of true and false."""
        text = self.about
        for written, answered in ANSWERS if self.kind == "switch" else ():
            text = text.replace(written, answered)
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class TableForm:
    """A table, or with `is_list` each of a list of tables. `names` are the keys that tell one of a list from others."""

    path: tuple[str, ...]
    keys: tuple[Key, ...]
    about: str = ""
    is_list: bool = False
    names: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return ".".join(self.path)

    def key(self, name: str) -> Key | None:
        return next((key for key in self.keys if key.name == name), None)


def forms() -> Mapping[str, TableForm]:
    """Every table but `[[channels]]`, by its name, those within another one behind it."""
    about = described(next((path for path in SHIPPED if path.exists()), None))
    found: dict[str, TableForm] = {}
    for name, field in Sections.model_fields.items():
        for form in _of_field((name,), field.annotation, about):
            found[form.name] = form
    return found


def form_of_model(path: tuple[str, ...], model: type[BaseModel], named: str) -> TableForm:
    """The form of an entry that a pydantic model checks; `named` is what the example calls its kind."""
    about = described(next((path for path in SHIPPED if path.exists()), None))
    keys = []
    for name, field in model.model_fields.items():
        if name == "type":  # it chose the model
            continue
        default = None if field.default is PydanticUndefined else field.default
        told = field.description or about.get((f"{path[0]}:{named}", name), "") or about.get((path[0], name), "")
        keys.append(_key(name, field.annotation, default, told, needed=field.is_required(), bounds=_bounds(field)))
    return TableForm(path=path, keys=tuple(keys), is_list=True, names=("type", "account"))


def _of_field(path: tuple[str, ...], annotation: object, about: Mapping[tuple[str, str], str]) -> Iterator[TableForm]:
    """The form of a section's class, and those of the tables in it."""
    if isinstance(annotation, type) and is_dataclass(annotation):
        yield _form(path, annotation, about)
        for name, inner in get_type_hints(annotation).items():
            if name in {field.name for field in fields(annotation)}:
                yield from _of_field((*path, name), inner, about)
    elif (element := _element(annotation)) is not None:
        yield _form(path, element, about, is_list=True)


def _element(annotation: object) -> type | None:
    """The class of a list of tables."""
    if get_origin(annotation) is tuple:
        first = get_args(annotation)[0]
        return first if isinstance(first, type) and is_dataclass(first) else None
    return None


def _form(
    path: tuple[str, ...], model: type, about: Mapping[tuple[str, str], str], *, is_list: bool = False
) -> TableForm:
    assert is_dataclass(model)
    hints = get_type_hints(model)
    keys = []
    for field in fields(model):
        annotation = hints[field.name]
        is_table = isinstance(annotation, type) and is_dataclass(annotation)
        if (is_table and not is_list) or _element(annotation) is not None:
            continue
        default: object = None
        if field.default is not MISSING:
            default = field.default
        elif field.default_factory is not MISSING:
            default = field.default_factory()
        needed = field.default is MISSING and field.default_factory is MISSING
        keys.append(_key(field.name, annotation, default, about.get((".".join(path), field.name), ""), needed=needed))
    named = tuple(name for name in ("name", "match", "on", "command", "scope", "per") if name in hints)
    return TableForm(
        path=path,
        keys=tuple(keys),
        about=about.get((".".join(path), "")) or _of_docstring(model),
        is_list=is_list,
        names=named[:1] if named[:1] in (("name",), ("match",)) and "scope" not in hints else named,
    )


def _of_docstring(model: type) -> str:
    """The first sentence that its class says of a section."""
    said = " ".join((model.__doc__ or "").split())
    if (named := _SECTION.match(said)) is None:
        return ""
    first = _IDS.sub("", said[named.end() :].partition(". ")[0]).rstrip(".").replace("`", "")
    return "" if first.startswith("Raises ") else first


def _key(name: str, annotation: object, default: object, about: str, *, needed: bool, bounds: str = "") -> Key:
    kind, choices = kind_of(name, annotation)
    return Key(name=name, kind=kind, default=default, is_needed=needed, choices=choices, bounds=bounds, about=about)


def kind_of(name: str, annotation: object) -> tuple[Kind, tuple[str, ...]]:
    """The input that fits a type, and its choices."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        inner = tuple(one for one in inner if one is not type(None))
        return kind_of(name, inner[0]) if len(inner) == 1 else ("toml", ())
    if origin is Literal:
        return "choice", tuple(str(one) for one in inner)
    if origin is tuple and get_origin(inner[0]) is Literal:
        return "lines", tuple(str(one) for one in get_args(inner[0]))
    if origin is tuple:
        of: Mapping[object, Kind] = {SecretStr: "secrets", str: "lines", int: "whole lines"}
        return of.get(inner[0], "toml"), ()
    if inner and inner[-1] is SecretStr:
        return "secrets", ()
    plain: Mapping[object, Kind] = {bool: "switch", int: "whole", float: "number", SecretStr: "secret", str: "text"}
    kind = plain.get(annotation, "toml")
    return ("long" if kind == "text" and name in LONG else kind), ()


def _bounds(field: object) -> str:
    """The bounds of a number in words, as pydantic knows them."""
    words = {"ge": "{} or more", "gt": "more than {}", "le": "{} or less", "lt": "less than {}"}
    found = [
        words[sign].format(value)
        for one in getattr(field, "metadata", ())
        for sign in words
        if (value := getattr(one, sign, None)) is not None
    ]
    return ", ".join(found)


# -- what the shipped example says


def described(path: Path | None) -> Mapping[tuple[str, str], str]:
    """The comments of an example, by table and key; key "": the table's. Accounts are `channels:<type>`."""
    found: dict[tuple[str, str], str] = {}
    table, last = "", ("", "")
    for line in path.read_text().splitlines() if path is not None else ():
        if header := _HEADER.fullmatch(line):
            table, last = header["path"], (header["path"], "")
            found[last] = _plain(header["about"])
        elif key := _KEY.fullmatch(line):
            if key["key"] == "type" and table.partition(":")[0] == "channels":
                table = "channels:" + key["value"].strip(' "')
            last = (table, key["key"])
            found[last] = _plain(key["about"])
        elif (more := _MORE.fullmatch(line)) and last in found:
            found[last] = f"{found[last]} {_plain(more['about'])}".strip()
        else:
            last = ("", "")
    return found


def _plain(about: str | None) -> str:
    return _CROSS.sub("", about or "").strip()


# -- values as people type them


def as_typed(key: Key, value: object) -> str:
    """A value of the file as it stands in its field; "" where there is none. Secrets are not for this."""
    if value is None:
        return ""
    match key.kind:
        case "lines" | "whole lines" if isinstance(value, list | tuple):
            return "\n".join(str(one) for one in value) if value else "[]"
        case "toml":
            return _as_toml(value)
        case _:
            if isinstance(value, bool):
                return "true" if value else "false"
            if isinstance(value, list | dict):
                return _as_toml(value)
            return '""' if value == "" else str(value)


def _as_toml(value: object) -> str:
    if isinstance(value, str) and not value.startswith(REFERENCES):
        return f'"{value}"'
    if isinstance(value, bool | int | float):
        return str(value).lower()
    if isinstance(value, tuple):
        value = list(value)
    if is_dataclass(value) and not isinstance(value, type):
        given = {field.name: getattr(value, field.name) for field in fields(value)}
        value = {name: one for name, one in given.items() if one is not None}
    if isinstance(value, Mapping):
        table = tomlkit.inline_table()
        table.update(value)
        return table.as_string()
    return tomlkit.item(value).as_string() if value is not None else ""


def shown(key: Key, value: object) -> str:
    """A default, or what is in force, in words."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple | list):
        return ", ".join(str(one) for one in value) or "empty"
    if isinstance(value, str):
        return value or "empty"
    if isinstance(value, Mapping) or is_dataclass(value):
        return "empty" if not value else _as_toml(value)
    return str(value)


def from_typed(key: Key, text: str) -> object:
    """The value for the file; None where the field is empty. Raises ValueError for what is no TOML.

    What is no number stays text: the configuration's own check says what must stand there.
    """
    text = text.replace("\r\n", "\n").strip()
    if not text:
        return None
    if text.startswith(REFERENCES) and key.kind not in ("lines", "whole lines", "long"):
        return text
    match key.kind:
        case "switch":
            return {"true": True, "false": False}.get(text, text)
        case "whole":
            return int(text) if re.fullmatch(r"[+-]?\d{1,18}", text) else text
        case "number":
            return _number(text)
        case "lines" | "whole lines":
            lines = [line.strip() for line in text.split("\n") if line.strip()] if text != "[]" else []
            return [int(one) if key.kind == "whole lines" and one.isascii() and one.isdigit() else one for one in lines]
        case "toml":
            return _toml(text)
        case _:
            return "" if text == '""' else text


def _number(text: str) -> object:
    if re.fullmatch(r"[+-]?\d{1,18}", text):
        return int(text)
    return float(text) if re.fullmatch(r"[+-]?\d+\.\d+(e[+-]?\d+)?", text) else text


def _toml(text: str) -> object:
    try:
        found: object = tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, KeyError):
        if re.fullmatch(r"[A-Za-z0-9_./-]+", text):
            return text  # a word whose quotes were left out
        raise ValueError(
            'this is no value of a TOML file; write {name = "value"}, ["one", "two"] or a number'
        ) from None
    return found
