"""Load of other processes on the machine: a figure from a machine that others use says little."""

import os
import time
from pathlib import Path


class Machine:
    """Counts from its making on."""

    def __init__(self) -> None:
        self._begin, self._stolen = _ticks()
        self._at = time.monotonic()

    def stolen(self) -> float:
        """The share of all processors' time that the host of a virtual machine gave to others."""
        total, stolen = _ticks()
        return (stolen - self._stolen) / max(total - self._begin, 1)

    def since(self) -> str:
        """A duration, with load and stolen time."""
        took = time.monotonic() - self._at
        load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
        share = self.stolen() * 100
        return f"{took:.0f} s; load average {load} on {os.cpu_count()} cores; the host stole {share:.0f} % of the time."


def _ticks() -> tuple[int, int]:
    """All time of all processors, and how much of it the host gave to others."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(fields), fields[7]
