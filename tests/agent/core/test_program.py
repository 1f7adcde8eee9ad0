"""Commands that are shown can be typed as they stand."""

import sys
from pathlib import Path

import pytest

from agent.core.program import as_typed, home_as_typed, program_as_typed


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in an environment of its own, below the working directory and not on the PATH."""
    folder = tmp_path / "work" / ".venv" / "bin"
    folder.mkdir(parents=True)
    (folder / "tieline").write_text("#!/bin/sh\n")
    (folder / "tieline").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.chdir(tmp_path / "work")
    return folder


@pytest.mark.usefixtures("installed")
def test_beside_the_working_directory_it_is_typed_as_a_path() -> None:
    assert program_as_typed() == ".venv/bin/tieline"


def test_on_the_path_its_name_is_enough(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(installed))
    assert program_as_typed() == "tieline"


def test_another_program_of_that_name_on_the_path_is_not_it(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tieline").write_text("#!/bin/sh\n")
    (tmp_path / "tieline").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program_as_typed() == ".venv/bin/tieline"


@pytest.mark.parametrize("directory", ["/", "/usr"])
def test_elsewhere_its_whole_path_is_typed_but_not_told_to_strangers(
    installed: Path, monkeypatch: pytest.MonkeyPatch, directory: str
) -> None:
    monkeypatch.chdir(directory)
    assert program_as_typed() == str(installed / "tieline")
    assert program_as_typed(to_strangers=True) == "tieline"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("or run `tieline init`.", "or run `.venv/bin/tieline init`.", id="in backticks"),
        pytest.param(
            "with\n\ntieline pair approve AB", "with\n\n.venv/bin/tieline pair approve AB", id="on its own line"
        ),
        pytest.param("tieline cannot start: no", "tieline cannot start: no", id="no command"),
    ],
)
def test_commands_in_a_text(text: str, shown: str) -> None:
    assert as_typed(text) == shown


@pytest.mark.usefixtures("installed")
def test_the_data_directory_is_named_where_it_is_not_the_usual_one() -> None:
    assert as_typed("see `tieline doctor`", home_as_typed(Path("/srv/a b"))) == (
        "see `.venv/bin/tieline doctor --home '/srv/a b'`"
    )
    assert home_as_typed(Path("~/.tieline").expanduser()) == ""
