"""Proves that tests can fail: applies small breakages one at a time and expects the tests of the requirement to notice.

`tests/breakages/` holds them; `tools.breakages` reads them and finds their places, and nothing runs while a place
is gone or ambiguous. Only tests that carry a broken requirement count. Where they still pass, the tests that mirror the
changed modules are asked too, to show whether anybody notices. A breakage that its carriers miss is an error, and so
is one that names an unknown requirement, and tests that fail without any breakage. The work happens in copies of the
tree, one per job.

`tests/breakages/results.json` keeps how each ended last (`--note`). What was caught as it is now, with its tests as
they are now, need not be tried again (`--resume`), on any machine. Else the test that noticed it last is asked first,
which makes a run several times faster; if it does not notice, all carriers are asked.
"""

import argparse
import compileall
import hashlib
import json
import os
import py_compile
import random
import re
import shutil
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from queue import Queue

from tools.breakages import Breakage, CodeChange, Sources, applied, read, sources, unknown
from tools.forked_pytest import TIMED_OUT, ForkedPytest

ROOT = Path(__file__).parent.parent
BREAKAGES = ROOT / "tests" / "breakages"
NOTED = BREAKAGES / "results.json"
RESULTS = ROOT / "build" / "mutate.json"
COPIED = ("agent", "gateway", "adapters", "tests", "tools", "config", "deploy", "docs", "requirements",
          "pyproject.toml", "README.md", "LICENSE")  # fmt: skip
QUICK_S = 15.0  # of a breakage that a sample of quick ones may draw
LONGEST_S = 300.0  # for the tests of one breakage
PATIENCE_S = 20.0  # with which tests wait for what a breakage may keep from coming; else a minute
ELSEWHERE = ("tests/e2e/", "tests/faults/", "tests/foreign/", "tests/hostile/")  # what `make test` leaves out
STILL_PASS, NO_CARRIER = "its tests still pass", "no test that carries its requirements is there"
UNSOUND = "its tests fail without it"
QUOTED = re.compile(r'"([\w-]+)"')
SUMMARY = "short test summary info"  # before it pytest shows the logs, whose errors begin as those of tests do
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Result:
    """How one breakage ended."""

    digest: str  # of all that the result depends on: the breakage, the files it changes, its tests
    missed: str  # why it proves nothing; "" for one that its carriers caught
    took_s: float
    others: bool = False  # where it was missed: tests beside its carriers notice
    by: str = ""  # the test that noticed, as pytest names it; "" where it was missed or its tests hang


@dataclass(frozen=True, slots=True)
class Prepared:
    """A breakage whose places were found."""

    requirement: str  # of its file
    breakage: Breakage
    changed: Mapping[str, str]  # path -> text
    tests: tuple[str, ...]  # that it names; else all files of `make test` in which a broken requirement is named
    digest: str


# --- before anything runs -----------------------------------------------------------------


def chosen_from(all_of_them: Sequence[Prepared], names: Sequence[str], sample: int, seed: int | None) -> list[Prepared]:
    """The breakages of these names or requirements, or that many at random, or all."""
    if names:
        return [one for one in all_of_them if one.breakage.name in names or one.requirement in names]
    if sample and sample < len(all_of_them):
        return sorted(random.Random(seed).sample(all_of_them, sample), key=lambda one: one.breakage.name)  # noqa: S311
    return list(all_of_them)


def prepared(paths: Sequence[Path], root: Path, known: Mapping[str, object]) -> tuple[list[Prepared], list[str]]:
    """The breakages with their places, and a line for each that is not usable."""
    found: list[Prepared] = []
    wrong: list[str] = []
    breakages: list[tuple[str, Breakage]] = []
    for path in paths:
        try:
            breakages += [(path.stem, breakage) for breakage in read(path)]
        except ValueError as error:
            wrong.append(f"{path.stem}: {error}")
    names = Counter(breakage.name for _, breakage in breakages)
    wrong += [f"{name}: {times} breakages have this name" for name, times in names.items() if times > 1]
    texts = sources(root, [breakage for _, breakage in breakages])
    all_tests = _tests(root)
    quoted = {path: set(QUOTED.findall(text)) for path, text in all_tests.items()}
    breakages.sort(key=lambda one: _first_place(one[1]))  # each module is parsed once
    for requirement, breakage in breakages:
        if names[breakage.name] > 1:
            continue
        try:
            if strange := unknown(breakage, known):
                raise ValueError(f"names unknown requirements: {' '.join(strange)}")
            changed = applied(breakage, texts)
        except (ValueError, LookupError) as error:
            wrong.append(f"{breakage.name}: {error}")
        else:
            carriers = (path for path, words in quoted.items() if not words.isdisjoint(breakage.breaks))
            tests = breakage.tests or tuple(carriers)
            digest = _digest(breakage, changed, texts, [_text_of(test, all_tests, root) for test in tests])
            found.append(Prepared(requirement, breakage, changed, tests, digest))
    return sorted(found, key=lambda one: (one.requirement, one.breakage.name)), wrong


