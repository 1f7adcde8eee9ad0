"""Result files: one for each system, measure and repeat, with everything that is needed to compare the figures.

A run is what one command measured: ratios are made of figures of one run only.
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.bench.peers.driver import ROOT

PUBLISHED = ROOT / "docs" / "performance" / "results"
RAW = ROOT / ".bench"  # git-ignored; one folder for each run


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The machine of the measurement."""

    cpu: str
    cores: int
    memory_gb: float
    kernel: str
    python: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One result file. `result` holds `failed` alone when the measure did not come to an end."""

    system: str
    measure: str
    repeat: int
    run: str
    date: str  # UTC
    commit: str
    dirty: bool  # the tree differed from the commit
    machine: Machine
    network: str  # "loopback": the system could reach nothing else; "open"
    configuration: str  # the text that the system was given
    packages: dict[str, str]  # the distribution and what it requires directly, as installed
    load_before: float
    stolen_share: float  # of all processors' time, taken by the host of a virtual machine
    took_s: float
    result: dict[str, Any]

    @property
    def file_name(self) -> str:
        return f"{self.system}-{self.measure}-{self.repeat}.json"

    @property
    def version(self) -> str:
        """Of the distribution, which is named first."""
        return next(iter(self.packages.values()))


def machine() -> Machine:
    """This machine."""
    cpu = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.machine(),
    )
    kilobytes = next((int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    return Machine(
        cpu=cpu,
        cores=os.cpu_count() or 1,
        memory_gb=round(kilobytes / 1024**2, 1),
        kernel=platform.release(),
        python=platform.python_version(),
    )


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def commit() -> tuple[str, bool]:
    """The commit of the tree that is measured, and whether the tree differs from it."""

    def git(*words: str) -> str:
        ran = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
        return ran.stdout.strip()

    return git("rev-parse", "--short=12", "HEAD") or "unknown", bool(git("status", "--porcelain"))


def write(record: Record, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / record.file_name).write_text(json.dumps(asdict(record), indent=1, ensure_ascii=False) + "\n")


def read(folder: Path) -> list[Record]:
    """All records of a folder, in a fixed order."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return [Record(**{**one, "machine": Machine(**one["machine"])}) for one in found]


def publish(records: Iterable[Record], folder: Path = PUBLISHED, *, keep: bool = False) -> None:
    """Put these records in the place of those in the folder; `keep` leaves other measures and systems there."""
    new = list(records)
    measured = {(record.system, record.measure) for record in new}
    for path in folder.glob("*.json"):
        old = json.loads(path.read_text())
        if not keep or (old["system"], old["measure"]) in measured:
            path.unlink()
    for record in new:
        write(record, folder)


def newest_run(folder: Path = RAW) -> Path:
    """The folder of the latest run. Its name begins with its date."""
    runs = sorted(path for path in folder.glob("*") if path.is_dir())
    if not runs:
        sys.exit(f"no run in {folder}: measure first, with `make bench`")
    return runs[-1]
