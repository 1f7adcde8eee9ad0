"""Indexes for messages and answers that were given up: the status page counts them every few seconds.

Revision ID: 0025_dead_letters
"""

import sqlalchemy as sa
from alembic import op

revision = "0025_dead_letters"
down_revision = "0023_place"

BOXES = ("inbox", "outbox")


def upgrade() -> None:
    where = sa.text("status = 'dead'")
    for box in BOXES:
        op.create_index(f"ix_{box}_dead", box, ["id"], sqlite_where=where, postgresql_where=where)


def downgrade() -> None:
    for box in BOXES:
        op.drop_index(f"ix_{box}_dead", table_name=box)
