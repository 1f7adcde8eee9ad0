"""JSON5, as people write openclaw.json by hand."""

import json
from typing import Any

import pytest

from gateway.importers.json5 import loads


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param('{"a": [1, 2.5, true, null]}', {"a": [1, 2.5, True, None]}, id="plain JSON"),
        pytest.param("{a: 'it\\'s', $b: \"x\", }", {"a": "it's", "$b": "x"}, id="names and quotes of JavaScript"),
        pytest.param("// a\n{a: 1, /* b\n */ b: [1, 2,],}", {"a": 1, "b": [1, 2]}, id="comments, commas at the end"),
        pytest.param("{a: 0xFF, b: +.5, c: -3, d: 1e3}", {"a": 255, "b": 0.5, "c": -3, "d": 1000.0}, id="numbers"),
        pytest.param("{a: 'one\\\ntwo \\u0041\\x42'}", {"a": "onetwo AB"}, id="a line that goes on, and escapes"),
        pytest.param('{u: "https://x//y"}', {"u": "https://x//y"}, id="two slashes in a text are no comment"),
    ],
)
def test_what_is_json5_is_read(text: str, value: Any) -> None:
    assert loads(text) == value


@pytest.mark.parametrize(
    "text", ["", "{", "{a}", "{a: }", "[1 2]", "{a: 1} x", "{a: 'x", "{a: undefined}", "/* {}", "{'a': \"x\ny\"}"]
)
def test_what_is_none_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        loads(text)


def test_a_deep_one_ends() -> None:
    with pytest.raises(RecursionError):
        loads("[" * 100_000 + "/**/")
