"""The home of another program is read within bounds: no link, no large file, nothing that is broken."""

from pathlib import Path

import pytest

from gateway.importers import home as module
from gateway.importers.home import Home


def _left(home: Home) -> dict[str, str]:
    return {one.what: one.why for one in home.left}


def test_a_missing_file_is_no_matter(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert (home.text("MEMORY.md"), home.json("a.json")) == ("", {})
    assert (home.files("memory"), home.skills("skills")) == ((), [])
    assert home.rows(("state", "x.sqlite"), {"a": "select 1"}) is None
    assert home.left == []


@pytest.mark.requirement("G-159")
def test_no_link_is_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "evil").mkdir(parents=True)
    (outside / "secret.md").write_text("root:x:0:0")
    (outside / "evil" / "SKILL.md").write_text("---\nname: evil\n---\nDo evil.")
    root = tmp_path / "home"
    (root / "skills" / "good").mkdir(parents=True)
    (root / "skills" / "good" / "SKILL.md").write_text("Do good.")
    (root / "skills" / "good" / "passwd").symlink_to(outside / "secret.md")
    (root / "skills" / "evil").symlink_to(outside / "evil")
    (root / "MEMORY.md").symlink_to(outside / "secret.md")
    (root / "memory").symlink_to(outside)
    (root / "state.sqlite").symlink_to(outside / "secret.md")
    home = Home(root)
    assert home.text("MEMORY.md") == ""
    assert home.text("memory", "secret.md") == ""
    assert home.files("memory") == ()
    assert home.rows(("state.sqlite",), {"a": "select 1"}) is None
    (good,) = home.skills("skills")
    assert dict(good.files) == {"SKILL.md": b"Do good."}
    assert {"MEMORY.md", "skills/evil", "skills/good/passwd"} <= _left(home).keys()


@pytest.mark.requirement("G-159")
@pytest.mark.parametrize("name", ["", ".", "..", "../outside", "a/b", "/etc", "a\\b", "a\0b"])
def test_no_name_leads_out_of_the_home(name: str, tmp_path: Path) -> None:
    root, outside = tmp_path / "home", tmp_path / "outside"
    for folder in (root / "agents" / "a", outside):
        folder.mkdir(parents=True)
        (folder / "keys.json").write_text('{"key": "s3cret"}')
    (root / "agents" / "keys.json").write_text('{"key": "s3cret"}')
    home = Home(root)
    assert not home.has("agents", name, "keys.json")
    assert not home.has("agents", name)
    assert home.bytes(("agents", name, "keys.json")) is None
    assert home.files("agents", name) == ()
    assert home.rows(("agents", name), {"a": "select 1"}) is None
    assert {one.why for one in home.left} == {"it is no name of a file in this home"}


@pytest.mark.requirement("G-159")
def test_large_files_stay(tmp_path: Path) -> None:
    skills = tmp_path / "skills"
    for name, size in (("long", module.LARGEST_SKILL + 1), ("heavy", 10), ("many", 10)):
        (skills / name).mkdir(parents=True)
        (skills / name / "SKILL.md").write_bytes(b"x" * size)
    (skills / "heavy" / "model.bin").write_bytes(b"\0" * (module.LARGEST_SKILL_FILES + 1))
    for number in range(module.MOST_SKILL_FILES + 1):
        (skills / "many" / f"{number}.txt").write_text("x")
    (tmp_path / "MEMORY.md").write_bytes(b"x" * (module.LARGEST_TEXT + 1))
    home = Home(tmp_path)
    assert home.text("MEMORY.md") == ""
    assert home.skills("skills") == []
    assert set(_left(home)) == {"MEMORY.md", "skills/long/SKILL.md", "skill skills/heavy", "skill skills/many"}


