"""The table of platform faults, of rows that tests have left on disk: they may have run in several processes."""

import json
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

FOLDER = Path("build", "platform-faults")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The outcome of one fault. Seconds; `answered` and `green` count from the end of the fault."""

    platform: str
    fault: str
    lasts: float
    answered: float
    green: float
    red: bool
    repeats: int
    others: float


class Rows:
    """The table in which a test notes its measurement."""

    def __init__(self, root: Path) -> None:
        self._folder = root / FOLDER

    def append(self, row: Row) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / f"{secrets.token_hex(6)}.json").write_text(json.dumps(asdict(row)))


def write_table(root: Path, section: Callable[[str], object], write: Callable[[str], object]) -> None:
    """Print what was measured, if anything was."""
    rows = sorted(
        (Row(**json.loads(path.read_text())) for path in (root / FOLDER).glob("*.json")),
        key=lambda row: (row.platform, row.fault),
    )
    if not rows:
        return
    section("platform faults: seconds from the end of the fault")
    write(
        f"{'platform':<10}{'fault':<56}{'lasts':>6}{'answered':>10}{'green':>7}{'red?':>6}{'repeats':>9}{'others':>8}"
    )
    for row in rows:
        write(
            f"{row.platform:<10}{row.fault:<56}{row.lasts:>6.1f}{row.answered:>10.1f}{row.green:>7.1f}"
            f"{'yes' if row.red else 'no':>6}{row.repeats:>9}{row.others:>8.1f}"
        )
    write("others: the slowest answer that somebody on another platform got meanwhile")
