"""A tokenizer for PromQL: the metrics and labels that an expression names, and whether its brackets close.

It knows the functions and operators that we use, and no more: what is neither is taken for a metric, and there is none.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

FUNCTIONS = frozenset(
    {
        "sum",
        "min",
        "max",
        "rate",
        "increase",
        "delta",
        "changes",
        "time",
        "histogram_quantile",
        "predict_linear",
        "topk",
    }
)
WORDS = frozenset({"and", "or", "unless"})
GROUPING = frozenset({"by", "without", "on", "ignoring"})
RANGES = re.compile(r"\d+[smhdw]|\$__rate_interval")
_TOKEN = re.compile(
    r"""\s*(?:(?P<name>[A-Za-z_:][\w:]*)|(?P<number>\d+(?:\.\d+)?(?:e\d+)?)|(?P<text>"[^"\\]*")"""
    r"""|(?P<range>\[[^\]]*\])|(?P<operator>=~|!~|==|!=|<=|>=|[-+*/%<>={}(),]))"""
)
_CLOSING = {")": "(", "}": "{"}


class Wrong(Exception):
    """An expression that no Prometheus would take."""


@dataclass
class Named:
    """Names of an expression: labels by metric (in braces), and labels that it groups by."""

    metrics: dict[str, set[str]] = field(default_factory=dict)
    grouped: set[str] = field(default_factory=set)


def named_in(expression: str) -> Named:
    """Raises Wrong."""
    tokens = list(_tokens(expression))
    found, open_brackets = Named(), list[str]()
    metric, expects_value = "", True
    place = 0
    while place < len(tokens):
        kind, text = tokens[place]
        following = tokens[place + 1][1] if place + 1 < len(tokens) else ""
        if kind == "name" and open_brackets[-1:] == ["{"]:
            if following not in {"=", "!=", "=~", "!~"} or tokens[place + 2][0] != "text":
                raise Wrong(f"a label without a value: {text}")
            found.metrics[metric].add(text)
            place += 3
            continue
        if kind == "name" and text in GROUPING:
            end = place + 2
            while tokens[end][1] != ")":
                if tokens[end][1] != ",":
                    found.grouped.add(tokens[end][1])
                end += 1
            place = end + 1
            continue
        if kind == "name" and text in FUNCTIONS:
            if following not in {"(", "by"}:
                raise Wrong(f"{text} is a function")
        elif kind == "name" and text in WORDS:
            if expects_value:
                raise Wrong(f"nothing in front of {text}")
            expects_value = True
        elif kind == "name":
            if not expects_value:
                raise Wrong(f"no operator in front of {text}")
            metric, expects_value = text, False
            found.metrics.setdefault(text, set())
        elif kind == "number":
            if not expects_value:
                raise Wrong(f"no operator in front of {text}")
            expects_value = False
        elif kind == "range":
            if expects_value or not RANGES.fullmatch(text[1:-1]):
                raise Wrong(f"no range: {text}")
        elif text in {"(", "{"}:
            if text == "{" and tokens[place - 1] != ("name", metric):
                raise Wrong("braces without a metric")
            open_brackets.append(text)
        elif text in _CLOSING:
            if not open_brackets or open_brackets.pop() != _CLOSING[text]:
                raise Wrong(f"{text} closes nothing")
            expects_value = False
        elif text == ",":
            expects_value = open_brackets[-1:] == ["("]
        else:
            if expects_value:
                raise Wrong(f"nothing in front of {text}")
            expects_value = True
        place += 1
    if open_brackets or expects_value:
        raise Wrong("it ends too early")
    return found


def missing_from(named: Named, exposed: Mapping[str, set[str]], known: set[str]) -> list[str]:
    """Names of the expression that nobody exposes. `known` are labels that the scraper adds."""
    metrics = [name for name in named.metrics if name not in exposed]
    labels = [
        f"{name}{{{label}}}"
        for name, wanted in named.metrics.items()
        for label in wanted - exposed.get(name, wanted) - known
    ]
    everywhere = set().union(*(exposed.get(name, set()) for name in named.metrics)) | known
    return [*metrics, *labels, *(f"by ({label})" for label in named.grouped - everywhere)]


def _tokens(expression: str) -> list[tuple[str, str]]:
    found, at = [], 0
    expression = expression.strip()
    while at < len(expression):
        token = _TOKEN.match(expression, at)
        if token is None:
            raise Wrong(f"no token: {expression[at : at + 20]}")
        found.append((str(token.lastgroup), token[str(token.lastgroup)]))
        at = token.end()
    return found
