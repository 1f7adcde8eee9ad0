"""Tool arguments as pydantic models: the JSON schema a provider gets of one, and the model's own parsing of a call."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from agent.core.errors import ToolError

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
