"""How people write; and which messages were written before there was a memory, for the background to keep.

Revision ID: 0011_style
"""

import sqlalchemy as sa
from alembic import op

revision = "0011_style"
down_revision = "0010_learning"

# What stands before the first message that was kept was written by an older version.
BACKLOG = (
    "INSERT INTO memory_backlog (id, below) SELECT 1, below FROM (SELECT COALESCE("
    "(SELECT MIN(message_id) FROM memory WHERE kind <> 'fact'), (SELECT MAX(id) + 1 FROM message)) AS below"
    ") AS older WHERE EXISTS (SELECT 1 FROM message WHERE id < below)"
)


def upgrade() -> None:
    op.create_table(
        "user_model",
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("audience", sa.Text(), nullable=False),
        sa.Column("counts", sa.Text(), server_default="[]", nullable=False),
        sa.Column("off", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("person", "audience", name=op.f("pk_user_model")),
    )
    op.create_index("ix_user_model_audience", "user_model", ["audience"], unique=False)
    op.create_table(
        "memory_backlog",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("below", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_memory_backlog")),
    )
    op.execute(BACKLOG)


def downgrade() -> None:
    op.drop_table("memory_backlog")
    op.drop_table("user_model")
