"""The library of the `web` extra works in a process of its own, which a limit and a stop end."""

import time
from pathlib import Path

import anyio
import pytest

from agent.tools.web.article import LIBRARY, LONGEST, article_of
from tests.fakes.processes import alive
from tests.fakes.waiting import until

# Stands where the library would: it says what it was given, and a page that says so holds it up for ever.
DOUBLE = """
import os, pathlib, re
def extract(html, url, output_format, include_links):
    if "for ever" in html:
        pathlib.Path(__file__).with_name("pid").write_text(str(os.getpid()))
        re.search("(a|aa)+$", "a" * 200 + "b")
    if "nothing" in html:
        return None
    return f"{len(html)} {url} {output_format} {os.getpid() == int(os.environ.get('PARENT', '0'))}"
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / f"{LIBRARY}.py").write_text(DOUBLE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


async def test_a_limit_ends_its_process(library: Path) -> None:
    began = time.monotonic()
    with anyio.move_on_after(3) as scope:
        await article_of("<p>for ever", "https://a.b/")
    assert scope.cancelled_caught
    assert time.monotonic() - began < 20
    pid = int((library / "pid").read_text())
    await until(lambda: not alive(pid))


async def test_it_is_given_no_more_than_our_own_reading_takes(library: Path) -> None:
    assert await article_of("a" * (LONGEST + 9), "https://a.b/") == f"{LONGEST} https://a.b/ markdown False"
    assert await article_of("nothing", "https://a.b/") == ""
