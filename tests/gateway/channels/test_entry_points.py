"""Platforms of other people's packages: found by their entry point, and told clearly where one is broken."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, distributions
from pathlib import Path

import pytest

from gateway.channels.adapter import Ids
from gateway.channels.entry_points import PlatformBroken, by_name, ids_of, loaded, open_adapter, settings_class
from gateway.running.accounts.checks import bare_adapter_context
from tests.fakes.starting import started

CODE = """
from typing import ClassVar, Literal
from gateway.channels.adapter import ChannelSettings

class TinySettings(ChannelSettings):
    adapter: ClassVar[str] = "tieline_tiny:Absent"
    type: Literal["tiny"] = "tiny"

class NoAdapter(ChannelSettings):
    type: Literal["tiny"] = "tiny"

class NoSettings:
    adapter = "tieline_tiny:Absent"
"""
Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a package into a folder of the test's own, which can be imported from."""
    folder = tmp_path / "installed"

    def installed(value: str, *, package: str = "tieline-tiny", name: str = "tiny", code: str = CODE) -> Path:
        about = folder / f"{package.replace('-', '_')}-1.2.dist-info"
        about.mkdir(parents=True)
        (folder / "tieline_tiny.py").write_text(code)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
        (about / "entry_points.txt").write_text(f"[gateway.channels]\n{name} = {value}\n")
        return folder

    monkeypatch.syspath_prepend(str(folder))
    yield installed
    sys.modules.pop("tieline_tiny", None)


def found_in(folder: Path) -> dict[str, EntryPoint]:
    entries = [entry for found in distributions(path=[str(folder)]) for entry in found.entry_points]
    return dict(by_name(entries))


RIGHT = "tieline_tiny:TinySettings"
BROKEN = [
    pytest.param(
        RIGHT, "import missing_library", "Error: No module named 'missing_library'", id="a library is not there"
    ),
    pytest.param(RIGHT, "def", "SyntaxError: ", id="no Python"),
    pytest.param(RIGHT, "1 / 0", "ZeroDivisionError: division by zero", id="a mistake of its own"),
    pytest.param("tieline_tiny:Other", CODE, "module 'tieline_tiny' has no attribute 'Other'", id="another name"),
    pytest.param("tieline_tiny:NoSettings", CODE, "NoSettings is no subclass of ChannelSettings", id="no settings"),
    pytest.param("tieline_tiny:NoAdapter", CODE, 'names no adapter, as in adapter = "module:Class"', id="no adapter"),
]


@pytest.mark.requirement("G-165")
@pytest.mark.parametrize(("value", "code", "why"), BROKEN)
def test_a_platform_that_cannot_be_loaded_names_its_package_and_the_reason(
    install: Install, value: str, code: str, why: str
) -> None:
    platforms = found_in(install(value, code=code))
    with pytest.raises(PlatformBroken) as raised:
        settings_class("tiny", platforms)
    text = str(raised.value)
    assert text.startswith("the platform 'tiny' of the package tieline-tiny 1.2 cannot be loaded: "), text
    assert why in text
    assert text.endswith("; update that package, or remove it")
    assert loaded(platforms) == {}
    assert ids_of(platforms, "tiny") == Ids()


@pytest.mark.requirement("G-165")
def test_a_platform_in_two_packages_is_that_of_ours(install: Install, caplog: pytest.LogCaptureFixture) -> None:
    install(RIGHT, package="another")
    platforms = found_in(install(RIGHT, package="tieline"))
    assert platforms["tiny"].dist is not None
    assert platforms["tiny"].dist.name == "tieline"
    assert "the platform tiny is in the packages tieline and another: the one of tieline is taken" in caplog.text


def test_an_adapter_that_is_not_where_its_settings_say_is_told(install: Install, tmp_path: Path) -> None:
    model = settings_class("tiny", found_in(install(RIGHT)))
    context = bare_adapter_context(tmp_path)
    with pytest.raises(ImportError, match="there is no Absent in tieline_tiny"):
        open_adapter(model(type="tiny"), context)


def told(folder: Path, home: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """The program with that package beside it, ended."""
    started()
    environ = {**os.environ, "PYTHONPATH": str(folder), "TIELINE_HOME": str(home)}
    command = (sys.executable, "-m", "gateway", *command)
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=100)


@pytest.mark.requirement("G-165")
def test_a_broken_platform_stops_who_has_an_account_there_and_nobody_else(install: Install, tmp_path: Path) -> None:
    folder, home = install(RIGHT, code="import missing_library"), tmp_path / "home"
    home.mkdir(mode=0o700)
    for command in (("config", "check"), ("config", "schema"), ("doctor", "--offline")):
        fine = told(folder, home, *command)
        assert fine.returncode == 0, fine.stdout + fine.stderr

    (home / "gateway.toml").write_text('[[channels]]\ntype = "tiny"\ntoken = "file:token"\n')
    (home / "token").write_text("a")
    refused = told(folder, home, "run")
    assert refused.returncode == 78
    assert "Traceback" not in refused.stderr
    assert "channels[0].type: the platform 'tiny' of the package tieline-tiny 1.2 cannot be loaded" in refused.stderr
    assert "No module named 'missing_library'" in refused.stderr


def test_doctor_tells_of_an_adapter_that_cannot_be_imported(install: Install, tmp_path: Path) -> None:
    folder, home = install(RIGHT), tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "gateway.toml").write_text('[[channels]]\ntype = "tiny"\n')
    found = told(folder, home, "doctor")
    assert found.returncode == 1
    assert "Traceback" not in found.stderr
    assert "✗ tiny: cannot be opened: there is no Absent in tieline_tiny" in found.stdout
