"""Breakages: what a patch must say, and what counts as noticed."""

import tomllib
from pathlib import Path

import pytest

from tools.mutate import ROOT, Breakage, chosen_from, copied, fits, read, survives, unknown
from tools.requirements import LIST

PATCHES = sorted((ROOT / "tests" / "breakages").glob("*.patch"))

RIGHT = "def double(number):\n    return number * 2\n"
NOTICES = "from double import double\ndef test_it(): assert double(2) == 4\ndef test_less(): assert double(3) == 6\n"
CARELESS = "from double import double\ndef test_it(): assert double(2) == 4\n"
PATCH = """\
# breaks: Z-01
# tests: test_double.py
--- a/double.py
+++ b/double.py
@@ -1,2 +1,2 @@
 def double(number):
-    return number * 2
+    return number + 2
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small project of its own."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "double.py").write_text(RIGHT)
    (tmp_path / "tree" / "conftest.py").write_text("")
    return tmp_path / "tree"


def patch(folder: Path, text: str = PATCH) -> Breakage:
    path = folder / "some.patch"
    path.write_text(text)
    return read(path)


@pytest.mark.parametrize(
    ("tests", "why"),
    [
        pytest.param(NOTICES, None, id="noticed"),
        pytest.param(CARELESS, "its tests still pass", id="not noticed"),
        pytest.param("def broken(:\n", "pytest ended with 2", id="tests that do not run"),
    ],
)
def test_what_counts_as_noticed(tree: Path, tmp_path: Path, tests: str, why: str | None) -> None:
    (tree / "test_double.py").write_text(tests)
    found = survives(patch(tmp_path), tree)
    assert found is None if why is None else found is not None and found.startswith(why)
    assert (tree / "double.py").read_text() == RIGHT, "mended afterwards"


def test_a_patch_that_does_not_fit_any_more_is_told(tree: Path, tmp_path: Path) -> None:
    (tree / "double.py").write_text("def double(number):\n    return number + number\n")
    assert survives(patch(tmp_path), tree) == "does not apply any more: bring it up to date"
    assert sorted(path.name for path in tree.iterdir()) == ["conftest.py", "double.py"]


@pytest.mark.parametrize("line", ["breaks", "tests"])
def test_a_patch_must_say_what_it_breaks_and_who_notices(tmp_path: Path, line: str) -> None:
    with pytest.raises(ValueError, match=f"no line `# {line}: …`"):
        patch(tmp_path, PATCH.replace(f"# {line}: ", "# "))


def test_some_are_chosen_by_name_or_by_chance() -> None:
    paths = [Path(f"{name}.patch") for name in "abcdef"]
    assert chosen_from(paths, [], 0, None) == paths
    assert chosen_from(paths, ["b", "e"], 0, None) == [paths[1], paths[4]]
    some = chosen_from(paths, [], 2, seed=1)
    assert len(some) == 2
    assert some == chosen_from(paths, [], 2, seed=1)


@pytest.mark.parametrize("path", PATCHES, ids=lambda path: path.stem)
def test_each_of_ours_fits_and_names_real_requirements_and_real_tests(path: Path) -> None:
    breakage = read(path)
    assert fits(breakage, ROOT)
    assert not unknown(breakage, tomllib.loads(LIST.read_text()))
    for test in breakage.tests:
        file, _, name = test.partition("::")
        assert name.rpartition("::")[2].partition("[")[0] in (ROOT / file).read_text(), test


def test_there_are_enough_of_them_and_from_many_rooms() -> None:
    rooms = {
        line.split("/")[1] + "/" + line.split("/")[2]
        for path in PATCHES
        for line in path.read_text().splitlines()
        if line.startswith("--- a/")
    }
    assert len(PATCHES) >= 25
    assert len(rooms) >= 12


def test_the_copy_holds_what_tests_need_and_nothing_built(tmp_path: Path) -> None:
    copied(tmp_path)
    assert (tmp_path / "pyproject.toml").exists()
    assert (tmp_path / "tests" / "conftest.py").exists()
    assert not list(tmp_path.rglob("__pycache__"))
    assert not (tmp_path / ".venv").exists()
