"""Indexes for the dashboard's lists of webhooks and events.

Revision ID: 0047_program_lists
"""

import sqlalchemy as sa
from alembic import op

revision = "0047_program_lists"
down_revision = "0046_files"
phase = "expand"

_BROUGHT_BY_WEBHOOK = sa.text("substr(dedup, 1, 5) = 'hook:'")
_STATE = "ix_event_delivery_state"


def upgrade() -> None:
    for table in ("inbox", "outbox"):
        op.create_index(
            f"ix_{table}_webhook",
            table,
            ["id", "created_at", "dedup"],
            sqlite_where=_BROUGHT_BY_WEBHOOK,
            postgresql_where=_BROUGHT_BY_WEBHOOK,
        )
    op.create_index(_STATE, "event_delivery", ["subscription", "state", "id"])


def downgrade() -> None:
    op.drop_index(_STATE, "event_delivery")
    for table in ("outbox", "inbox"):
        op.drop_index(f"ix_{table}_webhook", table)
