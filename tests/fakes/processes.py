"""Whether a process of another program still runs."""

import os
from pathlib import Path


def alive(pid: int) -> bool:
    """It runs; one that has ended and whom nobody has asked for yet does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
