"""The default install: a plain wheel, the image's lock and `make run` give the same features.

What `tieline doctor` says of an empty data directory is compared, each time in an environment of its own.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

from tools.file_sizes import ROOT

UV = Path(sys.executable).with_name("uv")
PACKAGES = ("agent", "gateway", "adapters", "config")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The sources of the wheel, as the image copies them."""
    folder = tmp_path / "source"
    folder.mkdir()
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def run(*command: str | Path, cwd: Path | None = None) -> str:
    ran = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def environment(folder: Path, *arguments: str | Path) -> Path:
    """The Python of a new environment, installed with these arguments."""
    run(UV, "venv", "--quiet", "--python", sys.executable, folder)
    python = folder / "bin" / "python"
    run(UV, "pip", "install", "--quiet", "--link-mode", "hardlink", "--python", python, *arguments)
    return python


def said_by_doctor(python: Path, home: Path) -> list[str]:
    """The doctor's lines but for what differs by nature: the version of Python, the place and the room on the disk."""
    ran = subprocess.run(
        [python, "-m", "gateway", "doctor", "--offline", "--home", home],
        cwd=home.parent, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    text = re.sub(r"`\S*/tieline ", "`tieline ", ran.stdout.replace(str(home), "HOME"))
    text = re.sub(r"[\d,]+ MB free", "… MB free", text)
    return [line for line in text.splitlines() if not line.startswith("✓ Python")]


def test_every_extra_is_loaded_by_the_program() -> None:
    """Else it installs what nobody uses."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    code = "".join(path.read_text() for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
    unused = {
        extra
        for extra, packages in extras.items()
        if not any(f'= "{re.split("[<>=]", package)[0]}"' in code for package in packages)  # loaded by name
    }
    assert not unused


@pytest.mark.slow
@pytest.mark.skipif(not UV.exists(), reason="uv could not be installed here, and pip takes minutes")
def test_wheel_image_and_make_run_have_the_same_features(source: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    here = said_by_doctor(Path(sys.executable), tmp_path / "home")
    assert any(line.startswith("✓ recall:") for line in here)

    run(UV, "build", "--quiet", "--wheel", "--out-dir", tmp_path / "dist", source)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert "gateway/testing/channel_contract.py" in ZipFile(wheel).namelist(), "authors of adapters test with it"
    lock = ROOT / "requirements" / "run.lock"
    image = environment(tmp_path / "image", "--require-hashes", "-r", lock)
    run(UV, "pip", "install", "--quiet", "--python", image, "--no-deps", wheel)
    assert said_by_doctor(image, tmp_path / "home") == here

    plain = environment(tmp_path / "plain", wheel, "--constraint", lock)
    assert said_by_doctor(plain, tmp_path / "home") == here


def test_the_locks_agree_on_what_they_share() -> None:
    """The development lock is the image's lock and tools beside it: no other version, nothing left out."""

    def pinned(name: str) -> dict[str, str]:
        text = (ROOT / "requirements" / name).read_text()
        return dict(re.findall(r"^([a-z0-9_.-]+)(?:\[[^\]]*\])?==(\S+)", text, re.MULTILINE))

    image, development = pinned("run.lock"), pinned("dev.lock")
    assert len(image) > 50
    assert {name: development.get(name) for name in image} == image
