"""A number of a goal or plan is never given again on SQLite either, also when the newest row is deleted.

Messages on the platforms still name it, and so do their buttons. PostgreSQL counts by itself.

Revision ID: 0030_numbers
"""

import sqlalchemy as sa
from alembic import op

from gateway.storage.migrations.versions import r0015_initial

revision = "0030_numbers"
down_revision = "0029_feedback"
phase = "expand"  # PostgreSQL has nothing to do

TABLES = ("goal", "plan")
COUNTED = "INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT"

# The greatest number given: that of a row, or what `tieline restore` noted of the database before.
LAST = "SELECT MAX(n) FROM (SELECT seq AS n FROM sqlite_sequence WHERE name = '{0}' UNION SELECT MAX(id) FROM {0})"
COPY = "INSERT INTO {0}_new ({1}) SELECT {1} FROM {0}"
FORGET = "DELETE FROM sqlite_sequence WHERE name = '{0}'"
NOTE = "INSERT INTO sqlite_sequence (name, seq) VALUES ('{0}', {1})"
# Rows of no conversation, which `tieline restore` wrote to keep numbers up to theirs from coming back.
DROP_KEEPERS = "DELETE FROM {0} WHERE conv = '' AND updated_at = 4611686018427387904"


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for name in TABLES:
            last = op.get_bind().execute(sa.text(LAST.format(name))).scalar()
            _rebuild(name, COUNTED, leave_out=f"CONSTRAINT pk_{name} PRIMARY KEY (id),")
            if last is not None:
                op.execute(FORGET.format(name))
                op.execute(NOTE.format(name, last))
            op.execute(DROP_KEEPERS.format(name))


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for name in TABLES:
            _rebuild(name, r0015_initial.TYPES["sqlite"]["id"])


def _rebuild(name: str, id: str, leave_out: str = "") -> None:
    """Make the table anew with that type of `id`; SQLite cannot change it."""
    columns = r0015_initial.TABLES[name].replace(leave_out, "").format(id=id)
    kept = ", ".join(column["name"] for column in sa.inspect(op.get_bind()).get_columns(name))
    op.execute(f"CREATE TABLE {name}_new ({columns})")
    op.execute(COPY.format(name, kept))
    op.drop_table(name)
    op.rename_table(f"{name}_new", name)
    for statement in r0015_initial.INDEXES:
        if f" ON {name} (" in statement:
            op.execute(statement)
