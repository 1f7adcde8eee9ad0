"""Which requirements are carried by which tests: a pytest plugin that notes it, and the table that judges it.

`pytest -p tools.requirements` writes what it saw to `build/requirements.json`; `python -m tools.requirements` prints
covered and missing per group and fails when a test names an unknown id or one marked done has no passing test.
"""

import json
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LIST = ROOT / "docs" / "requirements.toml"
SEEN = ROOT / "build" / "requirements.json"
PROPERTY = "requirement"


@dataclass(slots=True)
class Outcomes:
    """How the tests of one requirement ended."""

    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


# --- the plugin ---------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--requirements-to", type=Path, default=SEEN, help="where to note which tests carry what")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in item.iter_markers(PROPERTY):
            item.user_properties.extend((PROPERTY, requirement) for requirement in mark.args)


class Recorder:
    """Collects reports where they all arrive: in the process that has no `workerinput`."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.outcomes: dict[str, Outcomes] = defaultdict(Outcomes)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome == "skipped" or (report.when != "call" and report.outcome != "failed"):
            return
        for name, requirement in report.user_properties:
            if name == PROPERTY:
                tests = self.outcomes[str(requirement)]
                (tests.passed if report.outcome == "passed" else tests.failed).append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self.target.parent.mkdir(exist_ok=True)
        seen = {name: {"passed": tests.passed, "failed": tests.failed} for name, tests in self.outcomes.items()}
        self.target.write_text(json.dumps(seen, indent=1, sort_keys=True))


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(config.getoption("--requirements-to")), "requirement-recorder")


# --- the table ----------------------------------------------------------------------------


def mistakes(known: Mapping[str, Mapping[str, str]], seen: Mapping[str, Mapping[str, list[str]]]) -> Iterable[str]:
    """Why the list and the tests do not agree, one line each."""
    for name in sorted(set(seen) - set(known)):
        yield f"{name}: named by {(seen[name]['passed'] + seen[name]['failed'])[0]}, not in {LIST.name}"
    for name, entry in known.items():
        if entry["status"] not in ("open", "done"):
            yield f"{name}: status is {entry['status']!r}; expected open or done"
        tests = seen.get(name, {"passed": [], "failed": []})
        if entry["status"] == "done" and not tests["passed"]:
            yield f"{name}: marked done, but no passing test carries it"
        if entry["status"] == "done" and tests["failed"]:
            yield f"{name}: marked done, but {tests['failed'][0]} fails"


def table(known: Mapping[str, Mapping[str, str]], seen: Mapping[str, Mapping[str, list[str]]]) -> Iterable[str]:
    yield f"{'group':<7}{'all':>5}{'done':>6}{'carried':>9}{'open':>6}"
    for group in dict.fromkeys(name[0] for name in known):
        names = [name for name in known if name[0] == group]
        done = [name for name in names if known[name]["status"] == "done"]
        carried = [name for name in names if seen.get(name, {}).get("passed")]
        yield f"{group:<7}{len(names):>5}{len(done):>6}{len(carried):>9}{len(names) - len(done):>6}"
        ready = [name for name in carried if name not in done]
        if ready:
            yield f"       carried by tests but still open: {' '.join(ready)}"


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
