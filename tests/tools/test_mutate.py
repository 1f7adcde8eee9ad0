"""Breakages are tried: what counts as noticed, what is left of an interrupted run, what is refused before any."""

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.processes import alive
from tools.forked_pytest import TIMED_OUT, ForkedPytest
from tools.mutate import (
    Prepared,
    Result,
    Trial,
    chosen_from,
    copied,
    known_of,
    left_of,
    noted_with,
    noticed,
    prepared,
    read_results,
    runner,
    table,
    write_results,
)

ROOT = Path(__file__).parents[2]
RIGHT = "def double(number):\n    return number * 2\n"
BEGINNING = 'import pytest\nfrom agent.double import double\n@pytest.mark.requirement("Z-01")\n'
NOTICES = BEGINNING + "def test_it(): assert double(3) == 6\n"
CARELESS = BEGINNING + "def test_it(): assert double(2) == 4\n"
CHECKED_HASH = b"\3\0\0\0"  # flags of a compiled file (PEP 552)
UNMARKED = "def test_beside(): assert double(3) == 6\n"
SAID = """\
[[breakage]]
name = "sum"
tests = ["test_double.py"]
module = "agent.double"
function = "double"
snippet = "number * 2"
replacement = "number + 2"
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small project of its own."""
    tree = tmp_path / "tree"
    (tree / "agent").mkdir(parents=True)
    (tree / "agent" / "__init__.py").write_text("")
    (tree / "agent" / "double.py").write_text(RIGHT)
    (tree / "conftest.py").write_text("")
    (tree / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "requirements.py", tree / "tools")
    (tree / "pytest.ini").write_text("[pytest]\nmarkers =\n    requirement(*ids): carried\n    slow: not here\n")
    (tree / "test_double.py").write_text(NOTICES)
    return tree


@pytest.fixture
def copy(tree: Path) -> Iterator[ForkedPytest]:
    """The process that runs its tests."""
    with runner(tree) as copy:
        yield copy


def prepare(tree: Path, said: str = SAID) -> tuple[list[Prepared], list[str]]:
    path = tree.parent / "Z-01.toml"
    path.write_text(said)
    return prepared([path], tree, {"Z-01": {}})


@pytest.mark.parametrize(
    ("tests", "why"),
    [
        pytest.param(NOTICES, "", id="noticed"),
        pytest.param(CARELESS, "its tests still pass", id="not noticed"),
        pytest.param(CARELESS + UNMARKED, "its tests still pass", id="noticed by a test that does not carry it"),
        pytest.param("from agent.double import double\n" + UNMARKED, "no test that carries", id="no carrier"),
        pytest.param("def broken(:\n", "pytest ended with 2", id="tests that do not run"),
    ],
)
def test_what_counts_as_noticed(tree: Path, copy: ForkedPytest, tests: str, why: str) -> None:
    (tree / "test_double.py").write_text(tests)
    ((one,), _) = prepare(tree)
    found, by = noticed(one, copy)
    assert found.startswith(why)
    assert bool(found) == bool(why)
    assert by == ("" if why else "test_double.py::test_it")
    assert (tree / "agent" / "double.py").read_text() == RIGHT, "mended afterwards"


def test_all_that_carry_a_requirement_are_asked_where_no_tests_are_named(tree: Path, copy: ForkedPytest) -> None:
    tests = tree / "tests" / "agent"
    tests.mkdir(parents=True)
    careless, noticing = tests / "test_careless.py", tests / "test_noticing.py"
    careless.write_text(CARELESS)
    noticing.write_text(NOTICES.replace("Z-01", "Z-02"))
    ((one,), _) = prepare(tree, SAID.replace('tests = ["test_double.py"]\n', ""))
    result = Trial([copy], sound=False, noticed_by={}).result(one)
    assert (result.missed, result.others) == ("its tests still pass", True)
    noticing.write_text(NOTICES)
    ((one,), _) = prepare(tree, SAID.replace('tests = ["test_double.py"]\n', ""))
    result = Trial([copy], sound=False, noticed_by={}).result(one)
    assert (result.missed, result.by) == ("", "tests/agent/test_noticing.py::test_it")


