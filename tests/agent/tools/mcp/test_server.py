"""Complaints of servers stay readable and small."""

import sys
from pathlib import Path

import pytest

from agent.tools.mcp.elicitation import Given, Wanted
from agent.tools.mcp.server import MOST, bounded, older_of
from agent.tools.mcp.settings import ServerSettings
from agent.tools.mcp.wire import connected


def test_the_newest_of_too_much_is_kept_as_one_older_file(tmp_path: Path) -> None:
    path = tmp_path / "mcp-x.log"
    bounded(path)
    with path.open("a") as file:  # a program that goes on writing
        for number in range(3):
            file.write(f"{number}" * (MOST + 1))
            file.flush()
            bounded(path)
        file.write("the end")
    assert path.read_text() == "the end"
    assert older_of(path).read_text() == "2" * MOST
    bounded(path)
    assert path.read_text() == "the end"


async def test_a_new_start_wipes_no_reason_for_the_last_end(tmp_path: Path) -> None:
    errors = tmp_path / "logs" / "mcp-broken.log"
    script = "import sys, os; print('no key', file=sys.stderr)"
    server = ServerSettings(name="broken", command=sys.executable, args=("-c", script))

    async def elicit(wanted: Wanted) -> Given:
        return Given(action="decline")

    for _ in range(2):
        with pytest.raises(BaseException, match=r".*"):
            async with connected(server, changed=lambda: None, elicit=elicit, errors=errors):
                pass
    assert errors.read_text().count("no key") == 2
