"""How often and when what was kept was found again: what the sweep of the memory goes by.

Revision ID: 0028_memory_use
"""

import sqlalchemy as sa
from alembic import op

revision = "0028_memory_use"
down_revision = "0027_shortened"


def upgrade() -> None:
    op.create_table(
        "memory_use",
        sa.Column("memory_id", sa.BigInteger(), sa.ForeignKey("memory.id"), primary_key=True, autoincrement=False),
        sa.Column("audience", sa.Text(), nullable=False),
        sa.Column("uses", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
    )
    op.create_index("ix_memory_use_audience", "memory_use", ["audience"])


def downgrade() -> None:
    op.drop_table("memory_use")
