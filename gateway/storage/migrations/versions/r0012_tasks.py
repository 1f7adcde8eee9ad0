"""The lists of tasks that models keep in their sessions.

Revision ID: 0012_tasks
"""

import sqlalchemy as sa
from alembic import op

revision = "0012_tasks"
down_revision = "0011_style"

# SQLite grows a rowid by itself only for INTEGER keys.
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "task",
        sa.Column("id", ID, nullable=False),
        sa.Column("conv", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("dedup", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("output", sa.Text(), server_default="", nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_task")),
        sa.UniqueConstraint("dedup", name=op.f("uq_task_dedup")),
    )
    op.create_index("ix_task_session", "task", ["session_id", "id"], unique=False)


def downgrade() -> None:
    op.drop_table("task")
