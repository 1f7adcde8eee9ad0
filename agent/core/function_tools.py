"""Decorator `@tool`: makes a tool of a typed function. Name, docstring and annotated parameters are what a model sees.

    @tool(category="edit", risk="safe", touches="own", effects=["write"])
    async def forget(context: ToolContext, *, fact: Annotated[int, Field(ge=1)]) -> str:
        \"""Forgets one fact, by its number.\"""

A parameter `context` gets the `ToolContext` of the call. A method becomes a tool of its object, which holds what the
tool needs (`tools_of`). pydantic makes the schema and checks the arguments.
"""

import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import cached_property
from types import MethodType
from typing import Any, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from agent.core.errors import ToolError
from agent.core.tools import EVERY_EFFECT, Appraisal, Category, Effect, Risk, ToolContext, ToolSpec, Touches

Function = Callable[..., Awaitable[str]]
Appraise = Callable[[Mapping[str, Any], ToolContext], Awaitable[Appraisal]]
A = TypeVar("A", bound=Callable[..., Awaitable[Appraisal]])

_CONTEXT = "context"
_NOISE = ("title", "default")  # a default is for the tool; models take it for an example to be given
_WHOLE = 2**53  # above it not every whole number has a float

# Errors of pydantic as keywords of JSON schema, with the name of their limit; by type as the type's name.
_KEYWORDS: Mapping[str, tuple[str, str]] = {
    "literal_error": ("enum", "expected"),
    "string_too_short": ("minLength", "min_length"),
    "string_too_long": ("maxLength", "max_length"),
    "too_short": ("minItems", "min_length"),
    "too_long": ("maxItems", "max_length"),
    "greater_than_equal": ("minimum", "ge"),
    "less_than_equal": ("maximum", "le"),
    "greater_than": ("exclusiveMinimum", "gt"),
    "less_than": ("exclusiveMaximum", "lt"),
}
_TYPES: Mapping[str, str] = {
    "string_type": "string",
    "int_type": "integer",
    "float_type": "number",
    "bool_type": "boolean",
    "list_type": "array",
    "model_type": "object",
}


class Arguments(BaseModel):
    """Base of what a tool takes as an object: unknown keys are refused, and no text becomes a number."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Parameters(Mapping[str, Any]):
    """JSON schema of a function's parameters, which checks and reads the arguments of a call as well.

    The model behind it is made when something first asks: at the start of a process nobody does.
    """

    def __init__(self, function: Function) -> None:
        self._function = function

    def __getitem__(self, key: str) -> Any:
        return self._schema[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._schema)

    def __len__(self) -> int:
        return len(self._schema)

    @cached_property
    def _model(self) -> type[Arguments]:
        hints = get_type_hints(self._function, include_extras=True)
        fields: dict[str, Any] = {
            name: (hints[name], ... if one.default is one.empty else one.default)
            for name, one in inspect.signature(self._function).parameters.items()
            if name not in ("self", _CONTEXT)
        }
        return create_model(self._function.__name__, __base__=Arguments, **fields)

    @cached_property
    def _schema(self) -> Mapping[str, Any]:
        """Without titles, definitions written in place, optional ones not null."""
        raw = self._model.model_json_schema()
        schema: Mapping[str, Any] = _plain(raw, raw.get("$defs", {}))
        return {key: value for key, value in schema.items() if key not in ("$defs", "description")}

    def mistakes(self, arguments: Mapping[str, Any]) -> list[str]:
        """Mistakes in the arguments of a call; empty when they fit."""
        try:
            self._model.model_validate(_with_whole_numbers(arguments))
        except ValidationError as error:
            return [self._told(one) for one in error.errors(include_url=False)[:MOST_MISTAKES]]
        return []

    def parsed(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call as the function takes them; its defaults are its own. Raises ToolError."""
        try:
            model = self._model.model_validate(_with_whole_numbers(arguments))
        except ValidationError as error:
            raise ToolError("; ".join(self.mistakes(arguments))) from error
        return {name: getattr(model, name) for name in model.model_fields_set}

    def _told(self, error: Any) -> str:
        kind, path, value = error["type"], error["loc"], error["input"]
        if kind == "missing":
            return missing(path[:-1], str(path[-1]))
        if kind == "extra_forbidden":
            return unknown(path[:-1], str(path[-1]), _properties(self._schema, path[:-1]))
        if kind in _TYPES:
            return mistake(path, "type", _TYPES[kind], value)
        if kind in _KEYWORDS:
            keyword, limit = _KEYWORDS[kind]
            return mistake(path, keyword, error["ctx"][limit], value)
        return f"{written(path) or 'the arguments'}: {error['msg']}"


