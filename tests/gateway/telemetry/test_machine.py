"""The load of process and machine: what the kernel's files say, and sizes of folders."""

from pathlib import Path

import pytest

from gateway.telemetry import machine
from gateway.telemetry.machine import Disk, Folder, Sample

MEMINFO = "MemTotal:       16384 kB\nMemFree:         1024 kB\nMemAvailable:    8192 kB\nHugePages_Total:       0\n"
GB = 10**9


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(MEMINFO, (16384 * 1024, 8192 * 1024), id="as Linux tells it"),
        pytest.param("MemTotal: 10 kB\n", (10240, None), id="an old kernel"),
        pytest.param("", (None, None), id="no such file"),
    ],
)
def test_memory_of_the_machine(text: str, expected: tuple[int | None, int | None]) -> None:
    assert machine.memory_in(text) == expected


@pytest.mark.parametrize(("text", "expected"), [("900 25 10 1 0 80 0", 25 * 4096), ("", None)])
def test_memory_of_the_process(text: str, expected: int | None) -> None:
    assert machine.resident_in(text, 4096) == expected


@pytest.mark.parametrize(
    ("free", "total", "is_full"),
    [
        pytest.param(400_000_000, 2 * GB, True, id="little is left"),
        pytest.param(600_000_000, 2 * GB, False, id="a small disk with room"),
        pytest.param(4 * GB, 100 * GB, True, id="a twentieth of a large disk"),
        pytest.param(20 * GB, 2_000 * GB, False, id="a hundredth of a huge disk is enough"),
    ],
)
def test_a_disk_is_nearly_full(free: int, total: int, *, is_full: bool) -> None:
    assert Disk(total=total, free=free).is_nearly_full(500) is is_full


def test_processor_time_is_shared_out_over_the_time_between() -> None:
    first = Sample(at_s=10.0, process_s=1.0, machine_busy_s=100.0, machine_s=200.0)
    last = Sample(at_s=20.0, process_s=6.0, machine_busy_s=115.0, machine_s=220.0)
    load = machine.load(first, last)
    assert (load.cpu, load.machine_cpu) == (0.5, 0.75)
    assert load.cores >= 1
    assert machine.load(first, first).cpu is None
    assert machine.load(None, None).machine_cpu is None
    unknown = machine.load(Sample(at_s=0.0, process_s=0.0), Sample(at_s=1.0, process_s=0.0))
    assert (unknown.cpu, unknown.machine_cpu) == (0.0, None)


def test_samples_of_this_process_grow() -> None:
    first = machine.sample(0.0)
    assert sum(range(3_000_000))
    last = machine.sample(1.0)
    assert last.process_s >= first.process_s > 0


def test_folders_are_measured_and_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "files" / "deep").mkdir(parents=True)
    (tmp_path / "files" / "one").write_bytes(b"x" * 10)
    (tmp_path / "files" / "deep" / "two").write_bytes(b"x" * 30)
    (tmp_path / "small").mkdir()
    (tmp_path / "file").write_bytes(b"x" * 1000)
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    elsewhere.mkdir()
    (elsewhere / "large").write_bytes(b"x" * 5000)
    (tmp_path / "linked").symlink_to(elsewhere)
    (tmp_path / "small" / "linked").symlink_to(elsewhere)
    found = machine.folders_in(tmp_path)
    assert found == [Folder(name="files", size=40, files=2), Folder(name="small", size=0, files=0)]
    assert machine.folders_in(tmp_path / "gone") == []


def test_the_disk_of_a_folder(tmp_path: Path) -> None:
    found = machine.disk(tmp_path)
    assert 0 < found.free <= found.total
    with pytest.raises(OSError, match="No such file"):
        machine.disk(tmp_path / "gone")