@pytest.mark.requirement("G-159")
def test_a_skill_cannot_name_its_way_out(tmp_path: Path) -> None:
    for folder in ("x%2f..%2fagents", "..%2fy", "...", "a\nb", "--"):
        (tmp_path / "skills" / folder).mkdir(parents=True)
        (tmp_path / "skills" / folder / "SKILL.md").write_text("---\nname: ../../secrets\n---\nDo it.")
    found = Home(tmp_path).skills("skills")
    assert sorted(skill.name for skill in found) == ["a-b", "x-2f-2fagents"]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.json", b'{"token": "s3cret", }', "line 1 is no JSON"),
        ("a.yaml", b"token: 's3cret\nb: [", "line"),
        ("a.json", b"[" * 200_000, "nested too deeply"),
        ("a.json", b"[1]", "no table"),
        ("a.json", b'{"a": "\xff"}', "UTF-8"),
    ],
    ids=["broken JSON", "broken YAML", "deep JSON", "a list", "another encoding"],
)
def test_a_broken_file_is_told_of_without_its_text(tmp_path: Path, name: str, content: bytes, why: str) -> None:
    (tmp_path / name).write_bytes(content)
    home = Home(tmp_path)
    assert (home.json(name) if name.endswith("json") else home.yaml(name)) == {}
    assert why in _left(home)[name]
    assert "s3cret" not in str(home.left)


@pytest.mark.requirement("G-159")
@pytest.mark.parametrize(
    "text",
    [
        "&a [*a]\n",
        "x: &a {b: *a}\n",
        "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
        + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcde", "bcdef", strict=True)),
    ],
    ids=["a list in itself", "a table in itself", "many by few"],
)
def test_names_for_other_values_do_not_multiply(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(text)
    home = Home(tmp_path)
    assert home.yaml("a.yaml") == {}
    assert "it holds more than 1,000,000 values" in _left(home)["a.yaml"]


def test_a_database_is_read_and_not_touched(tmp_path: Path) -> None:
    (tmp_path / "x.sqlite").write_bytes(b"not a database")
    home = Home(tmp_path)
    assert home.rows(("x.sqlite",), {"a": "select 1 from b"}) is None
    assert "its tables cannot be read" in _left(home)["x.sqlite"]
    assert [path.name for path in tmp_path.iterdir()] == ["x.sqlite"]


def test_lines_of_a_report_steer_no_terminal(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.leave("schedule \x1b[2J\u202e" + "x" * 500, "why")
    assert len(home.left[0].what) <= 120
    assert "\x1b" not in home.left[0].what
    assert "\u202e" not in home.left[0].what


def test_variables_of_a_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("# A=1\nexport B='two words'\nC=three # said\nD=\n=5\nE-F=6\n")
    assert Home(tmp_path).variables(".env") == {"B": "two words", "C": "three", "D": ""}


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ('A="x" # y', "x"),
        ("A='x'#y", "x"),
        ('A="x # y"', "x # y"),
        ('A="say \\"x\\"" # y', 'say "x"'),
        ("A='it\\s'", "it\\s"),
        ('A="x', '"x'),
        ('A="x" y', '"x" y'),
        ("A=x\t# y", "x"),
        ("A=x#y", "x#y"),
    ],
)
def test_quotes_and_comments_of_variables(line: str, value: str, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"{line}\n")
    assert Home(tmp_path).variables(".env") == {"A": value}


@pytest.mark.parametrize("text", ['a: !!int ""', "a: !!timestamp x", "a: !!bool x", "2024-13-45: a", "? [a]\n: b"])
def test_values_that_yaml_cannot_make_are_told_of(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(text)
    home = Home(tmp_path)
    assert home.yaml("a.yaml") == {}
    assert "it cannot be read" in _left(home)["a.yaml"]


def test_keys_are_texts_and_numbers_have_an_end(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("7: {-1005: a}\ntrue: [{2: b}]\n2026-01-01: c\n")
    assert Home(tmp_path).yaml("a.yaml") == {"7": {"-1005": "a"}, "True": [{"2": "b"}], "2026-01-01": "c"}
    (tmp_path / "a.json").write_text(f"{{a: 0x{'f' * 5_000}, b: 7}}")
    assert Home(tmp_path).json5("a.json") == {"a": None, "b": 7}


def test_scripts_of_a_skill_stay_programs(tmp_path: Path) -> None:
    folder = tmp_path / "skills" / "report"
    folder.mkdir(parents=True)
    for name in ("SKILL.md", "run.sh", "notes.txt"):
        (folder / name).write_text("x")
    (folder / "run.sh").chmod(0o755)
    (skill,) = Home(tmp_path).skills("skills")
    assert skill.executable == {"run.sh"}
