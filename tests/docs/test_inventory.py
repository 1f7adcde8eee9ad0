"""Every block of code of the documentation has a kind, and each kind somebody who runs it; none is only read."""

import re
from pathlib import Path

import pytest

from tests.docs.blocks import ELSEWHERE, KINDS, SAYS, Block, blocks, of_kind
from tools.docs import ROOT

# Who runs the blocks of a kind, within this folder. `server` and `said` are compared, not run: see there.
RUN_BY = {
    "configuration": "test_configuration.py",
    "keys": "test_configuration.py",
    "breakage": "test_configuration.py",
    "hostile cases": "test_configuration.py",
    "entry point": "test_configuration.py",
    "environment": "test_configuration.py",
    "front matter": "test_configuration.py",
    "path": "test_configuration.py",
    "console": "test_console.py",
    "chat": "test_chat.py",
    "python": "test_code.py",
    "json": "test_code.py",
    "server": "test_words.py",
    "address": "test_words.py",
    "arithmetic": "test_words.py",
    "said": "test_words.py",
}


def without_kind(found: tuple[Block, ...]) -> list[str]:
    return [f"{block.where}: {block.text[:60]!r}" for block in found if not block.kind]


def test_of_every_block_it_is_known_who_runs_it() -> None:
    assert len(blocks()) > 140
    assert without_kind(blocks()) == []


def test_each_kind_is_run() -> None:
    assert set(RUN_BY) == set(KINDS)
    for kind, file in RUN_BY.items():
        assert of_kind(kind), f"there is no block of the kind {kind}: take it out"
        assert f'"{kind}"' in Path(__file__).with_name(file).read_text(), f"{file} does not run {kind}"


@pytest.mark.parametrize(("page", "kind"), ELSEWHERE)
def test_another_test_reads_the_page(page: str, kind: str) -> None:
    assert any((block.page, block.kind) == (page, kind) for block in blocks()), "it has no such block"
    test = (ROOT / ELSEWHERE[page, kind]).read_text()
    assert Path(page).stem in test or "PAGES" in test


def test_a_page_that_says_something_has_a_block_of_it() -> None:
    assert {block.page for block in blocks() if block.kind == "said"} == set(SAYS)


def test_a_block_of_no_kind_is_found() -> None:
    block = Block(page="docs/x.md", line=3, language="", text="frobnicate --all")
    assert not any(fits(block) for fits in KINDS.values())
    assert without_kind((block,)) == ["docs/x.md:3: 'frobnicate --all'"]


def test_each_kind_is_told_by_the_block_alone() -> None:
    """No kind is given by a list of pages but what the program says, which no rule can tell from anything else."""
    source = Path(__file__).with_name("blocks.py").read_text()
    assert re.findall(r"block\.page in (\w+)", source) == ["SAYS"]
