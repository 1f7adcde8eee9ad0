"""Every quirk of the table, each in a conversation of its own with the real client; docs/model-quirks.md lists them."""

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
    written = page.PAGE.read_text("utf-8")
    assert written == page.with_table(written)
