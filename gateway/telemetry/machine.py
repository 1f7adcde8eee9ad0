"""Load of this process and its machine, by what Linux tells below /proc; elsewhere most of it is not known.

Blocking, and short: files of the kernel, never the data directory's own but their sizes.
"""

import os
import resource
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SMALL_FREE, SMALL_SHARE = 5_000_000_000, 0.05  # bytes, and share of all: below both a disk is nearly full
MOST_ENTRIES = 200_000  # files that one folder is measured by
_PROC, _CGROUP = Path("/proc"), Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """CPU time used until a moment, in seconds; `machine_busy_s` and `machine_s` sum up all cores."""

    at_s: float
    process_s: float
    machine_busy_s: float | None = None
    machine_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineLoad:
    """Sizes in bytes. None is not known on this system, or not yet.

    `cpu` is in cores (0.5: half of one), `machine_cpu` a share of all, 0..1. `memory_limit` is the container's.
    """

    cores: int
    cpu: float | None
    machine_cpu: float | None
    load: Sequence[float] | None
    memory: int | None
    memory_total: int | None
    memory_free: int | None
    memory_limit: int | None
    open_files: int | None
    most_open_files: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A file system, in bytes; `free` is what an account without privileges may use."""

    total: int
    free: int

    def is_nearly_full(self, least_free_mb: int) -> bool:
        """Below that it is in any case; 0: nobody wants to know."""
        if not least_free_mb:
            return False
        is_small = self.free < SMALL_FREE and self.free < SMALL_SHARE * self.total
        return is_small or self.free < least_free_mb * 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """The size of a file or folder of the data directory; `is_cut`: it holds more than was looked at."""

    name: str
    size: int
    files: int
    is_cut: bool = False


def sample(at_s: float) -> Sample:
    """The CPU time until now. `at_s` is the moment on a stopwatch."""
    times = os.times()
    ticks = _ticks_in(_text(_PROC / "stat"), os.sysconf("SC_CLK_TCK"))
    busy, whole = ticks if ticks is not None else (None, None)
    return Sample(at_s=at_s, process_s=times.user + times.system, machine_busy_s=busy, machine_s=whole)


def load(first: Sample | None, last: Sample | None) -> MachineLoad:
    """The load of now; CPU is what was used between the samples."""
    cpu = machine_cpu = None
    if first is not None and last is not None and last.at_s > first.at_s:
        cpu = (last.process_s - first.process_s) / (last.at_s - first.at_s)
        machine_cpu = _machine_share(first, last)
    total, free = memory_in(_text(_PROC / "meminfo"))
    limit = _text(_CGROUP / "memory.max").strip()
    files = None
    with suppress(OSError):
        files = len(os.listdir(_PROC / "self" / "fd")) - 1  # one is the listing's own
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MachineLoad(
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        cpu=cpu,
        machine_cpu=machine_cpu,
        load=os.getloadavg() if hasattr(os, "getloadavg") else None,
        memory=resident_in(_text(_PROC / "self" / "statm"), os.sysconf("SC_PAGE_SIZE")),
        memory_total=total,
        memory_free=free,
        memory_limit=int(limit) if limit.isdecimal() else None,
        open_files=files,
        most_open_files=None if most == resource.RLIM_INFINITY else most,
    )


def disk(folder: Path) -> Disk:
    """The file system of that folder. Raises OSError."""
    found = os.statvfs(folder)
    return Disk(total=found.f_blocks * found.f_frsize, free=found.f_bavail * found.f_frsize)


def folders_in(home: Path) -> Sequence[Folder]:
    """The folders right below, the largest first. Links are not followed. Takes seconds where many files are."""
    found = []
    with suppress(OSError), os.scandir(home) as entries:
        found = [_folder(entry.name, Path(entry.path)) for entry in entries if entry.is_dir(follow_symlinks=False)]
    return sorted(found, key=lambda one: -one.size)


def memory_in(meminfo: str) -> tuple[int | None, int | None]:
    """The machine's memory and what of it can be had, of /proc/meminfo (proc_meminfo(5))."""
    rows = dict(line.split(":", 1) for line in meminfo.splitlines() if ":" in line)
    sizes = {name: int(rows[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable") if name in rows}
    return sizes.get("MemTotal"), sizes.get("MemAvailable")


def resident_in(statm: str, page_size: int) -> int | None:
    """The memory of a process, of its /proc/[pid]/statm (proc_pid_statm(5)): the second number, in pages."""
    fields = statm.split()
    return int(fields[1]) * page_size if len(fields) > 1 else None


def _ticks_in(stat_text: str, per_s: int) -> tuple[float, float] | None:
    """Busy and whole time of all cores in seconds, of /proc/stat (proc_stat(5)); guests are in `user` already."""
    first = stat_text.partition("\n")[0].split()
    if len(first) < 6 or first[0] != "cpu":
        return None
    ticks = [int(one) for one in first[1:9]]
    idle = ticks[3] + ticks[4]  # idle and iowait
    return (sum(ticks) - idle) / per_s, sum(ticks) / per_s


def _machine_share(first: Sample, last: Sample) -> float | None:
    if first.machine_s is None or last.machine_s is None or last.machine_s <= first.machine_s:
        return None
    busy = (last.machine_busy_s or 0.0) - (first.machine_busy_s or 0.0)
    return min(1.0, max(0.0, busy / (last.machine_s - first.machine_s)))


def _folder(name: str, path: Path) -> Folder:
    size = files = 0
    for each in _sizes_below(path):
        if files >= MOST_ENTRIES:
            return Folder(name=name, size=size, files=files, is_cut=True)
        size, files = size + each, files + 1
    return Folder(name=name, size=size, files=files)


def _sizes_below(path: Path) -> Iterator[int]:
    """The size of each file; what goes meanwhile, or may not be read, is passed over."""
    for _, _, names, folder in os.fwalk(path):  # by open folders: a command in a workspace may swap one for a link
        for name in names:
            with suppress(OSError):
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISREG(found.st_mode):
                    yield found.st_size


def _text(file: Path) -> str:
    """The content of a file of the kernel; "" where there is none."""
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError):
        return ""
