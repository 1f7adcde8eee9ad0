"""Every quirk of the table, each in a conversation of its own with the real client; docs/model-quirks*.md list them."""

from pathlib import Path

import pytest

from tests.dialects import page
from tests.dialects.page import ROWS
from tests.dialects.quirk import Quirk, check, play

EVERY = 4  # the others run with the slow ones


@pytest.mark.requirement("G-34", "Z-33")
@pytest.mark.parametrize(
    "quirk",
    [pytest.param(row, id=row.id, marks=[pytest.mark.slow] if at % EVERY else []) for at, row in enumerate(ROWS)],
)
async def test_a_quirk(quirk: Quirk, tmp_path: Path) -> None:
    check(quirk, await play(quirk, tmp_path))


def test_each_stands_there_once() -> None:
    assert len({row.id for row in ROWS}) == len(ROWS) >= 87


def test_the_documentation_lists_them() -> None:
    """`python -m tests.dialects.page` writes it anew."""
    written = {path.name: path.read_text("utf-8") for path in page.PAGES.glob("model-quirks*.md")}
    assert written == page.pages()


def test_each_server_is_on_one_page() -> None:
    servers = [server for family in page.FAMILIES for server in family.servers]
    assert len(servers) == len(set(servers))
    assert set(servers) == {row.server for row in ROWS}
