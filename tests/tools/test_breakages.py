"""Breakages: what a file must say, where its place is looked for, and that each of ours has its place."""

import tomllib
from pathlib import Path

import pytest

from tools.breakages import Breakage, CodeChange, TextChange, applied, parsed, read, sources
from tools.mutate import BREAKAGES, ROOT, prepared
from tools.requirements import LIST
from tools.snippets import PlaceNotFound

PATHS = sorted(BREAKAGES.glob("*.toml"))

SAID = """\
[[breakage]]
name = "sum"
tests = ["test_double.py"]
module = "agent.double"
function = "double"
snippet = "number * 2"
replacement = "number + 2"
"""
DOUBLE = "def double(number):\n    return number * 2\n"
HALF = "def half(number):\n    return number / 2\n"


def one_of(text: str) -> Breakage:
    """The only breakage that the text holds."""
    (found,) = parsed("Z-01", text)
    return found


def test_a_change_is_applied_where_it_says() -> None:
    changed = applied(one_of(SAID), {"agent/double.py": DOUBLE, "agent/half.py": HALF})
    assert changed == {"agent/double.py": DOUBLE.replace("number * 2", "(number + 2)")}


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param({"agent/double/__init__.py": DOUBLE}, id="the module became a package"),
        pytest.param({"gateway/numbers.py": HALF + "\n\n" + DOUBLE}, id="the module was merged into another"),
        pytest.param({"agent/double.py": HALF, "gateway/numbers.py": DOUBLE}, id="the function was moved"),
        pytest.param({"agent/double.py": "import math\n\n\n" + DOUBLE}, id="the lines were moved"),
        pytest.param(
            {"agent/other.py": DOUBLE.replace("2", "3"), "agent/numbers.py": DOUBLE}, id="another has that name"
        ),
    ],
)
def test_a_place_is_found_when_the_code_has_moved(texts: dict[str, str]) -> None:
    (changed,) = applied(one_of(SAID), texts).items()
    assert changed[0] in texts
    assert "return (number + 2)" in changed[1]


def test_a_rename_of_names_is_the_same_in_both() -> None:
    renamed = SAID.replace("agent.double", "agent.twice").replace('"double"', '"twice"').replace("number", "value")
    changed = applied(one_of(renamed), {"agent/twice.py": "def twice(value):\n    return value * 2\n"})
    assert changed == {"agent/twice.py": "def twice(value):\n    return (value + 2)\n"}


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        pytest.param({"agent/double.py": HALF}, "agent.double:double .* no module of the product holds it", id="gone"),
        pytest.param(
            {"agent/double.py": DOUBLE.replace("2", "3")}, "no module of the product holds it", id="another snippet"
        ),
        pytest.param(
            {"agent/a.py": DOUBLE, "agent/b.py": DOUBLE}, "modules that hold it: agent/a.py, agent/b.py", id="two"
        ),
        pytest.param(
            {"agent/double.py": DOUBLE.replace("* 2", "* 2 - number * 2"), "agent/b.py": DOUBLE},
            "double holds the snippet 2 times",
            id="twice in its function",
        ),
    ],
)
def test_a_place_that_is_gone_or_ambiguous_is_told(texts: dict[str, str], words: str) -> None:
    with pytest.raises(PlaceNotFound, match=words):
        applied(one_of(SAID), texts)


def test_several_changes_are_made_one_after_the_other() -> None:
    first = SAID.partition("module")[0]
    change = "\n[[breakage.change]]\nmodule" + SAID.partition("module")[2]
    second = change.replace("number * 2", "number + 2").replace('= "number + 2"\n', '= "9"\n')
    second = second.replace('snippet = "9"', 'snippet = "number + 2"')
    changed = applied(one_of(first + change + second), {"agent/double.py": DOUBLE})
    assert changed == {"agent/double.py": DOUBLE.replace("number * 2", "((9))")}


def test_an_import_goes_behind_the_docstring_and_must_lead_somewhere() -> None:
    said = SAID.replace("snippet", 'imports = ["from agent.half import half"]\nsnippet')
    double = '"""Doubles."""\n\nfrom __future__ import annotations\n\n' + DOUBLE
    changed = applied(one_of(said), {"agent/double.py": double, "agent/half.py": HALF})
    assert changed["agent/double.py"].startswith(
        '"""Doubles."""\n\nfrom __future__ import annotations\n\nfrom agent.half import half\n'
    )
    with pytest.raises(ValueError, match=r"`from agent.half import half` leads nowhere"):
        applied(one_of(said), {"agent/double.py": double, "agent/half.py": DOUBLE})


