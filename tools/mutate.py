"""Proves that tests can fail: applies small breakages one at a time and expects the tests they name to notice.

`tests/breakages/*.toml` hold them; `tools.breakages` reads them and finds their places, and nothing runs while a place
is gone or ambiguous. A breakage whose tests still pass is an error, and so is one that names an unknown requirement,
and tests that fail without any breakage. The work happens in copies of the tree, one per job.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Queue

from tools.breakages import Breakage, Sources, applied, read, sources, unknown

ROOT = Path(__file__).parent.parent
BREAKAGES = ROOT / "tests" / "breakages"
RESULTS = ROOT / "build" / "mutate.json"
COPIED = ("agent", "gateway", "adapters", "tests", "tools", "config", "docs", "pyproject.toml")
LONGEST_S = 300.0  # for the tests of one breakage


@dataclass(frozen=True, slots=True)
class Result:
    """How one breakage ended."""

    digest: str  # of all that the result depends on: the breakage, the files it changes, its tests
    missed: str  # why it proves nothing; "" for one that its tests caught
    took_s: float


@dataclass(frozen=True, slots=True)
class Prepared:
    """A breakage whose places were found."""

    breakage: Breakage
    changed: Mapping[str, str]  # path -> text
    digest: str


# --- before anything runs -----------------------------------------------------------------


def chosen_from(paths: Sequence[Path], names: Sequence[str], sample: int, seed: int | None) -> list[Path]:
    """The named breakages, or that many at random, or all."""
    if names:
        return [path for path in paths if path.stem in names]
    if sample and sample < len(paths):
        return sorted(random.Random(seed).sample(paths, sample))  # noqa: S311
    return list(paths)


def prepared(paths: Sequence[Path], root: Path, known: Mapping[str, object]) -> tuple[list[Prepared], list[str]]:
    """The breakages with their places, and a line for each that is not usable."""
    found: list[Prepared] = []
    wrong: list[str] = []
    breakages: list[Breakage] = []
    for path in paths:
        try:
            breakages.append(read(path))
        except ValueError as error:
            wrong.append(f"{path.stem}: {error}")
    texts = sources(root, breakages)
    for breakage in breakages:
        try:
            if strange := unknown(breakage, known):
                raise ValueError(f"names unknown requirements: {' '.join(strange)}")
            changed = applied(breakage, texts)
        except (ValueError, LookupError) as error:
            wrong.append(f"{breakage.name}: {error}")
        else:
            found.append(Prepared(breakage, changed, _digest(breakage, changed, texts, root)))
    return found, wrong


def _digest(breakage: Breakage, changed: Sources, texts: Sources, root: Path) -> str:
    digest = hashlib.sha256(repr(breakage).encode())
    for path, text in sorted(changed.items()):
        digest.update(f"{path}\0{texts[path]}\0{text}\0".encode())
    for test in breakage.tests:
        file = root / test.partition("::")[0]
        digest.update(file.read_bytes() if file.is_file() else b"")
    return digest.hexdigest()[:16]


# --- running ------------------------------------------------------------------------------


def copied(target: Path) -> None:
    """The parts of the tree that tests need, without what was built."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, target / name)


