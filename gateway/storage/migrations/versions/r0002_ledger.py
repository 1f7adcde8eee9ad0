"""Money: each call once, for whom it was made, and what was approved beyond a limit.

Revision ID: 0002_ledger
"""

import sqlalchemy as sa
from alembic import op

revision = "0002_ledger"
down_revision = "0001"


def upgrade() -> None:
    with op.batch_alter_table("usage") as usage:
        usage.add_column(sa.Column("call_id", sa.Text()))
        usage.add_column(sa.Column("job", sa.Text()))
        usage.add_column(sa.Column("goal", sa.Text()))
        usage.add_column(sa.Column("audio_s", sa.Float(), server_default="0", nullable=False))
    op.execute("UPDATE usage SET call_id = 'before-' || id")
    with op.batch_alter_table("usage") as usage:
        usage.alter_column("call_id", existing_type=sa.Text(), nullable=False)
    op.create_index("ix_usage_created_at", "usage", ["created_at"], unique=False)
    op.create_index("uq_usage_call_id", "usage", ["call_id"], unique=True)
    op.create_table(
        "budget_grant",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("period", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("usd", sa.Float(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "name", "period", "number", name=op.f("pk_budget_grant")),
    )


def downgrade() -> None:
    op.drop_table("budget_grant")
    op.drop_index("uq_usage_call_id", "usage")
    op.drop_index("ix_usage_created_at", "usage")
    with op.batch_alter_table("usage") as usage:
        for column in ("audio_s", "goal", "job", "call_id"):
            usage.drop_column(column)
