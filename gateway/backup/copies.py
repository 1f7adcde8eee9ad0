"""Copies that lie in the folders of backups, and whether the newest is as new as it should be. Blocking."""

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agent.core.phrases import counted
from gateway.backup.nightly import last_due
from gateway.backup.outcome import Outcome
from gateway.backup.request import ENCRYPTED, PLAIN, moment_of
from gateway.config.sections import BACKUPS, BackupSettings

OLD = timedelta(days=8)  # of one made each week, a day late: where `[backup]` asks for none
GRACE = timedelta(hours=1)  # a nightly one may take so long


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A file. `is_backup`: made by `tieline backup` or at night; others are copies made before a change."""

    path: Path
    size: int
    made_at: datetime
    is_backup: bool

    @property
    def is_encrypted(self) -> bool:
        return self.path.name.endswith(ENCRYPTED)


def folders_of(home: Path, settings: BackupSettings) -> Sequence[Path]:
    """Where backups lie: the folder of the nightly ones, and the one of the data directory."""
    return list(dict.fromkeys((home / settings.folder, home / BACKUPS)))


def copies_in(folders: Sequence[Path]) -> Sequence[Copy]:
    """All of them, the newest first; a folder that is not there or may not be read holds none."""
    found = []
    for folder in folders:
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.endswith((PLAIN, ENCRYPTED, ".db")):
                        state = entry.stat(follow_symlinks=False)
                        if stat.S_ISREG(state.st_mode):
                            found.append(_copy(Path(entry.path), state))
        except OSError:
            continue
    return sorted(found, key=lambda one: one.made_at, reverse=True)


def _copy(path: Path, state: os.stat_result) -> Copy:
    named = moment_of(path)
    made_at = named or datetime.fromtimestamp(state.st_mtime, UTC)
    is_backup = named is not None and path.suffix != ".db"  # that is the database alone
    return Copy(path=path, size=state.st_size, made_at=made_at, is_backup=is_backup)


def newest_backup(copies: Sequence[Copy]) -> Copy | None:
    """The newest that a whole installation can be restored from."""
    return next((one for one in copies if one.is_backup), None)


def trouble_with(
    newest: Copy | None, outcome: Outcome | None, settings: BackupSettings, *, zone: str, now: datetime
) -> str:
    """The sentence on what is wrong with the backups; "" where nothing is."""
    if outcome is not None and outcome.error and (newest is None or newest.made_at < outcome.began_at):
        return f"the newest backup failed ({outcome.began_at:%Y-%m-%d %H:%M} UTC, by {outcome.by}): {outcome.error}"
    age = _age(now - newest.made_at) if newest is not None else ""
    if settings.at and (newest is None or newest.made_at < last_due(now - GRACE, settings.moment, zone)):
        return (
            f"one is due each night at {settings.at}, {f'and the newest is {age} old' if age else 'and there is none'}"
        )
    if newest is not None and now - newest.made_at >= OLD:
        return f"the newest backup is {age} old"
    return ""


def _age(passed: timedelta) -> str:
    hours = max(0, int(passed.total_seconds() // 3600))
    return counted(hours, "hour") if hours < 48 else counted(hours // 24, "day")
