"""`tieline upgrade`: steps for each kind of installation; versions, configuration and mistakes in `--check`."""

from importlib.metadata import version
from pathlib import Path

import pytest

from gateway.cli.upgrade import steps_for
from gateway.running.foundation import note_version, noted_version
from gateway.storage.repair import SCHEMA
from tests.gateway.cli.conftest import Tieline
from tests.gateway.cli.test_versions import answering, beside
from tests.program.running import Program

HERE = version("tieline")


@pytest.mark.parametrize(
    ("told", "install"),
    [
        pytest.param({"clone": Path("/opt/my tieline")}, "cd '/opt/my tieline' && git pull && make setup", id="clone"),
        pytest.param({"is_uv_tool": True}, "uv tool install --force ./tieline-NEW-py3-none-any.whl", id="uv tool"),
        pytest.param(
            {"is_uv_tool": True, "is_image": True},
            "uv tool install --force ./tieline-NEW-py3-none-any.whl",
            id="uv tool in a container",
        ),
        pytest.param({}, "/v/bin/python -m pip install ./tieline-NEW-py3-none-any.whl", id="an environment"),
        pytest.param(
            {"has_pip": False},
            "uv pip install --python /v/bin/python ./tieline-NEW-py3-none-any.whl",
            id="an environment without pip",
        ),
    ],
)
def test_the_steps_stop_the_gateway_before_its_code_changes(told: dict[str, object], install: str) -> None:
    way = {"clone": None, "is_image": False, "is_uv_tool": False, "python": "/v/bin/python", "has_pip": True, **told}
    steps = steps_for(**way)  # type: ignore[arg-type]
    assert steps[0] == "`tieline backup`"
    assert steps[1].startswith("stop the gateway")
    assert steps[2].endswith(install)
    assert "upgrade --check" in steps[3]
    assert "doctor" in steps[4]


def test_an_image_is_checked_in_a_container_of_its_own_while_the_former_runs() -> None:
    steps = steps_for(clone=None, is_image=True, is_uv_tool=False, python="/v/bin/python", has_pip=True)
    assert [step for step in steps if "stop" in step] == []
    assert "upgrade --check" in steps[2]
    assert "replace the container" in steps[3]


def test_without_check_it_prints_the_steps_and_makes_nothing(tieline: Tieline, home: Path) -> None:
    ran = tieline("upgrade")
    assert ran.exit_code == 0
    assert ran.stdout.startswith("Tieline installs nothing by itself.")
    assert "git pull && make setup" in ran.stdout
    assert f"upgrade --check --home {home}`" in ran.stdout
    assert list(home.iterdir()) == []


def test_in_an_empty_home_everything_is_yet_to_be_made(tieline: Tieline, home: Path) -> None:
    ran = tieline("upgrade", "--check")
    assert ran.exit_code == 0, ran.output
    assert f"✓ version: {HERE} is installed, no version has noted that it was started here" in ran.stdout
    assert "✓ database: will be made at the first start" in ran.stdout
    assert list(home.iterdir()) == []


def test_mistakes_and_former_names_in_the_configuration_are_told(tieline: Tieline) -> None:
    ran = tieline("upgrade", "--check", config="[logging]\ntraces = true\n")
    assert ran.exit_code == 0, ran.output
    assert "! configuration: logging.traces: is called logging.event_log now" in ran.stdout
    ran = tieline("upgrade", "--check", config="[queue]\nmax_depht = 3\n[nonsense]\n")
    assert ran.exit_code == 78
    assert "✗ configuration: queue.max_depht: unknown key; did you mean max_depth?" in ran.stdout
    assert "✗ configuration: nonsense: unknown key" in ran.stdout
    assert f"✓ version: {HERE} is installed" in ran.stdout
    assert "the database was not looked at" in ran.stdout


async def test_the_gateway_that_runs_is_told_with_its_version(tieline: Tieline, home: Path) -> None:
    ran = await beside(home, {"version": answering("0.0.9")}, tieline, "upgrade", "--check")
    assert ran.exit_code == 0
    assert "! gateway: Tieline 0.0.9 runs\n    → stop it before this version is started" in ran.stdout
    ran = await beside(home, {"version": answering(HERE)}, tieline, "upgrade", "--check")
    assert f"✓ gateway: Tieline {HERE} runs" in ran.stdout
    ran = await beside(home, {}, tieline, "upgrade", "--check")
    assert "! gateway: Tieline (of a version that it does not tell) runs" in ran.stdout


def test_the_version_is_noted_where_that_can_be_done(tmp_path: Path) -> None:
    assert noted_version(tmp_path) == ""
    note_version(tmp_path)
    assert noted_version(tmp_path) == HERE
    note_version(tmp_path / "gone")
    (tmp_path / "last-version").write_bytes(b"\xff\xfe")
    assert noted_version(tmp_path) == ""


@pytest.mark.requirement("G-38")
async def test_a_start_of_this_version_leaves_nothing_to_change(tmp_path: Path) -> None:
    program = Program(tmp_path, "")
    async with program:
        beside_it = await program.cli("upgrade", "--check")
        await program.stop()
    ran = await program.cli("upgrade", "--check")
    for one, state in ((beside_it, f"Tieline {HERE} runs"), (ran, "does not run")):
        assert one.returncode == 0, one.stdout + one.stderr
        assert f"✓ version: {HERE} is installed, Tieline {HERE} was started here last" in one.stdout
        assert f"✓ gateway: {state}" in one.stdout
        assert f"✓ database: of revision {SCHEMA.head}, as this version wants it: nothing is migrated" in one.stdout