def _first_place(breakage: Breakage) -> str:
    first = breakage.changes[0]
    return first.module if isinstance(first, CodeChange) else first.file


def _tests(root: Path) -> dict[str, str]:
    """The texts of all files of `make test`, by their paths; last those that start the program for each test."""
    files = ((path.relative_to(root).as_posix(), path) for path in sorted((root / "tests").rglob("test_*.py")))
    texts = {name: path.read_text() for name, path in files if not name.startswith(ELSEWHERE)}
    return dict(sorted(texts.items(), key=lambda one: one[0].startswith("tests/program/")))


def _text_of(test: str, all_tests: Mapping[str, str], root: Path) -> str:
    name = test.partition("::")[0]
    if name in all_tests:
        return all_tests[name]
    return (root / name).read_text() if (root / name).is_file() else ""


def _digest(breakage: Breakage, changed: Sources, texts: Sources, tests: Iterable[str]) -> str:
    digest = hashlib.sha256(repr(breakage).encode())
    for path, text in sorted(changed.items()):
        digest.update(f"{path}\0{texts[path]}\0{text}\0".encode())
    for test in tests:
        digest.update(test.encode())
    return digest.hexdigest()[:16]


# --- running ------------------------------------------------------------------------------


def copied(target: Path) -> None:
    """The parts of the tree that tests need, without what was built, and compiled.

    Compiled files are told apart by what their source holds: by size and second a breakage and its repair may be alike.
    """
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, target / name)
    for name in ("agent", "gateway", "adapters", "tests", "tools"):
        compileall.compile_dir(
            target / name, quiet=2, workers=0, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH
        )


def mirrors_of(changed: Iterable[str], root: Path) -> tuple[str, ...]:
    """The tests beside the carriers that are likeliest to notice: those of the changed modules' packages."""
    folders = {Path("tests", *Path(path).parent.parts) for path in changed}
    return tuple(sorted(folder.as_posix() for folder in folders if (root / folder).is_dir()))


def runner(root: Path, postgres: str = "") -> ForkedPytest:
    """A process that runs tests in that tree; `postgres` is the server that they use, else each run starts one."""
    own = {"PYTHONDONTWRITEBYTECODE": "1", "TIELINE_TESTS_PATIENCE_S": f"{PATIENCE_S:g}"}
    return ForkedPytest(root, {**os.environ, **own, **({"TIELINE_TEST_PG": postgres} if postgres else {})})


def run(tests: Sequence[str], copy: ForkedPytest, carrying: Sequence[str] = ()) -> tuple[int, str]:
    """How pytest ended there, and what it said; 1 for tests that hang, which is noticing too."""
    plugin = (
        ["-p", "tools.requirements", *(f"--carrying={requirement}" for requirement in carrying)] if carrying else []
    )
    arguments = ("-q", "-x", "-m", "not slow", "-p", "no:cacheprovider", *plugin, *tests)
    code, said = copy.run(arguments, LONGEST_S)
    return (1, f"took more than {LONGEST_S:g} s") if code == TIMED_OUT else (code, said)


@contextmanager
def broken(changed: Mapping[str, str], root: Path) -> Iterator[None]:
    """The tree with these files; mended afterwards."""
    before = {path: (root / path).read_text() for path in changed}
    try:
        for path, text in changed.items():
            (root / path).write_text(text)
        yield
    finally:
        for path, text in before.items():
            (root / path).write_text(text)


