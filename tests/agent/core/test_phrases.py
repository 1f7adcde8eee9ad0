"""Commands that are shown can be typed as they stand."""

import shutil
import sys
from pathlib import Path

import pytest

from agent.core.phrases import (
    as_typed,
    command_for,
    home_as_typed,
    how_to_install,
    program_as_typed,
    spelled,
    with_home,
    with_program,
)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A working directory with the program in an environment of its own below it."""
    folder = tmp_path / "work" / ".venv" / "bin"
    folder.mkdir(parents=True)
    program(folder)
    return tmp_path / "work"


def program(folder: Path) -> Path:
    file = folder / "tieline"
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


def test_beside_the_working_directory_it_is_typed_as_a_path(work: Path) -> None:
    assert spelled(work / ".venv/bin/tieline", found=None, here=work) == ".venv/bin/tieline"


def test_on_the_path_its_name_is_enough(work: Path) -> None:
    script = work / ".venv/bin/tieline"
    assert spelled(script, found=str(script), here=work) == "tieline"


def test_another_program_of_that_name_on_the_path_is_not_it(work: Path, tmp_path: Path) -> None:
    other = program(tmp_path)
    assert spelled(work / ".venv/bin/tieline", found=str(other), here=work) == ".venv/bin/tieline"


@pytest.mark.parametrize("here", ["/", "/usr"])
def test_elsewhere_its_whole_path_is_typed_but_not_told_to_strangers(work: Path, here: str) -> None:
    script = work / ".venv/bin/tieline"
    assert spelled(script, found=None, here=Path(here)) == str(script)
    assert spelled(script, found=None, here=Path(here), to_unpaired=True) == "tieline"


def test_this_very_program_can_be_typed_here() -> None:
    typed = program_as_typed()
    there = shutil.which(typed)
    assert there is not None
    assert Path(there).samefile(Path(sys.executable).with_name("tieline"))


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
    assert with_program(".venv/bin/tieline", text) == shown


def test_the_data_directory_is_named_where_it_is_not_the_usual_one() -> None:
    assert as_typed("see `tieline doctor`", home_as_typed(Path("/srv/a b"))) == (
        f"see `{program_as_typed()} doctor --home '/srv/a b'`"
    )
    assert home_as_typed(Path("~/.tieline").expanduser()) == ""


def test_a_command_that_names_a_data_directory_keeps_it() -> None:
    once = with_home("see `tieline status` and `tieline restore FILE`", Path("/srv/a"))
    assert once == "see `tieline status --home /srv/a` and `tieline restore FILE --home /srv/a`"
    assert with_home(once, Path("/srv/b")) == once
    assert with_home("tieline has ended: no", Path("/srv/a")) == "tieline has ended: no"


WHEEL = "./tieline-0.1.0-py3-none-any.whl[litellm]"


@pytest.mark.parametrize(
    ("clone", "python", "has_pip", "command"),
    [
        pytest.param(Path("/src"), "/src/.venv/bin/python", True, "`make setup` in /src installs it", id="a clone"),
        pytest.param(
            None, "/opt/t/bin/python", True,
            f"install it: /opt/t/bin/python -m pip install '{WHEEL}' where the wheel lies,"
            " or /opt/t/bin/python -m pip install '.[litellm]' in the source",
            id="a wheel",
        ),
        pytest.param(
            None, "/my apps/python", False,
            f"install it: uv pip install --python '/my apps/python' '{WHEEL}' where the wheel lies,"
            " or uv pip install --python '/my apps/python' '.[litellm]' in the source",
            id="an environment without pip",
        ),
    ],
)  # fmt: skip
def test_the_command_fits_the_place(clone: Path | None, python: str, has_pip: bool, command: str) -> None:
    assert command_for("litellm", clone=clone, python=python, has_pip=has_pip, release="0.1.0") == command


def test_this_is_a_clone() -> None:
    assert how_to_install("litellm").startswith("`make setup` in ")