def test_a_line_of_the_log_is_no_test_that_noticed(tree: Path, copy: ForkedPytest) -> None:
    """pytest shows the log of a failed test above the names; its errors begin as those of tests do."""
    logged = "import logging\n" + NOTICES.replace("assert", "logging.error('broken - at %s', 1); assert")
    (tree / "test_double.py").write_text(logged)
    ((one,), _) = prepare(tree)
    assert noticed(one, copy) == ("", "test_double.py::test_it")


@pytest.mark.parametrize(
    "first",
    [
        pytest.param("test_double.py::test_it", id="notices again"),
        pytest.param("test_other.py::test_it", id="notices no more"),
        pytest.param("test_double.py::test_gone", id="is gone"),
    ],
)
@pytest.mark.slow  # runs of pytest; `make mutate` uses it in each CI
def test_the_test_that_noticed_last_is_asked_first_and_then_the_others(
    tree: Path, copy: ForkedPytest, first: str
) -> None:
    (tree / "test_other.py").write_text(CARELESS)
    ((one,), _) = prepare(tree)
    result = Trial([copy], sound=False, noticed_by={"sum": first}).result(one)
    assert (result.missed, result.by) == ("", "test_double.py::test_it")


def test_what_a_run_needed_of_libraries_is_there_in_the_next_and_nothing_of_the_tree(
    tree: Path, copy: ForkedPytest
) -> None:
    test = tree / "test_double.py"
    test.write_text("import sys\ndef test_it(): assert 'tabnanny' not in sys.modules; import tabnanny\n")
    assert copy.run(["-q"], 60)[0] == 0
    test.write_text(
        "import sys\ndef test_it(): assert 'tabnanny' in sys.modules and 'agent.double' not in sys.modules\n"
    )
    assert copy.run(["-q"], 60)[0] == 0


def test_a_run_that_hangs_is_ended_with_what_it_started(tree: Path, copy: ForkedPytest) -> None:
    (tree / "test_double.py").write_text(
        "import subprocess, sys, time, pathlib\n"
        "def test_it():\n"
        "    program = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "    pathlib.Path('pid').write_text(str(program.pid))\n"
        "    time.sleep(60)\n"
    )
    assert copy.run(["-q"], 3)[0] == TIMED_OUT
    while alive(int((tree / "pid").read_text())):  # it has been told to end
        time.sleep(0.01)
    (tree / "test_double.py").write_text(NOTICES)
    assert copy.run(["-q"], 60)[0] == 0, "the next one runs"


def test_results_of_the_breakages_that_are_still_there_are_kept(tmp_path: Path) -> None:
    caught = Result(digest="d", missed="", took_s=1, by="tests/test_a.py::test_it")
    before = noted_with({"sum": caught, "product": caught, "gone": caught}, {}, {"sum", "product"})
    assert before == {"sum": caught, "product": caught}
    missed = replace(caught, missed="its tests still pass", by="")
    hung = replace(caught, digest="e", by="")
    now = noted_with({"sum": hung, "product": missed}, before, {"sum", "product"})
    assert now == {"sum": replace(hung, by=caught.by), "product": missed}, "of one that hung the test is known"
    file = tmp_path / "results.json"
    write_results(file, now)
    assert read_results(file) == now
    assert len(file.read_text().splitlines()) == 4, "a line for each"


def test_tests_that_fail_without_a_breakage_prove_nothing(tree: Path, copy: ForkedPytest) -> None:
    (tree / "test_double.py").write_text(NOTICES.replace("6", "7"))
    ((one,), _) = prepare(tree)
    assert Trial([copy], sound=False, noticed_by={}).result(one).missed == "its tests fail without it"
    assert Trial([copy], sound=True, noticed_by={}).result(one).missed == ""


