"""A release: what it is made of, when it may be made, and the bill of materials against the lock."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.file_sizes import ROOT
from tools.release import SUMS, built, exported, head_of, release, run, sha256, unready, uv
from tools.sbom import Told, bill, locked_in, told, without_licence

LOCK = (ROOT / "requirements" / "run.lock").read_text()
MADE_AT = "2026-11-28T08:00:00Z"
SITE_PACKAGES = next(Path(path) for path in sys.path if path.endswith("site-packages"))
OTHER_SYSTEMS = {"audioop-lts", "httpx2-jsfetch", "pywin32"}  # at most: a newer Python needs the first


def document(lock: str = LOCK, packages: dict[str, Told] | None = None) -> dict[str, object]:
    found = packages if packages is not None else told(SITE_PACKAGES)
    return bill("1.2.3", lock, found, made_at=MADE_AT, files={"tieline.whl": "ab" * 32}, licence="MIT")


def test_the_bill_names_each_locked_package_with_its_version_and_hashes() -> None:
    components = json.loads(json.dumps(document()))["components"]
    listed = {
        (one["name"], one["version"]): [each["content"] for each in one["externalReferences"][0]["hashes"]]
        for one in components
    }
    entries = re.split(r"^(?=[a-z0-9])", LOCK, flags=re.MULTILINE)[1:]
    locked = {
        tuple(re.split(r"\[.*\]==|==", entry.split()[0])): re.findall(r"sha256:(\w+)", entry) for entry in entries
    }
    assert listed == locked
    assert len(listed) > 50
    assert all(listed.values())
    optional = {one["name"]: one["properties"][0]["value"] for one in components if one["scope"] == "optional"}
    assert optional["pywin32"] == "sys_platform == 'win32'"
    assert "anyio" not in optional


def test_the_bill_names_licences_and_what_needs_what() -> None:
    found = json.loads(json.dumps(document()))
    by_name = {one["name"]: one for one in found["components"]}
    assert by_name["anyio"]["licenses"] == [{"expression": "MIT"}]
    assert by_name["tiktoken"]["licenses"] == [{"license": {"name": "MIT License"}}], "the first line of the whole text"
    assert set(without_licence(found)) <= OTHER_SYSTEMS
    needs = {one["ref"]: one["dependsOn"] for one in found["dependencies"]}
    known = {one["bom-ref"] for one in found["components"]}
    assert len(known) == len(found["components"])
    assert {each for needed in needs.values() for each in needed} <= known
    assert by_name["cffi"]["bom-ref"] in needs[by_name["cryptography"]["bom-ref"]]
    assert by_name["greenlet"]["bom-ref"] in needs[by_name["sqlalchemy"]["bom-ref"]], "by an extra that is asked for"
    assert by_name["anyio"]["bom-ref"] in needs[found["metadata"]["component"]["bom-ref"]]


def test_the_bill_of_the_same_lock_is_the_same() -> None:
    assert document() == document()
    assert document(packages={})["serialNumber"] == document()["serialNumber"]
    other = document(LOCK.replace("anyio==", "anyio==9.", 1))
    assert other["serialNumber"] != document()["serialNumber"]


def test_a_line_that_is_no_package_is_refused() -> None:
    with pytest.raises(ValueError, match="no package: '--index-url"):
        locked_in(f"--index-url https://example.org/simple\n{LOCK}")


@pytest.mark.parametrize(
    ("changelog", "head"),
    [
        pytest.param("# Changelog\n\n## 1.2.3\n\n- it\n\n## 1.2.2\n", "1.2.3", id="the newest"),
        pytest.param("# Changelog\n\n## 1.2.3 (2026-11-28)\n", "1.2.3", id="with its day"),
        pytest.param("# Changelog\n\n## Unreleased\n", "Unreleased", id="unreleased"),
        pytest.param("# Changelog\n", "", id="none"),
    ],
)
def test_the_newest_section_of_the_changelog(changelog: str, head: str) -> None:
    assert head_of(changelog) == head


def test_what_is_not_ready_is_told(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n")
    git = ("git", "-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    run("git", "init", "--quiet", cwd=tmp_path)
    changed, title = list(unready(tmp_path))
    assert "not committed" in changed
    assert title == "CHANGELOG.md begins with 'Unreleased', and pyproject.toml has version 1.2.3"
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3\n")
    run("git", "add", ".", cwd=tmp_path)
    run(*git, "commit", "--quiet", "--message", "release", cwd=tmp_path)
    assert list(unready(tmp_path)) == []
    run(*git, "tag", "v1.2.3", cwd=tmp_path)
    assert list(unready(tmp_path)) == ["there is a tag v1.2.3 already"]


needs_git_and_uv = pytest.mark.skipif(
    not (ROOT / ".git").exists() or not Path(sys.executable).with_name("uv").exists(), reason="no clone, or no uv"
)


@pytest.mark.slow
@needs_git_and_uv
def test_a_release_is_whole_and_can_be_made_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    made = release(ROOT, out, offline=False)
    assert {name.rpartition("-")[2] for name in made} >= {SUMS, "any.whl"}
    assert sorted(path.name for path in out.iterdir()) == sorted(made)
    assert {path.name: sha256(path) for path in out.iterdir()} == made
    checked = subprocess.run(["sha256sum", "--check", SUMS], cwd=out, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    (listed,) = (json.loads(path.read_text()) for path in out.glob("*.cdx.json"))
    assert set(without_licence(listed)) <= OTHER_SYSTEMS

    moment = run("git", "log", "-1", "--format=%ct", cwd=ROOT).strip()
    again = built(exported(ROOT, tmp_path / "source"), tmp_path / "again", moment, {})
    assert {path.name: sha256(path) for path in again}.items() <= made.items(), "the same commit gives the same bytes"
    assert uv().exists()
