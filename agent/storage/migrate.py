"""Runs Alembic over a given connection. Slow to import: loaded by name, and only when a database is not at head."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection


def upgrade(conn: Connection, migrations: Path, to: str = "head") -> None:
    """Bring the tables up to a revision, inside the caller's transaction."""
    command.upgrade(_config(migrations, conn), to)


def downgrade(conn: Connection, migrations: Path, to: str) -> None:
    """Bring the tables back to an earlier revision ("base": none), inside the caller's transaction."""
    command.downgrade(_config(migrations, conn), to)


def known_revisions(migrations: Path) -> tuple[str, ...]:
    """All revisions, newest first."""
    scripts = ScriptDirectory.from_config(_config(migrations, None))
    return tuple(script.revision for script in scripts.walk_revisions())


def pending(migrations: Path, stored: str) -> tuple[tuple[str, str], ...]:
    """The revisions behind a stored one, in the order in which they run, each with a line on what it does."""
    scripts = ScriptDirectory.from_config(_config(migrations, None))
    behind = reversed(list(scripts.iterate_revisions("head", stored)))
    return tuple((script.revision, script.doc.partition("\n")[0]) for script in behind)


def _config(migrations: Path, conn: Connection | None) -> Config:
    config = Config(attributes={"connection": conn})
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