def run(tests: Sequence[str], copy: Path) -> tuple[int, str]:
    """How pytest ended there, and the end of what it said; 1 for tests that hang, which is noticing too."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    # Compiled files are told apart by size and second alone: a breakage and its repair may be too quick for that.
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=copy, env=environ, capture_output=True, text=True, timeout=LONGEST_S)  # noqa: S603
    except subprocess.TimeoutExpired:
        return 1, f"took more than {LONGEST_S:g} s"
    return done.returncode, done.stdout[-400:]


@contextmanager
def broken(changed: Mapping[str, str], copy: Path) -> Iterator[None]:
    """The copy with these files; mended afterwards."""
    before = {path: (copy / path).read_text() for path in changed}
    try:
        for path, text in changed.items():
            (copy / path).write_text(text)
        yield
    finally:
        for path, text in before.items():
            (copy / path).write_text(text)


def survives(one: Prepared, copy: Path) -> str:
    """Why this breakage proves nothing; "" if its tests caught it."""
    with broken(one.changed, copy):
        code, said = run(one.breakage.tests, copy)
    if code == 1:
        return ""
    return "its tests still pass" if code == 0 else f"pytest ended with {code}: {said}"


class Trial:
    """Tries breakages, as many at once as there are copies of the tree."""

    def __init__(self, copies: Sequence[Path], *, sound: bool) -> None:
        self._copies: Queue[Path] = Queue()
        for copy in copies:
            self._copies.put(copy)
        self._trusts = sound
        self._sound: dict[tuple[str, ...], bool] = {}  # whether these tests pass without a breakage

    def result(self, one: Prepared) -> Result:
        copy = self._copies.get()
        began, tests = time.monotonic(), one.breakage.tests
        try:
            if not self._trusts and tests not in self._sound:
                self._sound[tests] = run(tests, copy)[0] == 0
            passes = self._sound.get(tests, True)
            missed = survives(one, copy) if passes else "its tests fail without it"
        finally:
            self._copies.put(copy)
        return Result(one.digest, missed, round(time.monotonic() - began, 1))


# --- the results file ---------------------------------------------------------------------


def read_results(path: Path) -> dict[str, Result]:
    """Results of earlier runs, by the names of the breakages."""
    return {name: Result(**said) for name, said in json.loads(path.read_text()).items()} if path.exists() else {}


def write_results(path: Path, results: Mapping[str, Result]) -> None:
    """Whole or not at all: the run may be interrupted at any moment."""
    path.parent.mkdir(exist_ok=True)
    written = path.with_suffix(".new")
    written.write_text(json.dumps({name: asdict(result) for name, result in results.items()}, indent=1, sort_keys=True))
    written.replace(path)


def left_of(all_of_them: Sequence[Prepared], results: Mapping[str, Result]) -> list[Prepared]:
    """The breakages that were not caught yet as they and their tests are now."""
    caught = {(name, result.digest) for name, result in results.items() if not result.missed}
    return [one for one in all_of_them if (one.breakage.name, one.digest) not in caught]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="the breakages to try; else all, or a sample")
    parser.add_argument("--sample", type=int, default=0, help="how many, drawn at random; 0: all")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--sound", action="store_true", help="trust that the tests pass without a breakage")
    parser.add_argument("--jobs", type=int, default=1, help="how many to try at once")
    parser.add_argument("--resume", action="store_true", help=f"leave out what {RESULTS.name} says was caught")
    chosen = parser.parse_args(arguments)
    began = time.monotonic()
    paths = sorted(BREAKAGES.glob("*.toml"))
    if strange := sorted(set(chosen.names) - {path.stem for path in paths}):
        parser.error(f"no such breakage: {' '.join(strange)}")
    known = tomllib.loads((ROOT / "docs" / "requirements.toml").read_text())
    usable, wrong = prepared(chosen_from(paths, chosen.names, 0, None), ROOT, known)
    if wrong:
        print(*(f"WRONG   {line}" for line in wrong), f"{len(wrong)} cannot be applied: nothing was tried", sep="\n")
        return 1
    # A sample is drawn from all of them, so that one whose place is gone fails every run.
    picked = {path.stem for path in chosen_from(paths, chosen.names, chosen.sample, chosen.seed)}
    usable = [one for one in usable if one.breakage.name in picked]
    results = read_results(RESULTS)
    left = left_of(usable, results) if chosen.resume else usable
    failures = sum(bool(result.missed) for result in _tried(left, results, max(1, chosen.jobs), sound=chosen.sound))
    before = f", {len(usable) - len(left)} caught before" if chosen.resume else ""
    print(f"{len(left) - failures} caught, {failures} missed{before}, in {time.monotonic() - began:.0f} s")
    return 1 if failures or not usable else 0


def _tried(left: Sequence[Prepared], results: dict[str, Result], jobs: int, *, sound: bool) -> list[Result]:
    """Try them, print and store each result as it comes."""
    ended: list[Result] = []
    with tempfile.TemporaryDirectory() as folder:
        copies = [Path(folder) / str(number) for number in range(jobs)]
        for copy in copies:
            copy.mkdir()
            copied(copy)
        trial = Trial(copies, sound=sound)
        pool = ThreadPoolExecutor(jobs)
        try:
            running = {pool.submit(trial.result, one): one for one in left}
            for future in as_completed(running):
                name, result = running[future].breakage.name, future.result()
                ended.append(result)
                results[name] = result
                write_results(RESULTS, results)
                verdict = f"MISSED  {name}: {result.missed}" if result.missed else f"caught  {name}"
                print(f"{len(ended)}/{len(left)} {verdict} ({result.took_s:.0f} s)", flush=True)
        finally:
            pool.shutdown(cancel_futures=True)  # an interrupted run does not begin what was waiting
    return ended


if __name__ == "__main__":
    sys.exit(main())
