"""Rows that are being sent name who notes the calls for them; adapters keep what they learnt; `control` was never used.

Of two indexes that promise as much, SQLite takes the one made last. Since 0015_forgetting that was the one of all rows
of a place, so that each turn read everything ever sent there. The one of open rows is made anew.

Revision ID: 0017_calls
"""

import sqlalchemy as sa
from alembic import op

revision = "0017_calls"
down_revision = "0016_recall"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("outbox", sa.Column("noted_by", sa.Text()))
    op.create_table(
        "adapter_store",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "key", name=op.f("pk_adapter_store")),
    )
    op.drop_table("control")
    op.drop_index("ix_outbox_open", table_name="outbox")
    where = sa.text("status in ('new', 'sending')")
    op.create_index("ix_outbox_open", "outbox", ["conv", "id"], sqlite_where=where, postgresql_where=where)


def downgrade() -> None:
    op.create_table(
        "control",
        sa.Column("id", ID, nullable=False),
        sa.Column("conv", sa.Text(), nullable=False),
        sa.Column("turn_id", sa.BigInteger()),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("answered_by", sa.Text()),
        sa.Column("taken_at", sa.BigInteger()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_control")),
    )
    op.drop_table("adapter_store")
    op.drop_column("outbox", "noted_by")
