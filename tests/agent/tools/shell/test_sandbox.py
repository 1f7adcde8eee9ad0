"""Programs under limits: bounded output, bounded time, and nothing left of them (B-35)."""

import os
from pathlib import Path

import anyio
import pytest

from agent.tools.shell.sandbox import Allowance, Ended, limited, run
from tests.fakes.processes import alive
from tests.fakes.waiting import until

ALLOWANCE = Allowance(
    wall_s=60, cpu_s=20, memory_mb=512, processes=64, file_mb=1, output_bytes=1_000, grace_s=0.2
)  # fmt: skip


async def ran(script: str, cwd: Path, **changes: float) -> Ended:
    allowance = Allowance(**{name: changes.get(name, getattr(ALLOWANCE, name)) for name in Allowance.__slots__})
    words = limited(["/bin/sh", "-c", script], allowance)
    return await run(words, cwd=cwd, env={"PATH": os.environ["PATH"]}, allowance=allowance)


async def test_what_a_program_writes_and_how_it_ends(tmp_path: Path) -> None:
    ended = await ran("echo out; echo err >&2; env | sort; exit 3", tmp_path)
    assert ended.status == 3
    assert ended.head.startswith(b"out\nerr\n")
    assert b"HOME" not in ended.head, "nothing of our environment"


async def test_of_long_output_beginning_and_end_are_kept(tmp_path: Path) -> None:
    ended = await ran("echo begin; head -c 20000 /dev/zero | tr '\\0' x; echo; echo end", tmp_path)
    assert ended.head.startswith(b"begin\nxxx")
    assert ended.tail.endswith(b"x\nend\n")
    assert len(ended.head) + len(ended.tail) == 1_000
    assert ended.left_out == 20_011 - 1_000


async def test_a_flood_is_ended(tmp_path: Path) -> None:
    assert "wrote more than" in (await ran("yes", tmp_path)).why


@pytest.mark.requirement("B-35")
async def test_what_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    """It was asked first: a program that listens could tidy up; one that does not is killed, and so is its child."""
    script = (
        "trap 'echo asked >> said; trap - TERM' TERM; setsid sleep 1000 & echo $! > child; while :; do sleep 100; done"
    )
    for limit in (1, 5, 20):  # a busy machine may need longer to begin at all, or to hear what it is asked
        ended = await ran(script, tmp_path, wall_s=limit, grace_s=2.0 * limit)
        if (tmp_path / "said").exists():
            break
    assert f"its {limit} s were over" in ended.why
    assert (tmp_path / "said").read_text() == "asked\n"
    child = int((tmp_path / "child").read_text())
    await until(lambda: not alive(child))


@pytest.mark.requirement("B-35")
async def test_a_stop_ends_it_at_once(tmp_path: Path) -> None:
    async with anyio.create_task_group() as group:

        async def one() -> None:
            await ran("trap '' TERM; echo $$ > pid; exec sleep 1000", tmp_path)

        group.start_soon(one)
        await until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
        group.cancel_scope.cancel()
    assert not alive(int((tmp_path / "pid").read_text()))


async def test_what_it_leaves_running_does_not_hold_us_up(tmp_path: Path) -> None:
    ended = await ran("sleep 1000 & echo $! > child; echo done", tmp_path)
    assert (ended.status, ended.head, ended.why) == (0, b"done\n", "")
    await until(lambda: not alive(int((tmp_path / "child").read_text())))


@pytest.mark.parametrize(
    ("script", "changes", "status"),
    [
        pytest.param("head -c 3000000 /dev/zero > big", {}, (153, -25), id="file size"),
        pytest.param("while :; do :; done", {"cpu_s": 1}, (-24, 152, -9, 137), id="processor time"),
        pytest.param("ulimit -c", {}, (0,), id="no core dumps"),
    ],
)
async def test_limits_hold(tmp_path: Path, script: str, changes: dict[str, float], status: tuple[int, ...]) -> None:
    ended = await ran(script, tmp_path, **changes)
    assert ended.status in status, ended
    assert not (tmp_path / "big").exists() or (tmp_path / "big").stat().st_size <= 1024 * 1024
