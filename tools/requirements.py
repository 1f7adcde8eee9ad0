"""The requirements and the tests that carry them: a pytest plugin that notes it, and the table that judges it.

`pytest -p tools.requirements` writes what it saw to `build/requirements.json`; `python -m tools.requirements` prints
what is live, carried and missing per group and fails when a test names an unknown id, one marked done has no passing
test, or more than `NOT_LIVE_AT_MOST` are not live.

A requirement is *live* when a passing test that carries it starts the program, or its composition, from the default
configuration. *Decided* is what the program does otherwise, for the reasons in a decision record.
"""

import json
import sys
import tomllib
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LIST = ROOT / "docs" / "requirements.toml"
SEEN = ROOT / "build" / "requirements.json"
PROPERTY = "requirement"
LIVE = "live"
NOT_LIVE_AT_MOST = 0
DECIDED_AT_MOST = 12
BEGAN = pytest.StashKey[int]()


@dataclass(slots=True)
class Outcomes:
    """How the tests of one requirement ended."""

    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    live: list[str] = field(default_factory=list)


# --- the plugin ---------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--requirements-to", type=Path, default=SEEN, help="where to note which tests carry what")
    parser.addoption("--carrying", action="append", default=[], help="run only tests that carry this requirement")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted, others = set(config.getoption("--carrying")), []
    for item in items:
        carried = [requirement for mark in item.iter_markers(PROPERTY) for requirement in mark.args]
        item.user_properties.extend((PROPERTY, requirement) for requirement in carried)
        if wanted and not wanted.intersection(carried):
            others.append(item)
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in set(others)]


def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[BEGAN] = _starts()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, object, object]:
    if call.when == "call" and _is_live(item):
        item.user_properties.append((LIVE, "yes"))
    return (yield)


def _is_live(item: pytest.Item) -> bool:
    """It started the program, or has a fixture in which it runs."""
    if _starts() > item.stash.get(BEGAN, 0):
        return True
    given = getattr(item, "funcargs", {})
    return any(getattr(value, "starts_the_program", False) for value in given.values())


def _starts() -> int:
    starting = sys.modules.get("tests.fakes.starting")
    return 0 if starting is None else starting.starts()


class Recorder:
    """Collects reports where they all arrive: in the process that has no `workerinput`."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.outcomes: dict[str, Outcomes] = defaultdict(Outcomes)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome == "skipped" or (report.when != "call" and report.outcome != "failed"):
            return
        is_live = any(name == LIVE for name, _ in report.user_properties)
        for name, requirement in report.user_properties:
            if name == PROPERTY:
                tests = self.outcomes[str(requirement)]
                (tests.passed if report.outcome == "passed" else tests.failed).append(report.nodeid)
                if is_live and report.outcome == "passed":
                    tests.live.append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self.target.parent.mkdir(exist_ok=True)
        seen = {name: asdict(tests) for name, tests in self.outcomes.items()}
        self.target.write_text(json.dumps(seen, indent=1, sort_keys=True))


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(config.getoption("--requirements-to")), "requirement-recorder")


# --- the table ----------------------------------------------------------------------------

NOTHING: Mapping[str, list[str]] = {"passed": [], "failed": [], "live": []}
Known = Mapping[str, Mapping[str, str]]
Seen = Mapping[str, Mapping[str, list[str]]]


def not_live(known: Known, seen: Seen) -> list[str]:
    """The ids that are neither shown by the running program nor decided otherwise."""
    return [
        name for name, entry in known.items() if entry["status"] != "decided" and not seen.get(name, NOTHING)["live"]
    ]


def mistakes(known: Known, seen: Seen) -> Iterable[str]:
    """Why the list and the tests do not agree, one line each."""
    for name in sorted(set(seen) - set(known)):
        yield f"{name}: named by {(seen[name]['passed'] + seen[name]['failed'])[0]}, not in {LIST.name}"
    for name, entry in known.items():
        status = entry["status"]
        if status not in ("open", "done", "decided"):
            yield f"{name}: status is {status!r}; expected open, done or decided"
        if status == "decided" and not (ROOT / entry.get("record", "?")).is_file():
            yield f"{name}: decided, but {entry.get('record', 'no record')} is not there"
        tests = seen.get(name, NOTHING)
        if status != "open" and not tests["passed"]:
            yield f"{name}: marked {status}, but no passing test carries it"
        if status != "open" and tests["failed"]:
            yield f"{name}: marked {status}, but {tests['failed'][0]} fails"
    if len(decided := [name for name, entry in known.items() if entry["status"] == "decided"]) > DECIDED_AT_MOST:
        yield f"{len(decided)} are decided, {DECIDED_AT_MOST} at most may be"
    if len(dead := not_live(known, seen)) > NOT_LIVE_AT_MOST:
        yield f"{len(dead)} are not live, {NOT_LIVE_AT_MOST} at most may be: {' '.join(dead)}"


def table(known: Known, seen: Seen) -> Iterable[str]:
    yield f"{'group':<7}{'all':>5}{'live':>6}{'decided':>9}{'carried':>9}{'open':>6}"
    dead = set(not_live(known, seen))
    total = [0, 0, 0, 0, 0]
    for group in dict.fromkeys(name[0] for name in known):
        names = [name for name in known if name[0] == group]
        decided = [name for name in names if known[name]["status"] == "decided"]
        carried = [name for name in names if seen.get(name, NOTHING)["passed"]]
        still_open = [name for name in names if known[name]["status"] == "open"]
        row = [len(names), len(set(names) - dead - set(decided)), len(decided), len(carried), len(still_open)]
        total = [one + other for one, other in zip(total, row, strict=True)]
        yield _row(group, row)
        if waiting := [name for name in names if name in dead]:
            yield f"       not live: {' '.join(waiting)}"
        if ready := [name for name in carried if known[name]["status"] == "open"]:
            yield f"       carried by tests but still open: {' '.join(ready)}"
    yield _row("all", total)


def _row(name: str, row: Iterable[int]) -> str:
    return f"{name:<7}" + "".join(f"{number:>{width}}" for number, width in zip(row, (5, 6, 9, 9, 6), strict=True))


def main() -> int:
    if not SEEN.exists():
        print(
            f"{SEEN.relative_to(ROOT)} is missing: run `make requirements`, which runs the tests first", file=sys.stderr
        )
        return 2
    known = tomllib.loads(LIST.read_text())
    seen = json.loads(SEEN.read_text())
    print(*table(known, seen), sep="\n")
    wrong = list(mistakes(known, seen))
    print(*(f"ERROR {line}" for line in wrong), sep="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