class FunctionTool:
    """A tool that `tool` has made. The one of a class is no tool yet; that of its object is, with the same name."""

    def __init__(self, function: Function, spec: ToolSpec, parameters: Parameters) -> None:
        self.spec = spec
        self._function = function
        self._parameters = parameters
        self._appraise: Callable[..., Awaitable[Appraisal]] | None = None
        code = inspect.unwrap(function).__code__
        self._takes_context = _CONTEXT in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

    def appraised_by(self, method: A) -> A:
        """Decorator for the method of the same class that looks at a call before it runs (`ToolSpec.appraise`)."""
        self._appraise = method
        return method

    def described(self, **words: str) -> "FunctionTool":
        """The same tool; these words fill its description."""
        spec = replace(self.spec, description=self.spec.description.format(**words))
        return FunctionTool(self._function, spec, self._parameters)

    def __get__(self, owner: object, kind: type | None = None) -> "FunctionTool":
        if owner is None:
            return self
        appraise = self._appraise
        spec = self.spec if appraise is None else replace(self.spec, appraise=MethodType(appraise, owner))
        return FunctionTool(MethodType(self._function, owner), spec, self._parameters)

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        """Call the function. Raises ToolError, as the function does."""
        given = self._parameters.parsed(arguments)
        if self._takes_context:
            given[_CONTEXT] = context
        return await self._function(**given)


def tool(
    *,
    name: str = "",
    category: Category = "edit",
    risk: Risk = "unrated",
    touches: Touches = "outside",
    effects: Collection[Effect] = EVERY_EFFECT,
    concurrency_safe: bool = True,
    keys: Callable[[Mapping[str, Any]], frozenset[str]] | None = None,
    retryable: bool = False,
    core: bool = False,
    untrusted: bool = False,
    appraise: Appraise | None = None,
) -> Callable[[Function], FunctionTool]:
    """Decorator; `ToolSpec` says what the facts mean. `name`: where it is not the function's."""

    def made(function: Function) -> FunctionTool:
        if not function.__doc__:
            raise TypeError(f"{function.__qualname__} has no docstring, which is what the model is told of it")
        parameters = Parameters(function)
        spec = ToolSpec(
            name=name or function.__name__,
            description=" ".join(function.__doc__.split()),
            schema=parameters,
            check=parameters.mistakes,
            category=category,
            risk=risk,
            touches=touches,
            effects=frozenset(effects),
            concurrency_safe=concurrency_safe,
            keys=keys,
            retryable=retryable,
            core=core,
            untrusted=untrusted,
            appraise=appraise,
        )
        return FunctionTool(function, spec, parameters)

    return made


def tools_of(owner: object) -> tuple[FunctionTool, ...]:
    """The tools of an object; of a class those that its objects have. In the order of their definitions."""
    kind = owner if isinstance(owner, type) else type(owner)
    return tuple(getattr(owner, name) for name, one in vars(kind).items() if isinstance(one, FunctionTool))


def _with_whole_numbers(value: Any) -> Any:
    """3.0 is an integer in JSON; pydantic wants it written as one."""
    match value:
        case float() if value.is_integer() and abs(value) < _WHOLE:
            return int(value)
        case Mapping():
            return {key: _with_whole_numbers(inner) for key, inner in value.items()}
        case list():
            return [_with_whole_numbers(inner) for inner in value]
        case _:
            return value


def _properties(schema: Any, path: tuple[str | int, ...]) -> Mapping[str, Any]:
    """The properties of an object within the arguments."""
    for step in path:
        schema = schema["items"] if isinstance(step, int) else schema["properties"][step]
    found: Mapping[str, Any] = schema["properties"]
    return found


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


# Mistakes in the arguments of a call as the model reads them, by the keywords of JSON schema: also of tools that others
# lend (`agent.tools.arguments`). Pure.

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
