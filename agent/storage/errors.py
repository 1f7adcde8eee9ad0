"""Errors of the database; the class says what the caller may do next.

StorageError
├── DatabaseUnusable       at start: somebody must change something; the message names the fix
│   ├── DatabaseHeld(pid)  another process owns it
│   ├── DatabaseDamaged    SQLite cannot read its file, or a page of it: found also after the start
│   ├── SchemaTooNew       a newer Tieline has written it
│   └── SchemaTooOld       only an older Tieline can upgrade it
├── StorageTrouble         also Transient: a write or read failed, also when repeated (B-48); nothing of it stays
├── BackupRefused          no backup was made; the message says what to do instead
└── TransferRefused        the database was not moved to PostgreSQL; the message says what to do
"""

from agent.core.errors import Transient


class StorageError(Exception):
    """Root of what the storage raises by itself."""


class DatabaseUnusable(StorageError):
    """The database cannot be opened as it is."""


class DatabaseHeld(DatabaseUnusable):
    """Another process owns the database. `pid` is None where it cannot be told."""

    def __init__(self, message: str, *, pid: int | None) -> None:
        super().__init__(message)
        self.pid = pid


class DatabaseDamaged(DatabaseUnusable):
    """SQLite cannot read the file or one of its pages. Only a backup mends it."""


class SchemaTooNew(DatabaseUnusable):
    """The stored revision is unknown to this version."""


class SchemaTooOld(DatabaseUnusable):
    """The stored revision is one that this version no longer upgrades from."""


class StorageTrouble(StorageError, Transient):
    """The disk or the server fails; the same work may be given again later."""


class BackupRefused(StorageError):
    """No backup was made."""


class TransferRefused(StorageError):
    """The database was not moved to another server. The old one is as it was."""
