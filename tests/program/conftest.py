"""Doubles and the real program for whole-program tests."""

import os
from collections.abc import AsyncIterator, Callable, Iterator, Set
from pathlib import Path

import pytest

from tests.program.doubles import Doubles, all_doubles
from tests.program.running import Program

__all__ = ["doubles", "program"]

Start = Callable[..., Program]


@pytest.fixture
async def doubles() -> AsyncIterator[Doubles]:
    async with all_doubles() as running:
        yield running


@pytest.fixture
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Makes a program on a home of its own; all are killed at the end."""
    made: list[Program] = []

    def make(config: str = "", *, about: Set[str] = frozenset(), **environ: str) -> Program:
        # A short path: the control socket's must fit into 107 bytes.
        home: Path = tmp_path_factory.mktemp("h", numbered=True)
        made.append(Program(home, config, environ, about=about))
        return made[-1]

    yield make
    for one in made:
        if one.process is not None and one.process.poll() is None:
            one.kill()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On a cluster, leave out what is about one process."""
    if os.environ.get("TIELINE_TESTS_ON") == "cluster":
        items[:] = [item for item in items if item.get_closest_marker("alone") is None]
