"""Prints what became of each platform fault at the end of a run that tried some."""

from typing import Any

import pytest

from tests.faults.platforms.scene import Row

ROWS = pytest.StashKey[list[Row]]()


@pytest.fixture
def rows(request: pytest.FixtureRequest) -> list[Row]:
    """Where a test notes what it measured."""
    return request.config.stash.setdefault(ROWS, [])


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    rows = config.stash.get(ROWS, [])
    if not rows:
        return
    write = terminalreporter.write_line
    terminalreporter.section("platform faults: seconds from the end of the fault")
    write(
        f"{'platform':<10}{'fault':<46}{'lasts':>6}{'answered':>10}{'green':>7}{'red?':>6}{'repeats':>9}{'others':>8}"
    )
    for row in rows:
        write(
            f"{row.platform:<10}{row.fault:<46}{row.lasts:>6.1f}{row.answered:>10.1f}{row.green:>7.1f}"
            f"{'yes' if row.red else 'no':>6}{row.repeats:>9}{row.others:>8.1f}"
        )
    write("others: the slowest answer that somebody on another platform got meanwhile")
