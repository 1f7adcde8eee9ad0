"""The list of requirements, the tests that carry them, and the table that judges both."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tools.requirements import DECIDED_AT_MOST, LIST, NOT_LIVE_AT_MOST, ROOT, mistakes, table

SPECIFIED = {"Z": 145, "H": 39, "W": 70, "R": 55, "B": 94, "G": 35}


def entry(status: str) -> dict[str, str]:
    return {"status": status, "text": "…"}


def seen(
    *, passed: tuple[str, ...] = (), failed: tuple[str, ...] = (), live: tuple[str, ...] = ()
) -> dict[str, list[str]]:
    return {"passed": list(passed), "failed": list(failed), "live": list(live)}


def test_every_id_of_the_specification_is_listed_and_what_came_later_goes_on_from_there() -> None:
    known = tomllib.loads(LIST.read_text())
    for group, least in SPECIFIED.items():
        numbers = [int(name.partition("-")[2]) for name in known if name.startswith(f"{group}-")]
        assert numbers == list(range(1, len(numbers) + 1)), group
        assert len(numbers) >= least, group
    assert {name[0] for name in known} == set(SPECIFIED)
    for name, entry in known.items():
        assert set(entry) == {"status", "text"} | ({"record"} if entry["status"] == "decided" else set()), name
        assert entry["text"].strip()
        if entry["status"] == "decided":
            assert name in (ROOT / entry["record"]).read_text(), "the record says who loses what"


def test_no_test_names_an_id_that_does_not_exist() -> None:
    known = tomllib.loads(LIST.read_text())
    for path in (ROOT / "tests").rglob("test_*.py"):
        if path == Path(__file__):
            continue
        for marker in re.findall(r"mark\.requirement\(([^)]*)\)", path.read_text()):
            named = re.findall(r'"([^"]+)"', marker)
            assert named, f"{path}: requirement({marker})"
            assert set(named) <= set(known), path


@pytest.mark.parametrize(
    ("status", "tests", "mistake"),
    [
        pytest.param("done", seen(passed=("t",)), None, id="done and carried"),
        pytest.param("open", seen(), None, id="open and not carried"),
        pytest.param("open", seen(failed=("t",)), None, id="open, its test still fails"),
        pytest.param("done", seen(), "Z-01: marked done, but no passing test carries it", id="done without a test"),
        pytest.param("done", seen(failed=("t",)), "Z-01: marked done, but t fails", id="done with a failing test"),
        pytest.param(
            "finished", seen(passed=("t",)), "Z-01: status is 'finished'; expected open, done or decided", id="typo"
        ),
        pytest.param("decided", seen(passed=("t",)), "Z-01: decided, but no record is not there", id="no record"),
        pytest.param("decided", seen(), "Z-01: marked decided, but no passing test carries it", id="only decided"),
    ],
)
def test_mistakes(status: str, tests: dict[str, list[str]], mistake: str | None) -> None:
    found = [one for one in mistakes({"Z-01": entry(status)}, {"Z-01": tests}) if "not live" not in one]
    assert mistake in found if mistake else not found


def test_an_unknown_id_is_a_mistake() -> None:
    assert list(mistakes({}, {"Q-01": seen(passed=("t",))})) == ["Q-01: named by t, not in requirements.toml"]


def test_the_table_counts_by_group_and_names_what_is_not_live_and_what_is_ready() -> None:
    known = {"Z-01": entry("done"), "Z-02": entry("open"), "W-01": entry("decided")}
    lines = list(table(known, {"Z-01": seen(passed=("t",), live=("t",)), "Z-02": seen(passed=("t",))}))
    assert lines[1].split() == ["Z", "2", "1", "0", "2", "1"]
    assert lines[2].split() == ["not", "live:", "Z-02"]
    assert "still open: Z-02" in lines[3]
    assert lines[4].split() == ["W", "1", "0", "1", "0", "0"]
    assert lines[5].split() == ["all", "3", "1", "1", "2", "1"]


def test_more_than_may_be_decided_or_dead_is_a_mistake() -> None:
    many = {f"Z-{number}": entry("decided") for number in range(DECIDED_AT_MOST + 1)}
    assert f"{DECIDED_AT_MOST + 1} are decided, {DECIDED_AT_MOST} at most may be" in list(mistakes(many, {}))
    dead = {f"Z-{number}": entry("open") for number in range(NOT_LIVE_AT_MOST + 1)}
    assert any("are not live" in line for line in mistakes(dead, {}))
    shown = {name: seen(passed=("t",), live=("t",)) for name in dead}
    assert not list(mistakes(dead, shown))


def test_the_plugin_notes_how_the_tests_of_each_requirement_ended(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "import pytest\nfrom tests.fakes.starting import started\n"
        "@pytest.mark.requirement('Z-01', 'Z-02')\ndef test_good(): pass\n"
        "@pytest.mark.requirement('Z-02')\ndef test_bad(): assert False\n"
        "@pytest.mark.requirement('Z-03')\nclass TestBoth:\n"
        "    def test_one(self): pass\n"
        "    @pytest.mark.requirement('Z-04')\n    def test_two(self): pass\n"
        "@pytest.mark.requirement('Z-05')\ndef test_skipped(): pytest.skip('no')\n"
        "def test_none(): pass\n"
        "@pytest.mark.requirement('Z-06')\ndef test_starts(): started()\n"
        "@pytest.fixture(scope='module')\ndef stage():\n"
        "    started()\n    class Stage: starts_the_program = True\n    return Stage()\n"
        "@pytest.mark.requirement('Z-07')\ndef test_stage(stage): pass\n"
        "@pytest.mark.requirement('Z-08')\ndef test_stage_again(stage): pass\n"
        "@pytest.mark.requirement('Z-09')\ndef test_falls(stage): assert False\n"
    )
    target = tmp_path / "seen.json"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tools.requirements", "-p", "no:cacheprovider",
               "--requirements-to", str(target), "-c", str(ROOT / "pyproject.toml"), str(tmp_path)]  # fmt: skip
    subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=False)
    noted = {
        name: (len(tests["passed"]), len(tests["failed"]), len(tests["live"]))
        for name, tests in json.loads(target.read_text()).items()
    }
    assert noted == {
        "Z-01": (1, 0, 0), "Z-02": (1, 1, 0), "Z-03": (2, 0, 0), "Z-04": (1, 0, 0),
        "Z-06": (1, 0, 1), "Z-07": (1, 0, 1), "Z-08": (1, 0, 1), "Z-09": (0, 1, 0),
    }  # fmt: skip
