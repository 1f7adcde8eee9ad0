"""How a running process is measured: CPU time, memory, and a line of the table."""

import os
import statistics
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
