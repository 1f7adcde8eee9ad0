"""Documentation that points nowhere or is too long is found, and ours is neither."""

from pathlib import Path

import pytest

from tools.docs import MOST_WORDS, anchors, main, mistakes, pages


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "memory.md").write_text("# Memory\n\n## What is `kept`, and why\n\n## Twice\n\n## Twice\n")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "sizes.py").write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("[m](docs/memory.md#what-is-kept-and-why)", "", id="a heading"),
        pytest.param("[m](docs/memory.md#twice-1)", "", id="the second of two equal headings"),
        pytest.param("[m](https://example.org/x) `[m](nowhere.md)`", "", id="addresses and code are no links"),
        pytest.param("[m](docs/gone.md)", "docs/gone.md is not there", id="no such page"),
        pytest.param("[m](docs/memory.md#gone)", "has no such heading", id="no such heading"),
        pytest.param("say `make test`, please make sure", "", id="a target, and a word"),
        pytest.param("    make tset\n", "`make tset` is no target", id="no such target"),
        pytest.param("`python -m tools.sizes`", "", id="a module"),
        pytest.param("word " * MOST_WORDS, "", id="as long as a page may be"),
        pytest.param("word " * (MOST_WORDS + 1), "README.md: 1501 words, 1500 at most", id="too long"),
        pytest.param("`python -m tools.gone`", "`python -m tools.gone` is no module", id="no such module"),
    ],
)
def test_what_is_not_there_is_a_mistake(tree: Path, text: str, complaint: str) -> None:
    page = tree / "README.md"
    page.write_text(text)
    assert page in pages(tree)
    found = "\n".join(mistakes(page, tree, {"test"}))
    assert complaint in found
    assert bool(found) == bool(complaint)


def test_the_changelog_may_be_longer(tree: Path) -> None:
    page = tree / "CHANGELOG.md"
    page.write_text("word " * (MOST_WORDS + 1))
    assert not list(mistakes(page, tree, set()))


def test_headings_in_code_are_none() -> None:
    assert anchors("# One\n```\n# two\n```\n") == {"one"}


def test_our_own_pages_make_no_such_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0, capsys.readouterr().out