@pytest.mark.parametrize(
    ("said", "words"),
    [
        pytest.param(SAID.replace("* 2", "* 3"), "sum: agent.double:double does not hold the snippet", id="place gone"),
        pytest.param(SAID + 'breaks = ["Z-02"]\n', "sum: names unknown requirements: Z-02", id="unknown requirement"),
        pytest.param(SAID.replace("name =", "nmae ="), "Z-01: `name` is missing", id="unreadable"),
        pytest.param(SAID + "kind = 'other'\n", "Z-01: kind is 'other'; known: condition", id="unknown kind"),
        pytest.param(SAID + SAID, "sum: 2 breakages have this name", id="a name twice"),
    ],
)
def test_what_cannot_be_applied_is_told_by_name_before_anything_runs(tree: Path, said: str, words: str) -> None:
    usable, wrong = prepare(tree, said)
    assert not usable
    assert wrong[0].startswith(words)


def test_some_are_chosen_by_name_or_by_chance(tree: Path) -> None:
    ((one,), _) = prepare(tree)
    six = [
        replace(one, requirement=f"Z-0{number}", breakage=replace(one.breakage, name=name))
        for number, name in enumerate("abcdef")
    ]
    assert chosen_from(six, [], 0, None) == six
    assert chosen_from(six, ["b", "Z-04"], 0, None) == [six[1], six[4]]
    some = chosen_from(six, [], 2, seed=1)
    assert len(some) == 2
    assert some == chosen_from(six, [], 2, seed=1)


def test_a_resumed_run_leaves_out_what_was_caught_and_is_unchanged(tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "build" / "mutate.json"
    assert read_results(file) == {}
    (usable, _) = prepare(tree)
    digest = usable[0].digest
    write_results(file, {"sum": Result(digest=digest, missed="", took_s=1.5)})
    assert left_of(usable, read_results(file)) == []
    assert left_of(usable, {"sum": Result(digest=digest, missed="its tests still pass", took_s=1.5)}) == usable
    assert left_of(usable, {"other": Result(digest=digest, missed="", took_s=1.5)}) == usable
    (tree / "test_double.py").write_text(NOTICES + "\n")
    assert len(left_of(prepare(tree)[0], read_results(file))) == 1, "its tests are others now"
    (tree / "test_double.py").write_text(NOTICES)
    assert left_of(prepare(tree)[0], read_results(file)) == []
    (tree / "agent" / "double.py").write_text(RIGHT + "\n")
    assert len(left_of(prepare(tree)[0], read_results(file))) == 1, "what it breaks is other code now"


def test_what_is_noted_of_the_present_code_goes_before_an_older_run_of_the_machine(tree: Path) -> None:
    ((one,), _) = prepare(tree)
    present, older = Result(digest=one.digest, missed="", took_s=1), Result(digest="of before", missed="", took_s=1)
    assert known_of([one], {"sum": present}, {"sum": older}) == {"sum": present}
    assert known_of([one], {"sum": older}, {"sum": present}) == {"sum": present}
    assert known_of([one], {"gone": older}, {"sum": older}) == {"gone": older, "sum": older}


def test_the_table_tells_who_caught_what_by_package(tree: Path) -> None:
    ((one,), _) = prepare(tree)
    names = {"sum": "", "careless": "its tests still pass", "late": "its tests still pass", "new": ""}
    several = [replace(one, breakage=replace(one.breakage, name=name)) for name in names]
    results = {
        name: Result(one.digest if name != "new" else "of before", missed, 1.0, others=name == "late")
        for name, missed in names.items()
    }
    rows = list(table(several, results))
    assert rows[2:] == ["| agent | 4 | 1 | 1 | 1 | 1 |", "| all | 4 | 1 | 1 | 1 | 1 |"]


@pytest.mark.slow
def test_the_copy_holds_what_tests_need_compiled_by_its_contents(tmp_path: Path) -> None:
    copied(tmp_path)
    assert (tmp_path / "pyproject.toml").exists()
    assert (tmp_path / "tests" / "conftest.py").exists()
    compiled = list((tmp_path / "agent").rglob("*.pyc"))
    assert compiled
    assert all(path.read_bytes()[4:8] == CHECKED_HASH for path in compiled)
    assert not (tmp_path / ".venv").exists()
