"""No text of a stranger stalls the event loop: a heartbeat beside everything that reads, writes or runs one.

What there is to be watched is found, not listed: a tool without hostile arguments fails, and so does a module that
works on texts and is neither watched nor said to get none.
"""

import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial

import pytest
from anyio import to_thread

from tests.hostile.places import ELSEWHERE, PLACES, Case, Work, modules, reached
from tests.hostile.texts import NAMES, text_of
from tests.hostile.watch import MOST_S, longest_stall, machine, quiet

SHORT = 1_000  # characters: what is slow for these is slow for more
TRIES = 3
SLOWEST = 2  # texts of a case that are tried at their full length
PROBED = (200, "words", "different words", "html", "links", "table", "quotes")


@pytest.fixture(autouse=True, scope="module")
def _without_the_rest() -> Iterator[None]:
    with quiet():
        yield


def _tried(work: Work, text: str) -> float:
    """The time that it takes. Its result is a matter of its own tests."""
    began = time.thread_time()
    with suppress(Exception):
        work(text)
    return time.thread_time() - began


async def _at_once(job: Callable[[], object]) -> None:
    job()


def _slowest(case: Case, names: list[str]) -> list[str]:
    """The texts that took longest when they were short."""
    length = min(case.longest, SHORT)
    return sorted(names, key=lambda name: _tried(case.work, text_of(name, length)))[-SLOWEST:]


@pytest.mark.parametrize("place", sorted(PLACES))
async def test_no_text_of_any_length_stalls_the_loop(place: str) -> None:
    for case in PLACES[place]:
        for name in _slowest(case, list(NAMES)):
            job = partial(_tried, case.work, text_of(name, case.longest))
            run: Callable[[], Awaitable[object]]
            run = partial(to_thread.run_sync, job) if case.threaded else partial(_at_once, job)
            stall = await longest_stall(run)
            for _ in range(TRIES):  # what neighbours of this process take counts as well: a stall of ours comes again
                stall = stall if stall <= MOST_S else min(stall, await longest_stall(run))
            assert stall <= MOST_S, f"{place}: {case.longest} characters of {name!r} stall the loop for {stall:.2f} s"


def test_everything_that_works_on_texts_is_watched() -> None:
    """A new module of these packages must be put into `PLACES`, or into `ELSEWHERE` with the reason."""
    found = set(modules())
    assert found - set(PLACES) - set(ELSEWHERE) == set()
    assert (set(ELSEWHERE) & set(PLACES), set(ELSEWHERE) - found) == (set(), set())


@pytest.mark.parametrize("place", sorted(PLACES))
def test_what_is_said_to_be_watched_is_what_runs(place: str) -> None:
    size, *names = PROBED
    for case in PLACES[place]:
        assert place in {module for name in names for module in reached(case.work, text_of(str(name), int(size)))}


BLOCKS: Mapping[str, Callable[[], Awaitable[object]]] = {
    "a calculation on the loop": partial(_at_once, lambda: sum(range(50_000_000))),
    "one search in a thread": lambda: to_thread.run_sync(re.search, r"a*b", "a" * 60_000),
    "a blocking wait": partial(_at_once, lambda: time.sleep(2)),
}


@pytest.mark.parametrize("name", BLOCKS)
async def test_a_real_stall_is_seen(name: str) -> None:
    assert await longest_stall(BLOCKS[name]) > MOST_S


async def test_work_in_a_thread_is_none() -> None:
    assert await longest_stall(lambda: to_thread.run_sync(lambda: sum(n for n in range(10_000_000)))) <= MOST_S
    assert (await machine()).slowness >= 1.0