def noticed(one: Prepared, copy: ForkedPytest, first: str = "") -> tuple[str, str]:
    """Why this breakage proves nothing, "" if its carriers caught it; and the test that did, if it is known."""
    ids = one.breakage.breaks
    if not one.tests:
        return NO_CARRIER, ""
    with broken(one.changed, copy.root):
        code, said = run([first], copy, ids) if first else (0, "")
        if code != 1:
            code, said = run(one.tests, copy, ids)
    match code:
        case 0:
            return STILL_PASS, ""
        case 1:
            failed = FAILED.search(said.rpartition(SUMMARY)[2])
            return "", failed[1] if failed else ""
        case 5:
            return NO_CARRIER, ""
    return f"pytest ended with {code}: {said[-400:]}", ""


def others_notice(one: Prepared, copy: ForkedPytest) -> bool:
    """Whether tests that do not carry its requirements fail."""
    tests = mirrors_of(one.changed, copy.root)
    with broken(one.changed, copy.root):
        return bool(tests) and run(tests, copy)[0] == 1


class Trial:
    """Tries breakages, as many at once as there are copies of the tree."""

    def __init__(self, copies: Sequence[ForkedPytest], *, sound: bool, noticed_by: Mapping[str, str]) -> None:
        self._copies: Queue[ForkedPytest] = Queue()
        for copy in copies:
            self._copies.put(copy)
        self._trusts = sound
        self._noticed_by = noticed_by  # by the names of breakages
        self._sound: dict[tuple[str, ...], bool] = {}  # whether these tests pass without a breakage

    def result(self, one: Prepared) -> Result:
        copy = self._copies.get()
        began = time.monotonic()
        try:
            missed, by = noticed(one, copy, self._noticed_by.get(one.breakage.name, ""))
            if not missed and not self._trusts and not self._pass((by,) if by else one.tests, one, copy):
                missed, by, others = UNSOUND, "", False
            else:
                others = bool(missed) and others_notice(one, copy)
        finally:
            self._copies.put(copy)
        return Result(one.digest, missed, round(time.monotonic() - began, 1), others, by)

    def _pass(self, tests: tuple[str, ...], one: Prepared, copy: ForkedPytest) -> bool:
        """Whether these pass without the breakage."""
        ids = one.breakage.breaks
        if (what := (*ids, *tests)) not in self._sound:
            self._sound[what] = run(tests, copy, ids)[0] == 0
        return self._sound[what]


# --- the results file ---------------------------------------------------------------------


def read_results(path: Path) -> dict[str, Result]:
    """Results of earlier runs, by the names of the breakages."""
    return {name: Result(**said) for name, said in json.loads(path.read_text()).items()} if path.exists() else {}


def write_results(path: Path, results: Mapping[str, Result]) -> None:
    """Whole or not at all: the run may be interrupted at any moment. A line for each, so that changes can be read."""
    path.parent.mkdir(exist_ok=True)
    written = path.with_suffix(".new")
    lines = (f"{json.dumps(name)}: {json.dumps(asdict(result))}" for name, result in sorted(results.items()))
    written.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    written.replace(path)


def noted_with(
    results: Mapping[str, Result], before: Mapping[str, Result], names: Collection[str]
) -> dict[str, Result]:
    """The results to keep of the breakages that there are: the newest; of one that hung, with the test known before."""
    kept = {name: result for name, result in before.items() if name in names}
    for name in results.keys() & set(names):
        result, known = results[name], kept.get(name)
        by = result.by or (known.by if known is not None and not result.missed else "")
        kept[name] = replace(result, by=by)
    return kept


def known_of(
    all_of_them: Sequence[Prepared], noted: Mapping[str, Result], own: Mapping[str, Result]
) -> dict[str, Result]:
    """The results of this machine with those that are noted, which count where they are of the present code."""
    present = {one.breakage.name: one.digest for one in all_of_them}
    fitting = {name: result for name, result in noted.items() if result.digest == present.get(name)}
    return {**noted, **own, **fitting}


def left_of(all_of_them: Sequence[Prepared], results: Mapping[str, Result]) -> list[Prepared]:
    """The breakages that were not caught yet as they and their tests are now."""
    caught = {(name, result.digest) for name, result in results.items() if not result.missed}
    return [one for one in all_of_them if (one.breakage.name, one.digest) not in caught]


