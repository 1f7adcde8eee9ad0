"""A test waits for what becomes true (`tests/fakes/waiting.py`); a fixed sleep says why time itself is its subject."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
OTHERS = ("doubles", "bench", "fakes", "foreign")  # services that take their time, and what measures time


def fixed_sleeps(text: str) -> Iterator[int]:
    """The lines that sleep for a constant time, without a comment there and outside of a loop that polls."""
    lines = text.splitlines()

    def look(node: ast.AST, polls: bool) -> Iterator[int]:
        if isinstance(node, ast.Expr) and not polls:
            call = node.value.value if isinstance(node.value, ast.Await) else node.value
            if (
                isinstance(call, ast.Call)
                and ast.unparse(call.func) in ("anyio.sleep", "asyncio.sleep", "time.sleep", "sleep")
                and isinstance(call.args[0], ast.Constant)
                and call.args[0].value
                and "#" not in lines[node.lineno - 1]
            ):
                yield node.lineno
        for child in ast.iter_child_nodes(node):
            yield from look(child, polls or isinstance(node, ast.While))

    return look(ast.parse(text), False)


def test_a_fixed_sleep_says_why() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        if path.relative_to(TESTS).parts[0] not in OTHERS
        if "sleep(" in (text := path.read_text())
        for line in fixed_sleeps(text)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param("await anyio.sleep(0.1)", [1], id="a constant time"),
        pytest.param("def f():\n    time.sleep(2)", [2], id="in a function"),
        pytest.param("await anyio.sleep(0.1)  # longer than the limit", [], id="with its reason"),
        pytest.param("while not done:\n    await anyio.sleep(0.1)", [], id="a loop that polls"),
        pytest.param("await anyio.sleep(0)", [], id="no time at all"),
        pytest.param("await anyio.sleep(limit_s)", [], id="a time with a name"),
    ],
)
def test_which_sleeps_are_found(text: str, lines: list[int]) -> None:
    assert list(fixed_sleeps(text)) == lines
