"""Runs Alembic over a given connection. Slow to import: loaded by name, and only when a database is not at head."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from alembic import command
from alembic.config import Config
from alembic.script import Script, ScriptDirectory
from sqlalchemy import Connection

Phase = Literal["expand", "contract"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """A migration that will run: its revision, a line on what it does, and its phase.

    `expand`: processes of the version before can run beside it on PostgreSQL. `contract`: none of them may.
    """

    revision: str
    text: str
    phase: Phase


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


def pending(migrations: Path, stored: str) -> tuple[Migration, ...]:
    """The migrations behind a stored revision, in the order in which they run."""
    scripts = ScriptDirectory.from_config(_config(migrations, None))
    behind = reversed(list(scripts.iterate_revisions("head", stored)))
    return tuple(
        Migration(revision=script.revision, text=script.doc.partition("\n")[0], phase=_phase_of(script))
        for script in behind
    )


def _phase_of(script: Script) -> Phase:
    """The phase that the module states; one that states none is not known to leave old processes alone."""
    return "expand" if getattr(script.module, "phase", "contract") == "expand" else "contract"


def _config(migrations: Path, conn: Connection | None) -> Config:
    config = Config(attributes={"connection": conn})
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
