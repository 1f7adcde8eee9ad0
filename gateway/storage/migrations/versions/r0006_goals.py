"""Goals: of sessions, and kept ones, whose calls are summed up from the ledger.

Revision ID: 0006_goals
"""

import sqlalchemy as sa
from alembic import op

revision = "0006_goals"
down_revision = "0005_counted"

# SQLite grows a rowid by itself only for INTEGER keys.
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "session_goal",
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("session_id", name=op.f("pk_session_goal")),
    )
    op.create_table(
        "goal",
        sa.Column("id", ID, nullable=False),
        sa.Column("conv", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text()),
        sa.Column("person", sa.Text()),
        sa.Column("display", sa.Text(), server_default="", nullable=False),
        sa.Column("language", sa.Text(), server_default="en", nullable=False),
        sa.Column("role", sa.Text(), server_default="member", nullable=False),
        sa.Column("chat_type", sa.Text(), server_default="direct", nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("why", sa.Text()),
        sa.Column("max_turns", sa.BigInteger()),
        sa.Column("max_tokens", sa.BigInteger()),
        sa.Column("max_usd", sa.Float()),
        sa.Column("turns", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("usd", sa.Float(), server_default="0", nullable=False),
        sa.Column("unpriced", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("auto_state", sa.Text()),
        sa.Column("auto", sa.Text()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_goal")),
        sa.UniqueConstraint("origin", name=op.f("uq_goal_origin")),
    )
    op.create_index(
        "ix_goal_active",
        "goal",
        ["conv"],
        unique=True,
        sqlite_where=sa.text("status = 'active'"),
        postgresql_where=sa.text("status = 'active'"),
    )
    op.create_index("ix_goal_conv", "goal", ["conv", "id"], unique=False)
    op.create_index(
        "ix_usage_goal",
        "usage",
        ["goal"],
        unique=False,
        sqlite_where=sa.text("goal is not null"),
        postgresql_where=sa.text("goal is not null"),
    )


def downgrade() -> None:
    op.drop_index("ix_usage_goal", "usage")
    # The other indexes go with their tables.
    for table in ("goal", "session_goal"):
        op.drop_table(table)