def test_other_files_are_changed_as_text_that_is_there_once() -> None:
    said = SAID.partition("module")[0] + 'file = "a.js"\nsnippet = "1 + 1"\nreplacement = "3"\n'
    assert applied(one_of(said), {"a.js": "x = 1 + 1;"}) == {"a.js": "x = 3;"}
    with pytest.raises(PlaceNotFound, match=r"a.js holds the snippet 2 times"):
        applied(one_of(said), {"a.js": "1 + 1 + 1 + 1"})
    with pytest.raises(PlaceNotFound, match=r"a.js holds the snippet 0 times"):
        applied(one_of(said), {})


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        pytest.param('name = "sum"\n', "", "`name` is missing", id="no name"),
        pytest.param('name = "sum"\n', 'name = "sum"\nkind = "other"\n', "kind is 'other'", id="no such kind"),
        pytest.param(SAID, 'unbreakable = " "', "unbreakable must give the reason", id="no reason"),
        pytest.param('["test_double.py"]', "[]", "tests must be a list", id="no tests"),
        pytest.param('["test_double.py"]', '"test_double.py"', "tests must be a list", id="no list"),
        pytest.param('function = "double"\n', "", "`function` is missing", id="no function"),
        pytest.param("snippet", "snipet", "`snippet` is missing", id="no snippet"),
        pytest.param("snippet", "nht = 1\nsnippet", "unknown key `nht`; known: name, module", id="a typing error"),
        pytest.param("snippet", 'nth = "1"\nsnippet', "nth must be a number", id="no number"),
        pytest.param('"double"', "3", "function must be a string", id="no string"),
        pytest.param("[[breakage]]", "[breakage]", r"each breakage begins with \[\[breakage\]\]", id="no list"),
        pytest.param("name =", "name", "line 2", id="no TOML"),
    ],
)
def test_what_a_file_must_say(old: str, new: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parsed("Z-01", SAID.replace(old, new))


@pytest.fixture(scope="module")
def ours() -> list[Breakage]:
    return [breakage for path in PATHS for breakage in read(path)]


def test_each_of_ours_has_its_place_and_names_real_requirements() -> None:
    usable, wrong = prepared(PATHS, ROOT, tomllib.loads(LIST.read_text()))
    assert not wrong
    assert len(usable) >= 1200


def test_the_tests_that_ours_name_are_there(ours: list[Breakage]) -> None:
    for breakage in ours:
        for test in breakage.tests:
            file, _, name = test.partition("::")
            if (ROOT / file).is_dir():
                continue
            assert name.rpartition("::")[2].partition("[")[0] in (ROOT / file).read_text(), test


def test_each_requirement_has_a_breakage_or_the_reason_why_it_has_none(ours: list[Breakage]) -> None:
    assert [path.stem for path in PATHS] == sorted([*tomllib.loads(LIST.read_text()), "safety"])
    broken = {requirement for breakage in ours for requirement in breakage.breaks}
    for path in PATHS:
        if "unbreakable" not in tomllib.loads(path.read_text()):
            assert path.stem in {*broken, "safety"}, path.stem
    assert sum(not breakage.breaks for breakage in ours) >= 60


def test_a_breakage_of_safety_names_its_tests_and_breaks_no_requirement() -> None:
    (one,) = parsed("safety", SAID)
    assert one.breaks == ()
    with pytest.raises(ValueError, match="names its tests"):
        parsed("safety", SAID.replace('tests = ["test_double.py"]\n', ""))


def test_there_are_enough_of_them_and_from_many_packages(ours: list[Breakage]) -> None:
    changes = [change for breakage in ours for change in breakage.changes]
    places = [change.module if isinstance(change, CodeChange) else change.file.replace("/", ".") for change in changes]
    assert len(ours) >= 200
    assert len({".".join(place.split(".")[:2]) for place in places}) >= 12
    assert not list(BREAKAGES.glob("*.patch")), "a patch goes by lines: write it as a change"


def test_the_files_that_are_no_python_are_read_where_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "a.py").write_text(DOUBLE)
    (tmp_path / "agent" / "a.js").write_text("1")
    said = SAID.partition("module")[0] + 'file = "agent/a.js"\nsnippet = "1"\nreplacement = "3"\n'
    assert sources(tmp_path) == {"agent/a.py": DOUBLE}
    breakage = one_of(said)
    assert isinstance(breakage.changes[0], TextChange)
    assert sources(tmp_path, [breakage]) == {"agent/a.js": "1", "agent/a.py": DOUBLE}
