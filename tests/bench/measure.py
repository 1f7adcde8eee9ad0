"""How a running process is measured: CPU time, memory, and a line of the table."""

import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Line:
    """One budget of DESIGN §11 and today's figure."""

    what: str
    budget: str
    figure: str
    met: bool | None = None  # None: a figure without a budget


class Machine:
    """Who else was at work: a figure from a machine that others use says little."""

    def __init__(self) -> None:
        self._begin, self._stolen = _ticks()
        self._at = time.monotonic()

    def since(self) -> str:
        """Load and stolen time since this was made."""
        total, stolen = _ticks()
        share = (stolen - self._stolen) / max(total - self._begin, 1) * 100
        took = time.monotonic() - self._at
        load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
        cores = os.cpu_count()
        return f"{took:.0f} s; load average {load} on {cores} cores; the host stole {share:.0f} % of the time."


def _ticks() -> tuple[int, int]:
    """All time of all processors, and how much of it the host gave to others."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(fields), fields[7]


def cpu_seconds(pid: int) -> float:
    """Time on a processor of all threads that live now, to the nanosecond (`/proc/<pid>/stat` counts in ticks)."""
    runs = [path.read_text().split()[0] for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(map(int, runs)) / 1e9


def rss_mb(pid: int) -> float:
    """Resident memory of the process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which that share of them lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def table(lines: Sequence[Line]) -> str:
    """Aligned, as Markdown."""
    rows = [("what", "budget", "today", ""), ("---", "---", "---", "---")]
    rows += [
        (line.what, line.budget, line.figure, {True: "met", False: "MISSED", None: ""}[line.met]) for line in lines
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    )
