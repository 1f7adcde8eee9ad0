"""Damage to a SQLite file as a bad disk does it: pages of data hold something else, the schema's page is whole."""

import sqlite3
from contextlib import closing
from pathlib import Path


def damage(database: Path, *tables: str) -> None:
    """Overwrite the first page of each table and of its indexes; nobody may use the database meanwhile."""
    with closing(sqlite3.connect(database)) as opened:
        opened.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        (size,) = opened.execute("PRAGMA page_size").fetchone()
        marks = ", ".join("?" * len(tables))
        found = opened.execute(f"select rootpage from sqlite_master where tbl_name in ({marks})", tables).fetchall()
    with database.open("r+b") as file:
        for (page,) in found:
            if page:  # a view or a virtual table has none
                file.seek((page - 1) * size)
                file.write(b"\x55" * size)
