"""docs/troubleshooting.md: its headings are what the program says, letter for letter."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/troubleshooting.md").read_text()
HEADINGS = re.findall(r"^### (.+)$", PAGE, re.MULTILINE)
_VALUE = re.compile(r"%[.\d]*[sdrgf]|\{\w+\}")


def strings(source: str) -> Iterator[str]:
    """The texts in a module, with an ellipsis where a value is put in."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield _VALUE.sub("…", node.value)


@cache
def said() -> frozenset[str]:
    """All texts of the product and its English phrases."""
    code = {text for package in ("agent", "gateway", "adapters") for text in _texts(ROOT / package)}
    phrases = tomllib.loads((ROOT / "gateway/phrases/en.toml").read_text())
    return frozenset(code | {_VALUE.sub("…", text) for text in phrases.values() if isinstance(text, str)})


def _texts(package: Path) -> Iterator[str]:
    for path in package.rglob("*.py"):
        yield from strings(path.read_text())


@pytest.mark.parametrize("heading", HEADINGS)
def test_a_heading_is_the_beginning_of_what_the_program_says(heading: str) -> None:
    words = heading.removeprefix("`").removesuffix("`")
    assert heading == f"`{words}`"
    assert any(text.startswith(words) for text in said()), words


def test_no_line_has_two_remedies() -> None:
    assert len(HEADINGS) > 25
    assert len(set(HEADINGS)) == len(HEADINGS)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        pytest.param('log.error("%s waits %.1f s", a, b)', "… waits … s", id="a line of the log"),
        pytest.param('f"port {a:,} "\nf"is"', "port … ", id="values of a sentence"),
        pytest.param('raise Broken(f"port {a} " "is taken")', "port … is taken", id="a text over two lines"),
        pytest.param('said = "{chat} is gone"', "… is gone", id="a phrase"),
    ],
)
def test_an_ellipsis_stands_for_a_value(source: str, text: str) -> None:
    assert text in set(strings(source))
