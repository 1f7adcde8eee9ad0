"""The command that installs an extra: for the place of the program, and never by a name that is not ours."""

from pathlib import Path

import pytest

from agent.core.extras import command_for, how_to_install, is_installed

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


def test_a_library_is_looked_for_without_loading_it() -> None:
    assert is_installed("litellm")
    assert not is_installed("no_such_library")
