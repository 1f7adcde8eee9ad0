"""Table of alerts that go beyond the owners' chats.

Revision ID: 0042_alerts
"""

import sqlalchemy as sa
from alembic import op

revision = "0042_alerts"
down_revision = "0041_spending"
phase = "expand"

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "alert",
        sa.Column("id", _NUMBER, nullable=False),
        sa.Column("receiver", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("severity", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("due_at", sa.BigInteger, nullable=False),
        sa.Column("attempts", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("claimed_until", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("error", sa.Text, nullable=False, server_default=""),
        sa.Column("state", sa.Text, nullable=False, server_default="open"),
        sa.Column("ended_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_alert"),
    )
    where = sa.text("state = 'open'")
    op.create_index("ix_alert_open", "alert", ["receiver", "id"], sqlite_where=where, postgresql_where=where)


def downgrade() -> None:
    op.drop_table("alert")
