"""Text of a webhook: a template of the operator's over the values that a stranger sent. Imported by name, as it loads
the template engine.

Values are data: none is read as a template, called or asked for a method, and no template can do more than show, choose
and repeat. What a payload may make it cost is bounded by the size of what is shown of it, by two loops within one
another, and by the length of the text.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jinja2 import ChainableUndefined, TemplateError, TemplateSyntaxError, Undefined, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from agent.core.untrusted_text import plain, whole

LONGEST_TEMPLATE = 10_000  # characters
LONGEST_VALUE = 10_000
LONGEST_NUMBER = 64  # bits
MOST_ITEMS = 100  # of a list, and of the keys of an object
DEEPEST = 20
MOST_LOOPS = 2  # within one another
PAYLOAD = "payload"  # the name of one that is no object
LEFT_OUT = "…"

FILTERS = frozenset(
    {
        "capitalize", "count", "d", "default", "first", "float", "int", "join", "last", "length", "lower", "round",
        "string", "title", "tojson", "trim", "truncate", "upper",
    }
)  # fmt: skip
TESTS = frozenset(
    {
        "!=", "<", "<=", "==", ">", ">=", "boolean", "defined", "eq", "equalto", "even", "false", "ge", "greaterthan",
        "gt", "in", "le", "lessthan", "lt", "mapping", "ne", "none", "number", "odd", "sequence", "string", "true",
        "undefined",
    }
)  # fmt: skip
_ALLOWED = (
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.For, nodes.If, nodes.Name, nodes.Const, nodes.Getattr,
    nodes.Getitem, nodes.Slice, nodes.Filter, nodes.Test, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not,
    nodes.CondExpr, nodes.Concat, nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Neg,
    nodes.Pos, nodes.List, nodes.Tuple, nodes.Keyword,
)  # fmt: skip
_WORDS: Mapping[type[nodes.Node], str] = {
    nodes.Call: "a call",
    nodes.Pow: "**",
    nodes.Assign: "{% set %}",
    nodes.AssignBlock: "{% set %}",
    nodes.Macro: "{% macro %}",
    nodes.Include: "{% include %}",
    nodes.Extends: "{% extends %}",
    nodes.Import: "{% import %}",
    nodes.FromImport: "{% from %}",
    nodes.Block: "{% block %}",
}
_NOTED = " missing"  # no template can name it


class TemplateFailed(Exception):
    """The template cannot be rendered over these values. The text names the kind of the mistake, and no value."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """`missing` are names in the template for which the payload has no value."""

    text: str
    missing: frozenset[str] = frozenset()


class PayloadTemplate:
    """A template that was checked. With `markdown` the values cannot format what stands around them."""

    def __init__(self, source: str, *, markdown: bool) -> None:
        self._template = _Environment(markdown=markdown).from_string(source)

    def render(self, payload: object, most: int) -> Rendered:
        """The text, of at most so many characters. `payload` is `bounded`. Raises TemplateFailed."""
        missing: set[str] = set()
        values = payload if isinstance(payload, dict) else {PAYLOAD: payload}
        pieces, length = [], 0
        try:
            for piece in self._template.generate({**values, _NOTED: missing}):
                pieces.append(piece)
                length += len(piece)
                if length > most:
                    break
        except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            raise TemplateFailed(f"its template fails on this payload ({type(error).__name__})") from error
        return Rendered(cut("".join(pieces).strip(), most), frozenset(missing))


def mistakes_in(source: str) -> Iterator[str]:
    """Mistakes of a template, one line each."""
    if len(source) > LONGEST_TEMPLATE:
        yield f"{len(source)} characters are too many; use {LONGEST_TEMPLATE} or fewer"
        return
    environment = _Environment(markdown=False)
    try:
        tree = environment.parse(source)
        environment.compile(tree)  # unknown filters and tests
    except (TemplateSyntaxError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        yield f"line {line}: {getattr(error, 'message', None) or 'it is nested too deeply'}"
        return
    yield from dict.fromkeys(_refused(environment.parse(source), 0))


def whole_payload(payload: object, most: int) -> str:
    """The payload as JSON, for a hook without a template."""
    return cut(json.dumps(payload, ensure_ascii=False, indent=1), most)


def bounded(value: object, depth: int = 0) -> object:
    """The same data within the bounds of what is shown: long texts, long lists and deep ones are cut."""
    match value:
        case str():
            return whole(cut(value, LONGEST_VALUE))
        case dict() | list() if depth >= DEEPEST:
            return LEFT_OUT
        case dict():
            items = list(value.items())[:MOST_ITEMS]
            return {whole(cut(str(key), LONGEST_VALUE)): bounded(one, depth + 1) for key, one in items}
        case list():
            return [bounded(one, depth + 1) for one in value[:MOST_ITEMS]]
        case int() if value.bit_length() > LONGEST_NUMBER:  # Python refuses to write down very long ones
            return LEFT_OUT
        case _:
            return value


def cut(text: str, most: int) -> str:
    """The first so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}{LEFT_OUT}"


class _Environment(ImmutableSandboxedEnvironment):
    """The engine without all that a webhook does not need."""

    # A text times a number of the payload would fill the memory, and so would a width within a format.
    intercepted_binops = frozenset({"*", "%"})

    def __init__(self, *, markdown: bool) -> None:
        super().__init__(undefined=ChainableUndefined, finalize=_shown_as_markdown if markdown else _shown)
        self.globals.clear()
        self.filters = {name: filter for name, filter in self.filters.items() if name in FILTERS}
        self.tests = {name: test for name, test in self.tests.items() if name in TESTS}

    def getattr(self, obj: Any, attribute: str) -> Any:
        """A key of the payload, never a method: `order.items` is what was ordered."""
        if isinstance(obj, LoopContext):
            return super().getattr(obj, attribute)
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(obj, Undefined):
            return obj
        try:
            return obj[argument]
        except (LookupError, TypeError, AttributeError):
            return self.undefined(obj=obj, name=str(argument))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if not all(isinstance(one, int | float) for one in (left, right)):
            raise SecurityError(f"{operator} is for numbers")
        return super().call_binop(context, operator, left, right)


@pass_context
def _shown(context: Context, value: object) -> str:
    """A value as text: what is missing is empty, and noted."""
    match value:
        case Undefined():
            context[_NOTED].add(str(value._undefined_name)[:100])
            return ""
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case dict() | list():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return str(value)


@pass_context
def _shown_as_markdown(context: Context, value: object) -> str:
    text: str = _shown(context, value)
    return plain(text)


def _refused(node: nodes.Node, loops: int) -> Iterator[str]:
    if isinstance(node, nodes.For):
        loops += 1
        if loops > MOST_LOOPS or node.recursive:
            yield f"line {node.lineno}: more than {MOST_LOOPS} loops stand within one another"
    if not isinstance(node, _ALLOWED):
        what = _WORDS.get(type(node), type(node).__name__)
        yield f"line {node.lineno}: {what} is not for templates of webhooks"
        return
    for child in node.iter_child_nodes():
        yield from _refused(child, loops)