def table(all_of_them: Sequence[Prepared], results: Mapping[str, Result]) -> Iterator[str]:
    """Rows of Markdown: by package how many breakages were tried, and who caught them."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for one in all_of_them:
        result = results.get(one.breakage.name)
        if result is None or result.digest != one.digest:
            ended = "untried"
        elif not result.missed:
            ended = "carriers"
        else:
            ended = "others" if result.others else "nobody"
        for package in ("/".join(Path(next(iter(one.changed))).parent.parts[:2]), "all"):
            rows[package][ended] += 1
    yield "| package | breakages | caught by carriers | by other tests | by nobody | not tried |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for package in (*sorted(set(rows) - {"all"}), "all"):
        row = rows[package]
        counts = (row.total(), *(row[ended] for ended in ("carriers", "others", "nobody", "untried")))
        yield f"| {package} | " + " | ".join(map(str, counts)) + " |"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="breakages, or requirements, to try; else all, or a sample")
    parser.add_argument("--sample", type=int, default=0, help="how many, drawn at random; 0: all")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--noted", action="store_true", help=f"draw from those that {NOTED.name} says are quick")
    parser.add_argument("--sound", action="store_true", help="trust that the tests pass without a breakage")
    parser.add_argument("--note", action="store_true", help=f"keep in {NOTED.name} how each ended")
    parser.add_argument("--jobs", type=int, default=1, help="how many to try at once")
    parser.add_argument("--resume", action="store_true", help="leave out what was caught as it is now")
    parser.add_argument("--table", action="store_true", help="try nothing; print what the results say, by package")
    chosen = parser.parse_args(arguments)
    began = time.monotonic()
    known = tomllib.loads((ROOT / "docs" / "requirements.toml").read_text())
    usable, wrong = prepared(sorted(BREAKAGES.glob("*.toml")), ROOT, known)
    if wrong:
        print(*(f"WRONG   {line}" for line in wrong), f"{len(wrong)} cannot be applied: nothing was tried", sep="\n")
        return 1
    noted = read_results(NOTED)
    results = known_of(usable, noted, read_results(RESULTS))
    if chosen.table:
        print(*table(usable, results), sep="\n")
        return 0
    there = {name for one in usable for name in (one.breakage.name, one.requirement)}
    if strange := sorted(set(chosen.names) - there):
        parser.error(f"no such breakage: {' '.join(strange)}")
    if chosen.noted:
        quick = {name for name, result in noted.items() if result.by and result.took_s <= QUICK_S}
        usable = [one for one in usable if one.breakage.name in quick]
    usable = chosen_from(usable, chosen.names, chosen.sample, chosen.seed)
    left = left_of(usable, results) if chosen.resume else usable
    missed = [one for one in _tried(left, results, max(1, chosen.jobs), sound=chosen.sound) if one.missed]
    if chosen.note:
        write_results(NOTED, noted_with(results, noted, there))
    others = sum(one.others for one in missed)
    before = f", {len(usable) - len(left)} caught before" if chosen.resume else ""
    told = f"{len(left) - len(missed)} caught, {len(missed)} missed by their carriers ({others} noticed by other tests)"
    print(f"{told}{before}, in {time.monotonic() - began:.0f} s")
    return 1 if missed or not usable else 0


def _tried(left: Sequence[Prepared], results: dict[str, Result], jobs: int, *, sound: bool) -> list[Result]:
    """Try them, print and store each result as it comes."""
    ended: list[Result] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        first, *more = (folder / str(number) for number in range(jobs))
        first.mkdir()
        copied(first)
        for copy in more:
            shutil.copytree(first, copy)
        server = stack.enter_context(import_module("tests.fakes.databases").embedded_postgres())
        postgres = server.render_as_string(hide_password=False)
        copies = [stack.enter_context(runner(root, postgres)) for root in (first, *more)]
        noticed_by = {name: result.by for name, result in results.items() if result.by}
        trial = Trial(copies, sound=sound, noticed_by=noticed_by)
        pool = ThreadPoolExecutor(jobs)
        try:
            running = {pool.submit(trial.result, one): one for one in left}
            for future in as_completed(running):
                name, result = running[future].breakage.name, future.result()
                ended.append(result)
                results[name] = result
                write_results(RESULTS, results)
                besides = "; tests beside its carriers notice" if result.others else ""
                verdict = f"MISSED  {name}: {result.missed}{besides}" if result.missed else f"caught  {name}"
                print(f"{len(ended)}/{len(left)} {verdict} ({result.took_s:.0f} s)", flush=True)
        finally:
            pool.shutdown(cancel_futures=True)  # an interrupted run does not begin what was waiting
    return ended


if __name__ == "__main__":
    sys.exit(main())
